"""Uploaded files on disk while they are read: in private folders that never outlive their use.

A process that is killed cannot clear up: its folder is found by the lock on it that nobody holds
any more, and is removed at the next start.
"""

import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from service.db.process_locks import FileLock
from service.errors import UnavailableError

PREFIX: Final = "trainard-spool-"
LOCK: Final = "lock"
# A folder that is not locked yet has another name, so that nobody takes it for a dead one.
_UNLOCKED: Final = ".new-"

log = structlog.get_logger()


class Spool:
    """The folder of this process, made when it is first needed.

    `parent` is the folder below which it lies; empty: the temporary folder of the system.
    """

    def __init__(self, parent: str = "") -> None:
        self._parent = Path(parent or tempfile.gettempdir())
        self._lock = threading.Lock()
        self._own: Path | None = None
        self._alive: FileLock | None = None

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """An empty private folder (0700) that is gone with all in it when the block ends.

        Raises `UnavailableError` where none can be made.
        """
        try:
            made = Path(tempfile.mkdtemp(dir=self._own_folder()))
        except OSError as error:
            raise UnavailableError(
                f"uploads cannot be taken: no folder can be made in {self._parent}: "
                f"{error.strerror}"
            ) from error
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def sweep(self) -> int:
        """Remove what processes that are dead have left behind; returns how many folders."""
        removed = 0
        for found in self._parent.glob(f"{PREFIX}*"):
            if found != self._own and _is_ours(found) and _is_dead(found):
                shutil.rmtree(found, ignore_errors=True)
                removed += 1
        if removed:
            log.info("spools_swept", folders=removed)
        return removed

    def close(self) -> None:
        """Remove the folder of this process."""
        with self._lock:
            if self._own is not None:
                shutil.rmtree(self._own, ignore_errors=True)
                self._own = None
            if self._alive is not None:
                self._alive.close()
                self._alive = None

    def _own_folder(self) -> Path:
        with self._lock:
            if self._own is None:
                self._parent.mkdir(parents=True, exist_ok=True)
                new = Path(tempfile.mkdtemp(prefix=_UNLOCKED + PREFIX, dir=self._parent))
                self._alive = FileLock(new / LOCK)
                self._alive.acquire()
                self._own = new.rename(self._parent / f"{PREFIX}{secrets.token_hex(8)}")
            return self._own


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder of this user, and no link to somewhere else."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid()


def _is_dead(folder: Path) -> bool:
    lock = FileLock(folder / LOCK)
    try:
        return lock.acquire()
    except FileNotFoundError:
        # It is being removed by its own process.
        return False
    finally:
        lock.close()
