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
from service.model.pipeline.luck import without_luck
from service.model.pipeline.mixed_spread import (
    CLUSTERS_PER_DRAWN,
    NUM_INNER,
    is_negligible,
    is_too_much,
    most_inflation,
    num_drawn_lanes,
)
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.rounds import repeated_rounds


def mixed_episodes(
    cluster: OneCluster, seed: int, draws: int, num_rounds: float, window_hours: float
) -> Sampled | None:
    """Of the effective step of a window, over random clusters; None as in `mixed_spread`."""
    num_lanes = num_drawn_lanes(draws)
    rho = float(cluster.fleet.outside_ratio[0])
    variance = _step_variance(cluster, seed, num_lanes)

    def rate_of(step: Floats) -> Floats:
        """At the mean step of a state."""
        rate = 1 / (rho + np.maximum(step, cluster.floor))
        found: Floats = rate - variance * rate**3
        return found

    rounds = repeated_rounds(cluster, seed, num_lanes, NUM_INNER)
    rate = rate_of(rounds.step)
    effective = 1 / float(rate.mean())
    inflation = most_inflation(cluster)
    noise = np.full(rate.shape[1], inflation * variance / num_rounds)
    if is_too_much(noise, effective - rho):
        return None
    plain = without_luck(rounds, alike_part(cluster), seed, rate_of)
    drawn = Drawn(
        average=plain.values.mean(axis=0),
        noise=plain.values.var(axis=0, ddof=1) / NUM_INNER,
        luck=plain.expected,
        predictors=predictors_of(cluster, seed, CLUSTERS_PER_DRAWN * num_lanes),
    )
    alone = alone_of(episodes_part(cluster), window_hours)
    inside = rate.var(axis=0, ddof=1) * effective**4 - variance
    window = Window(
        noise=noise + inside * alone.kept,
        outside_ratio=rho,
        held=lambda mean: 1 / mean - rho,
        error=plain.error * effective**2,
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
