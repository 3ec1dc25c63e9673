"""Bring a database to the newest tables, and back.

The alembic configuration is made in code, so that an installed package can migrate itself: the
wheel carries the migrations as `service/_migrations`, a clone as `migrations/`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from service.db.engine import Database

# Any fixed number: two starting processes must ask for the same PostgreSQL lock.
LOCK_KEY = 7_205_759_403_792_793


def migrations_folder() -> Path:
    """The folder with alembic's `env.py`: the wheel's copy, or the clone's own."""
    package = Path(str(resources.files("service")))
    packaged = package / "_migrations"
    return packaged if packaged.is_dir() else package.parent / "migrations"


def upgrade(url: str, revision: str = "head") -> None:
    """Migrate up to `revision`; of two starting processes the second waits and finds it done."""
    with locked(url) as connection:
        _refuse_newer(connection)
        command.upgrade(_config(connection), revision)


def downgrade(url: str, revision: str) -> None:
    """Migrate down to `revision` ("base": no tables at all)."""
    with locked(url) as connection:
        downgrade_on(connection, revision)


def downgrade_on(connection: Connection, revision: str) -> None:
    """Migrate down in the open transaction of `locked`."""
    _refuse_newer(connection)
    command.downgrade(_config(connection), revision)


def current(url: str) -> str | None:
    """The revision that the database is at; None when it was never migrated."""
    database = Database(url)
    try:
        with database.read() as connection:
            return current_of(connection)
    finally:
        database.close()


def current_of(connection: Connection) -> str | None:
    """The revision seen by an open connection (for readiness checks)."""
    return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """The newest revision that this program knows."""
    newest = ScriptDirectory(str(migrations_folder())).get_current_head()
    if newest is None:
        raise LookupError(f"no migrations in {migrations_folder()}")
    return newest


def knows(revision: str) -> bool:
    """Whether the revision is this program's newest or an older one."""
    scripts = ScriptDirectory(str(migrations_folder())).walk_revisions()
    return any(script.revision == revision for script in scripts)


def _refuse_newer(connection: Connection) -> None:
    found = current_of(connection)
    if found is not None and not knows(found):
        raise ValueError(newer_sentence(found))


def newer_sentence(revision: str) -> str:
    """What is said of tables at a revision that this program does not know."""
    return (
        f"its tables are at revision {revision} of a newer version; this one knows revisions up "
        f"to {head()}"
    )


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def locked(url: str) -> Iterator[Connection]:
    """One transaction that no second migration can enter.

    SQLite: `write()` begins as the only writer. PostgreSQL: an advisory lock that ends with
    the transaction, so a killed process leaves nothing locked.
    """
    database = Database(url)
    try:
        with database.write() as connection:
            if not database.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
            yield connection
    finally:
        database.close()
