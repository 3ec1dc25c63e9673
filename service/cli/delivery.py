"""`trainard delivery`: what was sent, what waits and what was given up, on the database itself."""

from datetime import UTC, datetime
from typing import get_args

import msgspec
import rich_click as click

from service.cli.databases import database_option
from service.cli.team_rows import changing, read_id, reading, team_option
from service.db.deliveries import DeliveryFilter
from service.db.engine import Connection
from service.jobs import deliveries
from service.jobs.actors import Actor
from service.jobs.delivery_documents import DeliveryKind, DeliveryOut, DeliveryState
from service.reports.tables import Heading, text_table

COMMAND = "delivery"
HEADINGS = [
    Heading(name, words=True)
    for name in ("id", "made", "kind", "schedule", "state", "attempts", "last error")
]
MAX_ERROR_SHOWN = 60


@click.group("delivery", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """List, show and repeat deliveries.

    What was given up:

        trainard delivery list --state dead
    """


@command.command("list")
@click.option("--state", type=click.Choice(get_args(DeliveryState)), help="Only of this state.")
@click.option("--kind", type=click.Choice(get_args(DeliveryKind)), help="Only of this kind.")
@click.option("--schedule", metavar="SCHEDULE", help="Only of this one: its slug or id.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="The newest."
)
@click.option("--json", "as_json", is_flag=True, help="For a program.")
@team_option
@database_option
def show_all(
    *,
    state: str | None,
    kind: str | None,
    schedule: str | None,
    limit: int,
    as_json: bool,
    team: str,
    database_url: str | None,
) -> None:
    """List the deliveries of a team, newest first."""
    wanted = DeliveryFilter(state=state, kind=kind, schedule=schedule)

    def read(connection: Connection, actor: Actor) -> list[DeliveryOut]:
        page = deliveries.list_page(connection, actor, wanted, page_size=limit, page_token=None)
        return page.items

    found = reading(COMMAND, team, database_url, read)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    click.echo(text_table(HEADINGS, [_row(row) for row in found]) if found else "no deliveries")


@command.command("show")
@click.argument("delivery_id", metavar="ID")
@team_option
@database_option
def show(*, delivery_id: str, team: str, database_url: str | None) -> None:
    """Print a delivery with its attempts as JSON."""
    wanted = read_id(delivery_id)
    found = reading(COMMAND, team, database_url, lambda c, actor: deliveries.get(c, actor, wanted))
    click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))


@command.command("replay")
@click.argument("delivery_id", metavar="ID")
@team_option
@database_option
def replay(*, delivery_id: str, team: str, database_url: str | None) -> None:
    """Have a running service send an ended delivery again, under the same id."""
    wanted, now = read_id(delivery_id), datetime.now(UTC)
    done = changing(
        COMMAND,
        team,
        database_url,
        lambda c, actor: deliveries.replay(c, actor, wanted, now=now),
    )
    click.echo(f"Delivery {done.id} ({done.message_id}) is sent again.")


def _row(row: DeliveryOut) -> tuple[str, ...]:
    error = row.last_error or ""
    return (
        str(row.id),
        f"{row.created_at:%Y-%m-%d %H:%M}Z",
        row.kind,
        row.schedule or "",
        row.state,
        str(row.attempts),
        error if len(error) <= MAX_ERROR_SHOWN else error[: MAX_ERROR_SHOWN - 1] + "…",
    )
