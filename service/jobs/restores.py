"""A copy of the embedded database put back into its place."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from service.db import backups, migrate, requeue
from service.db.backup_parts import SIDE_FILES, is_disk_fault, part_beside, written_into
from service.db.backup_places import database_files, lock_files, queue_files
from service.db.backups import Contents
from service.db.engine import Database
from service.db.failures import UNUSABLE_DATABASE, cause_of
from service.db.process_locks import FileLock
from service.errors import ConflictError, InvalidError
from service.jobs import audit
from service.jobs.actors import program
from service.jobs.backups import sha256_of

COPIED_AT_ONCE_BYTES = 1_048_576


class KeysLostError(ConflictError):
    """The database has API keys and the copy none: with it, everybody may do everything."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in place: `contents` as in the copy, `revision` after migrating."""

    contents: Contents
    revision: str
    sha256: str
    replaced: Path | None


def restore(
    url: str, file: Path, *, sha256: str | None = None, without_keys: bool = False
) -> Restored:
    """Put the copy `file` in the place of the database; what was there is kept beside it.

    Raises `InvalidError` when the copy is damaged, no database of Trainard's or of a newer
    version, `ConflictError` when a process uses the database, `KeysLostError` when the keys it has
    would be gone (unless `without_keys`), `UnavailableError` when its disk is full. Nothing has
    changed then.
    """
    database = Database(url)
    # Behind a link: the link goes on to lead to the database.
    target = database_files(database)[-1]
    _require_copy(file, target)
    try:
        with _unused(database), part_beside(target) as staged:
            with written_into(target.parent):
                digest = _copy(file, staged)
                if sha256 is not None and digest != sha256.lower():
                    raise InvalidError(f"{file} has the SHA-256 {digest}, not {sha256}")
                contents = backups.check(staged, str(file))
                _prepare(staged, contents, subject=str(file.absolute()), digest=digest)
            may_open = without_keys or contents.num_keys > 0
            replaced = _swap(queue_files(database), staged, target, may_open=may_open)
    finally:
        database.close()
    return Restored(contents=contents, revision=migrate.head(), sha256=digest, replaced=replaced)


def _require_copy(file: Path, target: Path) -> None:
    if not file.is_file():
        raise InvalidError(f"{file} is no file")
    if target.exists():
        if not target.is_file():
            raise InvalidError(f"the database {target} is no regular file")
        if target.samefile(file):
            raise ConflictError(f"{file} is the database itself")
    # SQLite has it beside the real file.
    for name in (file, os.path.realpath(file)):
        if _size(Path(f"{name}-wal")):
            raise InvalidError(
                f"{file} has a WAL beside it: it is in use, or copied without trainard"
            )


def _copy(file: Path, staged: Path) -> str:
    """The digest of what was copied."""
    try:
        source = file.open("rb")
    except OSError as error:
        raise InvalidError(f"{file}: {error.strerror}") from error
    with source, staged.open("wb") as target:
        shutil.copyfileobj(source, target, COPIED_AT_ONCE_BYTES)
    return sha256_of(staged)


@contextmanager
def _unused(database: Database) -> Iterator[None]:
    """Hold the lock of the process that computes, whatever name it has the database by."""
    with ExitStack() as held:
        for path in lock_files(database):
            lock = FileLock(path)
            with written_into(path.parent):
                is_free = lock.acquire()
            if not is_free:
                raise ConflictError(
                    f"a service computes for {database.url.database}: stop it first (it need not "
                    "wait for its batches; they go on from the copy)"
                )
            held.callback(lock.close)
        yield


def _prepare(staged: Path, contents: Contents, *, subject: str, digest: str) -> None:
    """Bring the copy to this version's tables and have its unfinished work taken up anew.

    Raises `InvalidError` when it is of a newer version or its tables are not those of its own.
    """
    if not migrate.knows(contents.revision):
        raise InvalidError(
            f"{subject} is at revision {contents.revision} of a newer version; this one knows "
            f"revisions up to {migrate.head()}"
        )
    try:
        _bring_up(staged, contents, subject=subject, digest=digest)
    except UNUSABLE_DATABASE as error:
        if is_disk_fault(getattr(error, "orig", None)):
            raise
        raise InvalidError(f"{subject} cannot be brought up to date: {cause_of(error)}") from error
    backups.make_single(staged)


def _bring_up(staged: Path, contents: Contents, *, subject: str, digest: str) -> None:
    url = f"sqlite:///{staged}"
    migrate.upgrade(url)
    database = Database(url)
    try:
        with database.write() as connection:
            requeue.forget_sent(connection)
            backups.forget_workers(connection)
            backups.forget_sessions(connection)
            audit.record(
                connection,
                program("restore"),
                action="restore",
                subject=subject,
                detail=f"revision {contents.revision}, SHA-256 {digest}",
            )
    finally:
        database.close()


def _swap(queues: list[Path], staged: Path, target: Path, *, may_open: bool) -> Path | None:
    # The queue of the engine belongs to the old rows. First: a database without its queue goes on,
    # one with that of another would take ended work for its own.
    if not target.exists():
        _remove(queues)
        backups.put_in_place(staged, target, target)
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    replaced = target.with_name(f"{target.name}.before-restore-{stamp}")
    with backups.claimed(target) as num_keys:
        if not may_open:
            _require_no_keys(target, num_keys)
        with written_into(target.parent):
            _own_like(target, staged)
            _remove(queues)
        backups.put_in_place(staged, target, replaced)
    return replaced


def _require_no_keys(target: Path, num_keys: int | None) -> None:
    if num_keys == 0:
        return
    had = "cannot be read, and may have had some" if num_keys is None else f"has {num_keys:,}"
    raise KeysLostError(
        f"the copy has no API key, but {target} {had}: with it, everybody who reaches the service "
        "may read and change all"
    )


def _own_like(target: Path, staged: Path) -> None:
    """The service must be able to open it, whoever restores."""
    shutil.copymode(target, staged)
    owner = target.stat()
    if os.geteuid() == 0:
        os.chown(staged, owner.st_uid, owner.st_gid)


def _remove(queues: list[Path]) -> None:
    for queue in queues:
        for suffix in ("", *SIDE_FILES):
            Path(f"{queue}{suffix}").unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
