"""Files in a multipart body (RFC 7578): part by part to disk, within limits kept meanwhile.

Nothing is believed that can be counted: neither Content-Length nor what parts say of themselves.
Pieces are gathered to a mebibyte before a thread takes them, so that a slow sender holds none.
"""

import errno
import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from service.api.contract import FILE_PART, FORM, ApiRequest
from service.api.transactions import in_thread, settings_of
from service.errors import (
    MalformedError,
    OverLimitError,
    TooLargeError,
    UnavailableError,
    UnsupportedEncodingError,
    UnsupportedMediaError,
)
from service.jobs.calibration_work import SpooledFile
from service.jobs.documents import shown
from service.jobs.spools import Spool
from service.settings import Limits

PIECE_BYTES: Final = 1024 * 1024
# Of the header of a part, and what stands around it
FRAMING_BYTES_PER_FILE: Final = 8 * 1024
MAX_NAME_CHARACTERS: Final = 200
MAX_BOUNDARY_CHARACTERS: Final = 70
UPLOADS_OF_CALLER: Final = 2
UPLOADS_AT_ONCE: Final = 8
RETRY_AFTER_S: Final = 10
_DISK_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class UploadSlots:
    """How many uploads there are now, of each caller and of all: each may fill the disk."""

    def __init__(self) -> None:
        self._of_caller: dict[str, int] = {}

    @contextmanager
    def taken(self, caller: str) -> Iterator[None]:
        """Hold a place; raises `OverLimitError` (429) or `UnavailableError` (503) at once."""
        held = self._of_caller.get(caller, 0)
        if held >= UPLOADS_OF_CALLER:
            raise OverLimitError(
                f"{held} uploads of this caller are running; send the next when one is done",
                retry_after_s=RETRY_AFTER_S,
            )
        if sum(self._of_caller.values()) >= UPLOADS_AT_ONCE:
            raise UnavailableError(f"{UPLOADS_AT_ONCE} uploads are running already")
        self._of_caller[caller] = held + 1
        try:
            yield
        finally:
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]


@asynccontextmanager
async def received_files(request: ApiRequest, spool: Spool) -> AsyncIterator[list[SpooledFile]]:
    """The files of the body; they are gone when the block ends.

    Raises `UnsupportedMediaError` (415), `TooLargeError` (413), `MalformedError` (400) for a body
    that is cut off or no form of files, and `UnavailableError` (503) when the disk is full.
    """
    boundary = _boundary(request)
    limits = settings_of(request).limits
    _refuse_announced(request, limits)
    made = spool.folder()
    folder = await in_thread(made.__enter__)
    try:
        writer = FormWriter(folder, boundary, limits)
        try:
            await _feed(request, writer)
            files = await in_thread(writer.finished)
        finally:
            writer.close()
        yield files
    finally:
        await in_thread(partial(made.__exit__, None, None, None))


class FormWriter:
    """Writes the files of one form; blocking."""

    def __init__(self, folder: Path, boundary: str, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        # Not strict: what stands before the first and behind the last boundary means nothing.
        self._parser = PushMultipartParser(boundary)
        self._files: list[SpooledFile] = []
        self._num_bytes = 0
        self._name = ""
        self._digest = hashlib.sha256()
        self._file_bytes = 0
        self._descriptor: int | None = None
        self._parts = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._num_bytes += len(data)
        if self._num_bytes > most_bytes(self._limits):
            raise _too_large(self._num_bytes, self._limits)
        try:
            for event in self._parser.parse(data):
                if event is None:
                    self._end()
                elif isinstance(event, MultipartSegment):
                    self._begin(event)
                elif self._descriptor is not None:
                    self._write(self._descriptor, event)
        except MultipartError as error:
            raise MalformedError(f"the body is no {FORM}: {_reason(error)}") from None
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            raise UnavailableError(
                f"the disk for uploads is full: {self._num_bytes} bytes of the body were read"
            ) from error

    def finished(self) -> list[SpooledFile]:
        """The files, when all of the body was fed; raises `MalformedError`."""
        try:
            self._parser.close()
        except MultipartError:
            where = f"in the file {shown(self._name)}" if self._name else "before its first file"
            raise MalformedError(
                f"the body is cut off: after {self._num_bytes} bytes it ends {where}, and its last "
                "boundary is missing"
            ) from None
        if not self._files:
            raise MalformedError(f"the body has no file: send parts named {FILE_PART}")
        return self._files

    def close(self) -> None:
        """Close the file in hand."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _begin(self, part: MultipartSegment) -> None:
        self._parts += 1
        place = f"part {self._parts} of the body"
        if part.name != FILE_PART:
            raise MalformedError(
                f"{place} is named {shown(part.name)}, but only parts named {FILE_PART} are read; "
                "what is said beside the files stands in the query"
            )
        if not part.filename:
            raise MalformedError(f"{place} has no filename, but files are told apart by it")
        if self._parts > self._limits.calibration_files:
            raise TooLargeError(
                f"more than {self._limits.calibration_files} files; that is the limit of one upload"
            )
        self._name = self._unique(clean_name(part.filename))
        self._digest = hashlib.sha256()
        self._file_bytes = 0
        path = self._folder / f"{self._parts:06d}"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def _write(self, descriptor: int, data: bytes) -> None:
        self._digest.update(data)
        self._file_bytes += len(data)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def _end(self) -> None:
        self.close()
        self._files.append(
            SpooledFile(
                name=self._name,
                path=str(self._folder / f"{self._parts:06d}"),
                num_bytes=self._file_bytes,
                sha256=self._digest.hexdigest(),
            )
        )

    def _unique(self, name: str) -> str:
        """Two files may have one name, such as those of two folders: the second says so."""
        taken = {file.name for file in self._files}
        number, unique = 1, name
        while unique in taken:
            number += 1
            unique = f"{name} ({number})"
        return unique


def most_bytes(limits: Limits) -> int:
    """Of a whole body, with what stands around its files."""
    return limits.calibration_bytes + FRAMING_BYTES_PER_FILE * (limits.calibration_files + 1)


def clean_name(filename: str) -> str:
    """The last part of a path, as it can be shown and stored."""
    last = re.split(r"[/\\]", filename)[-1]
    return _UNPRINTABLE.sub("\ufffd", last)[:MAX_NAME_CHARACTERS].strip() or "file"


async def _feed(request: ApiRequest, writer: FormWriter) -> None:
    gathered = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise MalformedError("the body did not arrive whole")
        gathered += message.get("body", b"")
        more = message.get("more_body", False)
        if len(gathered) >= PIECE_BYTES or (gathered and not more):
            piece, gathered = bytes(gathered), bytearray()
            await in_thread(partial(writer.feed, piece))


def _boundary(request: ApiRequest) -> str:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise UnsupportedEncodingError(
            f"Content-Encoding is {shown(encoding)}, but bodies are read uncompressed only; the "
            "files themselves may be gzipped"
        )
    sent = request.headers.get("content-type")
    if sent is None:
        raise UnsupportedMediaError(f"Content-Type is missing; send {FORM}")
    kind, options = parse_options_header(sent)
    if kind != FORM:
        raise UnsupportedMediaError(f"Content-Type is {sent}, but this operation reads {FORM}")
    boundary: str = options.get("boundary", "")
    if not boundary or len(boundary) > MAX_BOUNDARY_CHARACTERS or not boundary.isprintable():
        raise MalformedError(
            f"Content-Type is {shown(sent)}, but must name a boundary of 1 to "
            f"{MAX_BOUNDARY_CHARACTERS} characters"
        )
    return boundary


def _refuse_announced(request: ApiRequest, limits: Limits) -> None:
    """Refuse at once what says itself that it is too large."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:19]) > most_bytes(limits):
        raise _too_large(int(announced[:19]), limits)


def _too_large(num_bytes: int, limits: Limits) -> TooLargeError:
    return TooLargeError(
        f"the body has at least {num_bytes} bytes, but the limit of all files is "
        f"{limits.calibration_bytes} bytes; send fewer steps, gzipped files or Parquet, or read "
        "them where they are: trainard calibrate"
    )


def _reason(error: MultipartError) -> str:
    """The sentence of the library, in small letters as ours are."""
    if isinstance(error.__context__, UnicodeDecodeError):
        return "a filename, or another part of the header of a file, is no UTF-8"
    text = str(error)
    return text[:1].lower() + text[1:]
