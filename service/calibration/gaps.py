"""The slowest rank against the others, step by step: what is seen before anything is fitted."""

import math

import numpy as np

from service.calibration.autocorrelation import memory_of_series
from service.calibration.findings import Estimate, Gaps, StepRow
from service.calibration.intervals import positive_mean_estimate
from service.calibration.observed import Observed, median_of
from service.calibration.timings import FloatArray, IntArray

MAX_STEP_ROWS = 500


def mean_over_steps(values: FloatArray, steps: IntArray, confidence: float) -> Estimate:
    """Mean of a positive series with Student's interval, widened by its autocorrelation."""
    memory = memory_of_series(values, steps)
    num = len(values)
    # The scatter about its own mean is too small by as much as the mean is uncertain.
    lowered = max(1 - (memory.inflation - 1) / (num - 1), 0.1)
    variance = float(values.var(ddof=1)) / lowered
    error = math.sqrt(variance * memory.inflation / num)
    dof = max((num - 1) * memory.dof_share, 1.0)
    return positive_mean_estimate(float(values.mean()), error, dof, confidence)


def max_to_mean_of(cells: FloatArray) -> FloatArray:
    """(steps,) slowest by mean of the ranks that are there."""
    ratios: FloatArray = np.nanmax(cells, axis=1) / np.nanmean(cells, axis=1)
    return ratios


def gaps_of(observed: Observed, confidence: float) -> Gaps:
    """Of all ranks, those that stand apart among them."""
    cells, steps = observed.compute_ms, observed.steps
    median_ms = median_of(cells, axis=1)
    slowest = np.nanargmax(cells, axis=1)
    slowest_ms = cells[np.arange(len(steps)), slowest]
    ratios = slowest_ms / median_ms
    often = np.bincount(slowest, minlength=len(observed.ranks))
    most = int(often.argmax())
    rows = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), MAX_STEP_ROWS)).astype(int))
    return Gaps(
        slowest_to_median_mean_ratio=mean_over_steps(ratios, steps, confidence),
        slowest_to_median_p50_ratio=float(np.quantile(ratios, 0.5)),
        slowest_to_median_p95_ratio=float(np.quantile(ratios, 0.95)),
        slowest_to_median_mean_ms=float(np.mean(slowest_ms - median_ms)),
        max_to_mean_ratio=mean_over_steps(max_to_mean_of(cells), steps, confidence),
        most_often_slowest_rank=int(observed.ranks[most]),
        most_often_slowest_fraction=float(often[most] / len(steps)),
        slowest_autocorrelation=memory_of_series(slowest_ms, steps).phi,
        steps=[
            StepRow(
                step=int(steps[row]),
                median_ms=float(median_ms[row]),
                slowest_ms=float(slowest_ms[row]),
                slowest_rank=int(observed.ranks[slowest[row]]),
                slowest_to_median_ratio=float(ratios[row]),
            )
            for row in rows.tolist()
        ],
    )
