"""One Kineto trace as columns: a stream of JSON of which some hundred events are held at a time.

Kept are GPU kernels and copies, their launches, and the annotations `ProfilerStep#n`; memory is
bounded by their number (about 45 bytes each), whatever the size of the file. Times in us as in the
file, counted from the first kept event, since absolute ones have too few digits to spare.
"""

import math
import re
from array import array
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import Decoder

from service.calibration.reading.kineto_names import (
    KERNEL_CATEGORIES,
    LONGEST_NAME,
    NO_ARGUMENTS,
    Arguments,
    Kind,
    collective_name,
    group_size,
    kind_of,
)
from service.calibration.reading.kineto_stream import EventStream
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

MOST_EVENTS = 100_000_000
# Of compute kernels only a few names are kept, as examples.
_MOST_EXAMPLES = 1_000
LONGEST_US = 1e12
_STEP = re.compile(r"ProfilerStep#(\d{1,15})")
_LAUNCH_CATEGORIES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "runtime"})
_ANNOTATIONS = {"user_annotation": False, "gpu_user_annotation": True}


class StepMark(Struct, frozen=True):
    """An annotation `ProfilerStep#n`; of a GPU's stream, or of the CPU (stream -1)."""

    step: int
    start_us: float
    stop_us: float
    stream: int


class Trace(Struct, frozen=True, kw_only=True):
    """What is kept of one file. Kernel columns have one entry a kernel, launch columns a launch.

    `name` is an index into `names`, -1 for a compute kernel whose name was not kept.
    `members` is the size of a communication kernel's process group, 0 if unknown.
    """

    rank: int | None
    world_size: int | None
    backend: str | None
    num_events: int
    kind: IntArray
    start_us: FloatArray
    duration_us: FloatArray
    stream: IntArray
    correlation: IntArray
    name: IntArray
    members: IntArray
    names: list[str]
    launch_correlation: IntArray
    launch_us: FloatArray
    marks: list[StepMark]


class _Event(Struct, frozen=True, gc=False):
    """What is looked at of an event, of whatever type it is; the rest is passed over unread."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Raw = Raw()
    tid: Raw = Raw()
    ts: Any = None
    dur: Any = None
    args: Raw = Raw()


_EVENTS = Decoder(list[_Event])
_ARGUMENTS = Decoder(Arguments)


class _Columns:
    """Growing columns of one trace."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.num_events = 0
        self.origin: float | None = None
        self.kind, self.name, self.stream = array("b"), array("i"), array("i")
        self.start, self.duration = array("d"), array("d")
        self.correlation, self.members = array("q"), array("i")
        self.launch_correlation, self.launch = array("q"), array("d")
        self.names: dict[str, int] = {}
        self.streams: dict[tuple[bytes, bytes], int] = {}
        self.marks: list[StepMark] = []

    def take(self, batch: bytes) -> None:
        """Keep what tells about kernels or steps of a JSON list of events."""
        try:
            events = _EVENTS.decode(batch)
        except ValidationError as error:
            raise refused(
                "bad_value",
                f"after {self.num_events} events, an entry of traceEvents is no object, or holds a "
                f"number that is none ({error})",
                file=self.file,
            ) from error
        except (DecodeError, UnicodeDecodeError) as error:
            raise refused(
                "unreadable_file",
                f"after {self.num_events} events the JSON is broken ({error})",
                file=self.file,
            ) from error
        refuse_many(self.file, self.num_events + len(events))
        for event in events:
            self.num_events += 1
            if event.ph == "X" and isinstance(event.cat, str):
                self._take_one(event.cat.lower(), event)

    def _take_one(self, category: str, event: _Event) -> None:
        if category in KERNEL_CATEGORIES:
            self._take_kernel(category, event)
        elif category in _LAUNCH_CATEGORIES:
            self._take_launch(event)
        elif category in _ANNOTATIONS:
            self._take_mark(event, on_gpu=_ANNOTATIONS[category])

    def _take_kernel(self, category: str, event: _Event) -> None:
        name = event.name if isinstance(event.name, str) else ""
        arguments = _arguments(event)
        start, duration = self._times(event)
        kind = kind_of(category, name, arguments)
        self.kind.append(kind)
        self.start.append(start)
        self.duration.append(duration)
        self.stream.append(self._stream(event))
        self.correlation.append(_whole(arguments.correlation))
        is_communication = kind == Kind.COMMUNICATION
        self.members.append(group_size(arguments) if is_communication else 0)
        shown = collective_name(name, arguments) if is_communication else name[:LONGEST_NAME]
        if is_communication or shown in self.names or len(self.names) < _MOST_EXAMPLES:
            self.name.append(self.names.setdefault(shown, len(self.names)))
        else:
            self.name.append(-1)

    def _take_launch(self, event: _Event) -> None:
        correlation = _whole(_arguments(event).correlation)
        if correlation:
            self.launch_correlation.append(correlation)
            self.launch.append(self._since_origin(event))

    def _take_mark(self, event: _Event, *, on_gpu: bool) -> None:
        found = _STEP.fullmatch(event.name) if isinstance(event.name, str) else None
        if found:
            start, duration = self._times(event)
            stream = self._stream(event) if on_gpu else -1
            self.marks.append(StepMark(int(found[1]), start, start + duration, stream))

    def _stream(self, event: _Event) -> int:
        key = (bytes(event.pid), bytes(event.tid))
        return self.streams.setdefault(key, len(self.streams))

    def _since_origin(self, event: _Event) -> float:
        start = self._number(event, "ts", event.ts)
        if self.origin is None:
            self.origin = start
        return start - self.origin

    def _times(self, event: _Event) -> tuple[float, float]:
        start, duration = self._since_origin(event), self._number(event, "dur", event.dur)
        if not 0 <= duration <= LONGEST_US:
            raise refused(
                "bad_value",
                f"event {self.num_events} ({_shown(event)}) has dur {duration:g}: microseconds "
                f"from 0 to {LONGEST_US:g} are expected",
                file=self.file,
            )
        return start, duration

    def _number(self, event: _Event, key: str, value: Any) -> float:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            said = "missing" if value is None else f"{value!r:.40}"
            raise refused(
                "bad_value",
                f"event {self.num_events} ({_shown(event)}) has {key} {said}: "
                "a number of microseconds is expected",
                file=self.file,
            )
        return float(value)

    def trace(self, information: Any) -> Trace:
        """All columns, and who the rank is."""
        about = information if isinstance(information, dict) else {}
        backend = about.get("backend")
        return Trace(
            rank=_count(about.get("rank")),
            world_size=_count(about.get("world_size")) or None,
            backend=backend if isinstance(backend, str) else None,
            num_events=self.num_events,
            kind=np.array(self.kind, np.int64),
            start_us=np.array(self.start, np.float64),
            duration_us=np.array(self.duration, np.float64),
            stream=np.array(self.stream, np.int64),
            correlation=np.array(self.correlation, np.int64),
            name=np.array(self.name, np.int64),
            members=np.array(self.members, np.int64),
            names=list(self.names),
            launch_correlation=np.array(self.launch_correlation, np.int64),
            launch_us=np.array(self.launch, np.float64),
            marks=self.marks,
        )


def read_trace(file: str, stream: BinaryIO, tell: Callable[[int], None]) -> Trace:
    """The trace in an open decompressed stream; `tell` is called with the bytes of every chunk.

    Refused: no Chrome trace, truncated, times that are missing, negative, not finite or huge, and
    what `EventStream` refuses.
    """
    events, columns = EventStream(file, stream, tell), _Columns(file)
    for batch in events.batches():
        columns.take(batch)
    if not columns.num_events:
        raise refused("unknown_format", "no traceEvents: no trace of a profiler", file=file)
    return columns.trace(events.information)


def refuse_many(file: str, num_events: int) -> None:
    """More events than are read at all."""
    if num_events > MOST_EVENTS:
        raise refused("file_too_large", f"more than {MOST_EVENTS} events in one trace", file=file)


def _arguments(event: _Event) -> Arguments:
    try:
        return _ARGUMENTS.decode(event.args) if event.args else NO_ARGUMENTS
    except ValidationError:
        return NO_ARGUMENTS


def _shown(event: _Event) -> str:
    return f"{event.name!s:.60}"


def _whole(value: Any) -> int:
    # correlations count from 1; negative ones and those beyond 64 bits tell nothing
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if is_count else None
