"""Which process computes, and whether it still lives.

PostgreSQL: an advisory session lock for each process; the server ends it with the connection, so
that whoever gets the lock of another process knows that its connection is gone. SQLite: a lock on
a file, which the operating system ends with the process.
"""

import fcntl
from hashlib import blake2b
from pathlib import Path
from typing import IO

import psycopg

from service.db.engine import Database
from service.db.job_engine import KEEPALIVE


class LockLostError(Exception):
    """The connection that holds the lock is gone: another process may take over."""


class SessionLock:
    """The advisory lock of one process, on a connection of its own, held for life."""

    def __init__(self, database: Database, name: str) -> None:
        url = database.url.set(drivername="postgresql").update_query_dict(KEEPALIVE)
        self._connection = psycopg.connect(
            url.render_as_string(hide_password=False),
            autocommit=True,
            application_name=database.session_name,
        )
        self._connection.execute("SELECT pg_advisory_lock(%s)", [_key(name)])

    def check(self) -> None:
        """Raise `LockLostError` when the connection, and so the lock, is gone."""
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error as error:
            raise LockLostError(str(error)) from error

    def is_free(self, name: str) -> bool:
        """Whether nobody holds the lock of another process."""
        key = _key(name)
        found = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone()
        taken = found is not None and bool(found[0])
        if taken:
            self._connection.execute("SELECT pg_advisory_unlock(%s)", [key])
        return taken

    def end_sessions(self, name: str) -> None:
        """End all sessions of a process that is silent.

        One that was stopped in the middle of a statement's data is neither idle nor running for
        the server, and would hold its rows until it wakes up.
        """
        self._connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = %s AND datname = current_database()",
            [name],
        )

    def close(self) -> None:
        """Give the lock up."""
        self._connection.close()


class FileLock:
    """The one process that may compute for a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; whether this process has it."""
        if self._file is None:
            opened = self._path.open("ab")
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                opened.close()
                return False
            self._file = opened
        return True

    def close(self) -> None:
        """Give the lock up."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)
