"""`trainard team`: the teams that rows, keys and rates belong to."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import rich_click as click

from service.cli.databases import database_option, migrated_database, settings_with
from service.db.engine import Connection
from service.errors import TrainardError
from service.jobs import teams
from service.jobs.teams import TeamOut
from service.reports.tables import Heading, text_table

T = TypeVar("T")

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
    made = _changed(
        database_url,
        lambda connection: teams.create_team(connection, COMMAND, slug=slug, name=name),
    )
    click.echo(f"Team {made.slug} ({made.name}) is made.")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For a program.")
@database_option
def show(*, as_json: bool, database_url: str | None) -> None:
    """List all teams."""
    with (
        migrated_database(settings_with(database_url).database_url) as database,
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
    help="Whether a new rate prices nothing before a second person has approved it.",
)
@database_option
def update(
    *, slug: str, name: str | None, rate_approval_required: bool | None, database_url: str | None
) -> None:
    """Change what is given of a team.

    For a second person to approve each new rate before it prices anything:

        trainard team update infra --require-rate-approval
    """
    if name is None and rate_approval_required is None:
        raise click.UsageError("nothing to change: give --name or --require-rate-approval")
    changed = _changed(
        database_url,
        lambda connection: teams.change_team(
            connection,
            COMMAND,
            slug,
            name=name,
            rate_approval_required=rate_approval_required,
        ),
    )
    approval = (
        "need a second person's approval" if changed.rate_approval_required else "price at once"
    )
    click.echo(f"Team {changed.slug} ({changed.name}): new rates {approval}.")


def _changed(database_url: str | None, use_case: Callable[[Connection], T]) -> T:
    with migrated_database(settings_with(database_url).database_url) as database:
        try:
            with database.write() as connection:
                return use_case(connection)
        except TrainardError as error:
            raise click.ClickException(error.detail) from error


def _row(team: TeamOut) -> tuple[str, str, str, str]:
    approval = "required" if team.rate_approval_required else "no"
    return team.slug, team.name, f"{team.created_at:%Y-%m-%d}", approval
