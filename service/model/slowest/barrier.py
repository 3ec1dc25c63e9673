"""The slowest GPU of a synchronous step: expectation and quantiles of the maximum.

With n_g GPUs in group g, each taking m_g X (m_g = 1 / speed, X of mean 1), the slowest is at most t
with probability exp(-L(t)), L(t) = sum_g n_g (-log(1 - P(m_g X > t))). The expectation is
hi - the integral of exp(-L) from lo to hi, by 44 to 64 fixed nodes; the quantiles solve
L(t) = -log p, starting between two of the same nodes. Recipes and rejected ones:
`.github/decisions/0001-quadrature-of-the-maximum.md`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.empirical import Table
from service.model.laws.law import OUTSIDE, Floats, Law
from service.model.slowest.nodes import Rule, mapped_legendre
from service.model.slowest.tables import slowest_of_table

PROBABILITIES = (0.5, 0.95, 0.99)
# Points at a time. Measured: 1024 are a quarter slower, from 2048 on it hardly matters.
CHUNK_POINTS = 4096
# Smaller spreads are raised to this: it moves the mean by under 1e-11, while at 1e-16 the
# distance to the mean in standard deviations would be lost in round-off.
SMALLEST_CV = 1e-12
# Bisection alone would need these; Newton's method stops after one to three.
MAX_STEPS = 60
# A Newton step below this part of the interval leaves an error of about 50 times its square.
CONVERGED = 1e-6
ROUND_OFF = 8 * np.finfo(np.float64).eps

_TARGETS = -np.log(np.array(PROBABILITIES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """Factor on the nominal compute time of the slowest GPU of a step.

    mean       (points,) its expectation over steps
    quantiles  (points, 3) of one step: p50, p95, p99
    variance   (points,) from step to step; NaN where it was not worked out
    """

    mean: Floats
    quantiles: Floats
    variance: Floats

    def taken(self, rows: slice | NDArray[np.intp]) -> "Slowest":
        """Some of the points, or points again."""
        return Slowest(
            mean=self.mean[rows], quantiles=self.quantiles[rows], variance=self.variance[rows]
        )


def mean_only(mean: Floats) -> Slowest:
    """Of which nothing but the mean, (points,), is known."""
    unknown = np.full((len(mean), len(PROBABILITIES)), np.nan)
    return Slowest(mean=mean, quantiles=unknown, variance=unknown[:, 0])


class Groups(NamedTuple):
    """`points` mixtures of groups of one law: num_gpus and mean (groups, points).

    `shape` is (parameters, points), those of the law. Counts are real numbers (the panels of
    `sizes.py` ask between the integers), 0 where absent.
    """

    law: Law
    num_gpus: Floats
    mean: Floats
    shape: Floats

    def part(self, points: slice | NDArray[np.intp]) -> "Groups":
        """Some of the points."""
        return Groups(
            self.law, self.num_gpus[:, points], self.mean[:, points], self.shape[:, points]
        )


class _Rate(NamedTuple):
    """L at the nodes, both (nodes, points), and the interval [low, low + width], (points,)."""

    nodes: Floats
    rate: Floats
    low: Floats
    width: Floats


class _Start(NamedTuple):
    """A root's bracket, a guess inside it, how close is close enough: (targets, points) each."""

    left: Floats
    right: Floats
    guess: Floats
    tolerance: Floats


def slowest_of(groups: Groups, *, with_quantiles: bool = True) -> Slowest:
    """Mean and quantiles of every point by its own quadrature; NaN where nobody asks for those."""
    if isinstance(groups.law, Table):
        return _slowest_by_table(groups, groups.law)
    num_points = groups.shape.shape[1]
    mean, variance = np.empty(num_points), np.empty(num_points)
    quantiles = np.full((num_points, len(PROBABILITIES)), np.nan)
    # Nodes and rates for all chunks: see `normal_rate.py` about memory.
    scratch = np.empty((2, len(_rule(groups.law).nodes), min(num_points, CHUNK_POINTS)))
    for start in range(0, num_points, CHUNK_POINTS):
        rows = slice(start, min(start + CHUNK_POINTS, num_points))
        part = groups.part(rows)
        rate = _rate_at_nodes(part, scratch[:, :, : part.shape.shape[1]])
        if with_quantiles:
            quantiles[rows] = _quantiles(part, rate).T
        expected, variance[rows] = _moments(part, rate)
        mean[rows] = _bounded(part, expected)
    return Slowest(mean=mean, quantiles=quantiles, variance=variance)


def moments_of(groups: Groups) -> tuple[Floats, Floats]:
    """Mean and variance of every point, (points,) each; not where the law is a table."""
    num_points = groups.shape.shape[1]
    mean, variance = np.empty(num_points), np.empty(num_points)
    rule = _rule(groups.law)
    scratch = np.empty((2, len(rule.nodes), min(num_points, CHUNK_POINTS)))
    for start in range(0, num_points, CHUNK_POINTS):
        rows = slice(start, min(start + CHUNK_POINTS, num_points))
        part = groups.part(rows)
        rate = _rate_at_nodes(part, scratch[:, :, : part.shape.shape[1]])
        mean[rows], variance[rows] = _moments(part, rate)
    return mean, variance


def excess_of(groups: Groups, threshold: Floats) -> Floats:
    """(points,) E[(slowest - threshold)+], the integral of P(slowest > t) from the threshold on.

    `threshold` (points,), inf for nothing; not where the law is a table.
    """
    num_points = groups.shape.shape[1]
    excess = np.zeros(num_points)
    rule, law = _rule(groups.law), groups.law
    scratch = np.empty((2, len(rule.nodes), min(num_points, CHUNK_POINTS)))
    for start in range(0, num_points, CHUNK_POINTS):
        rows = slice(start, min(start + CHUNK_POINTS, num_points))
        part, above = groups.part(rows), threshold[rows]
        finite = np.where(np.isfinite(above), above, 1.0)
        rate = _rate_at_nodes(part, scratch[:, :, : part.shape.shape[1]], law.warp(finite))
        high = rate.low + rate.width
        below = rate.width * (rule.weights @ law.share_below(rate.nodes, rate.rate))
        found = law.unwarp(high) - finite - below
        power = law.tail_power(part.shape)
        if power is not None:
            found += _tail(part, high, power)
        excess[rows] = np.where(np.isfinite(above), np.maximum(found, 0.0), 0.0)
    return excess


def _moments(groups: Groups, rate: _Rate) -> tuple[Floats, Floats]:
    """Mean and variance; overwrites the rates.

    With D the distance below the upper end: E[D] is the integral of F, E[D²] that of 2 (hi - x) F.
    """
    law = groups.law
    weights = _rule(law).weights
    high = rate.low + rate.width
    end = law.unwarp(high)
    below = law.share_below(rate.nodes, rate.rate)
    first = rate.width * (weights @ below)
    distance = law.unwarp(rate.nodes)
    below *= np.subtract(end, distance, out=distance)
    second = 2 * rate.width * (weights @ below)
    power = law.tail_power(groups.shape)
    if power is not None:
        first -= _tail(groups, high, power)
        second += _square_tail(groups, high, power)
    return end - first, np.maximum(second - first * first, 0)


def _slowest_by_table(groups: Groups, table: Table) -> Slowest:
    mean, quantiles = slowest_of_table(table, groups.num_gpus, groups.mean, _TARGETS)
    unknown = np.full(len(mean), np.nan)
    return Slowest(mean=_bounded(groups, mean), quantiles=quantiles, variance=unknown)


def _rule(law: Law) -> Rule:
    num_nodes, map_rate, power, _ = law.quadrature()
    return mapped_legendre(num_nodes, map_rate, power)


def _bounded(groups: Groups, mean: Floats) -> Floats:
    """The expected maximum is at least the largest expectation (Jensen), and is it for one GPU.

    The quadrature's last digits are no gain and no loss.
    """
    slowest_kind = np.where(groups.num_gpus > 0, groups.mean, 0).max(axis=0)
    one = groups.num_gpus.sum(axis=0) == 1
    bounded: Floats = np.where(one, slowest_kind, np.maximum(mean, slowest_kind))
    return bounded


def _rate_at_nodes(groups: Groups, scratch: Floats, from_v: Floats | None = None) -> _Rate:
    """Between the ends of what matters, or from `from_v`, (points,), on."""
    law, num_gpus, mean, shape = groups
    nodes, total = scratch
    present = num_gpus > 0
    of_all = np.maximum(num_gpus, 1)
    lows = np.where(present, mean * law.lower_quantile(np.log(OUTSIDE) / of_all, shape), -np.inf)
    above = law.quadrature().above
    highs = np.where(present, mean * law.upper_quantile(above / of_all, shape), -np.inf)
    low, high = law.warp(lows.max(axis=0)), law.warp(highs.max(axis=0))
    if from_v is not None:
        low = np.clip(from_v, low, high)
    width = high - low
    np.multiply(_rule(law).nodes[:, np.newaxis], width, out=nodes)
    nodes += low
    total.fill(0)
    for group in np.flatnonzero(present.any(axis=1)).tolist():
        law.add_rate(nodes, mean[group], shape, num_gpus[group], total)
    return _Rate(nodes, total, low, width)


def _tail(groups: Groups, high: Floats, power: Floats) -> Floats:
    """The integral of 1 - exp(-L) above `high`, where L falls as x^-power and L³ is nothing."""
    log_rate, _ = _log_rate(groups, high)
    rate = np.exp(log_rate)
    tail: Floats = groups.law.unwarp(high) * rate * (1 / (power - 1) - rate / (4 * power - 2))
    return tail


def _square_tail(groups: Groups, high: Floats, power: Floats) -> Floats:
    """Likewise the integral of 2 (x - hi) (1 - exp(-L)); `power` is above 2."""
    log_rate, _ = _log_rate(groups, high)
    rate = np.exp(log_rate)
    end = groups.law.unwarp(high)
    twice = 2 * power
    inner = 2 / ((power - 1) * (power - 2)) - rate / ((twice - 1) * (twice - 2))
    tail: Floats = end * end * rate * inner
    return tail


def _quantiles(groups: Groups, rate: _Rate) -> Floats:
    """(3, points) by Newton's method on log L in v, kept inside a bracket of two nodes."""
    quantiles: Floats = groups.law.unwarp(_solved(groups, _starts(rate)))
    return quantiles


def _starts(rate: _Rate) -> _Start:
    """For every target (L falls along the nodes) the nodes around it, and a guess between them.

    The guess is the cubic through four nodes, v as a function of log L; where it leaves the
    bracket (groups that take over from each other within a node's distance), the middle.
    """
    num_nodes, num_points = rate.nodes.shape
    above = rate.rate > _TARGETS[:, np.newaxis, np.newaxis]
    # Bytes are the fastest to add up, while they can hold the sum.
    count = np.uint8 if num_nodes < 256 else np.uint16
    num_above = np.add.reduce(above.view(np.uint8), axis=1, dtype=count).astype(np.intp)
    columns = np.arange(num_points)
    stencil = np.clip(num_above - 2, 0, num_nodes - 4) + np.arange(4)[:, np.newaxis, np.newaxis]
    at = stencil * num_points + columns
    log_rate = np.log(np.take(rate.rate, at)) - np.log(_TARGETS)[:, np.newaxis]
    guess = _inverse_cubic(log_rate, np.take(rate.nodes, at))
    left = np.take(rate.nodes, np.maximum(num_above - 1, 0) * num_points + columns)
    right = np.take(rate.nodes, np.minimum(num_above, num_nodes - 1) * num_points + columns)
    # Beyond the outermost nodes the interval's ends are the bracket.
    left = np.where(num_above == 0, rate.low, left)
    right = np.where(num_above == num_nodes, rate.low + rate.width, right)
    inside = (guess >= left) & (guess <= right)
    guess = np.where(inside, guess, (left + right) / 2)
    tolerance = np.broadcast_to(CONVERGED * rate.width, guess.shape)
    return _Start(left, right, guess, tolerance)


def _inverse_cubic(heights: Floats, places: Floats) -> Floats:
    """Neville's scheme: the place of height 0 by the cubic through four heights, (4, ...)."""
    table: list[Floats] = list(places)
    with np.errstate(divide="ignore", invalid="ignore"):
        for level in range(1, len(table)):
            for row in range(len(table) - level):
                upper, lower = heights[row], heights[row + level]
                table[row] = (upper * table[row + 1] - lower * table[row]) / (upper - lower)
    return table[0]


def _solved(groups: Groups, start: _Start) -> Floats:
    """(targets, points): Newton's steps from `start`, halving the bracket where they leave it.

    A point stops by itself, so that its result does not depend on its neighbours.
    """
    left, right, v, tolerance = start
    found = np.empty(v.size)
    rows = np.arange(v.size)
    log_target = np.log(_TARGETS)[:, np.newaxis]
    for _ in range(MAX_STEPS):
        log_rate, slope = _log_rate(groups, v)
        excess = log_rate - log_target
        too_low = excess > 0
        left = np.where(too_low, v, left)
        right = np.where(too_low, right, v)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = v - excess / slope
        inside = (moved >= left) & (moved <= right)
        moved = np.where(inside, moved, (left + right) / 2)
        found[rows] = moved.ravel()
        far = np.abs(moved - v) > np.maximum(tolerance, ROUND_OFF * np.abs(v))
        if not far.any():
            break
        # All targets share the points' groups at first; those that go on have one of their own.
        rows = rows[far.ravel()]
        groups = groups.part(np.nonzero(far)[-1])
        log_target = np.broadcast_to(log_target, v.shape)[far]
        left, right, v, tolerance = left[far], right[far], moved[far], tolerance[far]
    return found.reshape(len(_TARGETS), -1)


def _log_rate(groups: Groups, v: Floats) -> tuple[Floats, Floats]:
    """Log L and its slope at v, (points,)."""
    law, num_gpus, mean, shape = groups
    rate = np.zeros_like(v)
    slope = np.zeros_like(v)
    for group in range(len(num_gpus)):
        of_one, slope_of_one = law.rate_and_slope(v, mean[group], shape)
        rate += num_gpus[group] * of_one
        slope += num_gpus[group] * slope_of_one
    return np.log(rate), slope / rate
