"""How many draws of a source are independent: N is not always the number of GPUs."""

import numpy as np

from service.model.active import SOURCES, is_active, occupancy, spikes_are_active
from service.model.columns import Columns, Floats
from service.model.pipeline import SCHEDULES
from service.model.stage_sizes import (
    SCHEDULE_NAMES,
    has_pipeline,
    num_chunks,
    num_microbatches,
    num_stages,
    replica_gpus,
)

ONE_FOR_ALL = 1.0


def _code(name: str) -> int:
    """Of a schedule, as columns hold it; 0 is none."""
    return 1 + SCHEDULE_NAMES.index(name)


_SPLIT = [_code(name) for name, schedule in SCHEDULES.items() if schedule.splits_backward]


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
    varied = has_pipeline(columns) & is_active(columns, "per_op_jitter")
    operations = _operations_of_replica(columns)
    each["per_op_jitter"] = np.floor(gpus * operations / num_stages(columns))
    found["per_op_jitter"] = np.where(varied, each["per_op_jitter"], np.nan)
    found["spikes"] = np.where(spikes_are_active(columns), gpus, np.nan)
    found["episodes"] = np.where(occupancy(columns) > 0, gpus, np.nan)
    return found


def _operations_of_replica(columns: Columns) -> Floats:
    """(points,) operations of all stages; each GPU of a tensor-parallel group draws its own.

    A forward and a backward of every micro-batch and chunk at each stage; where the backward is
    split there are three. DualPipeV joins most forwards with a backward of the other direction, and
    splits only a few: summed over its ranks (dualpipe.py) 4 P^2 + 2 M P - P + 1 operations are
    left. DualPipe is two of these, of P / 2 ranks and M / 2 micro-batches each.
    """
    if columns.lacks("pipeline.schedule"):
        return np.full(columns.num_points, 2.0)
    stages, microbatches = num_stages(columns), num_microbatches(columns)
    schedule = columns["pipeline.schedule"]
    parts = np.where(np.isin(schedule, _SPLIT), 3, 2)
    found: Floats = parts * stages * microbatches * num_chunks(columns)
    joined = 4 * stages**2 + 2 * microbatches * stages - stages + 1
    both_ways = 2 * stages**2 + microbatches * stages - stages + 2
    found = np.where(schedule == _code("dualpipev"), joined, found)
    return np.where(schedule == _code("dualpipe"), both_ways, found)


def rank_count_columns(columns: Columns) -> dict[str, Floats]:
    """`num_independent_ranks`: of the source with the most; the GPUs where nothing varies."""
    gpus = (columns["num_gpus"] + columns["num_spare_gpus"]).astype(np.float64)
    most = np.full(columns.num_points, -np.inf)
    for ranks in independent_ranks(columns).values():
        most = np.fmax(most, ranks)
    return {"num_independent_ranks": np.where(most > 0, most, gpus)}
