"""Clusters that differ for good, with episodes: states and steps within random clusters.

As in `mixed_spread.py`, with rates 1 / (rho + step) in place of steps, since a window averages over
time: in each of a few rounds of a cluster other GPUs are in an episode. A rate is higher by
v / (rho + step)^3 than that of the mean step of its state, v the variance of steps in a state:
that of clusters of equal GPUs without episodes.
"""

import numpy as np

from service.model.clusters.sampled_spread import Sampled
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import alike_part, episodes_part, fleeting_part
from service.model.pipeline.episode_spread import Alone, alone_of
from service.model.pipeline.fitted_clusters import Drawn, Window, fitted
from service.model.pipeline.lasting_predictors import predictors_of
from service.model.pipeline.mixed_spread import (
    CLUSTERS_PER_DRAWN,
    NUM_INNER,
    is_negligible,
    is_too_much,
    most_inflation,
    num_drawn_lanes,
    slope_of,
)
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact
from service.model.pipeline.rounds import repeated_rounds


def mixed_episodes(
    cluster: OneCluster, seed: int, draws: int, num_rounds: float, window_hours: float
) -> Sampled | None:
    """Of the effective step of a window, over random clusters; None as in `mixed_spread`."""
    num_lanes = num_drawn_lanes(draws)
    rho = float(cluster.fleet.outside_ratio[0])
    variance = _step_variance(cluster, seed, num_lanes)
    rate, common = _rates(cluster, seed, num_lanes, variance)
    effective = 1 / float(rate.mean())
    inflation = most_inflation(cluster)
    noise = np.full(rate.shape[1], inflation * variance / num_rounds)
    if is_too_much(noise, effective - rho):
        return None
    inside = rate.var(axis=0, ddof=1) * effective**4 - variance
    rate -= slope_of(rate, common) * common
    luck, expected_luck = _luck(cluster, seed, num_lanes, variance)
    slope = slope_of(rate, luck)
    rate -= slope * luck
    drawn = Drawn(
        average=rate.mean(axis=0),
        noise=rate.var(axis=0, ddof=1) / NUM_INNER,
        luck=slope * expected_luck,
        predictors=predictors_of(cluster, seed, CLUSTERS_PER_DRAWN * num_lanes),
    )
    alone = alone_of(episodes_part(cluster), window_hours)
    window = Window(
        noise=noise + inside * alone.kept,
        outside_ratio=rho,
        held=lambda mean: 1 / mean - rho,
        shape=_shape(alone, float(noise.mean())),
    )
    found = fitted(drawn, window, seed)
    return None if inflation > 1 and not is_negligible(noise, found, rho) else found


def _shape(alone: Alone, noise: float) -> float:
    """Of the gamma that the delays of a window are, as far as they are above the noise of steps."""
    total = alone.variance + noise
    return alone.added**2 / total if alone.added > 0 and total > 0 else np.inf


def _step_variance(cluster: OneCluster, seed: int, num_lanes: int) -> float:
    alone = fleeting_part(cluster)
    if not alone.is_random:
        return 0.0
    step = repeated_rounds(alone, seed, num_lanes, NUM_INNER).step
    return float(np.maximum(step, alone.floor).var())


def _rates(
    cluster: OneCluster, seed: int, num_lanes: int, variance: float
) -> tuple[Floats, Floats]:
    """(inner, draws) rates at the mean step of a state, and the common factor's distance from 1."""
    rounds = repeated_rounds(cluster, seed, num_lanes, NUM_INNER)
    rho = cluster.fleet.outside_ratio[0]
    rate = 1 / (rho + np.maximum(rounds.step, cluster.floor))
    rate -= variance * rate**3
    return rate, rounds.common - 1


def _luck(cluster: OneCluster, seed: int, num_lanes: int, variance: float) -> tuple[Floats, Floats]:
    """(inner, draws) the same of clusters that are alike, and (draws,) what is expected."""
    alike = alike_part(cluster)
    rate, common = _rates(alike, seed, num_lanes, variance)
    if is_exact(alike):
        placements = placements_of(alike)
        of_step = 1 / (alike.fleet.outside_ratio[0] + np.maximum(placements.step, alike.floor))
        return rate, np.full(rate.shape[1], placements.step_probability @ of_step)
    luck = rate - slope_of(rate, common) * common
    return luck, luck.mean(axis=0)
