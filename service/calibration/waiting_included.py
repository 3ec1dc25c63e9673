"""Whether compute times hold the wait at the barrier, which takes all spread between ranks away.

Timed behind a collective every rank shows the step of the slowest one: ranks agree within each
step while steps differ (four ranks with 200 ms injected into one: 293.0, 292.2, 293.0, 293.1 ms).
Where one rank is slow the barrier is steady, since that rank alone decides it, so steps that hardly
differ prove nothing either. With w what ranks of a step differ by and b what steps differ by:

    the source says that the wait is included                     refused
    a rank is slower than the others, or what stays with ranks
      is proven to be above 0.3 %: they are told apart            nothing
    w < 0.3 %, b > 5 w                                            refused; a remark where the source
                                                                  says that no wait is included
    w < 0.5 %, or w < 1 % and b > 8 w                             a remark; nothing where it says so
    else                                                          nothing
"""

import numpy as np
from msgspec import Struct

from service.calibration.findings import Remark
from service.calibration.observed import Observed, mean_of, median_of, stage_groups
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

MAX_WITHIN = 0.003
"""Ranks of one step within 0.3 % of each other are equal within what a timer and a kernel vary."""

MIN_RATIO = 5.0
"""And steps must vary this many times as much: equal ranks alone may be a very even cluster."""

MAX_EQUAL = 0.005
"""Healthy ranks of real jobs differ by 0.6 % (0.3 to 0.4 % that stays with them, 0.5 % that does
not): below that either the cluster is very even, or every rank is timed up to the barrier."""

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
        return self.within_step < MAX_EQUAL or (
            self.within_step < MAX_SUSPECTED
            and self.between_steps > SUSPECTED_RATIO * self.within_step
        )


def check_said(*, includes_wait: bool | None) -> None:
    """Raises TimingsRefusedError where the source itself says that waiting is included."""
    if includes_wait is True:
        raise refused(
            "includes_wait",
            "the source says that compute times include the wait for other ranks "
            "(includes_wait): no spread between ranks is left in them; time each rank's own "
            "compute, before the collective",
        )


def check_waiting(
    observed: Observed,
    *,
    includes_wait: bool | None,
    is_told_apart: bool,
) -> list[Remark]:
    """The table above; raises TimingsRefusedError with the numbers.

    `is_told_apart` by what was fitted: a slow rank, or a proven spread between ranks.
    """
    if is_told_apart:
        return []
    waiting = waiting_of(observed.compute_ms, observed.stages)
    numbers = (
        f"within a step ranks differ by {waiting.within_step:.3%}, from step to step the median by "
        f"{waiting.between_steps:.3%}"
    )
    if waiting.is_included and includes_wait is None:
        raise refused(
            "includes_wait",
            f"{numbers}, which is over {MIN_RATIO:g} times as much: every rank seems to be timed "
            "up to the barrier, so that its wait is included; time each rank's own compute, or say "
            "includes_wait = false when it is",
        )
    if waiting.is_included:
        detail = f"{numbers}; taken as the source says, without waiting"
    elif waiting.is_suspected and includes_wait is None:
        detail = (
            f"{numbers}: either a very even cluster, or times that hold the wait at the barrier, "
            "in which slow ranks do not show; make sure that each rank's own compute was timed, "
            "and say includes_wait = false when it was"
        )
    else:
        return []
    return [Remark(code="ranks_nearly_equal", detail=detail)]


def waiting_of(cells: FloatArray, stages: IntArray | None) -> Waiting:
    """Of cells (steps, ranks): every stage by itself, the most uneven one counts within a step."""
    within = 0.0
    for ranks in stage_groups(stages, cells.shape[1]):
        part = cells[:, ranks]
        if part.shape[1] > 1:
            middle = median_of(part, axis=1)[:, np.newaxis]
            # Not the median deviation: one rank that differs proves that ranks are told apart.
            known = np.isfinite(part).sum(axis=1)
            square = mean_of((part / middle - 1) ** 2, axis=1)
            spread = np.sqrt(square * known / np.maximum(known - 1, 1))
            within = max(within, float(median_of(spread, axis=0)))
    of_steps = median_of(cells, axis=1)
    middle_step = float(np.median(of_steps))
    # From step to step: a slow trend is no sign of anything.
    between = float(np.median(np.abs(of_steps / middle_step - 1))) * 1.4826
    return Waiting(within_step=within, between_steps=between)
