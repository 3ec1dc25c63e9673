"""What differs from step to step, averaged over a window of many steps.

The window's mean of the slowest factor M times the common factor C has the variance
(inflation Var M + Var C E[M²]) / steps. The inflation is that of the maximum under autocorrelation
of the transient scores (`slowest_correlation.py`), applied to all of Var M: too much where spikes
or a replica's factor, which are forgotten at once, make a part of it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from service.model.clusters.slowest_correlation import inflation
from service.model.clusters.slowest_laws import SlowestLaw, integral_of, slowest_laws
from service.model.exchange.shared_lines import SharedLines
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.barrier import moments_of
from service.model.slowest.nodes import legendre
from service.model.slowest.scores import log_at

_TAIL_STEP = 1e-3
_TINY = np.finfo(np.float64).tiny
_SCORES = 48
_FARTHEST_SCORE = 7.0


class Moments(NamedTuple):
    """(points,) mean and variance of one step, as a factor, without the common one."""

    mean: Floats
    variance: Floats


def slowest_moments(fleet: Fleet) -> Moments:
    """Where nothing lasts: of any step."""
    mean, variance = np.empty(fleet.num_points), np.empty(fleet.num_points)
    for law in slowest_laws(fleet):
        if law.groups is not None:
            mean[law.rows], variance[law.rows] = moments_of(law.groups)
            continue
        integral = integral_of(law)
        share = integral.weight * integral.above
        tail_first, tail_second = _tail(law, integral.low)
        first = share.sum(axis=0) + tail_first
        second = (2 * (integral.value - integral.low) * share).sum(axis=0) + tail_second
        mean[law.rows] = integral.low + first
        variance[law.rows] = np.maximum(second - first * first, 0)
    return Moments(mean, variance)


def _tail(law: SlowestLaw, low: Floats) -> tuple[Floats, Floats]:
    """Moments of the distance to lo beyond the last break, where P(M > t) is a power of t.

    There, a step follows the steepest of its lines.
    """
    end = law.breaks[-1]
    before = end - _TAIL_STEP * (end - law.breaks[0])
    upper, lower = law.above(np.stack([end, before]))
    fall = np.log(np.maximum(lower, _TINY) / np.maximum(upper, _TINY))
    power = fall / np.maximum(end - before, _TINY)
    t = np.exp(end)
    first = np.where(power > 1, upper * t / np.maximum(power - 1, _TINY), 0)
    square = np.where(power > 2, 2 * upper * t * t / np.maximum(power - 2, _TINY), 0)
    if law.lines is None:
        return first, square - 2 * low * first
    slope, offset = law.lines.slope[-1], law.lines.offset[-1]
    return slope * first, slope * (slope * square - 2 * (low - offset) * first)


def window_variance(fleet: Fleet, moments: Moments, num_steps: Floats) -> Floats:
    """(points,) of the window's mean of slowest times common."""
    variance = moments.variance
    if fleet.transient is not None and fleet.autocorrelation.any():
        slowest = moments.mean
        if fleet.lines is not None:
            slowest = slowest_moments(replace(fleet, lines=None)).mean
        equal = _equal_gpus(fleet, fleet.transient, slowest)
        variance = variance * inflation(equal, fleet.autocorrelation)
    if fleet.common is not None and fleet.lines is None:
        variance = variance + _variance_of(fleet.common) * (moments.mean**2 + moments.variance)
    elif isinstance(fleet.lines, SharedLines):
        # What the common factor does to a step whose slowest GPU is as slow as usual.
        slowest = slowest_moments(replace(fleet, lines=None)).mean
        variance = variance + fleet.lines.variance_at(slowest)
    of_mean: Floats = variance / np.maximum(num_steps, 1)
    return of_mean


def _variance_of(source: Source) -> Floats:
    """(points,) of a factor of mean 1: from its quantiles where a table of them is the law."""
    if isinstance(source.law, type):
        known: Floats = source.shape[0] ** 2
        return known
    score, weight = _scores()
    distance = source.law.at_score(score[:, np.newaxis], source.shape) - 1
    variance: Floats = weight @ (distance * distance)
    return variance


def _equal_gpus(fleet: Fleet, transient: Source, slowest: Floats) -> Floats:
    """(points,) how many equal GPUs would share being the slowest as these unequal ones do.

    1 / the sum over GPUs of the squares of their shares in the rate at `slowest`.
    """
    first, second = np.zeros_like(slowest), np.zeros_like(slowest)
    lasting = [source for source in (fleet.persistent, fleet.node) if source is not None]
    for score, weight in zip(*_scores(), strict=True):
        log_factor = sum(log_at(source, np.full_like(slowest, score)) for source in lasting)
        for num_gpus, mean in zip(fleet.num_gpus, fleet.mean, strict=True):
            rate = transient.law.rate(slowest / (mean * np.exp(log_factor)), transient.shape)
            first += weight * num_gpus * rate
            second += weight * num_gpus * rate * rate
    equal: Floats = np.clip(first * first / np.maximum(second, _TINY), 1, 1e7)
    return equal


def _scores() -> tuple[Floats, Floats]:
    """Nodes and weights over a normal score."""
    rule = legendre(_SCORES)
    score = _FARTHEST_SCORE * (2 * rule.nodes - 1)
    weight = rule.weights * np.exp(-score * score / 2)
    return score, weight / weight.sum()
