"""Long memories by shorter ones: the excess over the slowest rank's own step is self-similar.

Where slack / cv is large, ranks wander like Brownian motions with drifts and with the slack as
their wall. Noise times `noise`, differences between lasting rates times noise^2 slack / slack', and
the slack s' instead of s leave the same picture, in which the excess is noise^2 slack / slack'
times as large. A walk of steps passes a wall by 0.58 of a step's spread on average, so that walls
count as so much farther off (Broadie, Glasserman, Kou 1997). Without lasting differences this is
the law excess = c(N) cv^2 / s of `numerics.md` 6 (E); the rest is derived from it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.lasting import num_ranks
from service.model.recursion.memory import Memory, memory_of
from service.model.recursion.pattern import Pattern, Staleness

LONGEST_RATIO = 25.0
"""Of slack / cv that is simulated as it is."""
_RATIO = 20.0
LAW_ERROR = 0.02
"""Relative standard error of an excess that was scaled; measured in tests/soak."""
_OVERSHOOT = 0.5826
"""-zeta(1/2) / sqrt(2 pi)."""
# What a step remembers of the one before must be short against the scaled memory.
_SHORT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What is simulated in place of the given points; (points,) each.

    is_scaled   elsewhere nothing is changed
    noise       factor on what varies per step
    excess      factor on the excess over the slowest rank's own step
    """

    pattern: Pattern
    memory: Memory
    is_scaled: NDArray[np.bool_]
    noise: Floats
    excess: Floats


def scaled(fleet: Fleet, pattern: Pattern) -> Scaled:
    """The points, those with long memories exchanged for similar ones."""
    memory = memory_of(fleet, pattern)
    ones = np.ones(fleet.num_points)
    if not isinstance(pattern, Staleness):
        never = np.zeros(fleet.num_points, dtype=np.bool_)
        return Scaled(pattern=pattern, memory=memory, is_scaled=never, noise=ones, excess=ones)
    is_long = (memory.slack > LONGEST_RATIO * memory.cv) & (memory.cv > 0)
    # Groups of GPUs, and steps that a hidden load limits, have no rate that is known.
    is_long &= fleet.tensor_parallel_size == 1
    if pattern.hidden_ratio is not None:
        is_long &= pattern.hidden_ratio == 0
    staleness = np.clip(np.rint(_RATIO * memory.cv), 1, np.maximum(pattern.staleness, 1))
    cv = np.where(is_long, memory.cv, 1.0)
    noise = np.maximum(staleness / (_RATIO * cv), 1)
    short = 2 * (staleness / (cv * noise)) ** 2 / np.log(np.maximum(num_ranks(fleet), 2))
    is_long &= _remembered(fleet) < _SHORT * short
    noise = np.where(is_long, noise, 1.0)
    wall = (memory.slack + _OVERSHOOT * cv) / (staleness + _OVERSHOOT * cv * noise)
    excess = np.where(is_long, noise**2 * wall, 1.0)
    changed = replace(
        pattern,
        staleness=np.where(is_long, staleness, pattern.staleness).astype(np.int64),
        delay_ratio=np.where(is_long, 0.0, pattern.delay_ratio),
    )
    found = memory._replace(
        cv=memory.cv * noise,
        slack=np.where(is_long, staleness, memory.slack),
        period=changed.staleness + 1,
        num_steps=np.where(is_long, short, memory.num_steps),
    )
    return Scaled(pattern=changed, memory=found, is_scaled=is_long, noise=noise, excess=excess)


def _remembered(fleet: Fleet) -> Floats:
    return np.where(fleet.autocorrelation > 0, 1 / (1 - fleet.autocorrelation), 0.0)
