"""A copy of the embedded database put back into its place."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from service.db import backups, migrate, requeue
from service.db.backups import Contents
from service.db.engine import Database
from service.db.job_engine import job_file
from service.db.process_locks import FileLock
from service.errors import ConflictError, InvalidError
from service.jobs import audit
from service.jobs.actors import program
from service.jobs.backups import sha256_of, temporary_beside


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in place: `contents` as in the copy, `revision` after migrating."""

    contents: Contents
    revision: str
    sha256: str
    replaced: Path | None


def restore(url: str, file: Path, *, sha256: str | None = None) -> Restored:
    """Put the copy `file` in the place of the database; what was there is kept beside it.

    Raises `InvalidError` when the copy is damaged, no database of Trainard's or of a newer
    version, and `ConflictError` when a process uses the database. Nothing has changed then.
    """
    database = Database(url)
    target = Path(str(database.url.database)).absolute()
    if not file.is_file():
        raise InvalidError(f"{file} is no file")
    if target.exists() and target.samefile(file):
        raise ConflictError(f"{file} is the database itself")
    if _size(Path(f"{file}-wal")):
        raise InvalidError(f"{file} has a WAL beside it: it is in use, or copied without trainard")
    try:
        with _unused(database), temporary_beside(target) as staged:
            shutil.copyfile(file, staged)
            digest = sha256_of(staged)
            if sha256 is not None and digest != sha256.lower():
                raise InvalidError(f"{file} has the SHA-256 {digest}, not {sha256}")
            contents = backups.check(staged, str(file))
            _prepare(staged, contents, subject=str(file.absolute()), digest=digest)
            replaced = _swap(database, staged, target)
    finally:
        database.close()
    return Restored(contents=contents, revision=migrate.head(), sha256=digest, replaced=replaced)


@contextmanager
def _unused(database: Database) -> Iterator[None]:
    """Hold the lock of the process that computes."""
    lock = FileLock(job_file(database).with_suffix(".lock"))
    if not lock.acquire():
        raise ConflictError(
            f"a service computes for {database.url.database}: stop it first (it need not wait "
            "for its batches; they go on from the copy)"
        )
    try:
        yield
    finally:
        lock.close()


def _prepare(staged: Path, contents: Contents, *, subject: str, digest: str) -> None:
    """Bring the copy to this version's tables and have its unfinished work taken up anew."""
    if not migrate.knows(contents.revision):
        raise InvalidError(
            f"{subject} is at revision {contents.revision} of a newer version; this one knows "
            f"revisions up to {migrate.head()}"
        )
    url = f"sqlite:///{staged}"
    migrate.upgrade(url)
    database = Database(url)
    try:
        with database.write() as connection:
            requeue.forget_sent(connection)
            backups.forget_workers(connection)
            audit.record(
                connection,
                program("restore"),
                action="restore",
                subject=subject,
                detail=f"revision {contents.revision}, SHA-256 {digest}",
            )
    finally:
        database.close()
    backups.make_single(staged)


def _swap(database: Database, staged: Path, target: Path) -> Path | None:
    # The queue of the engine belongs to the old rows. First: a database without its queue goes on,
    # one with that of another would take ended work for its own.
    queue = job_file(database)
    if not target.exists():
        _remove(queue)
        backups.put_in_place(staged, target, target)
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    replaced = target.with_name(f"{target.name}.before-restore-{stamp}")
    with backups.claimed(target):
        _own_like(target, staged)
        _remove(queue)
        backups.put_in_place(staged, target, replaced)
    return replaced


def _own_like(target: Path, staged: Path) -> None:
    """The service must be able to open it, whoever restores."""
    shutil.copymode(target, staged)
    owner = target.stat()
    if os.geteuid() == 0:
        os.chown(staged, owner.st_uid, owner.st_gid)


def _remove(queue: Path) -> None:
    for suffix in ("", *backups.SIDE_FILES):
        Path(f"{queue}{suffix}").unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
