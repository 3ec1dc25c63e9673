"""How many draws of a source are independent: N is not always the number of GPUs."""

import numpy as np

from service.model.active import SOURCES, is_active, occupancy, spikes_are_active
from service.model.columns import Columns, Floats
from service.model.stage_sizes import has_pipeline, num_chunks, num_microbatches, replica_gpus

ONE_FOR_ALL = 1.0


def independent_ranks(columns: Columns) -> dict[str, Floats]:
    """(points,) independent draws of each source; NaN where the source is absent.

    A node shares one, a replica (a tensor-parallel group, or all stages of a pipeline) shares one,
    all GPUs the common one; single operations of a pipeline each have their own.
    """
    gpus = (columns["num_gpus"] + columns["num_spare_gpus"]).astype(np.float64)
    nodes = np.ceil(gpus / columns["gpus_per_node"])
    replicas = np.ceil(gpus / replica_gpus(columns))
    each = {
        "transient": gpus,
        "persistent": gpus,
        "node": nodes,
        "replica": replicas,
        "common": np.full(columns.num_points, ONE_FOR_ALL),
    }
    found = {
        source: np.where(is_active(columns, source), each[source], np.nan) for source in SOURCES
    }
    # A forward and a backward of every micro-batch and chunk, on each GPU.
    operations = gpus * 2 * num_microbatches(columns) * num_chunks(columns)
    varied = has_pipeline(columns) & is_active(columns, "per_op_jitter")
    found["per_op_jitter"] = np.where(varied, operations, np.nan)
    found["spikes"] = np.where(spikes_are_active(columns), gpus, np.nan)
    found["episodes"] = np.where(occupancy(columns) > 0, gpus, np.nan)
    return found


def rank_count_columns(columns: Columns) -> dict[str, Floats]:
    """`num_independent_ranks`: of the source with the most; the GPUs where nothing varies."""
    gpus = (columns["num_gpus"] + columns["num_spare_gpus"]).astype(np.float64)
    most = np.full(columns.num_points, -np.inf)
    for ranks in independent_ranks(columns).values():
        most = np.fmax(most, ranks)
    return {"num_independent_ranks": np.where(most > 0, most, gpus)}
