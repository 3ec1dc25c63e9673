"""`trainard key`: API keys, made and revoked on the database itself."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import msgspec
import rich_click as click

from service.cli.databases import (
    database_option,
    existing_database,
    migrated_database,
    settings_with,
    without_password,
)
from service.cli.faults import abandon_output
from service.db.engine import Connection, Database
from service.errors import NotFoundError, TrainardError
from service.jobs import api_keys, teams
from service.jobs.actors import Actor, program
from service.jobs.audit_sealing import seal
from service.jobs.key_documents import KeyIn, KeyOut
from service.jobs.key_tokens import PREFIX
from service.jobs.scopes import ROLES, Role, Scope
from service.reports.tables import Heading, text_table

COMMAND = "key"
PAGE_SIZE = 1_000
HEADINGS = [
    Heading(name, words=True) for name in ("id", "name", "role", "state", "expires", "last used")
]

team_option = click.option(
    "--team", default="default", show_default=True, metavar="SLUG", help="Whose key."
)
scope_choice = click.Choice(get_args(Scope))


@click.group("key", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Make, list and revoke API keys.

    The first key closes the service to everybody without one:

        trainard key create --role admin --name "first administrator"
    """


@command.command("create")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@team_option
@click.option("--name", help="Who or what uses it. Default: its role and the day.")
@click.option(
    "--expires-in-days",
    "days",
    type=click.IntRange(1, 36_500),
    help=f"Its lifetime. Default: {api_keys.LIFETIME_DAYS}.",
)
@click.option("--never-expires", is_flag=True, help="It lasts until it is revoked.")
@click.option(
    "--grant",
    type=scope_choice,
    multiple=True,
    help="A scope beside the role's, repeatable: a planner may get `costs:read`.",
)
@click.option(
    "--only", type=scope_choice, multiple=True, help="Keep only this scope of it, repeatable."
)
@database_option
def create(
    *,
    role: Role,
    team: str,
    name: str | None,
    days: int | None,
    never_expires: bool,
    grant: tuple[Scope, ...],
    only: tuple[Scope, ...],
    database_url: str | None,
) -> None:
    """Make a key and print it, alone, on standard output.

    It is shown this once. A team that does not exist is made:

        KEY=$(trainard key create --role finance --team infra --name ledger)
    """
    if days is not None and never_expires:
        raise click.UsageError("--expires-in-days and --never-expires exclude each other")
    now = datetime.now(UTC)
    lifetime = timedelta(days=days or api_keys.LIFETIME_DAYS)
    document = KeyIn(
        name=name or f"{role} of {now.date()}",
        role=role,
        grant=grant,
        only=only or None,
        expires_at=None if never_expires else now + lifetime,
    )
    _require_output()
    url = settings_with(database_url).database_url
    with migrated_database(url) as database:
        made, new_team = _create(database, team, document)
    if new_team:
        click.echo(f"Team {team!r} did not exist and was made.", err=True)
    until = f"until {made.expires_at:%Y-%m-%d}" if made.expires_at else "for ever"
    click.echo(
        f"Key {made.public_id} ({made.name}), {made.role} of team {made.team}, {until}: "
        f"{', '.join(made.scopes)}\n"
        f"Database: {without_password(url)}\n"
        "Keep it now, it is not shown again. Send it as Authorization: Bearer …; "
        "commands read TRAINARD_API_KEY.",
        err=True,
    )


@command.command("list")
@team_option
@click.option("--json", "as_json", is_flag=True, help="For a program.")
@database_option
def show(*, team: str, as_json: bool, database_url: str | None) -> None:
    """List the keys of a team, without their secrets."""
    with existing_database(settings_with(database_url).database_url) as database:
        keys = _listed(database, team)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(keys), indent=2))
        return
    click.echo(_shown(keys) if keys else f"no keys of team {team!r}")


@command.command("revoke")
@click.argument("key_id", metavar="ID")
@team_option
@database_option
def revoke(*, key_id: str, team: str, database_url: str | None) -> None:
    """Refuse a key from the next request on, for ever.

    ID is the middle part of `trn_<id>_<secret>`, as `trainard key list` shows it. Repeating it is
    harmless:

        trainard key revoke 1f0c9a7be2d4438c
    """
    if key_id.startswith(PREFIX):
        # Not repeated: what stands on a command line is read by others.
        raise click.UsageError("give the middle part of the key only, not its secret")
    with existing_database(settings_with(database_url).database_url) as database:
        revoked = _revoke(database, team, key_id)
        seal(database)
    click.echo(f"Key {revoked.public_id} ({revoked.name}) is revoked.")


def _create(database: Database, team: str, document: KeyIn) -> tuple[Any, bool]:
    try:
        with database.write() as connection:
            actor, new_team = _acting(connection, team)
            made = api_keys.create_key(connection, actor, document)
            # Before it is committed: a key that nobody could read is not made.
            _print(made.key)
            return made, new_team
    except TrainardError as error:
        raise click.ClickException(error.detail) from error


def _require_output() -> None:
    """Refuse a closed standard output, whose number the database's file would get."""
    if sys.stdout is None:
        raise click.ClickException(
            "standard output is closed, so the key could not be shown: it is not made"
        )


def _print(text: str | None) -> None:
    if text is None:
        raise TypeError("a key that was just made has no text")
    try:
        click.echo(text)
        sys.stdout.flush()
    except OSError as error:
        abandon_output()
        reason = error.strerror or str(error)
        raise click.ClickException(
            f"the key cannot be printed, so it is not made: {reason}"
        ) from error


def _acting(connection: Connection, slug: str) -> tuple[Actor, bool]:
    """This command in the team, which is made if it is absent; and whether it was."""
    try:
        return program(COMMAND, teams.read_team(connection, slug).id), False
    except NotFoundError:
        return program(COMMAND, teams.create_team(connection, COMMAND, slug=slug).id), True


def _listed(database: Database, team: str) -> list[KeyOut]:
    try:
        with database.read() as connection:
            actor = program(COMMAND, teams.read_team(connection, team).id)
            found: list[KeyOut] = []
            token: str | None = None
            while True:
                page = api_keys.list_page(connection, actor, page_size=PAGE_SIZE, page_token=token)
                found += page.items
                token = page.next_page_token
                if token is None:
                    return found
    except TrainardError as error:
        raise click.ClickException(error.detail) from error


def _revoke(database: Database, team: str, key_id: str) -> KeyOut:
    try:
        with database.write() as connection:
            actor = program(COMMAND, teams.read_team(connection, team).id)
            found = api_keys.find_key(connection, actor, key_id)
            return api_keys.revoke_key(connection, actor, found.id)
    except TrainardError as error:
        raise click.ClickException(error.detail) from error


def _shown(keys: list[KeyOut]) -> str:
    now = datetime.now(UTC)
    rows = [
        (
            key.public_id,
            key.name,
            key.role,
            _state(key, now),
            "never" if key.expires_at is None else f"{key.expires_at:%Y-%m-%d}",
            "never" if key.last_used_at is None else f"{key.last_used_at:%Y-%m-%d %H:%M}Z",
        )
        for key in keys
    ]
    return text_table(HEADINGS, rows)


def _state(key: KeyOut, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"
