"""One Kineto trace as columns: a stream of JSON of which one event at a time is held.

Kept are GPU kernels and copies, their launches, and the annotations `ProfilerStep#n`; memory is
bounded by their number (about 45 bytes each), whatever the size of the file. Times in us as in the
file, counted from the first kept event, since absolute ones have too few digits to spare.
"""

import math
import re
from array import array
from collections.abc import Callable
from typing import Any, BinaryIO

import ijson
import numpy as np
from msgspec import Struct

from service.calibration.reading.kineto_depth import DEEPEST, Depth
from service.calibration.reading.kineto_names import (
    KERNEL_CATEGORIES,
    LONGEST_NAME,
    Kind,
    collective_name,
    group_size,
    kind_of,
)
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

_CHUNK_BYTES = 1 << 18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# An event has a few hundred bytes, with stacks and shapes a few thousand.
LARGEST_EVENT_BYTES = 4 << 20
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
        self.streams: dict[tuple[str, str], int] = {}
        self.marks: list[StepMark] = []

    def take(self, event: Any) -> None:
        """Look at one event of the trace and keep it when it tells about kernels or steps."""
        self.num_events += 1
        if not isinstance(event, dict):
            raise refused(
                "bad_value",
                f"entry {self.num_events} of traceEvents is no object",
                file=self.file,
            )
        category = event.get("cat")
        if not isinstance(category, str) or event.get("ph") != "X":
            return
        category = category.lower()
        if category in KERNEL_CATEGORIES:
            self._take_kernel(category, event)
        elif category in _LAUNCH_CATEGORIES:
            self._take_launch(event)
        elif category in _ANNOTATIONS:
            self._take_mark(event, on_gpu=_ANNOTATIONS[category])

    def _take_kernel(self, category: str, event: dict[str, Any]) -> None:
        name = event.get("name")
        name = name if isinstance(name, str) else ""
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        start, duration = self._times(event)
        kind = kind_of(category, name, arguments)
        self.kind.append(kind)
        self.start.append(start)
        self.duration.append(duration)
        self.stream.append(self._stream(event))
        self.correlation.append(_whole(arguments.get("correlation")))
        is_communication = kind == Kind.COMMUNICATION
        self.members.append(group_size(arguments) if is_communication else 0)
        shown = collective_name(name, arguments) if is_communication else name[:LONGEST_NAME]
        if is_communication or shown in self.names or len(self.names) < _MOST_EXAMPLES:
            self.name.append(self.names.setdefault(shown, len(self.names)))
        else:
            self.name.append(-1)

    def _take_launch(self, event: dict[str, Any]) -> None:
        arguments = event.get("args")
        correlation = _whole(arguments.get("correlation")) if isinstance(arguments, dict) else 0
        if correlation:
            self.launch_correlation.append(correlation)
            self.launch.append(self._since_origin(event))

    def _take_mark(self, event: dict[str, Any], *, on_gpu: bool) -> None:
        name = event.get("name")
        found = _STEP.fullmatch(name) if isinstance(name, str) else None
        if found:
            start, duration = self._times(event)
            stream = self._stream(event) if on_gpu else -1
            self.marks.append(StepMark(int(found[1]), start, start + duration, stream))

    def _stream(self, event: dict[str, Any]) -> int:
        key = (str(event.get("pid")), str(event.get("tid")))
        return self.streams.setdefault(key, len(self.streams))

    def _since_origin(self, event: dict[str, Any]) -> float:
        start = self._number(event, "ts")
        if self.origin is None:
            self.origin = start
        return start - self.origin

    def _times(self, event: dict[str, Any]) -> tuple[float, float]:
        start, duration = self._since_origin(event), self._number(event, "dur")
        if not 0 <= duration <= LONGEST_US:
            raise refused(
                "bad_value",
                f"event {self.num_events} ({_shown(event)}) has dur {duration:g}: microseconds "
                f"from 0 to {LONGEST_US:g} are expected",
                file=self.file,
            )
        return start, duration

    def _number(self, event: dict[str, Any], key: str) -> float:
        value = event.get(key)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            said = f"{value!r:.40}" if key in event else "missing"
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

    Refused: no Chrome trace, truncated, an event larger than `LARGEST_EVENT_BYTES`, times that are
    missing, negative, not finite or huge.
    """
    chunk = stream.read(_CHUNK_BYTES).removeprefix(_BYTE_ORDER_MARK)
    is_list = chunk.lstrip()[:1] == b"["
    events: Any = ijson.sendable_list()
    about: Any = ijson.sendable_list()
    columns = _Columns(file)
    parsers = [
        ijson.items_coro(events, "item" if is_list else "traceEvents.item", use_float=True),
        ijson.items_coro(about, "distributedInfo", use_float=True),
    ]
    depth, since_event = Depth(), 0
    try:
        while chunk:
            tell(len(chunk))
            _guard_depth(file, depth.deepest(chunk))
            # The second parser only until it has found what it looks for
            for parser in parsers if not (about or is_list) else parsers[:1]:
                parser.send(chunk)
            since_event = 0 if events else since_event + len(chunk)
            _guard(file, since_event, columns.num_events)
            for event in events:
                columns.take(event)
            events.clear()
            chunk = stream.read(_CHUNK_BYTES)
        parsers[0].close()
    except (ijson.JSONError, UnicodeDecodeError) as error:
        first_line = str(error).split("\n", 1)[0].strip()[:120]
        raise refused(
            "unreadable_file",
            f"after {columns.num_events} events the JSON breaks off or is broken ({first_line})",
            file=file,
        ) from error
    if not columns.num_events:
        raise refused("unknown_format", "no traceEvents: no trace of a profiler", file=file)
    return columns.trace(about[0] if about else None)


def _guard(file: str, since_event: int, num_events: int) -> None:
    if since_event > LARGEST_EVENT_BYTES:
        raise refused(
            "unreadable_file",
            f"after {num_events} events, {since_event} bytes without the end of an event: "
            f"at most {LARGEST_EVENT_BYTES} are read at once",
            file=file,
        )
    if num_events > MOST_EVENTS:
        raise refused("file_too_large", f"more than {MOST_EVENTS} events in one trace", file=file)


def _guard_depth(file: str, deepest: int) -> None:
    if deepest > DEEPEST:
        raise refused(
            "unreadable_file",
            f"nested {deepest} deep: no trace nests deeper than {DEEPEST}",
            file=file,
        )


def _shown(event: dict[str, Any]) -> str:
    return f"{event.get('name')!s:.60}"


def _whole(value: Any) -> int:
    # correlations count from 1; negative ones and those beyond 64 bits tell nothing
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if is_count else None
