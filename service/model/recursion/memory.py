"""How long a recursion remembers, in steps.

Ranks wander apart until they are as far as the pattern's slack allows: l* = 2 (slack / cv)^2 / ln N
steps, cv the spread of a step relative to its mean. Source: `numerics.md` 6 (E).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.recursion.lasting import num_ranks
from service.model.recursion.pattern import Pattern, Staleness
from service.model.slowest.removal import slowest_class

# A maximum of g normal numbers has about 1 / (1 + 0.8 ln g) of the variance of one.
_OF_GROUP = 0.8
_LARGEST = 1e15
_SELDOM = 1e-4
_TINY = 1e-100


class Memory(NamedTuple):
    """(points,) each.

    slowest   mean factor of the slowest class that takes part, spikes included
    step      mean time of its step
    cv        spread of its steps over their mean, in the long run
    jump      a seldom step's excess over the mean one, relative to it
    slack     steps that the pattern lets ranks be apart
    gate      steps from one wait to the next
    period    steps after which the pattern repeats
    num_steps that are remembered
    """

    slowest: Floats
    step: Floats
    cv: Floats
    jump: Floats
    slack: Floats
    gate: Floats
    period: NDArray[np.int64]
    num_steps: Floats


def spike_mean(fleet: Fleet) -> Floats:
    """(points,) mean factor of the spikes."""
    if fleet.spikes is None:
        return np.ones(fleet.num_points)
    mean: Floats = 1 + fleet.spikes.probability * (fleet.spikes.slowdown - 1)
    return mean


def memory_of(fleet: Fleet, pattern: Pattern) -> Memory:
    """Of every point."""
    slowest = slowest_class(fleet) * spike_mean(fleet)
    step = pattern.load_ratio + slowest
    if pattern.hidden_ratio is not None:
        step = np.maximum(step, pattern.hidden_ratio)
    cv = np.sqrt(_variance(fleet)) * slowest / step
    if isinstance(pattern, Staleness):
        slack = pattern.staleness - pattern.delay_ratio / step
        period = pattern.staleness + 1
        gate = np.ones(fleet.num_points)
    else:
        # Load is not part of what goes on after the release.
        begun = pattern.load_ratio + pattern.last_release * slowest
        free = pattern.overlap_steps + 1 - begun / step
        part = pattern.part_ratio
        if pattern.bucket_ratios is not None:
            part = pattern.bucket_ratios.sum(axis=0)
        slack = free - part / step
        period = pattern.steps // pattern.fragments
        gate = period.astype(np.float64)
    slack = np.maximum(slack, 0)
    groups = num_ranks(fleet) // fleet.tensor_parallel_size
    # Ranks that do not vary by themselves, or are alone, do not wander apart.
    wanders = (cv > 0) & (groups > 1)
    steps = 2 * (slack / np.maximum(cv, _TINY)) ** 2 / np.log(np.maximum(groups, 2))
    steps = np.where(wanders, steps, 0)
    return Memory(
        slowest=slowest,
        step=step,
        cv=cv,
        jump=_jump(fleet) * slowest / step,
        slack=slack,
        gate=gate,
        period=period,
        num_steps=np.minimum(np.maximum(steps, correlated_steps(fleet)), _LARGEST),
    )


def correlated_steps(fleet: Fleet) -> Floats:
    """(points,) steps after which a rank's factors have forgotten each other."""
    phi = fleet.autocorrelation
    if fleet.transient is None:
        phi = np.zeros_like(phi)
    return np.where(phi > 0, 1 / (1 - phi), 0.0)


def _variance(fleet: Fleet) -> Floats:
    """(points,) of a rank's factor over its mean squared; of sums of steps where they correlate."""
    of_gpu = np.ones(fleet.num_points)
    if fleet.transient is not None:
        phi = fleet.autocorrelation
        of_gpu += fleet.transient.shape[0] ** 2 * (1 + phi) / (1 - phi)
    if fleet.spikes is not None:
        p, beyond = fleet.spikes.probability, fleet.spikes.slowdown - 1
        of_gpu *= 1 + p * (1 - p) * (beyond / (1 + p * beyond)) ** 2
    of_group = (of_gpu - 1) / (1 + _OF_GROUP * np.log(fleet.tensor_parallel_size))
    return (1 + of_group) * (1 + _square(fleet.replica)) - 1


def _jump(fleet: Fleet) -> Floats:
    """(points,) of a rank's factor, the largest of all sources."""
    jump = np.zeros(fleet.num_points)
    for source in (fleet.transient, fleet.replica):
        if source is not None:
            seldom = source.law.upper_quantile(np.full(fleet.num_points, _SELDOM), source.shape)
            jump = np.maximum(jump, seldom - 1)
    if fleet.spikes is not None:
        jump = np.maximum(jump, fleet.spikes.slowdown / spike_mean(fleet) - 1)
    return jump


def _square(source: Source | None) -> Floats | float:
    return 0.0 if source is None else source.shape[0] ** 2
