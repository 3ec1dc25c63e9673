"""Which step every kernel of a trace belongs to, and how long the steps are.

A GPU runs behind its CPU: a kernel that is launched in a step may run after the CPU's window of it.
So a kernel belongs to the step whose annotation on its own GPU stream it starts in; without one, to
the step in which its launch (equal correlation) fell; in a file without launches, to the window
that it starts in.
"""

from itertools import groupby

import numpy as np
from msgspec import Struct

from service.calibration.reading.kineto_events import StepMark, Trace
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

NO_STEP = -1
# Written times have three digits behind the microsecond, older ones none.
_ROUNDING_US = 1.0


class Windows(Struct, frozen=True, kw_only=True):
    """Disjoint-starting windows of steps, ascending by start; times in us of the file."""

    step: IntArray
    start_us: FloatArray
    stop_us: FloatArray

    def holding(self, times: FloatArray) -> IntArray:
        """Step of the window that holds each time, `NO_STEP` outside of all."""
        if not len(self.step):
            return np.full(len(times), NO_STEP, np.int64)
        place = np.searchsorted(self.start_us - _ROUNDING_US, times, side="right") - 1
        is_in = (place >= 0) & (times < self.stop_us[place])
        return np.where(is_in, self.step[place], NO_STEP).astype(np.int64)


def windows_of(marks: list[StepMark]) -> Windows:
    """Windows of the marks, in the order of their starts."""
    ordered = sorted(marks, key=lambda mark: (mark.start_us, mark.step))
    return Windows(
        step=np.array([mark.step for mark in ordered], np.int64),
        start_us=np.array([mark.start_us for mark in ordered], np.float64),
        stop_us=np.array([mark.stop_us for mark in ordered], np.float64),
    )


def refuse_doubles(marks: list[StepMark], file: str) -> None:
    """A step that is marked twice at one place is refused: two traces in one file."""
    seen: set[tuple[int, int]] = set()
    for mark in marks:
        if (key := (mark.stream, mark.step)) in seen:
            place = "the CPU" if mark.stream < 0 else "one GPU stream"
            raise refused(
                "duplicate_row", f"ProfilerStep#{mark.step} stands twice on {place}", file=file
            )
        seen.add(key)


def hulls(marks: list[StepMark]) -> list[StepMark]:
    """One mark a step: from its first start to its last stop on any stream."""
    found: dict[int, StepMark] = {}
    for mark in marks:
        old = found.get(mark.step, mark)
        found[mark.step] = StepMark(
            mark.step, min(old.start_us, mark.start_us), max(old.stop_us, mark.stop_us), -1
        )
    return list(found.values())


def steps_of_kernels(trace: Trace) -> IntArray:
    """Step of every kernel of the trace, `NO_STEP` where none can be told."""
    on_cpu = windows_of([mark for mark in trace.marks if mark.stream < 0])
    on_gpu = [mark for mark in trace.marks if mark.stream >= 0]
    steps = np.full(len(trace.kind), NO_STEP, np.int64)
    order = np.argsort(trace.stream, kind="stable")
    streams = trace.stream[order]
    for stream, marks in groupby(sorted(on_gpu, key=_stream), key=_stream):
        here = order[slice(*np.searchsorted(streams, [stream, stream + 1]))]
        steps[here] = windows_of(list(marks)).holding(trace.start_us[here])
    rest = np.flatnonzero(steps == NO_STEP)
    if len(trace.launch_correlation):
        steps[rest] = on_cpu.holding(_launches(trace, rest))
    else:
        windows = windows_of(hulls(on_gpu)) if on_gpu else on_cpu
        steps[rest] = windows.holding(trace.start_us[rest])
    return steps


def _stream(mark: StepMark) -> int:
    return mark.stream


def _launches(trace: Trace, kernels: IntArray) -> FloatArray:
    """When each of the kernels was launched, -inf where the file does not say."""
    order = np.argsort(trace.launch_correlation, kind="stable")
    known, wanted = trace.launch_correlation[order], trace.correlation[kernels]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, trace.launch_us[order][place], -np.inf)


def step_durations(trace: Trace) -> dict[int, float]:
    """Wall-clock time of every marked step in us.

    On the GPU from a step's first kernel to the next step's first one, which leaves no gap out; the
    last step of a row to its own end. A step without marks on the GPU has the CPU's window.
    """
    durations = {m.step: m.stop_us - m.start_us for m in trace.marks if m.stream < 0}
    on_gpu = {mark.step: mark for mark in hulls([m for m in trace.marks if m.stream >= 0])}
    for step, mark in on_gpu.items():
        following = on_gpu.get(step + 1)
        stop = mark.stop_us if following is None else following.start_us
        durations[step] = max(stop, mark.start_us) - mark.start_us
    return durations
