"""`trainard team`: the teams that rows, keys and rates belong to."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import rich_click as click

from service.cli.databases import (
    database_option,
    existing_database,
    migrated_database,
    settings_with,
)
from service.db.engine import Database
from service.errors import TrainardError
from service.jobs import teams
from service.jobs.audit_sealing import seal
from service.jobs.teams import DemandEffect, TeamOut
from service.reports.tables import Heading, text_table

COMMAND = "team"
HEADINGS = [Heading(name, words=True) for name in ("team", "name", "made", "rate approval")]


@click.group("team", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, list and change teams.

    Every row belongs to one, and no team sees another's:

        trainard team create infra --name "Infrastructure"
    """


@command.command("create")
@click.argument("slug", metavar="SLUG")
@click.option("--name", help="As people read it. Default: the slug.")
@database_option
def create(*, slug: str, name: str | None, database_url: str | None) -> None:
    """Make a team; its keys are made by trainard key create --team SLUG."""
    with (
        migrated_database(settings_with(database_url).database_url) as database,
        _refusals_said(),
        database.write() as connection,
    ):
        made = teams.create_team(connection, COMMAND, slug=slug, name=name)
    click.echo(f"Team {made.slug} ({made.name}) is made.")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For a program.")
@database_option
def show(*, as_json: bool, database_url: str | None) -> None:
    """List all teams."""
    with (
        existing_database(settings_with(database_url).database_url) as database,
        database.read() as connection,
    ):
        found = teams.list_teams(connection)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=2))
        return
    click.echo(text_table(HEADINGS, [_row(team) for team in found]))


@command.command("update")
@click.argument("slug", metavar="SLUG")
@click.option("--name", help="As people read it from now on.")
@click.option(
    "--require-rate-approval/--no-require-rate-approval",
    "rate_approval_required",
    default=None,
    help="Whether only rates price that a second person has approved, those recorded before "
    "included; without it every current rate prices, approved or not.",
)
@click.option("--yes", is_flag=True, help="Do not ask when rates begin or cease to price.")
@database_option
def update(
    *,
    slug: str,
    name: str | None,
    rate_approval_required: bool | None,
    yes: bool,
    database_url: str | None,
) -> None:
    """Change what is given of a team.

    For a second person to approve each rate before it prices anything:

        trainard team update infra --require-rate-approval

    It holds at once, also for the rates that are there: approve them first
    (GET /v1/gpu-hour-rates?approved=false, then POST /v1/gpu-hour-rates/{id}/approval). Batches
    keep their prices until they are priced again.
    """
    if name is None and rate_approval_required is None:
        raise click.UsageError("nothing to change: give --name or --require-rate-approval")
    with existing_database(settings_with(database_url).database_url) as database:
        if rate_approval_required is not None and not yes:
            _confirm(_effect(database, slug, required=rate_approval_required))
        changed, effect = _update(
            database, slug, name=name, rate_approval_required=rate_approval_required
        )
        seal(database)
    approval = "must be approved to price" if changed.rate_approval_required else "price at once"
    click.echo(f"Team {changed.slug} ({changed.name}): rates {approval}.")
    if effect is not None and effect.changes_prices:
        click.echo(_sentence(effect))


def _update(
    database: Database, slug: str, *, name: str | None, rate_approval_required: bool | None
) -> tuple[TeamOut, DemandEffect | None]:
    """The changed team, and what that did to its rates."""
    with _refusals_said(), database.write() as connection:
        effect = None
        if rate_approval_required is not None:
            effect = teams.demand_effect(connection, slug, required=rate_approval_required)
        changed = teams.change_team(
            connection, COMMAND, slug, name=name, rate_approval_required=rate_approval_required
        )
        return changed, effect


def _effect(database: Database, slug: str, *, required: bool) -> DemandEffect:
    with _refusals_said(), database.read() as connection:
        return teams.demand_effect(connection, slug, required=required)


def _confirm(effect: DemandEffect) -> None:
    """Ask on a terminal; elsewhere `--yes` is the answer."""
    if not effect.changes_prices:
        return
    sentence = _sentence(effect)
    if not is_terminal():
        raise click.UsageError(f"{sentence} Nothing has changed: add --yes if that is meant.")
    click.confirm(f"{sentence}\nIs that meant?", abort=True, err=True)


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin is not None and sys.stdin.isatty()


def _sentence(effect: DemandEffect) -> str:
    number = effect.num_unapproved
    if not effect.required:
        rates = (
            "1 rate that nobody has approved prices"
            if number == 1
            else (f"{number} rates that nobody has approved price")
        )
        instead = f", {effect.num_corrected} of them instead of the approved rate that it corrects"
        return f"{rates} from now on{instead if effect.num_corrected else ''}."
    total = effect.num_current
    of = "current rate" if total == 1 else "current rates"
    verbs = "is not approved and prices" if number == 1 else "are not approved and price"
    again = f" For {effect.num_corrected} of them the approved rate that it corrects prices again."
    return (
        f"{number} of {total} {of} of the team {verbs} nothing from now on: approve them "
        "(GET /v1/gpu-hour-rates?approved=false, POST /v1/gpu-hour-rates/{id}/approval)."
        f"{again if effect.num_corrected else ''}"
    )


@contextmanager
def _refusals_said() -> Iterator[None]:
    """A refusal of the use case, as the command's."""
    try:
        yield
    except TrainardError as error:
        raise click.ClickException(error.detail) from error


def _row(team: TeamOut) -> tuple[str, str, str, str]:
    approval = "required" if team.rate_approval_required else "no"
    return team.slug, team.name, f"{team.created_at:%Y-%m-%d}", approval
