"""The `--database-url` option, and what is said when a database cannot be used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
import rich_click as click

from service.db import migrate
from service.db.engine import Database, embedded_file, shown_url
from service.db.failures import UNUSABLE_DATABASE
from service.jobs.audit_sealing import seal
from service.settings import DEFAULT_DATABASE_URL, Settings, read_settings

Function = TypeVar("Function", bound=Callable[..., object])


def database_option(function: Function) -> Function:
    """Add `--database-url` to a command."""
    return click.option(
        "--database-url",
        metavar="URL",
        help="`sqlite:///path/to/file.db` or `postgresql://user@host/name`. "
        f"Default: `TRAINARD_DATABASE_URL`, else `{DEFAULT_DATABASE_URL}`.",
    )(function)


def settings_with(database_url: str | None) -> Settings:
    """The settings of the environment, with the option's database where it was given."""
    try:
        settings = read_settings()
    except (ValueError, msgspec.ValidationError) as error:
        raise click.ClickException(str(error)) from error
    if database_url is None:
        return settings
    return msgspec.structs.replace(settings, database_url=database_url)


@contextmanager
def usable_database(url: str) -> Iterator[None]:
    """Turn a database's failure into one sentence; the URL's password is not shown."""
    try:
        yield
    except UNUSABLE_DATABASE as error:
        reason = str(error).strip().partition("\n")[0]
        raise click.ClickException(f"database {without_password(url)}: {reason}") from error


@contextmanager
def migrated_database(url: str) -> Iterator[Database]:
    """Yield the database at its newest tables, made where it is absent.

    With the block's end its audit trail is sealed and the database closed.
    """
    with usable_database(url):
        migrate.upgrade(url)
        database = Database(url)
        try:
            yield database
            # No service may be running that would do it.
            seal(database)
        finally:
            database.close()


@contextmanager
def existing_database(url: str) -> Iterator[Database]:
    """Yield a database that is there and at this program's tables, as it is.

    Nothing is made and nothing migrated, so that a mistyped path is not taken for an empty
    database, and a copy that must not be written can be read.
    """
    with usable_database(url):
        file = embedded_file(url)
        if file is not None and not file.is_file():
            raise click.ClickException(f"there is no database at {without_password(url)}")
        database = Database(url)
        try:
            _require_tables(database, url)
            yield database
        finally:
            database.close()


def _require_tables(database: Database, url: str) -> None:
    with database.read() as connection:
        found = migrate.current_of(connection)
    if found == migrate.head():
        return
    if found is not None and not migrate.knows(found):
        raise click.ClickException(
            f"database {without_password(url)}: {migrate.newer_sentence(found)}"
        )
    held = "holds no tables" if found is None else f"has its tables at revision {found}"
    raise click.ClickException(
        f"database {without_password(url)} {held}, this program needs revision {migrate.head()}: "
        "trainard migrate"
    )


def without_password(url: str) -> str:
    """The URL as it may be printed."""
    return shown_url(url)
