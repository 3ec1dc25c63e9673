"""GPUs that do not take part, where which ones they are is no matter of chance."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats

NO_GPU = 1e-9
"""Expected numbers are whole but for round-off."""


def without_removed(fleet: Fleet) -> Fleet:
    """The fleet with its `num_removed` slowest GPUs gone, where that can be told exactly.

    * Nothing lasting is drawn: the slowest classes go.
    * One persistent factor and nothing per step: the r slowest of all are the r that each step
      would leave behind, so they become backup GPUs.
    * Otherwise they stay: the mean without them is a matter of simulation (`spread_of`).
    """
    if not fleet.num_removed.any():
        return fleet
    if fleet.persistent is None and fleet.node is None:
        kept = without_slowest(fleet.num_gpus, fleet.mean, fleet.num_removed)
        return replace(fleet, num_gpus=kept)
    per_step = (fleet.transient, fleet.replica, fleet.spikes, fleet.episodes)
    if fleet.node is None and all(source is None for source in per_step):
        return replace(fleet, num_backup=fleet.num_backup + fleet.num_removed)
    return fleet


def slowest_class(fleet: Fleet) -> Floats:
    """(points,) factor of the slowest class that takes part, as if nothing were drawn."""
    there = without_removed(fleet).num_gpus > NO_GPU
    slowest: Floats = np.where(there, fleet.mean, 0.0).max(axis=0)
    return slowest


def without_slowest(num_gpus: Floats, mean: Floats, num_removed: NDArray[np.int64]) -> Floats:
    """(classes, points) of GPUs after taking `num_removed` from the slowest classes first."""
    slowest_first = np.argsort(-mean, axis=0, kind="stable")
    sorted_counts = np.take_along_axis(num_gpus, slowest_first, axis=0)
    slower = np.cumsum(sorted_counts, axis=0) - sorted_counts
    taken = np.clip(num_removed - slower, 0, sorted_counts)
    kept = np.empty_like(num_gpus)
    np.put_along_axis(kept, slowest_first, sorted_counts - taken, axis=0)
    return kept
