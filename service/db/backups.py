"""Whole copies of the embedded database: taken while it is written, checked, put into its place."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
from sqlalchemy import delete

from service.db.backup_parts import SIDE_FILES, is_disk_fault, written_into
from service.db.engine import Connection, Database
from service.db.tables import web_session, worker
from service.errors import ConflictError, InvalidError, UnavailableError

# (pages that are left, pages in all)
Progress = Callable[[int, int], None]

PAGES_PER_STEP = 1_000
FAULTS_SHOWN = 3
CLAIM_TIMEOUT_MS = 2_000
# For want of room or of a right. Whether somebody has the database open is not known then; a file
# that is damaged, or on a disk that is, gives others.
_NOT_OPENED = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_SHMOPEN,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a copy."""

    revision: str
    num_batches: int
    num_points: int
    num_keys: int

    @property
    def counts(self) -> str:
        """How much of what, for a person."""
        return (
            f"{self.num_batches:,} batches, {self.num_points:,} points, {self.num_keys:,} API keys"
        )


def copy_database(database: Database, file: Path, progress: Progress) -> None:
    """Copy one snapshot into an empty `file`, while others read and write the database.

    Raises `UnavailableError` when the disk of `file` does not take it.
    """
    with database.read() as connection:
        # The transaction sees its snapshot from the first read on, and the copy is made in it:
        # without it, each write of somebody else would start the copy anew.
        connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema").scalar_one()
        source = connection.connection.driver_connection
        if not isinstance(source, sqlite3.Connection):
            raise TypeError(f"{source!r} is no SQLite connection")
        with _readable(), written_into(file.parent), closing(sqlite3.connect(file)) as target:
            source.backup(
                target,
                pages=PAGES_PER_STEP,
                progress=lambda _status, left, total: progress(left, total),
            )
    with written_into(file.parent):
        make_single(file)


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise InvalidError(f"the database cannot be copied: {error}") from error


def make_single(file: Path) -> None:
    """Bring a database that nobody else has open into one file on the disk, without a WAL."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    flush(file)


def flush(path: Path) -> None:
    """Wait until a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check(file: Path, name: str) -> Contents:
    """What the copy holds; raises `InvalidError` that calls it `name` when it is not whole."""
    try:
        with closing(sqlite3.connect(file)) as connection:
            faults = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
            if faults != ["ok"]:
                raise InvalidError(f"{name} is damaged: {'; '.join(faults)[:300]}")
            if broken := connection.execute("PRAGMA foreign_key_check").fetchmany(FAULTS_SHOWN):
                tables = ", ".join(sorted({str(row[0]) for row in broken}))
                raise InvalidError(f"{name} is damaged: rows of {tables} refer to rows not there")
            return _contents(connection, name)
    except sqlite3.DatabaseError as error:
        if is_disk_fault(error):
            raise
        raise InvalidError(f"{name} is no whole SQLite database: {error}") from error


def _contents(connection: sqlite3.Connection, name: str) -> Contents:
    names = _names(connection)
    if not {"alembic_version", "scenario_batch", "chunk_ledger"} <= names:
        raise InvalidError(f"{name} is a SQLite database, but none of Trainard's")
    revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if revision is None:
        raise InvalidError(f"{name} has tables, but no revision")
    num_batches, num_points = connection.execute(
        "SELECT count(*), coalesce(sum(points_done), 0) FROM scenario_batch"
    ).fetchone()
    return Contents(
        revision=revision[0],
        num_batches=num_batches,
        num_points=num_points,
        num_keys=_num_keys(connection, names),
    )


def _names(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}


def _num_keys(connection: sqlite3.Connection, names: set[str]) -> int:
    if "api_key" not in names:
        return 0
    found: int = connection.execute("SELECT count(*) FROM api_key").fetchone()[0]
    return found


def forget_workers(connection: Connection) -> None:
    """Forget the processes that computed when the copy was taken."""
    connection.execute(delete(worker))


def forget_sessions(connection: Connection) -> None:
    """Sign everybody out of the pages: the copy may hold sessions that were ended since."""
    connection.execute(delete(web_session))


@contextmanager
def claimed(file: Path) -> Iterator[int | None]:
    """Hold a database file alone while the block runs; nobody else can have it open.

    Yields how many API keys it has; None for a damaged one, whose WAL stays. Raises
    `ConflictError` when another process has it open, however idle, and `UnavailableError` when that
    cannot be told.
    """
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        try:
            connection.execute(f"PRAGMA busy_timeout={CLAIM_TIMEOUT_MS}")
            # Leaving the WAL needs the file alone: every open connection holds a lock on it.
            connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            connection.execute("BEGIN EXCLUSIVE")
            names = _names(connection)
            num_keys = _num_keys(connection, names) if "alembic_version" in names else None
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
                raise ConflictError(f"another process has {file} open: stop it first") from error
            if error.sqlite_errorcode in _NOT_OPENED:
                raise UnavailableError(f"{file}: {error}") from error
            yield None
        except sqlite3.DatabaseError:
            yield None
        else:
            yield num_keys


def put_in_place(staged: Path, file: Path, replaced: Path) -> None:
    """Let `staged` be the database; what was there goes on as `replaced`, if anything was.

    Killed at any moment, it leaves the one or the other whole under the name `file`. Raises
    `UnavailableError` when the disk does not take it; nothing has changed then.
    """
    with written_into(file.parent):
        _rename(staged, file, replaced)
    flush(file.parent)


def _rename(staged: Path, file: Path, replaced: Path) -> None:
    if file.exists():
        os.link(file, replaced)
        for suffix in SIDE_FILES:
            # Only of a damaged database: the new one must not be taken for what they belong to.
            with suppress(FileNotFoundError):
                Path(f"{file}{suffix}").rename(f"{replaced}{suffix}")
        flush(file.parent)
    staged.replace(file)
