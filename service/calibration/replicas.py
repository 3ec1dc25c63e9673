"""Replicas of several ranks in the rest of a table: what they share in a step."""

from typing import NamedTuple

import numpy as np

from service.calibration.decomposition import TwoWay
from service.calibration.intervals import MeanSquare
from service.calibration.observed import Observed
from service.calibration.timings import FloatArray, IntArray


class Nested(NamedTuple):
    """Mean squares within and between the replicas of a step, and the size of a replica."""

    within: MeanSquare
    between: MeanSquare
    size: float


def nested_replicas(
    by_cell: FloatArray, table: TwoWay, replicas: IntArray | None, dof_share: float
) -> Nested | None:
    """None where no replica holds several ranks, or there is only one."""
    if replicas is None:
        return None
    labels, place, sizes = np.unique(replicas, return_inverse=True, return_counts=True)
    num_ranks, num_groups = len(replicas), len(labels)
    num_steps = len(by_cell)
    if num_groups < 2 or num_ranks - num_groups < 1 or num_steps < 2:
        return None
    member = np.zeros((num_ranks, num_groups))
    member[np.arange(num_ranks), place] = 1.0
    present = np.isfinite(by_cell)
    sums = np.where(present, by_cell, 0.0) @ member
    counts = present.astype(np.float64) @ member
    between_sum = float(np.sum(sums * sums / np.maximum(counts, 1.0)))
    within_sum = max(float(np.nansum(by_cell**2)) - between_sum, 0.0)
    within_dof = table.num_cells - int((counts > 0).sum()) - (num_ranks - num_groups)
    between_dof = table.rest_dof - within_dof
    if within_dof < 1 or between_dof < 1:
        return None
    size = (num_ranks - float((sizes**2).sum()) / num_ranks) / (num_groups - 1)
    within = MeanSquare(within_sum / within_dof, max(within_dof * dof_share, 1.0))
    between = MeanSquare(between_sum / between_dof, max(between_dof * dof_share, 1.0))
    return Nested(within, between, size * table.num_cells / (num_steps * num_ranks))


def repeated(by_cell: FloatArray, table: TwoWay, observed: Observed) -> float:
    """How often ranks of a replica say the same of pairs of steps, which counts once.

    Products of pairs of two ranks whose rest correlates by r correlate by r², so of m ranks the
    variance of their mean is 1 + (m - 1) r² times that of as many independent ones.
    """
    nested = nested_replicas(by_cell, table, observed.replicas, 1.0)
    if nested is None:
        return 1.0
    shared = max(nested.between.value - nested.within.value, 0.0) / nested.size
    total = shared + nested.within.value
    return 1 + (nested.size - 1) * (shared / total) ** 2 if total > 0 else 1.0
