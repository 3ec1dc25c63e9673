"""Steps at the start that a caller leaves out, such as warm-up."""

import numpy as np
from msgspec.structs import replace

from service.calibration.findings import LeftOut
from service.calibration.refusals import refused
from service.calibration.timings import Collectives, FloatArray, Timings


def without_first(timings: Timings, num_steps: int) -> Timings:
    """The timings without so many of their first steps; raises when none is left."""
    if not num_steps:
        return timings
    if num_steps >= timings.num_steps:
        raise refused(
            "too_few_steps",
            f"skip_steps is {num_steps}, but the files have {timings.num_steps} steps: none is "
            "left",
        )

    def kept(values: FloatArray | None) -> FloatArray | None:
        return None if values is None else values[num_steps:]

    passes, collectives = timings.passes, timings.collectives
    if passes is not None:
        passes = replace(
            passes,
            forward_ms=passes.forward_ms[num_steps:],
            backward_ms=passes.backward_ms[num_steps:],
        )
    if collectives is not None:
        collectives = _from_step(collectives, int(timings.steps[num_steps]))
    return replace(
        timings,
        steps=timings.steps[num_steps:],
        compute_ms=timings.compute_ms[num_steps:],
        load_ms=kept(timings.load_ms),
        communication_ms=kept(timings.communication_ms),
        step_ms=kept(timings.step_ms),
        passes=passes,
        collectives=collectives,
        left_out=(
            *timings.left_out,
            LeftOut(reason="first steps, as skip_steps says", count=num_steps),
        ),
    )


def _from_step(collectives: Collectives, step: int) -> Collectives:
    keeps = collectives.step >= step
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
