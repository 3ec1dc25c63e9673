"""One rank's trace becomes its cells, and its collectives with the compute beside them."""

import numpy as np
from msgspec import Struct

from service.calibration.findings import LeftOut
from service.calibration.reading.kineto_events import Trace
from service.calibration.reading.kineto_intervals import beside, busy, merged
from service.calibration.reading.kineto_names import Kind
from service.calibration.reading.kineto_steps import (
    NO_STEP,
    refuse_doubles,
    step_durations,
    steps_of_kernels,
)
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

US_PER_MS = 1e3
# Overlapping communication kernels could make as many pairs as kernels times kernels.
MOST_INTERVALS = 20_000_000
# A step at the edge of the profile with fewer kernels than this share of the others' was cut off.
WHOLE_STEP_FRACTION = 0.5


class RankCells(Struct, frozen=True, kw_only=True):
    """Cells of one rank, one entry a step, in ms; `communication_ms` holds waiting."""

    steps: IntArray
    compute_ms: FloatArray
    communication_ms: FloatArray
    step_ms: FloatArray
    left_out: list[LeftOut]


class RankCollectives(Struct, frozen=True, kw_only=True):
    """Communication kernels of one rank in the order of step and start; see `Collectives`."""

    step: IntArray
    order: IntArray
    name: list[str]
    members: IntArray
    duration_ms: FloatArray
    counts: IntArray
    before_end_start_ms: FloatArray
    before_end_stop_ms: FloatArray


def reduce_trace(trace: Trace, file: str) -> tuple[RankCells, RankCollectives]:
    """Cells and collectives of the whole steps of a trace."""
    refuse_doubles(trace.marks, file)
    if not trace.marks:
        raise refused(
            "no_steps",
            "no annotation ProfilerStep#n: call profiler.step() after every step",
            file=file,
        )
    if not len(trace.kind):
        raise refused("no_steps", "no GPU kernels: profile with ProfilerActivity.CUDA", file=file)
    steps = steps_of_kernels(trace)
    kept, left_out = _whole_steps(trace, steps)
    if not len(kept):
        raise refused("no_steps", "no kernel falls into a ProfilerStep#n", file=file)
    return _cells(trace, steps, kept, left_out), _collectives(trace, steps, kept, file)


def _whole_steps(trace: Trace, steps: IntArray) -> tuple[IntArray, list[LeftOut]]:
    marked = sorted({mark.step for mark in trace.marks})
    found, counts = np.unique(steps[steps != NO_STEP], return_counts=True)
    outside = int(np.sum(steps == NO_STEP))
    kept = np.ones(len(found), bool)
    # Of two steps no one is the rule that the other breaks
    if len(found) > 2:
        enough = WHOLE_STEP_FRACTION * float(np.median(counts[1:-1]))
        kept[[0, -1]] = counts[[0, -1]] >= enough
    reasons = {
        "steps of a trace without any kernel": len(marked) - len(found),
        "first or last steps with less than half of the others' kernels": int(np.sum(~kept)),
        "kernels outside of every step": outside,
    }
    left_out = [LeftOut(reason=reason, count=n) for reason, n in reasons.items() if n]
    return found[kept], left_out


def _cells(trace: Trace, steps: IntArray, kept: IntArray, left_out: list[LeftOut]) -> RankCells:
    stops = trace.start_us + trace.duration_us
    order = np.argsort(steps, kind="stable")
    first = np.searchsorted(steps[order], kept, side="left")
    last = np.searchsorted(steps[order], kept, side="right")
    busy_us = np.empty((2, len(kept)))
    for row, (begin, end) in enumerate(zip(first, last, strict=True)):
        here = order[begin:end]
        for kind in (Kind.COMPUTE, Kind.COMMUNICATION):
            of_kind = here[trace.kind[here] == kind]
            busy_us[kind, row] = busy(trace.start_us[of_kind], stops[of_kind])
    durations = step_durations(trace)
    return RankCells(
        steps=kept,
        compute_ms=busy_us[Kind.COMPUTE] / US_PER_MS,
        communication_ms=busy_us[Kind.COMMUNICATION] / US_PER_MS,
        step_ms=np.array([durations[int(step)] for step in kept]) / US_PER_MS,
        left_out=left_out,
    )


def _collectives(trace: Trace, steps: IntArray, kept: IntArray, file: str) -> RankCollectives:
    stops = trace.start_us + trace.duration_us
    wanted = np.flatnonzero((trace.kind == Kind.COMMUNICATION) & np.isin(steps, kept))
    wanted = wanted[np.lexsort((trace.start_us[wanted], steps[wanted]))]
    compute = trace.kind == Kind.COMPUTE
    others = merged(trace.start_us[compute], stops[compute])
    first, last = beside(trace.start_us[wanted], stops[wanted], others)
    counts = last - first
    total = int(np.sum(counts))
    if total > MOST_INTERVALS:
        raise refused(
            "too_many_cells",
            f"{len(wanted)} communication kernels lie beside compute {total} times: at most "
            f"{MOST_INTERVALS} can be held; profile fewer steps",
            file=file,
        )
    kernel = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    interval = first[kernel] + within
    ends, begins = stops[wanted][kernel], trace.start_us[wanted][kernel]
    step = steps[wanted]
    return RankCollectives(
        step=step,
        order=np.arange(len(step)) - np.searchsorted(step, step, side="left"),
        name=[trace.names[index] for index in trace.name[wanted]],
        members=trace.members[wanted],
        duration_ms=trace.duration_us[wanted] / US_PER_MS,
        counts=counts,
        before_end_start_ms=(ends - np.maximum(others[0][interval], begins)) / US_PER_MS,
        before_end_stop_ms=(ends - np.minimum(others[1][interval], ends)) / US_PER_MS,
    )
