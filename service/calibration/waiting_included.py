"""Whether compute times hold the wait at the barrier, which takes all spread between ranks away.

Timed behind a collective every rank shows the step of the slowest one: ranks agree within each
step while steps differ (four ranks with 200 ms injected into one: 293.0, 292.2, 293.0, 293.1 ms).
"""

import numpy as np
from msgspec import Struct

from service.calibration.observed import mean_of, median_of, stage_groups
from service.calibration.timings import FloatArray, IntArray

MAX_WITHIN = 0.003
"""Ranks of one step within 0.3 % of each other are equal within what a timer and a kernel vary."""

MIN_RATIO = 5.0
"""And steps must vary this many times as much: equal ranks alone may be a very even cluster."""


MAX_SUSPECTED = 0.01
SUSPECTED_RATIO = 8.0
"""Up to 1 % timers of a busy host differ behind one barrier too (four ranks of a real loop: 0.14 to
0.57 %), but so do ranks of an even cluster whose sequences differ in length: said, not refused."""


class Waiting(Struct, frozen=True, kw_only=True):
    """Robust standard deviations, as fractions: of ranks within a step, and of steps."""

    within_step: float
    between_steps: float

    @property
    def is_included(self) -> bool:
        """Whether the times look like those behind a barrier."""
        return self.within_step < MAX_WITHIN and self.between_steps > MIN_RATIO * self.within_step

    @property
    def is_suspected(self) -> bool:
        """Whether they may be, which nobody can tell from the times alone."""
        return (
            self.within_step < MAX_SUSPECTED
            and self.between_steps > SUSPECTED_RATIO * self.within_step
        )


def waiting_of(cells: FloatArray, stages: IntArray | None) -> Waiting:
    """Of cells (steps, ranks): every stage by itself, the most uneven one counts within a step."""
    within = 0.0
    for ranks in stage_groups(stages, cells.shape[1]):
        part = cells[:, ranks]
        if part.shape[1] > 1:
            middle = median_of(part, axis=1)[:, np.newaxis]
            # Not the median deviation: one rank that differs proves that ranks are told apart.
            spread = np.sqrt(mean_of((part / middle - 1) ** 2, axis=1))
            within = max(within, float(median_of(spread, axis=0)))
    of_steps = median_of(cells, axis=1)
    middle_step = float(np.median(of_steps))
    # From step to step: a slow trend is no sign of anything.
    between = float(np.median(np.abs(of_steps / middle_step - 1))) * 1.4826
    return Waiting(within_step=within, between_steps=between)
