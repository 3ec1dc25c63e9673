"""What a run without synchronisation adds to traces of which ranks are missing.

The step is longer than without communication by what is exposed (of the slowest rank, whose step
the run without synchronisation must be), whoever was profiled. With the transfer between `least`
and `most` the hidden share is 1 - exposed / transfer.
"""

from typing import NamedTuple

import numpy as np

from service.calibration.timings import FloatArray, IntArray, Timings
from service.calibration.trace_overlap_interval import mean_estimate


class Ends(NamedTuple):
    """Ends of an interval of the hidden share."""

    low: float
    high: float


def narrowed(ends: Ends, other: Ends | None) -> Ends:
    """What both allow; where they contradict one another, what either does."""
    if other is None:
        return ends
    both = Ends(max(ends.low, other.low), min(ends.high, other.high))
    if both.low <= both.high:
        return both
    return Ends(min(ends.low, other.low), max(ends.high, other.high))


def ends_without_synchronisation(
    timings: Timings,
    steps: IntArray,
    no_communication_step_ms: float,
    transfer_ms: tuple[FloatArray, FloatArray],
    confidence: float,
) -> Ends | None:
    """Interval of the hidden share from the steps' durations; None where they are not known.

    `transfer_ms` are the least and most of every step.
    """
    if timings.step_ms is None:
        return None
    durations = timings.step_ms[np.searchsorted(timings.steps, steps)]
    durations = durations[~np.all(np.isnan(durations), axis=1)]
    if not len(durations):
        return None
    step = mean_estimate(np.nanmean(durations, axis=1), confidence)
    least, most = (float(np.mean(values)) for values in transfer_ms)
    if step.low is None or step.high is None or most <= 0:
        return None
    exposed_least = max(0.0, step.low - no_communication_step_ms)
    exposed_most = max(0.0, step.high - no_communication_step_ms)
    low = 1 - exposed_most / least if least > 0 else 0.0
    return Ends(max(0.0, low), max(0.0, 1 - exposed_least / most))
