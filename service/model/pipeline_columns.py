"""What is known of a replica's pass through its pipeline, as output columns.

Definitions: design page "The model", section 7.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.lines import scaled
from service.model.fleet import Fleet
from service.model.fleets import Structure
from service.model.pipeline.plans import peak_of
from service.model.pipeline.replica_makespans import replica_makespans
from service.model.pipelines import by_plan, makespan_lines_of, nominal_pipeline
from service.model.results import PIPELINE_COLUMNS
from service.model.slowest.pooled import pooled_slowest
from service.model.stage_sizes import has_pipeline
from service.model.times import compute_ms, num_used

DUST = 1e-12
"""Of a pass: less idle time than that is round-off."""
PER_STEP: dict[str, Any] = {
    "transient": None,
    "replica": None,
    "common": None,
    "spikes": None,
    "episodes": None,
}


class Passes(NamedTuple):
    """(points,) of one replica and step, over the nominal compute.

    busy   mean over stages of the time in which they work
    """

    mean: Floats
    mean_se: Floats
    p50: Floats
    p95: Floats
    busy: Floats

    @property
    def idle(self) -> Floats:
        """(points,) mean over stages."""
        return self.mean - self.busy


def pipeline_columns(
    columns: Columns, structures: Sequence[Structure], *, with_quantiles: bool = True
) -> dict[str, NDArray[Any]]:
    """(points,) each; NaN where there is no pipeline, or nobody asks."""
    found = {name: np.full(columns.num_points, np.nan) for name in PIPELINE_COLUMNS}
    for rows, part, fleet in structures:
        if len(rows) and has_pipeline(part)[0]:
            for name, values in _of_structure(part, fleet, with_quantiles=with_quantiles).items():
                found[name][rows] = values
    for name, sizes, rows in by_plan(columns, np.flatnonzero(has_pipeline(columns))):
        found["peak_microbatches_in_flight"][rows] = peak_of(name, *sizes)
    return found


def _of_structure(columns: Columns, fleet: Fleet, *, with_quantiles: bool) -> dict[str, Floats]:
    compute = compute_ms(columns)
    whole, steady, straight = _passes(columns, fleet, with_quantiles=with_quantiles)
    nominal = nominal_pipeline(columns)
    fill = nominal.equal_ms - compute
    idle = whole.idle * compute
    p2p = (steady.mean - straight.mean) * compute
    bubble = np.maximum(1 - whole.busy / whole.mean, 0.0)
    parts = {
        # Not from the pass without handing on: the worst places of slow GPUs are others there, and
        # so is what stages have to do.
        "imbalance": steady.idle * compute - p2p - fill,
        "p2p": p2p,
        "jitter": idle - steady.idle * compute,
    }
    return {
        "pipeline_makespan_ms": whole.mean * compute,
        "pipeline_makespan_ms_p50": whole.p50 * compute,
        "pipeline_makespan_ms_p95": whole.p95 * compute,
        "pipeline_makespan_ms_se": whole.mean_se * compute,
        "bubble_fraction": bubble,
        "bubble_to_ideal_ratio": whole.idle / whole.busy,
        "busy_gpus_mean": num_used(columns) * (1 - bubble),
        "pipeline_idle_ms": idle,
        "pipeline_idle_fill_ms": fill,
        **{
            f"pipeline_idle_{name}_ms": _without_dust(values, whole.mean * compute)
            for name, values in parts.items()
        },
    }


def _without_dust(values: Floats, of: Floats) -> Floats:
    return np.where(np.abs(values) <= DUST * of, 0.0, values)


def _passes(
    columns: Columns, fleet: Fleet, *, with_quantiles: bool
) -> tuple[Passes, Passes, Passes]:
    """As it is; without what varies from step to step; and without handing on besides."""
    if fleet.pipeline is None:
        nominal = nominal_pipeline(columns)
        return (
            _as_rank(columns, fleet, with_quantiles=with_quantiles),
            _steady(columns, nominal.makespan_ms),
            _steady(columns, nominal.without_p2p_ms),
        )
    steady = replace(fleet, **PER_STEP, pipeline=replace(fleet.pipeline, jitter=None))
    no_p2p = replace(fleet.pipeline, jitter=None, p2p=np.zeros(columns.num_points))
    straight = replace(steady, pipeline=no_p2p)
    return (
        _staged(columns, fleet),
        _staged(columns, steady),
        _staged(columns, straight),
    )


def _as_rank(columns: Columns, fleet: Fleet, *, with_quantiles: bool) -> Passes:
    """All operations share one factor: lines, of which one replica draws."""
    by_compute = 1 / compute_ms(columns)
    none = np.zeros(columns.num_points)
    one = replace(
        fleet,
        num_gpus=np.ones((1, columns.num_points)),
        num_backup=np.zeros_like(fleet.num_backup),
        lines=scaled(makespan_lines_of(columns), by_compute, none),
        rest_lines=None,
        round_steps=None,
    )
    if not one.is_random:
        return _steady(columns, nominal_pipeline(columns).makespan_ms)
    slowest = pooled_slowest(one, with_quantiles=with_quantiles)
    p50, p95 = slowest.quantiles[:, 0], slowest.quantiles[:, 1]
    # Factors of mean 1: on one straight line the mean is known, on several none is less (Jensen).
    nominal = nominal_pipeline(columns).makespan_ms * by_compute
    is_straight = np.ptp(makespan_lines_of(columns).slope, axis=0) == 0
    mean = np.where(is_straight, nominal, np.maximum(slowest.mean, nominal))
    return Passes(mean, none, p50, p95, none + 1)


def _steady(columns: Columns, makespan_ms: Floats) -> Passes:
    mean = makespan_ms / compute_ms(columns)
    none = np.zeros(columns.num_points)
    return Passes(mean, none, mean, mean, none + 1)


def _staged(columns: Columns, fleet: Fleet) -> Passes:
    found = replica_makespans(fleet, columns["seed"], columns["draws"])
    return Passes(found.mean, found.mean_se, found.p50, found.p95, found.busy_mean.mean(axis=0))
