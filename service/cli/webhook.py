"""`trainard webhook`: where reports are told to, on the database itself."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import rich_click as click
from msgspec import UNSET

from service.cli.databases import database_option, settings_with
from service.cli.team_rows import changing, read_id, reading, team_option
from service.db.engine import Connection
from service.jobs import webhook_endpoints
from service.jobs.actors import Actor
from service.jobs.webhook_documents import (
    DEFAULT_OVERLAP_S,
    MAX_OVERLAP_S,
    EndpointChangeIn,
    EndpointIn,
    EndpointOut,
    NewEndpointOut,
)
from service.reports.tables import Heading, text_table

COMMAND = "webhook"
PAGE_SIZE = 1_000
HEADINGS = [Heading(name, words=True) for name in ("id", "name", "url", "money", "state")]

json_option = click.option("--json", "as_json", is_flag=True, help="For a program.")
id_argument = click.argument("endpoint_id", metavar="ID")


@click.group("webhook", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, list, rotate, try and delete webhook endpoints.

    Schedules name them in their deliveries; how to receive: .github/deliveries.md.

        trainard webhook create https://hooks.example.org/trainard --name chat
    """


@command.command("create")
@click.argument("url", metavar="URL")
@click.option("--name", required=True, help="As people read it.")
@click.option("--include-costs", is_flag=True, help="Messages may hold money.")
@team_option
@database_option
def create(
    *, url: str, name: str, include_costs: bool, team: str, database_url: str | None
) -> None:
    """Make an endpoint and print its secret, alone, on standard output. It is shown this once."""
    settings = settings_with(database_url)
    document = EndpointIn(name=name, url=url, include_costs=include_costs)

    def make(connection: Connection, actor: Actor) -> NewEndpointOut:
        return webhook_endpoints.create_endpoint(
            connection, actor, document, settings, now=datetime.now(UTC)
        )

    _print_secret(changing(COMMAND, team, database_url, make), "is made")
    if not settings.deliveries.secrets_key:
        click.echo(
            "It lies in the database as it is: set TRAINARD_SECRETS_KEY to have it encrypted.",
            err=True,
        )


@command.command("list")
@team_option
@json_option
@database_option
def show_all(*, team: str, as_json: bool, database_url: str | None) -> None:
    """List the endpoints of a team."""

    def read(connection: Connection, actor: Actor) -> list[EndpointOut]:
        page = webhook_endpoints.list_page(
            connection, actor, page_size=PAGE_SIZE, page_token=None, now=datetime.now(UTC)
        )
        return page.items

    found = reading(COMMAND, team, database_url, read)
    if as_json:
        _print_json(found)
    else:
        rows = [_row(endpoint) for endpoint in found]
        click.echo(text_table(HEADINGS, rows) if rows else f"no endpoints of team {team!r}")


@command.command("show")
@id_argument
@team_option
@database_option
def show(*, endpoint_id: str, team: str, database_url: str | None) -> None:
    """Print an endpoint as JSON, without its secret."""
    wanted = read_id(endpoint_id)
    now = datetime.now(UTC)
    _print_json(
        reading(
            COMMAND,
            team,
            database_url,
            lambda c, actor: webhook_endpoints.read_endpoint(c, actor, wanted, now=now),
        )
    )


@command.command("rotate")
@id_argument
@click.option(
    "--overlap-s",
    type=click.IntRange(0, MAX_OVERLAP_S),
    default=DEFAULT_OVERLAP_S,
    show_default=True,
    help="So long the old secret signs too; 0 when it has leaked.",
)
@team_option
@database_option
def rotate(*, endpoint_id: str, overlap_s: int, team: str, database_url: str | None) -> None:
    """Make a new secret and print it, alone, on standard output."""
    settings, wanted = settings_with(database_url), read_id(endpoint_id)

    def make(connection: Connection, actor: Actor) -> NewEndpointOut:
        return webhook_endpoints.rotate_secret(
            connection, actor, wanted, settings, overlap_s=overlap_s, now=datetime.now(UTC)
        )

    _print_secret(changing(COMMAND, team, database_url, make), "has a new secret")


@command.command("test")
@id_argument
@team_option
@database_option
def test(*, endpoint_id: str, team: str, database_url: str | None) -> None:
    """Have a running service send a `webhook.test`; prints the id of the delivery."""
    wanted, now = read_id(endpoint_id), datetime.now(UTC)
    made = changing(
        COMMAND,
        team,
        database_url,
        lambda c, actor: webhook_endpoints.send_trial(c, actor, wanted, now=now),
    )
    click.echo(str(made))
    click.echo("A running service sends it within seconds: trainard delivery show ID", err=True)


@command.command("enable")
@id_argument
@team_option
@database_option
def enable(*, endpoint_id: str, team: str, database_url: str | None) -> None:
    """Take an endpoint back into use."""
    _switch(endpoint_id, team, database_url, enabled=True)


@command.command("disable")
@id_argument
@team_option
@database_option
def disable(*, endpoint_id: str, team: str, database_url: str | None) -> None:
    """Send nothing to an endpoint; what waits for it is canceled."""
    _switch(endpoint_id, team, database_url, enabled=False)


@command.command("delete")
@id_argument
@team_option
@database_option
def delete(*, endpoint_id: str, team: str, database_url: str | None) -> None:
    """Delete an endpoint; what waits for it is canceled, its log stays."""
    wanted, now = read_id(endpoint_id), datetime.now(UTC)

    def gone(connection: Connection, actor: Actor) -> EndpointOut:
        found = webhook_endpoints.read_endpoint(connection, actor, wanted, now=now)
        webhook_endpoints.delete_endpoint(connection, actor, wanted, version=found.version, now=now)
        return found

    found = changing(COMMAND, team, database_url, gone)
    click.echo(f"Webhook endpoint {found.name} is deleted.")


def _switch(endpoint_id: str, team: str, database_url: str | None, *, enabled: bool) -> None:
    settings, wanted = settings_with(database_url), read_id(endpoint_id)
    now = datetime.now(UTC)

    def change(connection: Connection, actor: Actor) -> EndpointOut:
        found = webhook_endpoints.read_endpoint(connection, actor, wanted, now=now)
        return webhook_endpoints.change_endpoint(
            connection,
            actor,
            wanted,
            EndpointChangeIn(enabled=enabled if enabled != found.enabled else UNSET),
            settings,
            version=found.version,
            now=now,
        )

    changed = changing(COMMAND, team, database_url, change)
    click.echo(f"Webhook endpoint {changed.name} is {_state(changed)}.")


def _print_secret(made: NewEndpointOut, what: str) -> None:
    click.echo(made.secret)
    click.echo(
        f"Webhook endpoint {made.id} ({made.name}) {what}. Keep the secret now, it is not shown "
        "again: the receiver checks signatures with it.",
        err=True,
    )


def _print_json(found: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))


def _row(endpoint: EndpointOut) -> tuple[str, ...]:
    money = "sent" if endpoint.include_costs else "withheld"
    return str(endpoint.id), endpoint.name, endpoint.url, money, _state(endpoint)


def _state(endpoint: EndpointOut) -> str:
    return "enabled" if endpoint.enabled else f"disabled: {endpoint.disabled_reason}"
