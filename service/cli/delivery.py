"""`trainard delivery`: what a running service has sent, what waits and what was given up."""

from datetime import datetime
from typing import get_args
from uuid import UUID

import httpx
import msgspec
import rich_click as click

from service.cli.moments import MomentType
from service.cli.schedule_paths import format_option, get, show
from service.cli.service_answers import Document, answered, reached
from service.cli.submission_options import url_option
from service.jobs.delivery_documents import DeliveryKind, DeliveryState
from service.reports.tables import Heading, text_table

DELIVERIES = "/v1/deliveries"
HEADINGS = [
    Heading(name, words=True)
    for name in ("id", "made", "kind", "schedule", "state", "attempts", "why")
]
MAX_SHOWN = 80
# Where an option has another name than its parameter
_PARAMETERS = {"after": "created_after", "before": "created_before"}

id_argument = click.argument("delivery_id", metavar="ID", type=click.UUID)


@click.group("delivery", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show, repeat and call off deliveries.

    What was given up:

        trainard delivery list --state dead
    """


@command.command("list")
@click.option("--state", type=click.Choice(get_args(DeliveryState)), help="Only of this state.")
@click.option("--kind", type=click.Choice(get_args(DeliveryKind)), help="Only of this kind.")
@click.option("--schedule", metavar="SCHEDULE", help="Only of this one: its slug or id.")
@click.option("--run", metavar="ID", type=click.UUID, help="Only of this run.")
@click.option("--endpoint", metavar="ID", type=click.UUID, help="Only to this webhook endpoint.")
@click.option("--after", metavar="DAY", type=MomentType(), help="Only made after: a day or moment.")
@click.option("--before", metavar="DAY", type=MomentType(), help="Only made before it.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="The newest."
)
@format_option
@url_option
def show_all(*, limit: int, output_format: str, url: str, **filters: object) -> None:
    """List the deliveries of the team, newest first."""
    query = {_PARAMETERS.get(name, name): _text(value) for name, value in filters.items()}
    with reached(url) as client:
        found, are_all = _newest(client, limit, query)
    table = text_table(HEADINGS, [_row(row) for row in found]) if found else "no deliveries"
    show(found, [table], output_format)
    if not are_all:
        click.echo("There are more: --limit, or --before the last of them.", err=True)


def _newest(
    client: httpx.Client, limit: int, query: dict[str, str | None]
) -> tuple[list[Document], bool]:
    """So many, page by page, and whether there are no more."""
    found: list[Document] = []
    token: str | None = None
    while len(found) < limit:
        size = str(limit - len(found))
        page = get(client, DELIVERIES, **query, page_size=size, page_token=token)
        found += page["items"]
        token = page["next_page_token"]
        if token is None:
            break
    return found, token is None


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value.isoformat() if isinstance(value, datetime) else str(value)


@command.command("show")
@id_argument
@url_option
def show_one(*, delivery_id: UUID, url: str) -> None:
    """Print a delivery with its attempts as JSON."""
    with reached(url) as client:
        found = get(client, f"{DELIVERIES}/{delivery_id}")
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))


@command.command("replay")
@id_argument
@url_option
def replay(*, delivery_id: UUID, url: str) -> None:
    """Have the service send an ended delivery again, under the same id, or what waits at once."""
    done = _asked(delivery_id, "replay", url)
    click.echo(f"Delivery {done['id']} ({done['message_id']}) is sent again.")


@command.command("cancel")
@id_argument
@url_option
def cancel(*, delivery_id: UUID, url: str) -> None:
    """Call off a delivery that waits."""
    done = _asked(delivery_id, "cancellation", url)
    click.echo(f"Delivery {done['id']} is canceled.")


def _asked(delivery_id: UUID, what: str, url: str) -> Document:
    with reached(url) as client:
        answer = client.post(f"{DELIVERIES}/{delivery_id}/{what}")
        return answered(answer, str(delivery_id))


def _row(row: Document) -> tuple[str, ...]:
    attempts = row["attempts"]
    # Of what was not to be sent the rule's own words, as of the others the last error
    why = (row["reason"] if row["state"] == "skipped" else row["last_error"]) or ""
    return (
        row["id"],
        f"{row['created_at'][:16].replace('T', ' ')}Z",
        row["kind"],
        row["schedule"] or "",
        row["state"],
        "" if attempts is None else str(attempts),
        why if len(why) <= MAX_SHOWN else why[: MAX_SHOWN - 1] + "…",
    )
