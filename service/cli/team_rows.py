"""Commands on the rows of a team, on the database itself."""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import rich_click as click

from service.cli.databases import existing_database, settings_with
from service.db.engine import Connection
from service.errors import TrainardError
from service.jobs import teams
from service.jobs.actors import Actor, program
from service.jobs.audit_sealing import seal

Result = TypeVar("Result")

team_option = click.option(
    "--team", default="default", show_default=True, metavar="SLUG", help="Whose they are."
)


def reading(
    command: str, team: str, database_url: str | None, read: Callable[[Connection, Actor], Result]
) -> Result:
    """What `read` finds for the team; a refusal is a sentence."""
    with existing_database(settings_with(database_url).database_url) as database:
        try:
            with database.read() as connection:
                return read(connection, program(command, teams.read_team(connection, team).id))
        except TrainardError as error:
            raise click.ClickException(error.detail) from error


def changing(
    command: str, team: str, database_url: str | None, write: Callable[[Connection, Actor], Result]
) -> Result:
    """What `write` answers, committed and its audit trail sealed; a refusal is a sentence."""
    with existing_database(settings_with(database_url).database_url) as database:
        try:
            with database.write() as connection:
                actor = program(command, teams.read_team(connection, team).id)
                done = write(connection, actor)
        except TrainardError as error:
            raise click.ClickException(error.detail) from error
        seal(database)
        return done


def read_id(text: str) -> UUID:
    """An id from the command line."""
    try:
        return UUID(text)
    except ValueError:
        raise click.ClickException(f"{text!r} is no id: it has 32 hexadecimal digits") from None
