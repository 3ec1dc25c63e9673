"""From the slowest factor to steps, losses and their causes.

Definitions: design page "The model", sections 2 and 4; names: "Decisions", 1 and 2.
"""

import numpy as np

from service.model.barrier import Slowest
from service.model.columns import Columns, Floats

HOURS_PER_DAY = 24.0
# Temporaries of so many points stay in cache, and NumPy's own time per call is small.
BLOCK_POINTS = 8192


def slowest_nominal(columns: Columns) -> Floats:
    """(points,) factor of the slowest GPU when nothing varies: 1 / the lowest speed present."""
    factor = (columns.num_nominal > 0).astype(np.float64)
    for count, speed in zip(columns.slow_count.T, columns.slow_speed.T, strict=True):
        np.maximum(factor, (count > 0) / speed, out=factor)
    return factor


def loss_columns(columns: Columns, slowest: Slowest) -> dict[str, Floats]:
    """All float output columns, (points,) each, from the slowest factor of every point."""
    found: dict[str, Floats] = {}
    # One block, empty, where there is no point: the columns exist all the same.
    for start in range(0, max(columns.num_points, 1), BLOCK_POINTS):
        rows = slice(start, start + BLOCK_POINTS)
        part = Slowest(mean=slowest.mean[rows], quantiles=slowest.quantiles[rows])
        for name, values in _block(columns.part(rows), part).items():
            if name not in found:
                found[name] = np.empty(columns.num_points)
            found[name][rows] = values
    return found


def _block(columns: Columns, slowest: Slowest) -> dict[str, Floats]:
    """The causes are telescoping counterfactual steps.

    Without the transient source, without the slow groups too, without communication, without load:
    so they sum to what is available.
    """
    load, allreduce, compute = columns.load_ms, columns.allreduce_ms, columns.compute_ms
    outside = load + allreduce
    ideal = outside + compute
    slowest_compute = compute * slowest.mean
    # Without variability the slowest GPU is the slowest kind. Its expectation under variability
    # is never below (Jensen); the difference of round-off is not a gain.
    steady = outside + compute * slowest_nominal(columns)
    step = np.maximum(outside + slowest_compute, steady)
    per_day = HOURS_PER_DAY * columns.num_gpus
    available = per_day * columns.period_days
    per_ms = available / step
    lost = per_ms * (step - ideal)
    return {
        "ideal_step_ms": ideal,
        "step_mean_ms": step,
        "slowest_compute_mean_ms": slowest_compute,
        "step_p50_ms": outside + compute * slowest.quantiles[:, 0],
        "step_p95_ms": outside + compute * slowest.quantiles[:, 1],
        "step_p99_ms": outside + compute * slowest.quantiles[:, 2],
        "efficiency_fraction": ideal / step,
        "useful_compute_fraction": compute / step,
        "displayed_utilization_fraction": 1.0 - load / step,
        "gpu_hours_available_per_day": per_day,
        "gpu_hours_lost_per_day": lost / columns.period_days,
        "gpu_hours_available": available,
        "gpu_hours_lost": lost,
        "gpu_hours_not_useful": per_ms * (step - compute),
        "gpu_hours_above_nominal": lost,
        "gpu_hours_useful": per_ms * compute,
        "gpu_hours_transient": per_ms * (step - steady),
        "gpu_hours_slow_groups": per_ms * (steady - ideal),
        "gpu_hours_communication": per_ms * allreduce,
        "gpu_hours_load": per_ms * load,
    }
