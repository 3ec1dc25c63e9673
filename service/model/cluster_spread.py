"""Clusters that differ, with steps that differ too: random clusters, point by point."""

import numpy as np
from numpy.typing import NDArray

from service.model.cluster_draws import Clusters, num_clusters
from service.model.cluster_means import ClusterMeans, cluster_means
from service.model.cluster_tops import Class
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.sampled_spread import sampled
from service.model.spread_types import MONTE_CARLO, Spread, empty_spread
from service.model.step_noise import Moments, window_variance
from service.model.unit_classes import unit_classes

# Numbers that are worked on at once: memory.
_AT_ONCE = 1 << 21


def cluster_spread(
    fleet: Fleet, *, seed: NDArray[np.int64], draws: NDArray[np.int64], num_steps: Floats
) -> Spread:
    """By Monte Carlo over clusters with the expectation over steps inside."""
    found = empty_spread(fleet.num_points)
    found.method[:] = MONTE_CARLO
    for point, classes in unit_classes(fleet):
        one = fleet.part(slice(point, point + 1))
        means = _means(
            classes, int(seed[point]), num_clusters(int(draws[point])), int(one.num_removed[0])
        )
        moments = Moments(np.full(1, means.mean.mean()), np.full(1, means.step_variance))
        noise = window_variance(one, moments, num_steps[point : point + 1])
        sd = (means.bulk_variance + float(noise[0])) ** 0.5
        values = sampled(means.mean, sd, float(one.outside_ratio[0]), int(seed[point]))
        for name, value in values._asdict().items():
            getattr(found, name)[point] = value
    return found


def _means(classes: list[Class], seed: int, draws: int, num_removed: int) -> ClusterMeans:
    """A number of clusters at a time that does not move the results."""
    size = max(_AT_ONCE // max(one.num_drawn(num_removed) for one in classes), 1)
    parts = [
        cluster_means(classes, Clusters(seed, draws, start, min(start + size, draws)), num_removed)
        for start in range(0, draws, size)
    ]
    share = np.array([len(part.mean) for part in parts]) / draws
    return ClusterMeans(
        mean=np.concatenate([part.mean for part in parts]),
        bulk_variance=float(share @ [part.bulk_variance for part in parts]),
        step_variance=float(share @ [part.step_variance for part in parts]),
    )
