"""The spread of the window's mean step over pipelined clusters.

Where nothing lasts, clusters differ by the noise of their steps alone, which is normal; where
everything lasts, all steps of a cluster are alike, and what is drawn of a step is drawn of the
cluster. Both together are not covered, nor are episodes and autocorrelation.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.sampled_spread import sampled
from service.model.clusters.spread_types import (
    CLOSED_FORM,
    MONTE_CARLO,
    QUADRATURE,
    SPREAD_PROBABILITIES,
    Spread,
    empty_spread,
    put,
)
from service.model.clusters.steady_spread import normal_spread
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact, kinds_of
from service.model.pipeline.rounds import rounds_of
from service.model.pipeline.simulate import Piped, num_lanes_of, simulate_pipelines
from service.model.pipeline.weighted_quantiles import weighted_quantiles

Ints = NDArray[np.int64]


def spread_of_pipelines(fleet: Fleet, seed: Ints, draws: Ints, num_steps: Floats) -> Spread:
    """(points,) each; NaN where it is not covered. `num_steps` are those of a window."""
    found = empty_spread(fleet.num_points)
    for point, cluster in enumerate(clusters_of(fleet)):
        rows = np.array([point])
        is_lasting = _differs(cluster)
        if fleet.episodes is not None or (is_lasting and _varies(cluster)):
            continue
        if not is_lasting and not _is_correlated(cluster):
            piped = simulate_pipelines(fleet.part(rows), seed[rows], draws[rows])
            put(found, rows, _of_steps(piped, cluster, num_steps[rows]))
        elif is_lasting and not cluster.is_random and is_exact(cluster):
            put(found, rows, _of_placements(cluster))
        elif is_lasting:
            put(found, rows, _of_clusters(cluster, int(seed[point]), int(draws[point])))
    return found


def _differs(cluster: OneCluster) -> bool:
    return cluster.differs_lastingly or len(kinds_of(cluster).number) > 0


def _varies(cluster: OneCluster) -> bool:
    return cluster.fleet.varies_per_step or cluster.shape.jitter is not None


def _is_correlated(cluster: OneCluster) -> bool:
    return cluster.fleet.transient is not None and bool(cluster.fleet.autocorrelation.any())


def _of_steps(piped: Piped, cluster: OneCluster, num_steps: Floats) -> Spread:
    """The noise of a window is known better than what it lies about, where that was sampled."""
    num_rounds = np.maximum(num_steps / cluster.shape.round_steps, 1.0)
    rho = cluster.fleet.outside_ratio
    found = normal_spread(piped.mean, piped.variance / num_rounds, rho)
    if piped.is_exact[0]:
        found.method[:] = CLOSED_FORM if piped.variance[0] == 0 else QUADRATURE
        return found
    return replace(
        found,
        quantiles_se=np.broadcast_to(piped.mean_se[:, np.newaxis], found.quantiles.shape),
        mean_se=piped.mean_se,
        reciprocal_mean_se=piped.mean_se / (rho + piped.mean) ** 2,
        method=np.full(len(rho), MONTE_CARLO, dtype=np.int8),
    )


def _of_placements(cluster: OneCluster) -> Spread:
    placements = placements_of(cluster)
    probability = placements.step_probability
    step = np.maximum(placements.step, cluster.floor)
    mean = probability @ step
    reciprocal = 1 / (cluster.fleet.outside_ratio[0] + step)
    reciprocal_mean = probability @ reciprocal
    found = normal_spread(np.array([mean]), np.zeros(1), cluster.fleet.outside_ratio)
    found.quantiles[0] = weighted_quantiles(step, probability, SPREAD_PROBABILITIES)
    found.method[:] = CLOSED_FORM
    found.reciprocal_mean[0] = reciprocal_mean
    found.reciprocal_sd[0] = (probability @ (reciprocal - reciprocal_mean) ** 2) ** 0.5
    return found


def _of_clusters(cluster: OneCluster, seed: int, draws: int) -> Spread:
    step = np.maximum(rounds_of(cluster, seed, num_lanes_of(draws)).step, cluster.floor)
    found = empty_spread(1)
    found.method[:] = MONTE_CARLO
    values = sampled(step, 0.0, float(cluster.fleet.outside_ratio[0]), seed)
    for name, value in values._asdict().items():
        getattr(found, name)[0] = value
    return found
