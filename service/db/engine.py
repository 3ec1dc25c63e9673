"""The database behind a URL: SQLite file or PostgreSQL, with explicit read and write transactions.

SQLite settings and their reasons: `shared/design/stack.md`, "Database".
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg.pq import Format
from sqlalchemy import Connection, Engine, Row, create_engine, event
from sqlalchemy.engine import URL, ExecutionContext, make_url
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

# The other rooms take these types from here, so that only this room knows SQLAlchemy.
__all__ = ["Connection", "Database", "OperationalError", "Row"]

URL_FORMS = "sqlite:///path/to/file.db and postgresql://user@host/name"
BUSY_TIMEOUT_MS = 30_000
POOL_TIMEOUT_S = 10
LOOK_AGAIN_S = 0.01
SQLITE_PRAGMAS = (
    f"busy_timeout={BUSY_TIMEOUT_MS}",
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "foreign_keys=ON",
)


class Database:
    """One engine; `read()` and `write()` open a transaction each and end it.

    PostgreSQL knows the sessions by `session_name`, by which those of a stopped process are ended.
    """

    def __init__(self, url: str, *, session_name: str = "trainard") -> None:
        self.url = _normalised(url)
        self.session_name = session_name
        self.engine = make_engine(self.url, session_name)
        self._turn = threading.Lock()

    @property
    def is_sqlite(self) -> bool:
        """Whether the embedded database is used."""
        return self.url.get_backend_name() == "sqlite"

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction for reading: one snapshot, nothing is written."""
        with self._connected() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction for writing: committed when the block ends, else rolled back."""
        with self.turn(), self._connected() as connection:
            # The lock is taken at once: a reader that turns into a writer half-way gets
            # SQLITE_BUSY whatever the busy timeout is.
            connection.execution_options(sqlite_begin="BEGIN IMMEDIATE")
            with connection.begin():
                yield connection

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other thread of this process writes; PostgreSQL lets them write at once.

        SQLite's own waiting is to look again after ever longer pauses: of 64 clients some looked
        for seconds while others came and went.
        """
        if not self.is_sqlite:
            yield
            return
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_MS / 1000):
            raise OperationalError("", None, Exception("database is locked"))
        try:
            yield
        finally:
            self._turn.release()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """A pooled connection; that there is none is said as any other absence of a database."""
        try:
            connection = self.engine.connect()
        except PoolTimeoutError as error:
            busy = Exception("all connections are in use")
            raise OperationalError("", None, busy) from error
        with connection:
            yield connection

    def close(self) -> None:
        """Close all pooled connections; those in use, when they are given back."""
        pool = self.engine.pool
        self.engine.dispose()
        # Nobody knows that pool any more: what came back to it would stay open until it is garbage.
        event.listen(pool, "checkin", _close_late)


def shown_url(url: str) -> str:
    """The URL as it may be shown: without a password, wherever it stands."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not understood, so that nobody can say which part of it is secret.
        return f"{url.partition(':')[0]}:…"
    secret = {name for name in parsed.query if "pass" in name.lower()}
    return parsed.difference_update_query(secret).render_as_string(hide_password=True)


def libpq_url(url: str, database: str | None = None) -> str:
    """The URL as PostgreSQL's own programs read it, without a password; of another `database`."""
    parsed = make_url(url)
    shown = parsed.difference_update_query({n for n in parsed.query if "pass" in n.lower()})
    return URL.create(
        "postgresql",
        username=shown.username,
        host=shown.host,
        port=shown.port,
        database=database or shown.database,
        query=shown.query,
    ).render_as_string()


def embedded_file(url: str) -> Path | None:
    """The file of an embedded database, there or not; None for a server. It opens nothing.

    Raises `ValueError` when the URL is not understood.
    """
    parsed = _normalised(url)
    is_embedded = parsed.get_backend_name() == "sqlite" and parsed.database
    return Path(str(parsed.database)) if is_embedded else None


def _normalised(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        # Not chained: what could not be read may hold a password.
        raise ValueError(f"this is no database URL; known are {URL_FORMS}") from None
    if parsed.drivername in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ValueError(
            f"database URL starts with {parsed.drivername!r}, but must be sqlite or postgresql: "
            f"{URL_FORMS}"
        )
    return parsed


def make_engine(url: URL, session_name: str) -> Engine:
    """A pool of connections of its own."""
    if url.get_backend_name() != "sqlite":
        engine = create_engine(
            url,
            pool_size=20,
            max_overflow=30,
            pool_timeout=POOL_TIMEOUT_S,
            pool_pre_ping=True,
            connect_args={"application_name": session_name},
        )
        event.listen(engine, "before_cursor_execute", _ask_for_binary)
        return engine
    if not url.database or url.database == ":memory:":
        raise ValueError("an embedded database needs a file: sqlite:///path/to/trainard.db")
    _make_folder(Path(url.database).parent)
    engine = create_engine(url, pool_size=20, max_overflow=30, pool_timeout=POOL_TIMEOUT_S)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _close_late(_connection: object, entry: ConnectionPoolEntry) -> None:
    entry.invalidate()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ValueError(f"its folder {folder} cannot be made: {reason}") from error


def _ask_for_binary(
    _connection: Connection,
    cursor: Any,
    _statement: str,
    _parameters: Any,
    context: ExecutionContext | None,
    _many: bool,  # noqa: FBT001 - SQLAlchemy's signature
) -> None:
    """Let statements with the option `binary_rows` answer in binary: 3-4 times faster for blobs."""
    if context is not None and context.execution_options.get("binary_rows"):
        cursor.format = Format.BINARY


def _prepare_sqlite(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    # SQLAlchemy's recipe: the driver's own transaction handling is off, BEGIN is sent by us.
    connection.isolation_level = None
    for pragma in SQLITE_PRAGMAS:
        _set_patiently(connection, f"PRAGMA {pragma}")
    # Its own lower() knows the letters of ASCII only.
    connection.create_function("unicode_lower", 1, str.lower, deterministic=True)


def _set_patiently(connection: sqlite3.Connection, pragma: str) -> None:
    """Execute it, again while the file is locked.

    Of several who open a new file at once, one turns it to WAL, and the others are refused without
    regard to the busy timeout.
    """
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute(pragma)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(LOOK_AGAIN_S)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    options: dict[str, Any] = dict(connection.get_execution_options())
    connection.exec_driver_sql(options.get("sqlite_begin", "BEGIN"))
