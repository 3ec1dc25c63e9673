"""`trainard webhook`: where a running service tells reports to."""

from uuid import UUID

import msgspec
import rich_click as click

from service.cli.schedule_paths import format_option, get, get_all, show
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import url_option
from service.jobs.webhook_documents import DEFAULT_OVERLAP_S, MAX_OVERLAP_S
from service.reports.tables import Heading, text_table

ENDPOINTS = "/v1/webhook-endpoints"
HEADINGS = [Heading(name, words=True) for name in ("id", "name", "url", "money", "state")]

# `--url` is the service's address, as in all commands.
_FIELDS = {"address": "url"}

id_argument = click.argument("endpoint_id", metavar="ID", type=click.UUID)


@click.group("webhook", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, list, change, rotate, try and delete webhook endpoints.

    Schedules name them in their deliveries; how to receive: .github/deliveries.md.

        trainard webhook create https://hooks.example.org/trainard --name chat

    The service is asked, under the key in `TRAINARD_API_KEY`: its keys encrypt the secrets, and its
    roles say who may send money.
    """


@command.command("create")
@click.argument("address", metavar="URL")
@click.option("--name", required=True, help="As people read it.")
@click.option("--include-costs", is_flag=True, help="Messages may hold money.")
@url_option
def create(*, address: str, name: str, include_costs: bool, url: str) -> None:
    """Make an endpoint and print its secret, alone, on standard output. It is shown this once."""
    body = {"name": name, "url": address, "include_costs": include_costs}
    with reached(url) as client:
        made = answered(client.post(ENDPOINTS, json=body), "the endpoint")
    _print_secret(made, "is made")
    if made["notice"]:
        click.echo(made["notice"], err=True)


@command.command("list")
@format_option
@url_option
def show_all(*, output_format: str, url: str) -> None:
    """List the endpoints of the team."""
    with reached(url) as client:
        found = get_all(client, ENDPOINTS)
    rows = [_row(endpoint) for endpoint in found]
    show(found, [text_table(HEADINGS, rows) if rows else "no endpoints"], output_format)


@command.command("show")
@id_argument
@url_option
def show_one(*, endpoint_id: UUID, url: str) -> None:
    """Print an endpoint as JSON, without its secret."""
    with reached(url) as client:
        found = get(client, _path(endpoint_id))
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))


@command.command("change")
@id_argument
@click.option("--name", help="As people read it.")
@click.option("--address", metavar="URL", help="Where messages go from now on, also those waiting.")
@click.option(
    "--include-costs/--no-include-costs", default=None, help="Whether messages may hold money."
)
@url_option
def change(*, endpoint_id: UUID, url: str, **wanted: object) -> None:
    """Give an endpoint another name or address; its secret and its log stay."""
    body = {_FIELDS.get(name, name): value for name, value in wanted.items() if value is not None}
    if not body:
        raise click.UsageError("give --name, --address, --include-costs or --no-include-costs")
    path = _path(endpoint_id)
    with reached(url) as client:
        former = get(client, path)
        answer = client.patch(path, json=body, headers=_if_match(former))
        changed = answered(answer, str(endpoint_id))
    click.echo(text_table(HEADINGS, [_row(changed)]))
    if changed["notice"]:
        click.echo(changed["notice"], err=True)


@command.command("rotate")
@id_argument
@click.option(
    "--overlap-s",
    type=click.IntRange(0, MAX_OVERLAP_S),
    default=DEFAULT_OVERLAP_S,
    show_default=True,
    help="So long the old secret signs too; 0 when it has leaked.",
)
@url_option
def rotate(*, endpoint_id: UUID, overlap_s: int, url: str) -> None:
    """Make a new secret and print it, alone, on standard output."""
    path = _path(endpoint_id, "/secret-rotation")
    with reached(url) as client:
        made = answered(client.post(path, json={"overlap_s": overlap_s}), str(endpoint_id))
    _print_secret(made, "has a new secret")


@command.command("test")
@id_argument
@url_option
def test(*, endpoint_id: UUID, url: str) -> None:
    """Have the service send a `webhook.test`; prints the id of the delivery."""
    with reached(url) as client:
        made = answered(client.post(_path(endpoint_id, "/test")), str(endpoint_id))
    click.echo(made["id"])
    click.echo("It is sent within seconds: trainard delivery show ID", err=True)


@command.command("enable")
@id_argument
@url_option
def enable(*, endpoint_id: UUID, url: str) -> None:
    """Take an endpoint back into use."""
    _switch(endpoint_id, url, enabled=True)


@command.command("disable")
@id_argument
@url_option
def disable(*, endpoint_id: UUID, url: str) -> None:
    """Send nothing to an endpoint; what waits for it is canceled."""
    _switch(endpoint_id, url, enabled=False)


@command.command("delete")
@id_argument
@url_option
def delete(*, endpoint_id: UUID, url: str) -> None:
    """Delete an endpoint; what waits for it is canceled, its log stays."""
    path = _path(endpoint_id)
    with reached(url) as client:
        found = get(client, path)
        answer = client.delete(path, headers=_if_match(found))
        if not answer.is_success:
            answered(answer, str(endpoint_id))
    click.echo(f"Webhook endpoint {found['name']} is deleted.")


def _switch(endpoint_id: UUID, url: str, *, enabled: bool) -> None:
    path = _path(endpoint_id)
    with reached(url) as client:
        changed = get(client, path)
        if changed["enabled"] != enabled:
            answer = client.patch(path, json={"enabled": enabled}, headers=_if_match(changed))
            changed = answered(answer, str(endpoint_id))
    click.echo(f"Webhook endpoint {changed['name']} is {_state(changed)}.")


def _path(endpoint_id: UUID, suffix: str = "") -> str:
    return f"{ENDPOINTS}/{endpoint_id}{suffix}"


def _if_match(endpoint: Document) -> dict[str, str]:
    return {"If-Match": f'"{endpoint["version"]}"'}


def _print_secret(made: Document, what: str) -> None:
    click.echo(made["secret"])
    click.echo(
        f"Webhook endpoint {made['id']} ({made['name']}) {what}. Keep the secret now, it is not "
        "shown again: the receiver checks signatures with it.",
        err=True,
    )


def _row(endpoint: Document) -> tuple[str, ...]:
    money = "sent" if endpoint["include_costs"] else "not sent"
    return endpoint["id"], endpoint["name"], endpoint["url"], money, _state(endpoint)


def _state(endpoint: Document) -> str:
    return "enabled" if endpoint["enabled"] else f"disabled: {endpoint['disabled_reason']}"
