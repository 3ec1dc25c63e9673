"""The door of reading: files of one run become timings, or are refused with the reason."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Final, Literal

from msgspec.structs import replace

from service.calibration.options import CalibrationOptions
from service.calibration.reading.compressed import GZIP_MAGIC, Budget, GunzippedStream
from service.calibration.reading.detection import HEAD_BYTES, KnownFile, kind_of
from service.calibration.reading.kineto import read_kineto
from service.calibration.reading.limits import DEFAULT_LIMITS, ReadingLimits
from service.calibration.reading.nccl_text import read_nccl_texts
from service.calibration.reading.open_file import OpenFile, Progress, tell_nobody
from service.calibration.reading.operations import is_of_operations, read_operations
from service.calibration.reading.plain import read_tables
from service.calibration.reading.skipping import without_first
from service.calibration.reading.tracked import TrackedStream
from service.calibration.refusals import Fault, TimingsRefusedError, refused
from service.calibration.timings import Timings

__all__ = ["OpenFile", "Progress", "read_timings"]

Family = Literal["table", "operations", "kineto", "nccl_tests"]
Reader = Callable[[Sequence[KnownFile], CalibrationOptions, ReadingLimits], Timings]
MAX_UNPACKED_PARQUET: Final = 256 << 20
_BUFFER: Final = 1 << 20


def read_timings(
    files: Sequence[OpenFile],
    options: CalibrationOptions,
    progress: Progress = tell_nobody,
    limits: ReadingLimits = DEFAULT_LIMITS,
) -> Timings:
    """What the files say of one run, in ms; what each is, its content tells.

    `progress` is told the bytes that were read so far, of all files. Raises TimingsRefusedError
    with the file, the line where there is one, and the rule.
    """
    _refuse_repeated(files)
    budget, told = Budget(limits), _Told(progress)
    by_family: dict[Family, list[KnownFile]] = {}
    for file in files:
        known = _known(file, budget, told)
        by_family.setdefault(_family(known), []).append(known)
    texts = by_family.pop("nccl_tests", [])
    if len(by_family) != 1:
        raise _no_one_family(by_family)
    ((family, known_files),) = by_family.items()
    text, found = read_nccl_texts([known.file for known in texts])
    timings = READERS[family](known_files, options, limits)
    if texts:
        timings = replace(timings, nccl_tests=text, files=(*timings.files, *found))
    return without_first(timings, options.skip_steps)


class _Told:
    """Bytes of all files, for whoever follows."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._num_bytes = 0

    def add(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        self._progress(self._num_bytes)


def _refuse_repeated(files: Sequence[OpenFile]) -> None:
    if not files:
        raise refused("no_steps", "there is no file")
    by_digest: dict[str, str] = {}
    for file in files:
        other = by_digest.setdefault(file.sha256, file.name)
        if other is not file.name or list(files).count(file) > 1:
            raise refused(
                "duplicate_row", f"it is the same as {other}, byte for byte", file=file.name
            )


def _known(file: OpenFile, budget: Budget, told: _Told) -> KnownFile:
    tracked = TrackedStream(file.stream, told.add)
    tracked.seek(0)
    packed = tracked.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    tracked.seek(0)
    raw = GunzippedStream(tracked, file.name, budget) if packed else tracked
    stream: BinaryIO = io.BufferedReader(raw, _BUFFER)
    kind = kind_of(stream.read(HEAD_BYTES), file.name)
    stream.seek(0)
    if packed and kind == "parquet":
        stream = _unpacked(stream, file.name)
    return KnownFile(file=replace(file, stream=stream), kind=kind)


def _unpacked(stream: BinaryIO, file: str) -> BinaryIO:
    """Parquet is read from its end, so it is held in memory."""
    whole = stream.read(MAX_UNPACKED_PARQUET + 1)
    if len(whole) > MAX_UNPACKED_PARQUET:
        raise refused(
            "file_too_large",
            f"Parquet within gzip has over {MAX_UNPACKED_PARQUET} bytes; give the Parquet file "
            "itself, which is compressed within",
            file=file,
        )
    return io.BytesIO(whole)


def _family(known: KnownFile) -> Family:
    if known.kind == "parquet":
        return "operations" if is_of_operations(known.file) else "table"
    if known.kind == "json":
        return "kineto"
    return "nccl_tests" if known.kind == "nccl_tests" else "table"


def _no_one_family(by_family: Mapping[Family, Sequence[KnownFile]]) -> TimingsRefusedError:
    if not by_family:
        return refused(
            "no_steps",
            "the output of nccl-tests alone has no timings of steps: give it beside them, or read "
            "it by POST /v1/collective-measurements (trainard nccl-tests)",
        )
    names = {"table": "a plain table", "operations": "single operations", "kineto": "a trace"}
    return TimingsRefusedError(
        *(
            Fault(
                code="mixed_formats",
                detail=f"it is {names[family]}, but all files of one calibration are of one kind",
                file=known[0].file.name,
            )
            for family, known in by_family.items()
        )
    )


def _kineto(files: Sequence[KnownFile], options: CalibrationOptions, _: ReadingLimits) -> Timings:
    return read_kineto([known.file for known in files], options)


READERS: Final[Mapping[Family, Reader]] = {
    "table": read_tables,
    "operations": read_operations,
    "kineto": _kineto,
}
