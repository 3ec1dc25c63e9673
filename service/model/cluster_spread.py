"""Clusters that differ, with steps that differ too: random clusters, point by point."""

import numpy as np
from numpy.typing import NDArray

from service.model.cluster_draws import NUM_BLOCKS
from service.model.cluster_means import Class, ClusterMeans, cluster_means
from service.model.cluster_ranks import Clusters
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.sampled_spread import num_clusters, sampled
from service.model.spread_types import MONTE_CARLO, Spread, empty_spread
from service.model.step_noise import Moments, window_variance
from service.model.unit_classes import unit_classes

# Above so many draws the blocks are worked out one after the other: memory.
_AT_ONCE = 4096


def cluster_spread(
    fleet: Fleet, *, seed: NDArray[np.int64], draws: NDArray[np.int64], num_steps: Floats
) -> Spread:
    """By Monte Carlo over clusters with the expectation over steps inside."""
    found = empty_spread(fleet.num_points)
    found.method[:] = MONTE_CARLO
    for point, classes in unit_classes(fleet):
        one = fleet.part(slice(point, point + 1))
        means = _means(classes, int(seed[point]), int(draws[point]))
        moments = Moments(np.full(1, means.mean.mean()), np.full(1, means.step_variance))
        noise = window_variance(one, moments, num_steps[point : point + 1])
        sd = (means.bulk_variance + float(noise[0])) ** 0.5
        values = sampled(means.mean, sd, float(one.outside_ratio[0]), int(seed[point]))
        for name, value in values._asdict().items():
            getattr(found, name)[point] = value
    return found


def _means(classes: list[Class], seed: int, draws: int) -> ClusterMeans:
    if num_clusters(draws) <= _AT_ONCE:
        return cluster_means(classes, Clusters(seed, draws))
    parts = [
        cluster_means(classes, Clusters(seed, draws, range(block, block + 1)))
        for block in range(NUM_BLOCKS)
    ]
    return ClusterMeans(
        mean=np.concatenate([part.mean for part in parts]),
        bulk_variance=float(np.mean([part.bulk_variance for part in parts])),
        step_variance=float(np.mean([part.step_variance for part in parts])),
    )
