"""The replica that a step waits for, without the makespans of those that cannot be it."""

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.makespan_bounds import MakespanBounds
from service.model.pipeline.one_cluster import OneCluster

# A bound that is higher by less is round-off.
_TRIFLE = 1e-12
_MOST_AT_ONCE = 64


class SlowestReplicas:
    """The `num_backup` + 1 longest means over a round, draw by draw.

    `longest` (num_backup + 1, draws) rises along the first axis: a step waits for its first row.
    """

    def __init__(self, cluster: OneCluster, bounds: MakespanBounds, num_draws: int) -> None:
        self._cluster, self._bounds = cluster, bounds
        self.longest = np.full((cluster.num_backup + 1, num_draws), -np.inf)

    def add(self, factor: Floats) -> None:
        """Further replicas, by their factors (steps, replicas, stages, draws)."""
        bound = np.mean([self._bounds.upper(of_step) for of_step in factor], axis=0)
        order = np.argsort(-bound, axis=0)
        first, size = 0, len(self.longest)
        while first < len(order):
            rows = order[first : first + size]
            may_be = np.take_along_axis(bound, rows, axis=0) > self.longest[0] * (1 + _TRIFLE)
            if not may_be.any():
                break
            place, draw = np.nonzero(may_be)
            values = np.full(rows.shape, -np.inf)
            values[place, draw] = self._means(factor, rows[place, draw], draw)
            self.add_means(values)
            first, size = first + size, min(2 * size, _MOST_AT_ONCE)

    def add_means(self, values: Floats) -> None:
        """Further replicas, by their means over the round (replicas, draws)."""
        every = np.concatenate([self.longest, values])
        self.longest = np.sort(every, axis=0)[-len(self.longest) :]

    def _means(self, factor: Floats, replica: NDArray[np.intp], draw: NDArray[np.intp]) -> Floats:
        """(picked,) of these replicas in these draws."""
        # One index after the other: (picked, steps, stages).
        picked = factor[:, replica, :, draw]
        lanes = np.ascontiguousarray(picked.transpose(2, 1, 0)).reshape(picked.shape[2], -1)
        found: Floats = self._cluster.makespans(lanes).reshape(len(factor), -1).mean(axis=0)
        return found
