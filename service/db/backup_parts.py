"""Files that a backup or a restore writes before they get their name.

A run that was killed leaves its own behind; the next one to the same place removes them. A lock
file beside each tells whether its run still lives: SQLite's own locks are on the part itself, and
on some file systems the two kinds of locks stand in each other's way.
"""

import fcntl
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from service.errors import UnavailableError

SIDE_FILES = ("-wal", "-shm", "-journal")
LOCK = "-lock"
_DISK_FAULTS = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
}


@contextmanager
def part_beside(file: Path) -> Iterator[Path]:
    """An empty file in the same folder, for its owner only; removed if it is still there.

    What dead runs left of the same name is removed first. Raises `UnavailableError` when nothing
    can be written there.
    """
    with written_into(file.parent):
        _remove_dead(file)
        lock, descriptor = _locked(file)
    part = lock.with_name(lock.name.removesuffix(LOCK))
    try:
        with written_into(file.parent):
            part.touch(mode=0o600, exist_ok=False)
        yield part
    finally:
        # The lock last: who finds it free removes what is beside it.
        for suffix in ("", *SIDE_FILES, LOCK):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
        os.close(descriptor)


@contextmanager
def written_into(folder: Path) -> Iterator[None]:
    """Raise `UnavailableError` with the folder's name where the disk does not take what is written.

    The systems' own errors name the file that was read, or none.
    """
    try:
        yield
    except OSError as error:
        raise UnavailableError(f"{folder}: {error.strerror or error}") from error
    except sqlite3.Error as error:
        if not is_disk_fault(error):
            raise
        raise UnavailableError(f"{folder}: {error}") from error
    except DBAPIError as error:
        if not is_disk_fault(error.orig):
            raise
        raise UnavailableError(f"{folder}: {error.orig}") from error


def is_disk_fault(error: BaseException | None) -> bool:
    """Whether SQLite could not read or write a file, whatever is in it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DISK_FAULTS


def _locked(file: Path) -> tuple[Path, int]:
    while True:
        descriptor, name = tempfile.mkstemp(
            prefix=f".{file.name}.", suffix=f".part{LOCK}", dir=file.parent
        )
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if Path(name).exists():
            return Path(name), descriptor
        # Before it was locked, another run took it for what a dead one left.
        os.close(descriptor)


def _remove_dead(file: Path) -> None:
    suffixes = "|".join((*SIDE_FILES, LOCK))
    left = re.compile(rf"(\.{re.escape(file.name)}\.[a-z0-9_]{{8}}\.part)({suffixes})?")
    found = [left.fullmatch(path.name) for path in file.parent.iterdir()]
    for name in {match[1] for match in found if match is not None}:
        # Those of another user stay.
        with suppress(OSError):
            _remove_if_dead(file.with_name(name))


def _remove_if_dead(part: Path) -> None:
    """Remove the part unless its run lives; a part without a lock file is older than those."""
    lock = Path(f"{part}{LOCK}")
    descriptor = None
    with suppress(FileNotFoundError):
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for suffix in ("", *SIDE_FILES, LOCK):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
    finally:
        if descriptor is not None:
            os.close(descriptor)
