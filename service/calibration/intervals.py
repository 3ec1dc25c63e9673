"""Intervals of estimates: chi-square, differences of mean squares, Student's t, binomial.

All are equal-tailed at the stated confidence. Sources: Satterthwaite, Biometrics Bulletin 2, 1946
(effective degrees of freedom); Burdick and Graybill, Confidence Intervals on Variance Components,
1992, chapter 3 (a difference of mean squares); Clopper and Pearson, Biometrika 26, 1934.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from service.calibration.findings import Estimate

INFINITE_DOF = 1e9


class MeanSquare(NamedTuple):
    """A mean square with its (effective) degrees of freedom, at least a part of one."""

    value: float
    dof: float


class Ends(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


def difference_interval(first: MeanSquare, second: MeanSquare, confidence: float) -> Ends:
    """Interval of E[first] - E[second], two independent mean squares; no end is below 0.

    The modified large-sample method: exact where either mean square is 0 or known, and holding its
    rate within a point or two between. Where `second` has very many degrees of freedom this is the
    chi-square interval of `first`, less `second`.
    """
    tail = (1 - confidence) / 2
    estimate = first.value - second.value
    if second.value <= 0:
        return _of_one(first, tail)
    upper = _f_quantile(1 - tail, first.dof, second.dof)
    lower = _f_quantile(tail, first.dof, second.dof)
    shrink_first, grow_first = _shares(first.dof, tail)
    shrink_second, grow_second = _shares(second.dof, tail)
    mixed_low = ((upper - 1) ** 2 - (shrink_first * upper) ** 2 - grow_second**2) / upper
    mixed_high = ((1 - lower) ** 2 - (grow_first * lower) ** 2 - shrink_second**2) / lower
    product = first.value * second.value
    below = (
        (shrink_first * first.value) ** 2 + (grow_second * second.value) ** 2 + mixed_low * product
    )
    above = (
        (grow_first * first.value) ** 2 + (shrink_second * second.value) ** 2 + mixed_high * product
    )
    low = 0.0 if first.value <= upper * second.value else estimate - math.sqrt(max(below, 0.0))
    high = 0.0 if first.value <= lower * second.value else estimate + math.sqrt(max(above, 0.0))
    return Ends(max(low, 0.0), max(high, 0.0))


def _of_one(square: MeanSquare, tail: float) -> Ends:
    shrink, grow = _shares(square.dof, tail)
    return Ends(square.value * (1 - shrink), square.value * (1 + grow))


def variance_interval(square: MeanSquare, confidence: float) -> Ends:
    """The chi-square interval of one mean square's expectation."""
    return _of_one(square, (1 - confidence) / 2)


def _shares(dof: float, tail: float) -> tuple[float, float]:
    """1 - dof/chi²(upper) and dof/chi²(lower) - 1: how far the ends are below and above."""
    high = float(2 * special.gammainccinv(dof / 2, tail))
    # Of a fraction of one degree of freedom the lower quantile may round to 0.
    low = max(float(2 * special.gammaincinv(dof / 2, tail)), 1e-12)
    return 1 - dof / high, dof / low - 1


def _f_quantile(probability: float, first_dof: float, second_dof: float) -> float:
    if second_dof >= INFINITE_DOF:
        return float(2 * special.gammaincinv(first_dof / 2, probability) / first_dof)
    return float(special.fdtri(first_dof, second_dof, probability))


def mean_interval(mean: float, standard_error: float, dof: float, confidence: float) -> Ends:
    """Student's interval."""
    reach = float(special.stdtrit(max(dof, 0.5), (1 + confidence) / 2)) * standard_error
    return Ends(mean - reach, mean + reach)


def mean_estimate(
    mean: float, standard_error: float, dof: float, confidence: float, *, method: str = "student_t"
) -> Estimate:
    """Student's interval as an estimate; open at both ends below one degree of freedom."""
    if not (dof >= 1 and math.isfinite(standard_error)):
        return Estimate(value=mean, low=None, high=None, method="too_few")
    low, high = mean_interval(mean, standard_error, dof, confidence)
    return Estimate(value=mean, low=low, high=high, method=method)


def positive_mean_estimate(
    mean: float, standard_error: float, dof: float, confidence: float
) -> Estimate:
    """Likewise of what cannot be negative: an end below 0 is 0."""
    found = mean_estimate(mean, standard_error, dof, confidence)
    if found.low is None or found.low >= 0:
        return found
    return Estimate(value=mean, low=0.0, high=found.high, method=found.method)


def cv_estimate(variance: float, ends: Ends, method: str) -> Estimate:
    """Square roots of a variance of factors (of mean 1) and of its ends."""
    root = math.sqrt(max(variance, 0.0))
    low, high = math.sqrt(max(ends.low, 0.0)), math.sqrt(max(ends.high, 0.0))
    if variance <= 0:
        low = 0.0
    return Estimate(value=root, low=min(low, root), high=max(high, root), method=method)


def probability_estimate(num_hits: int, num_trials: int, confidence: float) -> Estimate:
    """Clopper and Pearson's exact interval of a probability."""
    tail, misses = (1 - confidence) / 2, num_trials - num_hits
    low = special.betaincinv(num_hits, misses + 1, tail) if num_hits else 0.0
    high = special.betaincinv(num_hits + 1, misses, 1 - tail) if misses else 1.0
    return Estimate(
        value=num_hits / num_trials, low=float(low), high=float(high), method="clopper_pearson"
    )


def combined_dof(parts: list[tuple[float, float]]) -> float:
    """Effective degrees of freedom of a sum of independent variances, (variance, dof) each.

    Satterthwaite: (sum v)² / sum(v² / dof).
    """
    total = sum(variance for variance, _ in parts)
    spread = sum(variance * variance / max(dof, 1e-9) for variance, dof in parts)
    return total * total / spread if spread > 0 else INFINITE_DOF


def kurtosis_dof(dof: float, excess_kurtosis: float, count: float) -> float:
    """Degrees of freedom of a variance of `count` draws that are not normal.

    Var(s²) = s⁴ (2/dof + kurtosis/count); never more than for normal draws.
    """
    return 2 / (2 / dof + max(excess_kurtosis, 0.0) / count)


def excess_kurtosis_of(values: np.ndarray) -> float:
    """Of a sample about its mean, unbiased for normal draws (G2); 0 below 8 or without spread."""
    known = values[np.isfinite(values)]
    num = len(known)
    if num < 8:
        return 0.0
    from_mean = known - known.mean()
    second = float(np.mean(from_mean**2))
    if second <= 0:
        return 0.0
    plain = float(np.mean(from_mean**4)) / second**2 - 3
    return (num - 1) / ((num - 2) * (num - 3)) * ((num + 1) * plain + 6)


def skew_of(values: np.ndarray) -> float:
    """Skewness of a sample; 0 without spread."""
    known = values[np.isfinite(values)]
    from_mean = known - known.mean()
    second = float(np.mean(from_mean**2))
    return float(np.mean(from_mean**3)) / second**1.5 if second > 0 else 0.0


def shares_of_moments(num_ranks: float) -> tuple[float, float]:
    """What is left of the skewness and the excess kurtosis of draws less the mean of so many.

    Cumulants of a sum add: with s = 1/R those of x - mean are (1 - s)^k + (R - 1)(-s)^k times
    those of x. Of two the difference is symmetric.
    """
    share = 1 / num_ranks
    variance = 1 - share
    third = variance**3 - (num_ranks - 1) * share**3
    fourth = variance**4 + (num_ranks - 1) * share**4
    return third / variance**1.5, fourth / variance**2


def kurtosis_of_rest(by_cell: np.ndarray, num_ranks: int) -> float:
    """Excess kurtosis of a draw, of which the mean of so many was taken out.

    A sample of a long tail shows less than there is: at least that of the gamma law of the same
    skewness is taken, 1.5 skew² (6 of exponential draws).
    """
    skew_share, kurtosis_share = shares_of_moments(num_ranks)
    seen = excess_kurtosis_of(by_cell) / kurtosis_share
    if skew_share <= 0:
        return seen
    return max(seen, 1.5 * (skew_of(by_cell) / skew_share) ** 2)
