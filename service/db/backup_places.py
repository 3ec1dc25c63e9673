"""Where the files of an embedded database are, and whether a copy may be written to a place."""

import os
import stat
from pathlib import Path

from service.db.backup_parts import SIDE_FILES
from service.db.engine import Database
from service.db.job_engine import queue_beside
from service.errors import InvalidError


def database_files(database: Database) -> list[Path]:
    """The database under the name it was given and, behind links, under its real one."""
    given = Path(str(database.url.database)).absolute()
    real = Path(os.path.realpath(given))
    return [given] if real == given else [given, real]


def queue_files(database: Database) -> list[Path]:
    """The engine's own files, one for each name of the database."""
    return [queue_beside(file) for file in database_files(database)]


def lock_files(database: Database) -> list[Path]:
    """The locks of the process that computes, one for each name of the database."""
    return [queue.with_suffix(".lock") for queue in queue_files(database)]


def require_place(database: Database, file: Path) -> None:
    """Raise `InvalidError` when a copy at `file` would replace what is no copy.

    That is a file of the database itself under whatever name, a link, a device, another database
    that is in use.
    """
    for used in _files_in_use(database):
        if _is_same(file, used):
            raise InvalidError(f"{file} is {used.name} of the database itself: name another file")
    if os.path.lexists(file):
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise InvalidError(f"{file} is a link to {file.readlink()}: name the file itself")
        if not stat.S_ISREG(mode):
            raise InvalidError(f"{file} is no regular file: name another one")
    for suffix in ("-wal", "-journal"):
        # SQLite would take it for a part of the copy.
        if os.path.lexists(f"{file}{suffix}"):
            raise InvalidError(
                f"{file} has {file.name}{suffix} beside it: a database that is in use, or was "
                "when its process was killed. Name another file"
            )


def _files_in_use(database: Database) -> list[Path]:
    names = [*database_files(database), *queue_files(database)]
    files = [Path(f"{name}{suffix}") for name in names for suffix in ("", *SIDE_FILES)]
    return files + lock_files(database)


def _is_same(file: Path, used: Path) -> bool:
    """By name too: a WAL that is not there now will be."""
    if _place(file) == _place(used):
        return True
    return file.exists() and used.exists() and file.samefile(used)


def _place(file: Path) -> Path:
    return Path(os.path.realpath(file.parent)) / file.name
