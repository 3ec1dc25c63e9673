"""The slowest GPU of a synchronous step: expectation and quantiles of the maximum.

With n_g GPUs in group g, each taking m_g X (m_g = 1 / speed, X of mean 1), the slowest is at most t
with probability exp(-L(t)), L(t) = sum_g n_g (-log(1 - P(m_g X > t))). The expectation is
lo + the integral of 1 - exp(-L) from lo to hi, by 48 fixed nodes; the quantiles solve
L(t) = -log p, starting between two of the same nodes. Recipes and rejected ones:
`.github/decisions/0001-quadrature-of-the-maximum.md`.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.distributions import ALMOST_ONE, Floats, Law, law_of
from service.model.nodes import mapped_legendre

Ints = NDArray[np.int64]

PROBABILITIES = (0.5, 0.95, 0.99)
NUM_NODES = 48
# Points at a time: (nodes, points) arrays stay in the second-level cache.
CHUNK_POINTS = 1024
# The maximum lies outside [lo, hi] with about this probability at either end. Smaller is not
# better: the same nodes would be spread over a longer interval.
OUTSIDE = 1e-11
# Smaller spreads are raised to this: it moves the mean by under 1e-11, while at 1e-16 the
# distance to the mean in standard deviations would be lost in round-off.
SMALLEST_CV = 1e-12
MAX_NEWTON_STEPS = 60
# A Newton step under this part of its bracket's interval leaves an error of its square.
CONVERGED = 1e-7

_TARGETS = -np.log(np.array(PROBABILITIES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """Factor on the nominal compute time of the slowest GPU of a step.

    mean       (points,) its expectation over steps
    quantiles  (points, 3) of one step: p50, p95, p99
    """

    mean: Floats
    quantiles: Floats


class Groups(NamedTuple):
    """`points` mixtures of groups of one law: num_gpus and mean (groups, points), cv (points,).

    Counts are real numbers (the panels of `sizes.py` ask between the integers), 0 where absent.
    """

    law: Law
    num_gpus: Floats
    mean: Floats
    cv: Floats

    def part(self, points: slice | NDArray[np.intp]) -> "Groups":
        """Some of the points."""
        return Groups(self.law, self.num_gpus[:, points], self.mean[:, points], self.cv[points])


class _Rate(NamedTuple):
    """L at the nodes, (nodes, points), the nodes themselves, and the interval's ends."""

    nodes: Floats
    rate: Floats
    low: Floats
    width: Floats


def slowest_of(groups: Groups) -> Slowest:
    """Mean and quantiles of every point by its own quadrature."""
    num_points = len(groups.cv)
    mean = np.empty(num_points)
    quantiles = np.empty((num_points, len(PROBABILITIES)))
    for start in range(0, num_points, CHUNK_POINTS):
        rows = slice(start, min(start + CHUNK_POINTS, num_points))
        part = groups.part(rows)
        rate = _rate_at_nodes(part)
        mean[rows] = _mean(part, rate)
        quantiles[rows] = _quantiles(part, rate).T
    return Slowest(mean=mean, quantiles=quantiles)


def _rate_at_nodes(groups: Groups) -> _Rate:
    law, count, mean, cv = groups
    present = count > 0
    of_all = np.maximum(count, 1)
    lows = np.where(present, mean * law.lower_quantile(np.log(OUTSIDE) / of_all, cv), -np.inf)
    highs = np.where(present, mean * law.upper_quantile(OUTSIDE / of_all, cv), -np.inf)
    low = law.warp(lows.max(axis=0))
    width = law.warp(highs.max(axis=0)) - low
    nodes = low + mapped_legendre(NUM_NODES).nodes[:, np.newaxis] * width
    rate = np.zeros_like(nodes)
    for group in range(len(count)):
        if present[group].any():
            term = law.warped_sf(nodes, mean[group], cv)
            np.minimum(term, ALMOST_ONE, out=term)
            np.negative(term, out=term)
            np.log1p(term, out=term)
            term *= count[group]
            rate -= term
    return _Rate(nodes, rate, low, width)


def _mean(groups: Groups, rate: _Rate) -> Floats:
    above = np.negative(rate.rate)
    np.expm1(above, out=above)
    above *= groups.law.unwarp_slope(rate.nodes)
    integral = -(mapped_legendre(NUM_NODES).weights @ above)
    return groups.law.unwarp(rate.low) + rate.width * integral


def _quantiles(groups: Groups, rate: _Rate) -> Floats:
    """(3, points) by Newton's method on log L in v, kept inside a bracket of two nodes."""
    bracketed = [_bracket(rate, target) for target in _TARGETS]
    left = np.concatenate([bracket[0] for bracket in bracketed])
    right = np.concatenate([bracket[1] for bracket in bracketed])
    start = np.concatenate([bracket[2] for bracket in bracketed])
    tiled = groups.part(np.tile(np.arange(len(groups.cv)), len(_TARGETS)))
    targets = np.repeat(np.log(_TARGETS), len(groups.cv))
    width = np.tile(rate.width, len(_TARGETS))
    found = _solved(tiled, targets, left, right, start, width)
    return groups.law.unwarp(found).reshape(len(_TARGETS), -1)


def _bracket(rate: _Rate, target: float) -> tuple[Floats, Floats, Floats]:
    """Two neighbouring nodes with L on both sides of `target`, and a first guess between them."""
    num_above = np.add.reduce((rate.rate > target).view(np.uint8), axis=0, dtype=np.uint8)
    # Both ends of the interval lie far beyond the wanted probabilities, but their neighbours are
    # used as they are when the first or the last node is the bracket.
    index = np.clip(num_above.astype(np.intp) - 1, 0, NUM_NODES - 2)[np.newaxis]
    left = np.take_along_axis(rate.nodes, index, axis=0)[0]
    right = np.take_along_axis(rate.nodes, index + 1, axis=0)[0]
    log_left = np.log(np.take_along_axis(rate.rate, index, axis=0)[0])
    log_right = np.log(np.take_along_axis(rate.rate, index + 1, axis=0)[0])
    part = (log_left - np.log(target)) / (log_left - log_right)
    return left, right, left + np.clip(part, 0, 1) * (right - left)


def _solved(
    groups: Groups, log_target: Floats, left: Floats, right: Floats, v: Floats, width: Floats
) -> Floats:
    for _ in range(MAX_NEWTON_STEPS):
        log_rate, slope = _log_rate(groups, v)
        excess = log_rate - log_target
        left = np.where(excess > 0, v, left)
        right = np.where(excess > 0, right, v)
        step = -excess / slope
        v = v + step
        done = np.abs(step) <= CONVERGED * width
        if done.all():
            break
        outside = ~((v >= left) & (v <= right))
        v = np.where(outside & ~done, (left + right) / 2, v)
    return v


def _log_rate(groups: Groups, v: Floats) -> tuple[Floats, Floats]:
    """Log L and its slope at v, (points,)."""
    law, count, mean, cv = groups
    rate = np.zeros_like(v)
    slope = np.zeros_like(v)
    for group in range(len(count)):
        survival = np.minimum(law.warped_sf(v, mean[group], cv), ALMOST_ONE)
        rate -= count[group] * np.log1p(-survival)
        slope -= count[group] * law.warped_pdf(v, mean[group], cv) / (1 - survival)
    return np.log(rate), slope / rate


def slowest_factor(
    *,
    num_nominal: Ints,
    slow_count: Ints,
    slow_speed: Floats,
    family: int,
    cv: Floats,
    size_key: Ints | None = None,  # noqa: ARG001
) -> Slowest:
    """Slowest factor of every point; see the columns' shapes in `columns.Columns`.

    `family` is one code of `distributions.FAMILIES`, not "none"; `cv` is positive.
    """
    groups = Groups(
        law=law_of(family),
        num_gpus=np.vstack([num_nominal[np.newaxis], slow_count.T]).astype(np.float64),
        mean=np.vstack([np.ones((1, len(cv))), 1 / slow_speed.T]),
        cv=np.maximum(cv, SMALLEST_CV),
    )
    return slowest_of(groups)
