"""Files into folders beneath `TRAINARD_DELIVERY_FOLDER`, whole or not at all, and out again.

Every folder on the way is opened from the one above it and never through a symbolic link, so that
nothing that others put there leads elsewhere. All files of a message are written under names of
their own, brought to the disk and then renamed: where the disk is full, no file is new.
"""

import errno
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from service.jobs.delivery_rules import folder_parts
from service.jobs.reason_sentences import say

FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_BYTES: Final = 1 << 20
_UNFINISHED: Final = "tmp"


class DropError(Exception):
    """Why files cannot be written or removed, in a sentence."""


class DroppedFile(Struct, frozen=True, kw_only=True):
    """A file that was written: what the log keeps of it."""

    name: str
    bytes: int
    sha256: str


def write(
    root: str, folder: str, files: Sequence[tuple[str, bytes]], *, team: str
) -> list[DroppedFile]:
    """Write the files in this order, over those of the same names; raises `DropError`.

    They lie beneath the team's own folder, so that no team writes where another one does.
    A repetition leaves the same files, and nothing of one that was killed on its way. The folders
    on the way are made.
    """
    try:
        with _said(), _opened(root, team, folder, make=True) as place:
            _sweep(place, [name for name, _ in files])
            _replace(place, files)
            os.fsync(place)
    except FileNotFoundError as error:
        raise DropError(say("folder_missing", folder=root)) from error
    return [
        DroppedFile(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files
    ]


def remove(root: str, folder: str, files: Sequence[DroppedFile], *, team: str) -> int:
    """Remove those that are still there and the same; how many. Raises `DropError`.

    What has other content by now is somebody else's, and stays. Where `root` itself is not there,
    it may come back with the files: that is an error.
    """
    num = 0
    if not Path(root).is_dir():
        raise DropError(say("folder_missing", folder=root))
    try:
        with _said(), _opened(root, team, folder, make=False) as place:
            for file in files:
                if _sha256(place, file.name) == file.sha256:
                    os.unlink(file.name, dir_fd=place)
                    num += 1
    except FileNotFoundError:
        # The folder is gone with all of them.
        return num
    return num


@contextmanager
def _opened(root: str, team: str, folder: str, *, make: bool) -> Iterator[int]:
    own, parts = folder_parts(team), folder_parts(folder)
    if own is None or len(own) != 1 or parts is None:
        raise DropError(say("folder_refused", folder=repr(folder), team=repr(team)))
    # The operator's own folder may be a link.
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in [*own, *parts]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, FOLDER_MODE, dir_fd=place)
                    os.fsync(place)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=place)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _replace(place: int, files: Sequence[tuple[str, bytes]]) -> None:
    """Write all, then give all their names."""
    made: dict[str, str] = {}
    try:
        for name, content in files:
            made[name] = f".{name}.{secrets.token_hex(6)}.{_UNFINISHED}"
            _write(place, made[name], content)
        for name, _ in files:
            os.rename(made[name], name, src_dir_fd=place, dst_dir_fd=place)
            del made[name]
    finally:
        for left in made.values():
            with suppress(OSError):
                os.unlink(left, dir_fd=place)


def _write(place: int, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, FILE_MODE, dir_fd=place), "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def _sweep(place: int, names: Sequence[str]) -> None:
    """Remove what a killed process has left of the same files; nobody else writes them now."""
    ours = re.compile(rf"\.({'|'.join(map(re.escape, names))})\.[0-9a-f]{{12}}\.{_UNFINISHED}")
    for found in os.listdir(place):
        if ours.fullmatch(found):
            with suppress(FileNotFoundError):
                os.unlink(found, dir_fd=place)


def _sha256(place: int, name: str) -> str | None:
    """Of the file of this name; None when there is none, or it is no plain file."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        file = os.open(name, flags, dir_fd=place)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ELOOP, errno.ENXIO}:
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        found = hashlib.sha256()
        while chunk := os.read(file, READ_BYTES):
            found.update(chunk)
        return found.hexdigest()
    finally:
        os.close(file)


@contextmanager
def _said() -> Iterator[None]:
    """Say what the system refused in a sentence; what is not there is left to the caller."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            reason = "a part of the folder is a symbolic link or no folder"
        raise DropError(say("files_not_written", detail=reason)) from error
