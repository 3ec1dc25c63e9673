"""Clusters in which nothing varies."""

import numpy as np

from service.model.clusters.spread_types import Spread
from service.model.clusters.steady_spread import normal_spread
from service.model.fleet import Fleet
from service.model.slowest.removal import slowest_class


def even_spread(fleet: Fleet) -> Spread:
    """Where nothing at all varies: the slowest class that takes part decides every step."""
    step = fleet.step_at(slowest_class(fleet))
    return normal_spread(step, np.zeros(fleet.num_points), fleet.outside_ratio)
