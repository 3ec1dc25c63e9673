"""Clusters that differ for good, with steps that differ too: steps within random clusters."""

import numpy as np

from service.model.clusters.sampled_spread import Sampled
from service.model.clusters.steady_spread import MOST_NOISE
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import fleeting_part
from service.model.pipeline.fitted_clusters import Drawn, Window, fitted
from service.model.pipeline.floored_means import FlooredMeans
from service.model.pipeline.lasting_predictors import predictors_of
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact
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
    inflation = _most_inflation(cluster)
    noise = (inflation * float(floored.var(axis=0, ddof=1).mean()) / num_rounds) ** 0.5
    if noise > MOST_NOISE * floored.mean():
        return None
    common = rounds.common - 1
    step = rounds.step - _slope(rounds.step, common) * common
    luck, expected_luck = _luck(cluster, seed, num_lanes)
    slope = _slope(step, luck)
    step -= slope * luck
    drawn = Drawn(
        average=step.mean(axis=0),
        noise=step.var(axis=0, ddof=1) / NUM_INNER,
        luck=slope * expected_luck,
        predictors=predictors_of(cluster, seed, CLUSTERS_PER_DRAWN * num_lanes),
    )
    rho = float(cluster.fleet.outside_ratio[0])
    held = FlooredMeans(cluster.floor, rounds.step).of
    found = fitted(drawn, Window(noise, rho, held), seed)
    sd = found.reciprocal_sd * (rho + found.mean) ** 2
    return None if inflation > 1 and noise > _NEGLIGIBLE * sd else found


def _most_inflation(cluster: OneCluster) -> float:
    """At most so many times as much of their variance a window's steps keep if correlated."""
    if cluster.fleet.transient is None:
        return 1.0
    phi = float(cluster.fleet.autocorrelation[0])
    return (1 + phi) / (1 - phi)


def _luck(cluster: OneCluster, seed: int, num_lanes: int) -> tuple[Floats, Floats]:
    """(inner, draws) the same steps of a cluster of equal GPUs, and (draws,) what is expected."""
    alone = fleeting_part(cluster)
    rounds = repeated_rounds(alone, seed, num_lanes, NUM_INNER)
    if is_exact(alone):
        placements = placements_of(alone)
        expected = placements.step_probability @ placements.step
        return rounds.step, np.full(rounds.step.shape[1], expected)
    common = rounds.common - 1
    luck = rounds.step - _slope(rounds.step, common) * common
    return luck, luck.mean(axis=0)


def _slope(step: Floats, control: Floats) -> float:
    """Of steps by a control, both (inner, draws), within clusters."""
    inside, around = step - step.mean(axis=0), control - control.mean(axis=0)
    square = float(np.vdot(around, around))
    return float(np.vdot(around, inside)) / square if square > 0 else 0.0
