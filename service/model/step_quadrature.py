"""Mean and quantiles of the slowest of a step, from the rates of its parts.

The mean is lo + the integral of P(slowest > t) over t, in log t, on panels between the places
where a copy of the GPUs' law (a class, its spikes) begins and ends to matter. Source: model page,
section 3; `numerics.md` 2 and 3.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from service.model.barrier import PROBABILITIES
from service.model.falling_root import falling_root
from service.model.fleet import Source
from service.model.laws.law import Floats
from service.model.mixing import Kinds, log_mixed_rates
from service.model.nodes import mapped_legendre
from service.model.scores import log_at

_TARGETS = np.log(-np.log(np.array(PROBABILITIES)))[:, np.newaxis]
# Scores of the common factor between which the quantiles are looked for.
_COMMON_SCORE = 5.0


# -log of the distribution function at the ends of the integral, and how close to meet it.
_AT_ENDS = np.array([30.0, 1e-13])
_ENDS_TO = 2e-3

Above = Callable[[Floats], Floats]


class Steps(NamedTuple):
    """Steps of `points` fleets.

    above    from v, (..., points), to P(log of the slowest factor > v) by state, (states, ...,
             points)
    weight   (states, points) share of the time
    breaks   (breaks, points) ascending: `above` is 1 below the first, 0 above the last
    """

    above: Above
    weight: Floats
    breaks: Floats


def tightened(steps: Steps) -> Steps:
    """The same steps with the first and the last break where they hardly matter."""
    ends = steps.breaks[[0, -1]]

    def excess(v: Floats) -> Floats:
        """The state with the fastest steps decides about the lower end."""
        above = steps.above(v)
        decisive = np.stack([above[:, 0].min(axis=0), above[:, 1].max(axis=0)])
        return _log_rate(decisive) - np.log(_AT_ENDS)[:, np.newaxis]

    left, right = (np.repeat(end[np.newaxis], 2, axis=0) for end in ends)
    found = falling_root(excess, left, right, relative=_ENDS_TO)
    return steps._replace(breaks=np.clip(steps.breaks, *found))


def means_by_state(steps: Steps) -> Floats:
    """(states, points) of the slowest factor."""
    breaks = steps.breaks
    rule = mapped_legendre(64 if len(breaks) == 2 else 48)
    width = breaks[1:] - breaks[:-1]
    nodes = breaks[:-1, np.newaxis] + width[:, np.newaxis] * rule.nodes[:, np.newaxis]
    weights = np.exp(nodes) * width[:, np.newaxis] * rule.weights[:, np.newaxis]
    above = steps.above(nodes.reshape(-1, nodes.shape[-1]))
    weights = weights.reshape(-1, nodes.shape[-1])
    means: Floats = np.exp(breaks[0]) + (above * weights).sum(axis=1) + _tail(steps)
    return means


def _tail(steps: Steps) -> Floats:
    """(states, points): the integral beyond the last break, as a power of t falls there."""
    end = steps.breaks[-1]
    before = end - 1e-3 * (end - steps.breaks[0])
    upper, lower = steps.above(np.stack([end, before])).swapaxes(0, 1)
    tiny = np.finfo(np.float64).tiny
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.log(np.maximum(lower, tiny) / np.maximum(upper, tiny)) / (end - before)
        beyond = upper * np.exp(end) / (power - 1)
    return np.where(power > 1, beyond, 0.0)


def quantiles_of(steps: Steps, common: Source | None) -> Floats:
    """(points, 3) of one step at a random time."""

    def log_rates(v: Floats) -> Floats:
        return _log_rate((steps.above(v) * _between(steps.weight, v)).sum(axis=0))

    found_rates = log_rates
    left, right = steps.breaks[0], steps.breaks[-1]
    if common is not None:
        kinds = Kinds(lambda v: np.exp(log_rates(v))[np.newaxis], steps.breaks)

        def found_rates(v: Floats) -> Floats:
            return log_mixed_rates(common, kinds, np.ones((1, 1)), v)[0]

        score = np.full(left.shape, _COMMON_SCORE)
        left, right = left + log_at(common, -score), right + log_at(common, score)
    shape = (len(PROBABILITIES), len(left))
    roots = falling_root(
        lambda v: found_rates(v) - _TARGETS,
        np.broadcast_to(left, shape),
        np.broadcast_to(right, shape),
    )
    found: Floats = np.exp(roots).T
    return found


def _log_rate(above: Floats) -> Floats:
    rate = -np.log1p(-np.minimum(above, 1 - 2.0**-53))
    log_rate: Floats = np.log(np.maximum(rate, np.finfo(np.float64).tiny))
    return log_rate


def _between(weight: Floats, v: Floats) -> Floats:
    """The weights (states, points) beside (states, ..., points)."""
    return weight.reshape(len(weight), *(1,) * (v.ndim - 1), weight.shape[-1])
