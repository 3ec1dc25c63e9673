"""Episodes in random clusters: what a state adds, and how long a window remembers one.

In a state, some GPUs of each speed are `severity` times as slow. Which ones is averaged over: a
GPU in an episode adds to the cluster's rate what it adds to that of a GPU of random lasting
factors.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from service.model.fleet import Episodes, Fleet
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.episodes import states_of
from service.model.slowest.nodes import legendre
from service.model.slowest.removal import without_slowest
from service.model.slowest.scores import log_at

_SCORES = (96, 28)
_FARTHEST = 7.0


class Slowdown(NamedTuple):
    """States of one point that last for a while.

    added          from t (nodes,) to what each state adds to a cluster's rates, (states, nodes)
    weight         (states,) share of the time
    severity       the largest factor on t
    outside_ratio  of the fleet
    """

    added: Callable[[Floats], Floats]
    weight: Floats
    severity: float
    outside_ratio: float


NO_SLOWDOWN = Slowdown(lambda t: np.zeros((1, len(t))), np.ones(1), 1.0, 0.0)


def slowdown_of(
    fleet: Fleet, lasting: Sequence[Source], step_rate: Callable[[Floats], Floats]
) -> Slowdown:
    """Of a fleet of one point with episodes; `step_rate` is -log P(a GPU's step factor <= x)."""
    episodes = cast("Episodes", fleet.episodes)
    # Who stands by slows nobody down.
    taking_part = without_slowest(fleet.num_gpus, fleet.mean, fleet.num_removed)
    states = states_of(taking_part, episodes)
    slow = states.num_gpus[:, len(fleet.num_gpus) :, 0]
    severity = float(episodes.severity[0])
    factor, weight = _lasting_factors(lasting)

    def rates(t: Floats) -> Floats:
        """(classes, nodes) of a random GPU of each speed."""
        found = np.empty((len(fleet.num_gpus), len(t)))
        for row, mean in zip(found, fleet.mean[:, 0], strict=True):
            row[:] = rate_of(weight @ -np.expm1(-step_rate(t / (mean * factor))))
        return found

    return Slowdown(
        added=lambda t: slow @ (rates(t / severity) - rates(t)),
        weight=states.weight[:, 0],
        severity=severity,
        outside_ratio=float(fleet.outside_ratio[0]),
    )


def _lasting_factors(sources: Sequence[Source]) -> tuple[Floats, Floats]:
    """(scores, 1) products of the lasting factors, and their weights."""
    rule = legendre(_SCORES[len(sources) - 1])
    score = _FARTHEST * (2 * rule.nodes - 1)
    density = rule.weights * np.exp(-score * score / 2)
    density /= density.sum()
    log_factor, weight = np.zeros(1), np.ones(1)
    for source in sources:
        of_source = log_at(source, score[:, np.newaxis])[:, 0]
        log_factor = np.add.outer(log_factor, of_source).ravel()
        weight = np.multiply.outer(weight, density).ravel()
    return np.exp(log_factor)[:, np.newaxis], weight


def effective(mean: Floats, weight: Floats, outside_ratio: Floats | float) -> Floats:
    """The factor of which the time average of 1 / (outside + factor) is made; states first."""
    if len(mean) == 1:
        only: Floats = mean[0]
        return only
    found: Floats = 1 / (weight.T @ (1 / (outside_ratio + mean))) - outside_ratio
    return found


def episode_variance(mean: Floats, weight: Floats, outside_ratio: Floats, share: Floats) -> Floats:
    """(points,) of the window's effective factor.

    mean, weight (states, points): of the states. The delta method on 1 / (rho + m), whose time
    average over the window keeps `share` of the variance that a moment has.
    """
    reciprocal = 1 / (outside_ratio + mean)
    average = (weight * reciprocal).sum(axis=0)
    variance = (weight * (reciprocal - average) ** 2).sum(axis=0)
    found: Floats = share * variance / average**4
    return found


def kept_share(mean_hours: Floats, window_hours: Floats) -> Floats:
    """(points,) of a moment's variance that the average over a window keeps.

    What is remembered decays as e^(-age / mean_hours): 2 τ/T (1 - (1 - e^(-T/τ)) τ/T).
    """
    ratio = mean_hours / window_hours
    # A window without end, and episodes of no length, keep nothing.
    with np.errstate(divide="ignore", over="ignore"):
        forgotten = np.expm1(-1 / ratio)
    found: Floats = 2 * ratio * (1 + forgotten * ratio)
    return found
