"""The other phases of a step: loading, communication without the wait, and the step itself."""

import numpy as np
from msgspec import Struct

from service.calibration.findings import Estimate
from service.calibration.gaps import mean_over_steps
from service.calibration.loading import Loading, Loads, loading_of
from service.calibration.observed import median_of
from service.calibration.timings import BoolArray, FloatArray, IntArray, Timings


class Phases(Struct, frozen=True, kw_only=True):
    """Means over steps in ms; None where the source has no such column."""

    loading: Loading | None
    communication_ms: Estimate | None
    step_mean_ms: Estimate | None
    rest_ms: Estimate | None

    @property
    def load_ms(self) -> Estimate | None:
        """What a step waits for its data."""
        return None if self.loading is None else self.loading.load_ms


def phases_of(
    timings: Timings,
    steps: BoolArray,
    ranks: BoolArray,
    confidence: float,
    *,
    load_is_prefetched: bool | None = None,
) -> Phases:
    """Of the steps and ranks that are fitted.

    Loading is what a step waits for (`loading.py`), so that it and the slowest compute make a step.
    Communication is that of the rank with the least of it in each step: whoever comes last waits
    for nobody, so its time is the transfer (at most). The step is what the source says, its median
    over ranks, else the slowest rank's load and compute, and that communication. The rest is what
    a step that was timed takes longer than the slowest rank's load and compute (without a load that
    runs beside), over steps in which every rank is there.
    """
    numbers = timings.steps[steps]
    compute = timings.compute_ms[steps][:, ranks]
    load, communication, step = (
        None if cells is None else cells[steps][:, ranks]
        for cells in (timings.load_ms, timings.communication_ms, timings.step_ms)
    )
    loading = None
    if load is not None:
        is_alone = timings.stages is not None or bool(load_is_prefetched)
        loads = Loads(load, compute, numbers, timings.ranks[ranks], is_alone)
        loading = loading_of(loads, confidence)
    transfers = None if communication is None else _smallest(communication)
    own = compute if load is None or load_is_prefetched else compute + load
    lengths: FloatArray | None = None
    rests: FloatArray | None = None
    if step is not None:
        lengths = median_of(step, axis=1)
        # NaN where a rank is missing: it could be the slowest.
        rests = lengths - own.max(axis=1)
    elif transfers is not None:
        lengths = np.where(np.isfinite(own), own, 0.0).max(axis=1) + transfers
    return Phases(
        loading=loading,
        communication_ms=_mean(transfers, numbers, confidence),
        step_mean_ms=_mean(lengths, numbers, confidence),
        rest_ms=_mean(rests, numbers, confidence),
    )


def _smallest(cells: FloatArray) -> FloatArray:
    filled = np.where(np.isfinite(cells), cells, np.inf).min(axis=1)
    found: FloatArray = np.where(np.isfinite(filled), filled, np.nan)
    return found


def _mean(values: FloatArray | None, steps: IntArray, confidence: float) -> Estimate | None:
    if values is None:
        return None
    known = np.isfinite(values)
    if known.sum() < 2:
        return None
    return mean_over_steps(values[known], steps[known], confidence)
