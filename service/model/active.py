"""Which sources of variability matter at each point."""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.distributions import EMPIRICAL

Mask = NDArray[np.bool_]

NEVER = 1e-30
"""Of a spike, in all steps of all GPUs there will ever be."""

HOURS_PER_DAY = 24.0
SOURCES = ("transient", "persistent", "node", "replica", "common")
"""Sources that have a distribution, by their names in `variability`."""
LAW_PATHS = {
    **{source: f"variability.{source}" for source in SOURCES},
    "per_op_jitter": "pipeline.per_op_jitter",
}
"""Where the distribution of each source, and of single operations of a pipeline, is declared."""


def is_active(columns: Columns, source: str) -> Mask:
    """(points,) whether the source is there and varies."""
    above = LAW_PATHS[source]
    if columns.lacks(f"{above}.kind"):
        return np.zeros(columns.num_points, dtype=np.bool_)
    family = columns[f"{above}.kind"]
    active: Mask = (family != 0) & ~(columns[f"{above}.cv"] == 0)
    observed = np.flatnonzero(family == EMPIRICAL)
    for row in observed.tolist():
        quantiles = columns[f"{above}.quantiles"][row]
        active[row] = quantiles[0] != quantiles[-1]
    return active


def spikes_are_active(columns: Columns) -> Mask:
    """(points,) whether there are spikes that slow a GPU down."""
    if columns.lacks("variability.spikes.probability"):
        return np.zeros(columns.num_points, dtype=np.bool_)
    probability = columns["variability.spikes.probability"]
    active: Mask = (probability > NEVER) & (columns["variability.spikes.slowdown"] > 1)
    return active


def occupancy(columns: Columns) -> Floats:
    """(points,) share of the time that a GPU spends in episodes, 1 - exp(-rate x hours / 24).

    One at a time for each GPU; 0 where there are none that slow it down.
    """
    above = "variability.episodes"
    if columns.lacks(f"{above}.severity"):
        return np.zeros(columns.num_points)
    per_day = columns[f"{above}.rate_per_gpu_day"] * columns[f"{above}.mean_hours"]
    share = -np.expm1(-per_day / HOURS_PER_DAY)
    return np.where(columns[f"{above}.severity"] > 1, share, 0.0)


def num_removed(columns: Columns) -> NDArray[np.int64]:
    """(points,) GPUs of the cluster that do not take part: spares and evicted ones."""
    removed: NDArray[np.int64] = columns["num_spare_gpus"] + columns["num_evicted_gpus"]
    return removed


def num_backup(columns: Columns) -> NDArray[np.int64]:
    """(points,) GPUs that a step does not wait for."""
    if columns.lacks("synchronization.count"):
        return np.zeros(columns.num_points, dtype=np.int64)
    count = columns["synchronization.count"]
    return np.where(np.isnan(count), 0, count).astype(np.int64)


def has_failures(columns: Columns) -> Mask:
    """(points,) whether the scenario says how often the job fails."""
    has: Mask = columns["failures.asynchronous_checkpoint"] != 0
    return has
