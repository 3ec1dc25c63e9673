"""The random numbers of the recursions: by seed, source, replication, step and rank alone.

Philox under the key (seed, source), its counter set by block of steps and lane of replications; the
numbers of a block run over ranks first. So a rank keeps its numbers when a cluster grows, and all
points, patterns and counterfactuals of a seed share them.
"""

import numpy as np

from service.model.laws.law import Floats

BLOCK_STEPS = 8
LANE = 8
"""Replications that are drawn together."""

# Numbers of the sources in the generator's key; rank_factors.py and cluster_draws.py end at 2047.
TRANSIENT, REPLICA, COMMON, SPIKES, PERSISTENT, NODE, PLACES, ROUNDING = range(2048, 2056)


def draw_scores(seed: int, source: int, block: int, to: Floats) -> None:
    """Normal scores (ranks, steps of the block, replications), in place."""
    for lane in range(to.shape[2] // LANE):
        generator = _generator(seed, source, block, lane)
        if to.shape[2] == LANE:
            generator.standard_normal(out=to)
        else:
            to[..., LANE * lane : LANE * (lane + 1)] = generator.standard_normal(_of_lane(to))


def draw_uniforms(seed: int, source: int, block: int, to: Floats) -> None:
    """Uniform numbers (ranks, steps of the block, replications), in place."""
    for lane in range(to.shape[2] // LANE):
        generator = _generator(seed, source, block, lane)
        to[..., LANE * lane : LANE * (lane + 1)] = generator.random(_of_lane(to))


def _of_lane(to: Floats) -> tuple[int, int, int]:
    return to.shape[0], to.shape[1], LANE


def cluster_scores(seed: int, source: int, num_lanes: int, num_ranks: int) -> Floats:
    """(ranks, replications) normal scores that last."""
    lanes = [
        _generator(seed, source, 0, lane).standard_normal((num_ranks, LANE))
        for lane in range(num_lanes)
    ]
    return np.concatenate(lanes, axis=1)


def cluster_uniforms(seed: int, source: int, num_lanes: int, num_ranks: int) -> Floats:
    """(ranks, replications) uniform numbers that last."""
    lanes = [
        _generator(seed, source, 0, lane).random((num_ranks, LANE)) for lane in range(num_lanes)
    ]
    return np.concatenate(lanes, axis=1)


def _generator(seed: int, source: int, block: int, lane: int) -> np.random.Generator:
    # The first word of the counter counts the numbers drawn.
    key = np.array([seed, source], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, block, lane, 0]))
