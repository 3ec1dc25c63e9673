"""Where the durable engine keeps its own tables, and the connections it is given.

SQLite: a file of its own beside ours, both in WAL mode: one shared file without WAL did not
finish a batch in 100 s. PostgreSQL: the schema `jobs` of the same database, which alembic does
not look at.
"""

import sqlite3
from pathlib import Path

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from service.db.engine import SQLITE_PRAGMAS, Database, make_engine

SCHEMA = "jobs"
POOL_SIZE = 5
# A stopped process gives up its open transaction after this time. Never a statement timeout: it
# cancels the healthy process that waits for the stopped one, and its chunk is lost.
IDLE_IN_TRANSACTION_S = 10
# Either side notices a silent peer after some 10 s.
KEEPALIVE = {
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}
_SERVER_KEEPALIVE = (
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3"
)


def job_file(database: Database) -> Path:
    """The engine's own SQLite file: `trainard.db` has `trainard-jobs.db` beside it."""
    return queue_beside(Path(str(database.url.database)))


def queue_beside(ours: Path) -> Path:
    """The engine's own SQLite file beside the database file `ours`."""
    return ours.with_name(f"{ours.stem}-jobs{ours.suffix}")


def data_url(database: Database) -> str:
    """Our own database, as the engine is told it (it decides by the name of the dialect)."""
    return database.url.render_as_string(hide_password=False)


def system_url(database: Database) -> str:
    """The database of the engine's own tables."""
    return f"sqlite:///{job_file(database)}" if database.is_sqlite else data_url(database)


def system_engine(database: Database) -> Engine:
    """Connections to the engine's own tables."""
    if not database.is_sqlite:
        return _guarded_engine(database)
    engine = create_engine(system_url(database))
    event.listen(engine, "connect", _prepare_job_file)
    return engine


def step_engine(database: Database) -> Engine:
    """Connections on which a chunk's rows and the engine's checkpoint commit together."""
    if database.is_sqlite:
        # A pool of its own: whatever holds those of the service, chunks can be stored. The write
        # lock is taken at once, as `Database.write` does.
        own = make_engine(database.url, database.session_name)
        return own.execution_options(sqlite_begin="BEGIN IMMEDIATE")
    return _guarded_engine(database)


def _guarded_engine(database: Database) -> Engine:
    timeout_ms = IDLE_IN_TRANSACTION_S * 1000
    return create_engine(
        database.url,
        pool_size=POOL_SIZE,
        max_overflow=20,
        pool_pre_ping=True,
        connect_args={
            "application_name": database.session_name,
            **KEEPALIVE,
            "options": f"-c idle_in_transaction_session_timeout={timeout_ms} {_SERVER_KEEPALIVE}",
        },
    )


def _prepare_job_file(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    # What the engine's own connections set (serial writers that wait), and WAL.
    connection.isolation_level = "IMMEDIATE"
    for pragma in SQLITE_PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
