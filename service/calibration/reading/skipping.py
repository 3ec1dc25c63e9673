"""Steps at the start that a caller leaves out, such as warm-up."""

import numpy as np
from msgspec.structs import replace

from service.calibration.chosen_steps import with_steps
from service.calibration.findings import LeftOut
from service.calibration.refusals import refused
from service.calibration.timings import Timings


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
    left = with_steps(timings, np.arange(timings.num_steps) >= num_steps)
    skipped = LeftOut(reason="first steps, as skip_steps says", count=num_steps)
    return replace(left, left_out=(*timings.left_out, skipped))
