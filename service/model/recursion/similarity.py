"""Long memories by shorter ones: the excess over the slowest rank's own step is self-similar.

Where slack / cv is large, ranks of whatever pattern wander like Brownian motions with drifts and
with the slack as their wall. Noise times `noise`, differences between lasting rates times noise^2
slack / slack', and the slack s' instead of s leave the same picture, in which the excess is noise^2
slack / slack' times as large. A walk of steps passes a wall by 0.58 of a step's spread on average,
so that walls count as so much farther off (Broadie, Glasserman, Kou 1997). Without lasting
differences this is the law excess = c(N) cv^2 / s of `numerics.md` 6 (E); the rest is derived from
it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.lasting import num_ranks
from service.model.recursion.memory import Memory, correlated_steps, memory_of
from service.model.recursion.pattern import Pattern, Staleness
from service.model.slowest.removal import NO_GPU
from service.model.slowest.trifles import cv_of

LONGER = 1.25
"""Memories whose slack / cv exceeds the shorter one's by less are simulated as they are."""
_RATIO = 20.0
# A single step must be small against the slack, or ranks do not wander like Brownian motions.
_JUMPS = 4.0
LAW_ERROR = 0.02
"""Relative standard error of an excess that was scaled; measured in tests/soak."""
_TINY = 1e-100
_OVERSHOOT = 0.5826
"""-zeta(1/2) / sqrt(2 pi)."""
# The slack must be wide against what ranks wander between two gates.
_WIDE = 5.0
# Of the common factor, for which leaving it out is below the law's own error.
_STEADY = 0.05
# What a step remembers of the one before must be short against the scaled memory: at a tenth of it
# excesses were 7 to 10 % too small.
_SHORT = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """What is simulated in place of points with long memories; (points,) each.

    applies     elsewhere the given points are simulated
    noise       factor on what varies per step
    excess      factor on the excess over the slowest rank's own step
    memory      of what is simulated, also elsewhere
    """

    applies: NDArray[np.bool_]
    pattern: Staleness
    noise: Floats
    excess: Floats
    memory: Memory


def similar(fleet: Fleet, pattern: Pattern) -> Similar:
    """Of every point."""
    memory = memory_of(fleet, pattern)
    # Walls that are met only every so many steps are passed by more.
    walls = np.sqrt(memory.gate)
    ratio = _ratio(memory)
    applies = _applies(fleet, pattern, memory, walls)
    cv = np.where(applies, memory.cv, 1.0)
    staleness = np.clip(np.rint(ratio * cv), 1, np.maximum(np.floor(memory.slack), 1))
    noise = np.maximum(staleness / (ratio * cv), 1)
    num_steps = 2 * (staleness / (cv * noise)) ** 2 / np.log(np.maximum(num_ranks(fleet), 2))
    applies &= correlated_steps(fleet) < _SHORT * num_steps
    farther = memory.slack + _OVERSHOOT * cv * walls
    wall = farther / (staleness + _OVERSHOOT * cv * noise)
    return Similar(
        applies=applies,
        pattern=Staleness(
            staleness=staleness.astype(np.int64),
            delay_ratio=np.zeros(fleet.num_points),
            load_ratio=pattern.load_ratio,
        ),
        noise=noise,
        excess=noise**2 * wall,
        memory=memory._replace(
            period=np.where(applies, staleness + 1, memory.period).astype(np.int64),
            num_steps=np.where(applies, num_steps, memory.num_steps),
        ),
    )


def _ratio(memory: Memory) -> Floats:
    """(points,) slack / cv of what is simulated instead."""
    found: Floats = np.maximum(_RATIO, _JUMPS * memory.jump / np.maximum(memory.cv, _TINY))
    return found


def _applies(fleet: Fleet, pattern: Pattern, memory: Memory, walls: Floats) -> NDArray[np.bool_]:
    """(points,) where memories are long, and the slowest rank's own step is known."""
    is_long = (memory.slack > LONGER * _ratio(memory) * memory.cv) & (memory.cv > 0)
    is_long &= memory.num_steps > 0
    is_long &= memory.slack > _WIDE * memory.cv * walls
    if fleet.common is not None:
        # What all share is left out of the scaled walk: some 3 cv^2 of the excess.
        is_long &= cv_of(fleet.common) < _STEADY
    # Of unequal groups of GPUs, and of steps that a hidden load limits, it is not.
    is_alike = (fleet.num_gpus > NO_GPU).sum(axis=0) == 1
    if fleet.persistent is not None or fleet.node is not None:
        is_alike &= False
    is_long &= (fleet.tensor_parallel_size == 1) | is_alike
    if pattern.hidden_ratio is not None:
        is_long &= pattern.hidden_ratio == 0
    return is_long
