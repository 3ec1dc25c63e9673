"""From the slowest factor to steps, losses and their causes.

Definitions: design page "The model", sections 2 and 4; names: "Decisions", 1 and 2.
"""

import numpy as np

from service.model.barrier import Slowest
from service.model.columns import Columns, Floats

HOURS_PER_DAY = 24.0
# Some thirty temporaries of so many points stay in the second-level cache.
BLOCK_POINTS = 2048


def slowest_nominal(columns: Columns) -> Floats:
    """(points,) factor of the slowest GPU when nothing varies: 1 / the lowest speed present."""
    factor = np.where(columns.num_nominal > 0, 1.0, 0.0)
    if columns.slow_count.shape[1]:
        slow = np.where(columns.slow_count > 0, 1.0 / columns.slow_speed, 0.0)
        factor = np.maximum(factor, slow.max(axis=1))
    return factor


def loss_columns(columns: Columns, slowest: Slowest) -> dict[str, Floats]:
    """All float output columns, (points,) each, from the slowest factor of every point."""
    found: dict[str, Floats] = {}
    for start in range(0, columns.num_points, BLOCK_POINTS):
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
    lost_fraction = (step - ideal) / step
    compute_fraction = compute / step
    load_fraction = load / step
    useful = available * compute_fraction
    lost = available * lost_fraction
    return {
        "ideal_step_ms": ideal,
        "step_mean_ms": step,
        "slowest_compute_mean_ms": slowest_compute,
        "step_p50_ms": outside + compute * slowest.quantiles[:, 0],
        "step_p95_ms": outside + compute * slowest.quantiles[:, 1],
        "step_p99_ms": outside + compute * slowest.quantiles[:, 2],
        "efficiency_fraction": ideal / step,
        "useful_compute_fraction": compute_fraction,
        "displayed_utilization_fraction": 1.0 - load_fraction,
        "gpu_hours_available_per_day": per_day,
        "gpu_hours_lost_per_day": per_day * lost_fraction,
        "gpu_hours_available": available,
        "gpu_hours_lost": lost,
        "gpu_hours_not_useful": available - useful,
        "gpu_hours_above_nominal": lost,
        "gpu_hours_useful": useful,
        "gpu_hours_transient": available * ((step - steady) / step),
        "gpu_hours_slow_groups": available * ((steady - ideal) / step),
        "gpu_hours_communication": available * (allreduce / step),
        "gpu_hours_load": available * load_fraction,
    }
