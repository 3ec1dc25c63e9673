"""The spread of the window's loss over clusters and steps, as output columns.

Definitions: design page "The model", section 3, "Spread of the window's loss". The window's mean
slowest factor m of a random cluster comes from `spread.py`; the loss rises with m, so its quantiles
are those of m put into the loss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.active import HOURS_PER_DAY
from service.model.clusters.spread import Spread, spread_of
from service.model.clusters.spread_types import empty_spread
from service.model.clusters.steady_spread import normal_spread
from service.model.columns import Columns, Floats
from service.model.fleet import Fleet
from service.model.fleets import Rows, Structure
from service.model.losses import MS_PER_HOUR, Step, step_of
from service.model.piped_fleets import beside
from service.model.pipeline.cluster_spread import spread_of_pipelines
from service.model.results import METHODS
from service.model.round_means import with_round_means
from service.model.slowest.barrier import Slowest
from service.model.times import compute_ms

STATISTICS = ("p10", "p50", "p90")
ROUND_OFF = 1e-13
CLOSED_FORM = METHODS.index("closed_form")


class _Losses(NamedTuple):
    """Of the window: quantiles and their errors (points, 3), the others (points,)."""

    quantiles: Floats
    quantiles_se: Floats
    cluster_mean: Floats
    cluster_mean_se: Floats
    sd: Floats
    method: NDArray[np.int8]


def spread_columns(
    columns: Columns, structures: Sequence[Structure], steps: Slowest, time_ratio: Floats
) -> dict[str, NDArray[Any]]:
    """Quantiles, mean and deviation of the loss, with standard errors; (points,) each.

    Where nothing varies all are the loss. `steps` are what steps take, as factors.
    """
    step = step_of(columns, steps.mean, time_ratio)
    available = HOURS_PER_DAY * step.held * columns["period_days"]
    losses = _steady(available * (1 - step.efficiency))
    for rows, part, fleet in structures:
        if fleet.is_random or fleet.pipeline is not None:
            of_rows = step_of(part, steps.mean[rows], time_ratio[rows])
            spread = _spread(part, fleet, of_rows, steps.taken(rows))
            found = _losses(spread, of_rows, available[rows])
            _put(losses, rows, found)
    return _named(losses, available)


def no_spread(num_points: int) -> dict[str, NDArray[Any]]:
    """The same columns where nobody asked for a spread."""
    unknown = np.full(num_points, np.nan)
    return _named(_steady(unknown), unknown)


def _spread(columns: Columns, fleet: Fleet, step: Step, slowest: Slowest) -> Spread:
    """Once for points that share everything that matters; NaN where only a recursion would do."""
    if fleet.is_simulated:
        return empty_spread(fleet.num_points)
    window_hours = HOURS_PER_DAY * columns["period_days"]
    num_steps = window_hours * MS_PER_HOUR * step.time_ratio / step.mean
    if fleet.round_steps is not None:
        num_steps = num_steps / fleet.round_steps
    if fleet.pipeline is not None:
        return _piped(columns, fleet, num_steps, window_hours.astype(np.float64))
    fleet = with_round_means(fleet)
    if _is_noise_of_steps(fleet, slowest):
        return normal_spread(slowest.mean, slowest.variance / num_steps, fleet.outside_ratio)
    given = {
        "seed": columns["seed"],
        "draws": columns["draws"],
        "num_steps": num_steps,
        "window_hours": window_hours.astype(np.float64),
    }
    if columns.step_key is None:
        return spread_of(fleet, **given)
    _, first, inverse = np.unique(columns.step_key, return_index=True, return_inverse=True)
    distinct = {name: values[first] for name, values in given.items()}
    return spread_of(fleet.part(first), **distinct).taken(inverse)


def _piped(columns: Columns, fleet: Fleet, num_steps: Floats, window_hours: Floats) -> Spread:
    """Of the slowest replica, with what is beside it in a step."""
    shift = beside(columns).step_shift / compute_ms(columns)
    spread = spread_of_pipelines(
        fleet, columns["seed"], columns["draws"], num_steps=num_steps, window_hours=window_hours
    )
    return replace(
        spread, quantiles=spread.quantiles + shift[:, np.newaxis], mean=spread.mean + shift
    )


def _is_noise_of_steps(fleet: Fleet, slowest: Slowest) -> bool:
    """Whether independent steps, whose variance is known, are all there is."""
    independent = fleet.only_source is not None and fleet.persistent is None
    return (
        independent
        and not fleet.autocorrelation.any()
        and not bool(np.isnan(slowest.variance).any())
    )


def _losses(spread: Spread, step: Step, available: Floats) -> _Losses:
    """From factors m to losses A (1 - k / (rho + m)), whose slope by m is A k / (rho + m)^2."""
    ideal = step.ideal / step.compute
    # k, the efficiency times rho + m whatever m is, over rho + 1: 1 where all GPUs held work all
    # the time.
    share = step.time_ratio * step.mean / step.per_work
    beyond = spread.quantiles - 1
    stretched = ideal[:, np.newaxis] + beyond
    gain = available * share * ideal
    idle = ((1 - share) * ideal)[:, np.newaxis]
    slope = gain[:, np.newaxis] / stretched**2
    mean = available - gain * spread.reciprocal_mean
    # A difference of nearly equal numbers: its round-off is no loss.
    mean[np.abs(mean) < ROUND_OFF * available] = 0.0
    return _Losses(
        quantiles=available[:, np.newaxis] * (idle + beyond) / stretched,
        quantiles_se=slope * spread.quantiles_se,
        cluster_mean=mean,
        cluster_mean_se=gain * spread.reciprocal_mean_se,
        sd=gain * spread.reciprocal_sd,
        method=spread.method,
    )


def _put(losses: _Losses, rows: Rows, found: _Losses) -> None:
    pairs: Iterator[tuple[NDArray[Any], NDArray[Any]]] = zip(losses, found, strict=True)
    for values, some in pairs:
        values[rows] = some


def _steady(lost: Floats) -> _Losses:
    zeros = np.zeros((len(lost), len(STATISTICS)))
    return _Losses(
        quantiles=zeros + lost[:, np.newaxis],
        quantiles_se=zeros.copy(),
        cluster_mean=lost.copy(),
        cluster_mean_se=np.zeros(len(lost)),
        sd=np.zeros(len(lost)),
        method=np.full(len(lost), CLOSED_FORM, dtype=np.int8),
    )


def _named(losses: _Losses, available: Floats) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {
        "gpu_hours_lost_cluster_mean": losses.cluster_mean,
        "gpu_hours_lost_cluster_mean_se": losses.cluster_mean_se,
        "gpu_hours_lost_sd": losses.sd,
        # Where there is no spread there is no method either.
        "spread_method": np.where(np.isnan(losses.cluster_mean), -1, losses.method).astype(np.int8),
    }
    for place, name in enumerate(STATISTICS):
        found[f"gpu_hours_lost_{name}"] = losses.quantiles[:, place]
        found[f"gpu_hours_lost_{name}_se"] = losses.quantiles_se[:, place]
        # The least efficient clusters lose most.
        opposite = losses.quantiles[:, len(STATISTICS) - 1 - place]
        found[f"efficiency_fraction_{name}"] = 1 - opposite / available
    return found
