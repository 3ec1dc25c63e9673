"""From the slowest factor to steps, losses and their causes.

Definitions: design page "The model", sections 2 and 4; names: "Decisions", 1 and 2.
"""

import numpy as np
from numpy.typing import NDArray

from service.model.barrier import Slowest
from service.model.columns import Columns, Floats

HOURS_PER_DAY = 24.0


def slowest_nominal(columns: Columns) -> Floats:
    """(points,) factor of the slowest GPU when nothing varies: 1 / the lowest speed present."""
    factor = np.where(columns.num_nominal > 0, 1.0, 0.0)
    if columns.slow_count.shape[1]:
        slow = np.where(columns.slow_count > 0, 1.0 / columns.slow_speed, 0.0)
        factor = np.maximum(factor, slow.max(axis=1))
    return factor


def loss_columns(columns: Columns, slowest: Slowest) -> dict[str, NDArray[np.float64]]:
    """All float output columns, (points,) each, from the slowest factor of every point.

    The causes are telescoping counterfactual steps: without the transient source, without the
    slow groups too, without communication, without load; so they sum to what is available.
    """
    outside = columns.load_ms + columns.allreduce_ms
    ideal = outside + columns.compute_ms
    compute = columns.compute_ms * slowest.mean
    # Without variability the slowest GPU is the slowest kind. Its expectation under variability
    # is never below (Jensen); the difference of round-off is not a gain.
    steady = outside + columns.compute_ms * slowest_nominal(columns)
    step = np.maximum(outside + compute, steady)
    per_day = HOURS_PER_DAY * columns.num_gpus
    available = per_day * columns.period_days
    lost_fraction = (step - ideal) / step
    useful = available * (columns.compute_ms / step)
    lost = available * lost_fraction
    quantiles = outside[:, np.newaxis] + columns.compute_ms[:, np.newaxis] * slowest.quantiles
    return {
        "ideal_step_ms": ideal,
        "step_mean_ms": step,
        "slowest_compute_mean_ms": compute,
        "step_p50_ms": quantiles[:, 0],
        "step_p95_ms": quantiles[:, 1],
        "step_p99_ms": quantiles[:, 2],
        "efficiency_fraction": ideal / step,
        "useful_compute_fraction": columns.compute_ms / step,
        "displayed_utilization_fraction": 1.0 - columns.load_ms / step,
        "gpu_hours_available_per_day": per_day,
        "gpu_hours_lost_per_day": per_day * lost_fraction,
        "gpu_hours_available": available,
        "gpu_hours_lost": lost,
        "gpu_hours_not_useful": available - useful,
        "gpu_hours_above_nominal": lost.copy(),
        "gpu_hours_useful": useful,
        "gpu_hours_transient": available * ((step - steady) / step),
        "gpu_hours_slow_groups": available * ((steady - ideal) / step),
        "gpu_hours_communication": available * (columns.allreduce_ms / step),
        "gpu_hours_load": available * (columns.load_ms / step),
    }
