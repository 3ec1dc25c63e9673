"""The times of a step that nothing random moves, in milliseconds."""

import numpy as np

from service.model.active import num_backup
from service.model.columns import Columns, Floats, kept_with_columns
from service.model.exchange.serial import serial_of
from service.model.stage_sizes import STRONG, given_times_ms, has_pipeline, replica_gpus


def num_used(columns: Columns) -> Floats:
    """(points,) GPUs that take part: those of the cluster without spares and evicted ones."""
    used: Floats = (columns["num_gpus"] - columns["num_evicted_gpus"]).astype(np.float64)
    return used


def num_held(columns: Columns) -> Floats:
    """(points,) GPUs paid for: those that take part, and spares."""
    held: Floats = num_used(columns) + columns["num_spare_gpus"]
    return held


def num_abandoned(columns: Columns) -> Floats:
    """(points,) GPUs that a step does not wait for: whole replicas where these are pipelines."""
    of_one = np.where(has_pipeline(columns), replica_gpus(columns), 1.0)
    abandoned: Floats = num_backup(columns).astype(np.float64) * of_one
    return abandoned


@kept_with_columns
def compute_ms(columns: Columns) -> Floats:
    """(points,) nominal compute of a GPU and step; of stages that differ, the mean over them.

    Strong scaling: compute_ms x reference_num_gpus / N; design page "The model", section 11.
    """
    of_stages = given_times_ms(columns)
    given = np.where(np.isnan(of_stages), columns["compute_ms"], of_stages)
    if not (columns["scaling.kind"] == STRONG).any():
        return given
    share = columns["scaling.reference_num_gpus"] / num_used(columns)
    return np.where(columns["scaling.kind"] == STRONG, given * share, given)


@kept_with_columns
def outside_ms(columns: Columns) -> Floats:
    """(points,) load and communication, one after the other; an ideal step is compute and these."""
    outside: Floats = columns["load_ms"] + serial_of(columns).ms
    return outside


@kept_with_columns
def extra_steps(columns: Columns) -> Floats:
    """(points,) share by which the same progress takes more steps, as the user says."""
    if columns.lacks("synchronization.extra_steps_fraction"):
        return np.zeros(columns.num_points)
    extra: Floats = np.nan_to_num(columns["synchronization.extra_steps_fraction"], nan=0.0)
    return extra
