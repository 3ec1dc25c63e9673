"""A copy of the embedded database in one file, taken while the service runs."""

import hashlib
import os
from pathlib import Path

import msgspec

from service.db import backups, migrate
from service.db.backup_parts import part_beside, written_into
from service.db.backup_places import require_place
from service.db.backups import Contents, Progress
from service.db.engine import Database
from service.errors import ConflictError
from service.jobs import audit
from service.jobs.actors import program

__all__ = ["Backup", "Contents", "Progress", "back_up", "sha256_of"]


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that was made and checked."""

    contents: Contents
    num_bytes: int
    sha256: str


def back_up(
    database: Database, file: Path, *, overwrite: bool = False, progress: Progress
) -> Backup:
    """Write a copy to `file`, which only its owner may read: it holds prices.

    It appears under its name when it is whole, checked and on the disk. Raises `ConflictError`
    when there is a file already, `InvalidError` when that must not be replaced (it is the database
    itself, a link, a device) or the database is damaged, `UnavailableError` when the disk is full.
    """
    require_place(database, file)
    if not overwrite and file.exists():
        raise ConflictError(f"{file} exists already")
    with part_beside(file) as copy:
        backups.copy_database(database, copy, progress)
        contents = backups.check(copy, "the copy")
        made = Backup(contents=contents, num_bytes=copy.stat().st_size, sha256=sha256_of(copy))
        backups.flush(copy)
        with database.write() as connection:
            # Tables of an older version are copied before they are migrated, and have no trail.
            if contents.revision == migrate.head():
                audit.record(
                    connection,
                    program("backup"),
                    action="backup",
                    subject=str(file.absolute()),
                    detail=f"{made.num_bytes} bytes, SHA-256 {made.sha256}",
                )
            # Before the commit: no copy is left that nobody knows of.
            # What has the name may be another file by now than when the copy began.
            require_place(database, file)
            with written_into(file.parent):
                _publish(copy, file, overwrite=overwrite)
    return made


def sha256_of(file: Path) -> str:
    """The digest of a file in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _publish(copy: Path, file: Path, *, overwrite: bool) -> None:
    if overwrite:
        copy.replace(file)
    else:
        try:
            os.link(copy, file)
        except FileExistsError as error:
            raise ConflictError(f"{file} exists already") from error
    backups.flush(file.parent)
