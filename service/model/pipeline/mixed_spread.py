"""Clusters that differ for good, with steps that differ too: steps within random clusters."""

import numpy as np

from service.model.clusters.sampled_spread import Sampled
from service.model.clusters.steady_spread import MOST_NOISE
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import fleeting_part
from service.model.pipeline.fitted_clusters import Drawn, Window, fitted
from service.model.pipeline.floored_means import FlooredMeans
from service.model.pipeline.lasting_predictors import predictors_of
from service.model.pipeline.luck import without_luck
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.rounds import repeated_rounds

CLUSTERS_PER_DRAWN = 4
"""Of so many clusters steps are drawn for one."""
NUM_INNER = 4
"""Rounds of steps of it."""
_NEGLIGIBLE = 0.15
"""Of the standard deviation: 1 % of it, if all of it were wrong."""


def num_drawn_lanes(draws: int) -> int:
    """Lanes of clusters of which steps are drawn."""
    return -(-draws // (LANE * CLUSTERS_PER_DRAWN))


def mixed_spread(cluster: OneCluster, seed: int, draws: int, num_rounds: float) -> Sampled | None:
    """Of the mean step of a window of so many rounds, over random clusters.

    None where the noise of the steps of a window is too much, or, beside autocorrelation, not
    negligible: it is counted as that of one GPU's steps, which is more than it is.
    """
    num_lanes = num_drawn_lanes(draws)
    rounds = repeated_rounds(cluster, seed, num_lanes, NUM_INNER)
    floored = np.maximum(rounds.step, cluster.floor)
    inflation = most_inflation(cluster)
    noise = inflation * floored.var(axis=0, ddof=1) / num_rounds
    if is_too_much(noise, float(floored.mean())):
        return None
    plain = without_luck(rounds, fleeting_part(cluster), seed, lambda step: step)
    drawn = Drawn(
        average=plain.values.mean(axis=0),
        noise=plain.values.var(axis=0, ddof=1) / NUM_INNER,
        luck=plain.expected,
        predictors=predictors_of(cluster, seed, CLUSTERS_PER_DRAWN * num_lanes),
    )
    rho = float(cluster.fleet.outside_ratio[0])
    held = FlooredMeans(cluster.floor, rounds.step).of
    found = fitted(drawn, Window(noise, rho, held, plain.error), seed)
    return None if inflation > 1 and not is_negligible(noise, found, rho) else found


def is_too_much(noise: Floats, mean: float) -> bool:
    """Whether windows of noise of these variances are no averages of many steps."""
    return float(noise.mean()) > (MOST_NOISE * mean) ** 2


def is_negligible(noise: Floats, found: Sampled, outside_ratio: float) -> bool:
    """Whether noise of these variances may as well be wrong."""
    sd = found.reciprocal_sd * (outside_ratio + found.mean) ** 2
    return float(noise.mean()) <= (_NEGLIGIBLE * sd) ** 2


def most_inflation(cluster: OneCluster) -> float:
    """At most so many times as much of their variance a window's steps keep if correlated."""
    if cluster.fleet.transient is None:
        return 1.0
    phi = float(cluster.fleet.autocorrelation[0])
    return (1 + phi) / (1 - phi)
