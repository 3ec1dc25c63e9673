"""From step to step within a rank: autocorrelation of the rest, without its bias.

A rest from which the mean of each rank (over S steps) was taken out looks less correlated than it
is, by about (1 + 3 phi)/S. The expected ratio of the sums of products, pairs of adjacent steps
over squares, is worked out for first-order autoregression phi on a grid, with the step numbers
that were observed, and turned around. Taking out the mean of each step does not matter: it lowers
both sums by the same factor.
"""

import math

import numpy as np
from msgspec import Struct
from scipy import special

from service.calibration.findings import Autocorrelation, Estimate
from service.calibration.timings import FloatArray, IntArray

MAX_LAGS = 10
MIN_PAIRS = 4
MIN_PAIRS_OF_SERIES = 8
_GRID = np.concatenate([np.linspace(-0.9, 0.85, 71), np.linspace(0.86, 0.99, 27), [0.995]])


class Memory(Struct, frozen=True, kw_only=True):
    """First-order autoregression of a series that is observed at some steps.

    `inflation` is the variance of its mean over the steps, times their number, by its variance.
    `dof_share` is that of the degrees of freedom which a variance keeps.
    """

    phi: float
    inflation: float
    dof_share: float


NO_MEMORY = Memory(phi=0.0, inflation=1.0, dof_share=1.0)


class Expectation:
    """What a series with memory shows at the observed steps, over a grid of phi."""

    def __init__(self, steps: IntArray, share: float = 1.0) -> None:
        """`share` of the cells is there, and any cell as likely as another."""
        self.num_steps = len(steps) * share
        # Beyond this distance no phi of the grid is remembered.
        distances = np.minimum(np.diff(steps), 5_000).astype(np.float64)
        self.adjacent = np.diff(steps) == 1
        ahead = self._sums(distances)
        behind = self._sums(distances[::-1])[::-1]
        # (steps, grid): sum over all other steps u of phi^|s - u|, and 1 for s itself.
        sums = 1 + share * (ahead + behind - 2)
        num = self.num_steps
        total = sums.mean(axis=0) * num
        self.inflation = total / num
        self.shares_left = np.maximum(1 - (self.inflation - 1) / num, 0.05)
        squares = 1 - total / num**2
        if self.adjacent.any():
            pairs = sums[:-1][self.adjacent] + sums[1:][self.adjacent]
            products = _GRID - pairs.mean(axis=0) / num + total / num**2
            self.ratio = products / squares
        else:
            self.ratio = np.zeros_like(_GRID)

    @staticmethod
    def _sums(distances: FloatArray) -> FloatArray:
        """(steps, grid): 1 + phi^d (1 + phi^d' (…)) over the steps before each."""
        sums = np.empty((len(distances) + 1, len(_GRID)))
        running = np.ones_like(_GRID)
        sums[0] = running
        unit = _GRID
        for position, distance in enumerate(distances.tolist(), start=1):
            factor = (
                unit if distance == 1 else np.sign(_GRID) ** distance * np.abs(_GRID) ** distance
            )
            running = 1 + factor * running
            sums[position] = running
        return sums

    def phi_of(self, ratio: float) -> float:
        """The phi whose expected ratio this is, within the grid."""
        rising = np.maximum.accumulate(self.ratio)
        return float(np.interp(ratio, rising, _GRID))

    def left(self, phi: float) -> float:
        """Share of the steps that is left when the mean was taken out."""
        return float(np.interp(phi, _GRID, self.shares_left))

    def memory(self, phi: float) -> Memory:
        """What phi does to means and variances over the observed steps."""
        inflation = float(np.interp(phi, _GRID, self.inflation))
        # Var(s²) of an autoregression is (1 + phi²)/(1 - phi²) that of independent draws, less
        # where gaps lie between the steps; the mean that was taken out costs as in `_estimate`.
        share = (1 - phi * phi) / (1 + phi * phi) * self.left(phi) ** 2
        return Memory(phi=phi, inflation=max(inflation, 1e-3), dof_share=share)


def lag_ratio(rest: FloatArray, adjacent: FloatArray) -> tuple[float, int]:
    """Mean product of adjacent cells by mean square, and the number of pairs of cells."""
    products = rest[:-1][adjacent] * rest[1:][adjacent]
    known = np.isfinite(products)
    num_pairs = int(known.sum())
    square = float(np.nanmean(rest * rest)) if num_pairs else 0.0
    if square <= 0:
        return 0.0, num_pairs
    return float(products[known].mean()) / square, num_pairs


def memory_of_rest(
    rest: FloatArray, steps: IntArray, rest_dof: float, confidence: float
) -> tuple[Memory, Autocorrelation]:
    """Of the rest of a two-way table, (steps, ranks): what it does, and what is reported."""
    num_cells = int(np.isfinite(rest).sum())
    expected = Expectation(steps, num_cells / rest.size)
    ratio, num_pairs = lag_ratio(rest, expected.adjacent)
    lags = _lags(rest, steps, expected)
    if num_pairs < MIN_PAIRS or rest_dof < MIN_PAIRS:
        return NO_MEMORY, Autocorrelation(lag_1=None, num_pairs=num_pairs, lags=lags)
    # The ranks of adjacent steps, whose means were taken out, are not all the same ones.
    share, others = num_cells / rest.size, num_cells / len(rest)
    ratio *= max(others - 1, 1.0) / max(others - 2 + share, 1.0)
    phi = expected.phi_of(ratio)
    # A pair is worth less where a mean of few ranks was taken out of it: dof over cells.
    effective = max(num_pairs * rest_dof / num_cells, 1.0)
    lag_1 = _estimate(expected, ratio, phi, effective, confidence)
    return expected.memory(phi), Autocorrelation(lag_1=lag_1, num_pairs=num_pairs, lags=lags)


def _estimate(
    expected: Expectation, ratio: float, phi: float, num_pairs: float, confidence: float
) -> Estimate:
    """Bartlett's standard error, sqrt((1 - phi²)/pairs), taken back through the expectation.

    Source: Brockwell and Davis, Time Series: Theory and Methods, 1991, theorem 7.2.1. The phi of
    the error is that at each end, so that the interval narrows towards 1 (a score interval).
    """
    reach = float(special.ndtri((1 + confidence) / 2))
    # Simulated: taking out the mean costs as many steps as its variance is worth, twice.
    error = np.sqrt((1 - _GRID**2) / num_pairs + 1 / num_pairs**2) / expected.shares_left
    low = float(np.interp(ratio, np.maximum.accumulate(expected.ratio + reach * error), _GRID))
    high = float(np.interp(ratio, np.maximum.accumulate(expected.ratio - reach * error), _GRID))
    return Estimate(value=phi, low=min(low, phi), high=max(high, phi), method="bartlett")


def _lags(rest: FloatArray, steps: IntArray, expected: Expectation) -> list[float | None]:
    """Autocorrelation at lags 1 … 10 over pairs of steps so far apart; mean bias taken off."""
    square = float(np.nanmean(rest * rest)) if rest.size else 0.0
    found: list[float | None] = []
    for lag in range(1, min(MAX_LAGS, len(steps) - 1) + 1):
        places = np.searchsorted(steps, steps + lag)
        first = np.flatnonzero(places < len(steps))
        first = first[steps[places[first]] == steps[first] + lag]
        if len(first) < MIN_PAIRS or square <= 0:
            found.append(None)
            continue
        products = rest[first] * rest[places[first]]
        if not np.isfinite(products).any():
            found.append(None)
            continue
        # The mean over S steps that was taken out lowers every lag by about 1/S.
        raised = float(np.nanmean(products)) / square + 1 / expected.num_steps
        found.append(min(max(raised, -1.0), 1.0))
    return found


def memory_of_series(values: FloatArray, steps: IntArray) -> Memory:
    """Of one series over steps, such as the means of all ranks; none where too few are adjacent.

    The upper half of what a short series leaves open is taken: the correlation is raised by half
    of its standard error, since one that is missed makes an interval too narrow.
    """
    expected = Expectation(steps)
    centred = (values - values.mean())[:, np.newaxis]
    ratio, num_pairs = lag_ratio(centred, expected.adjacent)
    if num_pairs < MIN_PAIRS_OF_SERIES:
        return NO_MEMORY
    phi = expected.phi_of(ratio)
    return expected.memory(float(np.clip(phi + 0.5 * math.sqrt(1 / num_pairs), 0.0, 0.99)))
