"""How many replications of how many steps: what `draws` means here.

All replications of a point together measure 64 steps for each draw (in proportion fewer above 1 024
ranks, and more below 64, up to 512; of a state of episodes its share), after a burn-in that is not
measured. Where something lasts every replication is another cluster: one for 8 draws, in lanes of 8
and at least 64 (16 for many ranks); otherwise 16 of them (8 above 16 384 ranks, more below 64) give
the standard error. A replication burns in 3 l* steps and a few periods of the pattern and measures
at least 8 l* (4 l* above 16 384 ranks, 2 l* of clusters that differ), l* the memory (`memory.py`),
and at least some hundred steps.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.episode_states import states_of_points
from service.model.recursion.lasting import num_ranks
from service.model.recursion.memory import Memory
from service.model.recursion.pattern import Pattern, Rounds
from service.model.recursion.scores import LANE
from service.model.recursion.similarity import similar

MAX_RANK_STEPS = 1e9
"""Of one point; some 20 s. A point that needs more is not computed."""
# However few ranks, a step takes about as long as this many.
_LEAST_A_STEP = 1000
_STEPS_PER_DRAW = 64
_DRAWS_PER_LANE = 64
_FEW_RANKS, _MORE_LANES = 64, 8
_MANY_RANKS = 1024
_MOST_RANKS = 16_384
_FEWEST_LANES, _MOST_LANES = 2, 8
_BURN, _MEASURE, _MEASURE_MANY, _MEASURE_EACH = 3, 8, 4, 2
_PERIODS = 4
_FEWEST_BURNT, _FEWEST_MEASURED = 32, 256
_LARGEST = 1e15

Ints = NDArray[np.int64]


class Lengths(NamedTuple):
    """(points,) each: lanes of replications, steps burnt, steps measured."""

    num_lanes: Ints
    burnt: Ints
    measured: Ints


def lengths_of(
    fleet: Fleet, pattern: Pattern, memory: Memory, draws: Ints, share: Floats
) -> Lengths:
    """Of points without episodes that stand for a share of the time each."""
    ranks = num_ranks(fleet)
    fewer = np.minimum(_MANY_RANKS / ranks, 1.0)
    # Wider arrays of few ranks take hardly more time.
    more = 2 ** np.floor(np.log2(np.clip(_FEW_RANKS / ranks, 1, _MORE_LANES)))
    # Nor do they help where a memory is long.
    fewest = _MEASURE * memory.num_steps * LANE * _FEWEST_LANES
    # All states of a point have as many replications.
    more = np.where((fewest > _STEPS_PER_DRAW * draws) | (share < 1), 1, more)
    lanes = np.where(ranks > _MOST_RANKS, 1, _FEWEST_LANES * more)
    at_least = np.where(ranks > _MOST_RANKS, _MEASURE_MANY, _MEASURE)
    if differ(fleet):
        # A few clusters in which two ranks are about as slow make the excess of them all.
        few = np.clip(np.rint(_MOST_LANES * fewer), _FEWEST_LANES, _MOST_LANES)
        lanes = np.maximum(np.rint(draws * fewer / _DRAWS_PER_LANE), few)
        at_least = np.full(fleet.num_points, _MEASURE_EACH)
    wanted = _STEPS_PER_DRAW * draws * share * fewer * more / (LANE * lanes)
    period = memory.period
    blocking = np.zeros(fleet.num_points, dtype=np.bool_)
    if isinstance(pattern, Rounds):
        blocking = pattern.is_blocking
        # Every round begins with all ranks together again.
        burnt = np.where(blocking, period, _BURN * memory.num_steps + period)
    else:
        burnt = np.maximum(_BURN * memory.num_steps + _PERIODS * period, _FEWEST_BURNT)
    measured = np.maximum(at_least * memory.num_steps + np.where(blocking, 0, period), wanted)
    measured = np.where(blocking, wanted, np.maximum(measured, _FEWEST_MEASURED))
    # Whole periods.
    burnt, measured = (
        np.minimum(np.maximum(np.ceil(steps / period), 1) * period, _LARGEST)
        for steps in (burnt, measured)
    )
    return Lengths(lanes.astype(np.int64), burnt.astype(np.int64), measured.astype(np.int64))


def rank_steps(fleet: Fleet, lengths: Lengths) -> Floats:
    """(points,) steps of single GPUs that are drawn, counted as at least so many a step."""
    replications = LANE * lengths.num_lanes
    a_step = np.maximum(replications * num_ranks(fleet), _LEAST_A_STEP)
    drawn: Floats = (lengths.burnt + lengths.measured) * a_step.astype(np.float64)
    return drawn


def rank_steps_needed(fleet: Fleet, pattern: Pattern, draws: Ints) -> Floats:
    """(points,) steps of single GPUs to draw, over all states of episodes."""
    states = states_of_points(fleet)
    rows = states.point
    given = pattern.part(rows)
    memory = similar(states.fleet, given).memory
    lengths = lengths_of(states.fleet, given, memory, draws[rows], states.weight)
    needed = np.bincount(rows, rank_steps(states.fleet, lengths), fleet.num_points)
    return np.asarray(needed, dtype=np.float64)


def differ(fleet: Fleet) -> bool:
    """Whether clusters differ."""
    return fleet.persistent is not None or fleet.node is not None
