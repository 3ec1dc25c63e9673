"""Jobs with pipelines as fleets: replicas as the ranks of a barrier, or stages to be simulated."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from service.model.active import num_backup
from service.model.columns import Columns, Floats
from service.model.exchange.lines import Lines, highest, scaled
from service.model.exchange.serial import serial_of
from service.model.fleet import Fleet
from service.model.pipelines import (
    are_stages_simulated,
    makespan_lines_of,
    nominal_pipeline,
    shape_of,
)
from service.model.stage_sizes import num_replicas
from service.model.step_lines import rest_lines_of, without_hidden_load
from service.model.times import compute_ms
from service.model.waiting import averages_rounds, hides_load, interval_steps


class Beside(NamedTuple):
    """(points,) what a step holds beside its slowest replica, ms.

    waited   for the exchange, of a step
    hidden   load that is hidden behind the step before; 0 where none is
    serial   communication of the ideal step, one exchange each
    """

    waited: Floats
    hidden: Floats
    serial: Floats

    @property
    def step_shift(self) -> Floats:
        """(points,) of a step over its makespan, less what is outside: load and serial."""
        return self.waited - self.serial - self.hidden

    @property
    def rest_shift(self) -> Floats:
        """(points,) likewise, of a step without its load."""
        return self.waited - self.serial

    @property
    def floor(self) -> Floats:
        """(points,) makespan below which a step takes as long as its hidden load; else -inf."""
        return np.where(self.hidden > 0, self.hidden - self.waited, -np.inf)


def beside(columns: Columns) -> Beside:
    """Of points with pipelines, whose exchange all replicas wait for."""
    hidden = np.where(hides_load(columns), columns["load_ms"], 0.0)
    # Without its load: what waits for the exchange of a round of one step may hide one too.
    waited = rest_lines_of(without_hidden_load(columns)).offset[0]
    return Beside(waited, hidden, serial_of(columns).ms)


def with_hidden_load(columns: Columns, makespan_ms: Floats) -> Floats:
    """(points,) ms of a step whose slowest replica takes so long: load, or what hides it."""
    around = beside(columns)
    serial_load = columns["load_ms"] - around.hidden
    step: Floats = serial_load + np.maximum(makespan_ms + around.waited, around.hidden)
    return step


def replica_fields(columns: Columns) -> dict[str, Any]:
    """What a fleet of replicas has in place of one of GPUs; all points of one way."""
    if are_stages_simulated(columns)[0]:
        return _staged(columns)
    return _as_ranks(columns)


def _as_ranks(columns: Columns) -> dict[str, Any]:
    """A replica is one rank with one factor, drawn with `replica`; what varies is its lines."""
    around, by_compute = beside(columns), 1 / compute_ms(columns)
    makespans = makespan_lines_of(columns)
    step = scaled(makespans, by_compute, around.step_shift * by_compute)
    ones = np.ones(columns.num_points, dtype=np.int64)
    found: dict[str, Any] = {
        "num_gpus": num_replicas(columns)[np.newaxis],
        "mean": np.ones((1, columns.num_points)),
        "gpus_per_node": ones,
        "tensor_parallel_size": ones,
        "num_removed": np.zeros_like(ones),
        "num_backup": num_backup(columns),
        "lines": step,
    }
    if hides_load(columns).any():
        found["rest_lines"] = scaled(makespans, by_compute, around.rest_shift * by_compute)
        shorter = np.where(around.hidden > 0, -around.serial * by_compute, step.offset.min(axis=0))
        floor = Lines(np.zeros_like(step.slope[:1]), shorter[np.newaxis])
        found["lines"] = highest([step, floor])
    if averages_rounds(columns)[0]:
        found["round_steps"] = interval_steps(columns).astype(np.int64)
    return found


def _staged(columns: Columns) -> dict[str, Any]:
    """GPUs in stages; what a step takes at nominal speed is told by `with_nominal_step`."""
    around, compute = beside(columns), compute_ms(columns)
    gpus = (columns["num_gpus"] + columns["num_spare_gpus"]).astype(np.float64)
    return {
        "num_gpus": gpus[np.newaxis],
        "mean": np.ones((1, columns.num_points)),
        "outside_ratio": (columns["load_ms"] - around.hidden + around.waited) / compute,
        "pipeline": shape_of(columns, around.floor),
    }


def with_nominal_step(columns: Columns, fleet: Fleet) -> Fleet:
    """A fleet of stages whose lines hold at nominal speed, and nowhere else."""
    around = beside(columns)
    nominal = np.maximum(nominal_pipeline(columns).makespan_ms, around.floor)
    at_nominal = ((nominal + around.step_shift) / compute_ms(columns))[np.newaxis]
    return replace(fleet, lines=Lines(at_nominal, np.zeros_like(at_nominal)))
