"""Bounds from above on makespans, by which most replicas need no makespan of their own.

A makespan is the largest over paths of work and transfers, so it is convex in the factors, and at
most the sum of those of any two shares of the work. With f the largest factor of a replica, at
stage s, and g the second largest: at most L(g) + (f - g) work of stage s, and at most L(f), L(f)
being the makespan at one factor of all stages.
"""

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster

_PLACES = 33


def upper_bounds(cluster: OneCluster, factor: Floats) -> Floats:
    """(replicas, draws) for factors (replicas, stages, draws)."""
    largest = factor[:, 0].copy()
    second = np.full_like(largest, -np.inf)
    work = np.full_like(largest, cluster.busy[0])
    for stage in range(1, factor.shape[1]):
        now = factor[:, stage]
        np.maximum(second, np.minimum(largest, now), out=second)
        work[now > largest] = cluster.busy[stage]
        np.maximum(largest, now, out=largest)
    if factor.shape[1] == 1:
        second = largest
    # Chords of a convex function lie above it.
    low, high = float(second.min()), float(largest.max())
    places = np.linspace(low, high, _PLACES) if high > low else np.array([high])
    even = cluster.makespans(np.repeat(places[np.newaxis], factor.shape[1], axis=0))
    by_second = np.interp(second, places, even) + (largest - second) * work
    bounds: Floats = np.minimum(by_second, np.interp(largest, places, even))
    return bounds
