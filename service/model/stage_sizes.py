"""Sizes of pipelines at every point; a job without one is one stage. Design page, section 7."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats, kept_with_columns
from service.model.leaves import leaves

Mask = NDArray[np.bool_]

SCHEDULE_NAMES = leaves()["pipeline.schedule"].labels
"""By code - 1."""
STRONG = 1 + leaves()["scaling.kind"].labels.index("strong")


@kept_with_columns
def has_pipeline(columns: Columns) -> Mask:
    """(points,) whether stages work one behind the other."""
    if columns.lacks("pipeline.schedule"):
        return np.zeros(columns.num_points, dtype=np.bool_)
    has: Mask = columns["pipeline.schedule"] != 0
    return has


@kept_with_columns
def num_stages(columns: Columns) -> Floats:
    """(points,) P."""
    return _or_one(columns, "stages")


@kept_with_columns
def num_chunks(columns: Columns) -> Floats:
    """(points,) V."""
    return _or_one(columns, "chunks_per_stage")


@kept_with_columns
def num_microbatches(columns: Columns) -> Floats:
    """(points,) M of a replica and step; not whole where a rule is broken.

    Strong scaling divides them: M x reference_num_gpus / N; design page, section 11.
    """
    given = _or_one(columns, "microbatches")
    strong = has_pipeline(columns) & (columns["scaling.kind"] == STRONG)
    if not strong.any():
        return given
    used = columns["num_gpus"] - columns["num_evicted_gpus"]
    # GPUs that are all evicted break a rule of their own.
    share = columns["scaling.reference_num_gpus"] / np.maximum(used, 1)
    return np.where(strong, given * share, given)


@kept_with_columns
def replica_gpus(columns: Columns) -> Floats:
    """(points,) GPUs that hold one copy of the model: P x T."""
    gpus: Floats = num_stages(columns) * columns["tensor_parallel_size"]
    return gpus


@kept_with_columns
def num_replicas(columns: Columns) -> Floats:
    """(points,) D, whole copies of the model among the GPUs that take part; at least 1."""
    used = columns["num_gpus"] - columns["num_evicted_gpus"]
    replicas: Floats = np.maximum(used // replica_gpus(columns), 1.0)
    return replicas


@kept_with_columns
def given_times_ms(columns: Columns) -> Floats:
    """(points,) M x the mean over stages of forward_ms + backward_ms; NaN where none are given."""
    found = np.full(columns.num_points, np.nan)
    if columns.lacks("pipeline.forward_ms"):
        return found
    forward = columns["pipeline.forward_ms"].tolist()
    backward = columns["pipeline.backward_ms"].tolist()
    microbatches = num_microbatches(columns)
    for row in np.flatnonzero(has_pipeline(columns)).tolist():
        if forward[row] is not None and backward[row] is not None:
            found[row] = microbatches[row] * (_mean(forward[row]) + _mean(backward[row]))
    return found


def stage_times_ms(columns: Columns, compute_ms: Floats) -> tuple[Floats, Floats]:
    """(stages, points) forward and backward of a micro-batch at each stage, nominal speed.

    Of points with one number of stages. As given; otherwise `compute_ms`, (points,) of a GPU and
    step, divided among micro-batches, and among stages by their weights.
    """
    stages = int(num_stages(columns)[0])
    forward = _of_stages(columns, "forward_ms", stages)
    backward = _of_stages(columns, "backward_ms", stages)
    weights = _of_stages(columns, "stage_weights", stages)
    weights = np.where(np.isnan(weights), 1.0, weights)
    each = compute_ms / num_microbatches(columns) * weights / weights.mean(axis=0)
    share = columns["backward_fraction"]
    return (
        np.where(np.isnan(forward), each * (1 - share), forward),
        np.where(np.isnan(backward), each * share, backward),
    )


def _or_one(columns: Columns, name: str) -> Floats:
    if columns.lacks("pipeline.schedule"):
        return np.ones(columns.num_points)
    return np.where(has_pipeline(columns), columns[f"pipeline.{name}"], 1.0)


def _of_stages(columns: Columns, name: str, stages: int) -> Floats:
    """(stages, points) of a field that is one number or one for each stage; NaN where left out."""
    found = np.full((stages, columns.num_points), np.nan)
    if columns.lacks(f"pipeline.{name}"):
        return found
    for row, value in enumerate(columns[f"pipeline.{name}"].tolist()):
        if value is not None:
            found[:, row] = value
    return found


def _mean(value: Any) -> float:
    """Of one number for all stages, or of theirs."""
    return float(np.mean(value))
