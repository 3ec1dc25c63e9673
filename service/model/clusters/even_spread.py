"""Clusters in which nothing varies."""

import numpy as np

from service.model.clusters.spread_types import Spread
from service.model.clusters.steady_spread import normal_spread
from service.model.fleet import Fleet
from service.model.slowest.removal import without_removed

# Expected numbers are whole but for round-off.
_NO_GPU = 1e-9


def even_spread(fleet: Fleet) -> Spread:
    """Where nothing at all varies: the slowest class that takes part decides every step."""
    there = without_removed(fleet).num_gpus > _NO_GPU
    slowest = np.where(there, fleet.mean, 0).max(axis=0)
    return normal_spread(slowest, np.zeros(fleet.num_points), fleet.outside_ratio)
