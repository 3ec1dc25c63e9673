"""Bounds from above on makespans, by which most replicas need no makespan of their own.

A makespan is the largest over paths of work and transfers, so it is convex in the factors, and at
most the sum of those of any two shares of the work. With f the largest factor of a replica, at
stage s, and g the second largest: at most L(g) + (f - g) work of stage s, and at most L(f), L(f)
being the makespan at one factor of all stages.
"""

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster

_LOWEST, _HIGHEST, _PLACES = 0.125, 8.0, 257


class MakespanBounds:
    """Of the replicas of a cluster."""

    def __init__(self, cluster: OneCluster) -> None:
        self._busy = cluster.busy
        self._places = np.geomspace(_LOWEST, _HIGHEST, _PLACES)
        even = np.repeat(self._places[np.newaxis], cluster.stages, axis=0)
        self._makespans = cluster.makespans(even)

    def upper(self, factor: Floats) -> Floats:
        """(replicas, draws) for factors (replicas, stages, draws)."""
        largest = factor[:, 0].copy()
        second = np.zeros_like(largest)
        work = np.full_like(largest, self._busy[0])
        for stage in range(1, factor.shape[1]):
            now = factor[:, stage]
            np.maximum(second, np.minimum(largest, now), out=second)
            work[now > largest] = self._busy[stage]
            np.maximum(largest, now, out=largest)
        by_second = self._at_one_factor(second) + (largest - second) * work
        bounds: Floats = np.minimum(by_second, self._at_one_factor(largest))
        return bounds

    def _at_one_factor(self, factor: Floats) -> Floats:
        """At least L: chords of a convex function lie above it.

        L rises, and L(x f) <= x L(f) for x >= 1, as transfers do not grow.
        """
        found: Floats = np.interp(factor, self._places, self._makespans)
        found *= np.maximum(factor / _HIGHEST, 1)
        return found
