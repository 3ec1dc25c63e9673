"""Files into folders beneath `TRAINARD_DELIVERY_FOLDER`, whole or not at all, and out again.

Every folder on the way is opened from the one above it and never through a symbolic link, so that
nothing that others put there leads elsewhere. A file is written under a name of its own, brought to
the disk and renamed.
"""

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

from service.jobs.delivery_rules import folder_parts

FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_BYTES: Final = 1 << 20


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
    A repetition leaves the same files. The folders on the way are made.
    """
    try:
        with _said(), _opened(root, team, folder, make=True) as place:
            for name, content in files:
                _replace(place, name, content)
            os.fsync(place)
    except FileNotFoundError as error:
        raise DropError(f"the folder {root} is not there") from error
    return [
        DroppedFile(name=name, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for name, content in files
    ]


def remove(root: str, folder: str, files: Sequence[DroppedFile], *, team: str) -> int:
    """Remove those that are still there and the same; how many. Raises `DropError`.

    What has other content by now is somebody else's, and stays.
    """
    num = 0
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
        raise DropError(f"the folder {folder!r} of {team!r} is refused")
    # The operator's own folder may be a link.
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in [*own, *parts]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, FOLDER_MODE, dir_fd=place)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=place)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)


def _replace(place: int, name: str, content: bytes) -> None:
    made = f".{name}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(made, flags, FILE_MODE, dir_fd=place)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.rename(made, name, src_dir_fd=place, dst_dir_fd=place)
    except BaseException:
        with suppress(OSError):
            os.unlink(made, dir_fd=place)
        raise


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
        raise DropError(f"the files cannot be written or removed: {reason}") from error
