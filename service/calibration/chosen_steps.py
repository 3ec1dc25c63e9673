"""Some of the steps of timings, of everything that has steps."""

import numpy as np
from msgspec.structs import replace

from service.calibration.timings import BoolArray, Collectives, FloatArray, IntArray, Timings


def with_steps(timings: Timings, kept: BoolArray) -> Timings:
    """Those that are `kept`, (steps,)."""

    def some(cells: FloatArray | None) -> FloatArray | None:
        return None if cells is None else cells[kept]

    passes, collectives = timings.passes, timings.collectives
    if passes is not None:
        passes = replace(
            passes, forward_ms=passes.forward_ms[kept], backward_ms=passes.backward_ms[kept]
        )
    if collectives is not None:
        collectives = _of_steps(collectives, timings.steps[kept])
    return replace(
        timings,
        steps=timings.steps[kept],
        compute_ms=timings.compute_ms[kept],
        load_ms=some(timings.load_ms),
        communication_ms=some(timings.communication_ms),
        step_ms=some(timings.step_ms),
        passes=passes,
        collectives=collectives,
    )


def _of_steps(collectives: Collectives, steps: IntArray) -> Collectives:
    keeps = np.isin(collectives.step, steps)
    counts = np.diff(collectives.first)
    beside = np.repeat(keeps, counts)
    return replace(
        collectives,
        rank=collectives.rank[keeps],
        step=collectives.step[keeps],
        order=collectives.order[keeps],
        name=tuple(name for name, kept in zip(collectives.name, keeps, strict=True) if kept),
        duration_ms=collectives.duration_ms[keeps],
        first=np.concatenate([[0], np.cumsum(counts[keeps])]).astype(np.int64),
        before_end_start_ms=collectives.before_end_start_ms[beside],
        before_end_stop_ms=collectives.before_end_stop_ms[beside],
        members=collectives.members[keeps],
    )
