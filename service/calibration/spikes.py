"""Rare single steps in which one rank takes much longer than it usually does."""

import math

import numpy as np
from msgspec import Struct
from scipy import special

from service.calibration.findings import Estimate, SpikesFound
from service.calibration.intervals import mean_estimate, probability_estimate
from service.calibration.observed import comparable, median_of
from service.calibration.timings import BoolArray, FloatArray

MIN_SLOWDOWN = 1.2
MAX_SHARE = 0.02
"""Above, what stands out is no rarity: it is left to the law of the transient."""

BEYOND_NORMAL = 1.5
"""Robust standard deviations above where the largest of the usual cells would be in one of a
thousand tables: room for laws of a heavier tail."""

_SKEWS = np.linspace(0.02, 4, 200)
_SHAPES = 4 / _SKEWS**2


class Spikes(Struct, frozen=True, kw_only=True):
    """Cells that are spikes, (steps, ranks), and what is reported of them."""

    cells: BoolArray
    found: SpikesFound | None


def spikes_of(cells: FloatArray, confidence: float) -> Spikes:
    """Spikes among the cells of ranks that do not stand apart, (steps, ranks) with NaN."""
    by_rank = cells / median_of(cells, axis=0)
    usual = by_rank / median_of(by_rank, axis=1)[:, np.newaxis]
    logs = np.log(usual)
    known = np.isfinite(logs)
    num_cells = int(known.sum())
    spread = 1.4826 * float(median_of(np.abs(logs).reshape(-1, 1), axis=0)[0])
    largest = largest_usual(logs[known]) + BEYOND_NORMAL * spread
    limit = max(math.log(MIN_SLOWDOWN), largest)
    over: BoolArray = known & (logs > limit)
    num_spikes = int(over.sum())
    is_rare = 0 < num_spikes <= max(MAX_SHARE * num_cells, 1)
    if not (is_rare and _leaves_all(known & ~over)):
        return Spikes(cells=np.zeros_like(over), found=None)
    found = SpikesFound(
        probability=probability_estimate(num_spikes, num_cells, confidence),
        slowdown=_slowdown(usual[over], confidence),
        num_spikes=num_spikes,
    )
    return Spikes(cells=over, found=found)


def largest_usual(logs: FloatArray) -> float:
    """What the largest of such logarithms passes in one of a thousand tables, spikes aside.

    Of the gamma law (shifted, from the normal to beyond the exponential) that has their quantiles
    at 50, 75 and 95 %: spikes are too rare to move those, and a law's own tail shows in them.
    """
    middle, upper, high = np.quantile(logs, [0.5, 0.75, 0.95]).tolist()
    if upper <= middle:
        return float(middle)
    quantiles = special.gammaincinv(_SHAPES[:, np.newaxis], [0.5, 0.75, 0.95])
    widths = quantiles[:, 1] - quantiles[:, 0]
    # Rises with the skewness, from 2.4 to 6
    ratios = (quantiles[:, 2] - quantiles[:, 0]) / widths
    shape = float(np.interp((high - middle) / (upper - middle), ratios, _SHAPES))
    beyond = float(special.gammainccinv(shape, 1e-3 / len(logs)))
    half, three_quarters = special.gammaincinv(shape, [0.5, 0.75]).tolist()
    return float(middle + (upper - middle) * (beyond - half) / (three_quarters - half))


def _leaves_all(left: BoolArray) -> bool:
    """Whether every step and rank is still there without the spikes."""
    steps, ranks = comparable(left, np.ones(left.shape[1], dtype=np.bool_))
    return bool(steps.all() and ranks.all())


def _slowdown(factors: FloatArray, confidence: float) -> Estimate:
    """Mean factor with Student's interval; no end is below 1."""
    num = len(factors)
    mean = float(factors.mean())
    if num < 3:
        return Estimate(value=mean, low=None, high=None, method="too_few")
    error = float(factors.std(ddof=1)) / math.sqrt(num)
    found = mean_estimate(mean, error, num - 1, confidence)
    return Estimate(
        value=mean, low=max(found.low or 1.0, 1.0), high=found.high, method=found.method
    )
