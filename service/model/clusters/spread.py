"""The spread over clusters of the window's mean slowest factor.

What is drawn once for a cluster sets clusters apart; what is drawn each step averages out over a
window of millions of steps. Definitions: design page "The model", section 3.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.cluster_spread import cluster_spread
from service.model.clusters.common_lines import with_common_in_lines
from service.model.clusters.even_spread import even_spread
from service.model.clusters.lasting_spread import lasting_spread
from service.model.clusters.narrow_steps import without_narrow_steps
from service.model.clusters.product_law import log_sds
from service.model.clusters.spread_types import Spread, empty_spread, put
from service.model.clusters.steady_spread import steady_spread
from service.model.clusters.unit_classes import NARROW
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.trifles import without_trifles

__all__ = ["Spread", "spread_of"]

# Standard deviation of 1 / (rho + m) over that of the mean m.
_WIDEST = 100.0


def spread_of(
    fleet: Fleet,
    *,
    seed: NDArray[np.int64],
    draws: NDArray[np.int64],
    num_steps: Floats,
    window_hours: Floats,
) -> Spread:
    """The spread at every point.

    seed, draws   (points,) of the random clusters, where there is no way without
    num_steps     (points,) in the window: the noise of the steps is averaged over them
    window_hours  (points,) the episodes' is averaged over it

    Where the fleet has lines, m is what a step takes, as a factor.

    NaN where it is not covered: backup workers beside lasting factors; GPUs of several speeds, or
    evicted ones, in tensor-parallel groups that share a replica's factor beside lasting factors.
    """
    found = empty_spread(fleet.num_points)
    for rows, part in without_trifles(fleet):
        of_part = _spread_of(
            part,
            seed=seed[rows],
            draws=draws[rows],
            num_steps=num_steps[rows],
            window_hours=window_hours[rows],
        )
        put(found, rows, _bounded(of_part, part))
    return found


def _bounded(found: Spread, fleet: Fleet) -> Spread:
    """Without moments of 1 / (rho + m) where a few clusters of next to no time make them up."""
    is_wide = found.reciprocal_sd * (fleet.outside_ratio + found.mean) > _WIDEST
    names = ("reciprocal_mean", "reciprocal_mean_se", "reciprocal_sd")
    kept = {name: np.where(is_wide, np.nan, getattr(found, name)) for name in names}
    return replace(found, **kept)


def _spread_of(
    fleet: Fleet,
    *,
    seed: NDArray[np.int64],
    draws: NDArray[np.int64],
    num_steps: Floats,
    window_hours: Floats,
) -> Spread:
    """Of points whose sources all matter."""
    if not fleet.is_random:
        return even_spread(fleet)
    fleet = with_common_in_lines(fleet)
    if fleet.persistent is None and fleet.node is None:
        return steady_spread(fleet, num_steps, window_hours)
    found = empty_spread(fleet.num_points)
    for rows, part in without_narrow_steps(fleet):
        of_part = _lasting(
            part,
            seed=seed[rows],
            draws=draws[rows],
            num_steps=num_steps[rows],
            window_hours=window_hours[rows],
        )
        put(found, rows, of_part)
    return found


def _lasting(
    fleet: Fleet,
    *,
    seed: NDArray[np.int64],
    draws: NDArray[np.int64],
    num_steps: Floats,
    window_hours: Floats,
) -> Spread:
    """Where clusters differ for good."""
    found = empty_spread(fleet.num_points)
    exact = _is_exact(fleet)
    rows = np.flatnonzero(exact)
    put(found, rows, lasting_spread(fleet.part(rows)))
    rows = np.flatnonzero(~exact & _is_covered(fleet))
    sampled = cluster_spread(
        fleet.part(rows),
        seed=seed[rows],
        draws=draws[rows],
        num_steps=num_steps[rows],
        window_hours=window_hours[rows],
    )
    put(found, rows, sampled)
    return found


def _is_exact(fleet: Fleet) -> NDArray[np.bool_]:
    """(points,) where the steps of a cluster are as good as equal.

    So they are where nothing is drawn per step. Where it is, but is narrow, its scatter between
    steps is counted as one between clusters: under 1 % of their standard deviation.
    """
    simple: NDArray[np.bool_] = (fleet.num_removed == 0) & (fleet.num_backup == 0)
    if fleet.node is None and _nothing_per_step(fleet):
        simple[:] = True
    if fleet.spikes is not None or fleet.episodes is not None:
        simple[:] = False
    ratio = _log_sd(fleet.transient, fleet.replica) / _log_sd(fleet.persistent, fleet.node)
    is_exact: NDArray[np.bool_] = simple & (ratio < NARROW)
    return is_exact


def _is_covered(fleet: Fleet) -> NDArray[np.bool_]:
    """(points,) where random clusters can be drawn."""
    covered: NDArray[np.bool_] = fleet.num_backup == 0
    if fleet.replica is not None:
        covered &= (fleet.num_removed == 0) | (fleet.tensor_parallel_size == 1)
    return covered


def _nothing_per_step(fleet: Fleet) -> bool:
    return fleet.transient is None and fleet.replica is None


def _log_sd(*sources: Source | None) -> Floats:
    """(points,) about the standard deviation of the product's logarithm; 0 for no source."""
    variance: Floats = np.zeros(1)
    for source in sources:
        if source is not None:
            variance = variance + log_sds(source.law, source.shape) ** 2
    return np.sqrt(variance)
