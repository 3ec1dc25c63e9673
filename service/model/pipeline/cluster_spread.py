"""The spread of the window's mean step over pipelined clusters.

Where nothing lasts, clusters differ by the noise of their steps, which is normal, and by their
episodes (`episode_spread.py`); where everything lasts, all steps of a cluster are alike, and what
is drawn of a step is drawn of the cluster. Where some does: `mixed_spread.py`, with episodes
`mixed_episodes.py`. Not covered are episodes of too many states, and autocorrelation where its
noise makes the spread.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.sampled_spread import Sampled, sampled
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
from service.model.pipeline.episode_spread import episode_spread, has_known_episodes
from service.model.pipeline.mixed_episodes import mixed_episodes
from service.model.pipeline.mixed_spread import mixed_spread
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact, kinds_of
from service.model.pipeline.rounds import rounds_of
from service.model.pipeline.simulate import Piped, num_lanes_of, simulate_pipelines
from service.model.pipeline.weighted_quantiles import weighted_quantiles

Ints = NDArray[np.int64]


class _Window(NamedTuple):
    """Of one point; seed, draws and num_rounds (1,)."""

    seed: Ints
    draws: Ints
    num_rounds: Floats
    hours: float


def spread_of_pipelines(
    fleet: Fleet, seed: Ints, draws: Ints, *, num_steps: Floats, window_hours: Floats
) -> Spread:
    """(points,) each; NaN where it is not covered. `num_steps`, `window_hours` of a window."""
    found = empty_spread(fleet.num_points)
    for point, cluster in enumerate(clusters_of(fleet)):
        rows = np.array([point])
        window = _Window(
            seed[rows],
            draws[rows],
            np.maximum(num_steps[rows] / cluster.shape.round_steps, 1.0),
            float(window_hours[point]),
        )
        spread_of = _of_unequal if differs(cluster) else _of_equal
        put(found, rows, spread_of(cluster, window))
    return found


def _of_unequal(cluster: OneCluster, window: _Window) -> Spread:
    """Of clusters that differ for good."""
    seed, draws = int(window.seed[0]), int(window.draws[0])
    num_rounds, found = float(window.num_rounds[0]), None
    if cluster.fleet.episodes is not None:
        if has_known_episodes(cluster):
            found = mixed_episodes(cluster, seed, draws, num_rounds, window.hours)
        return empty_spread(1) if found is None else _of_sample(found)
    if varies(cluster):
        found = mixed_spread(cluster, seed, draws, num_rounds)
        return empty_spread(1) if found is None else _of_sample(found)
    if not cluster.is_random and is_exact(cluster):
        return _of_placements(cluster)
    return _of_clusters(cluster, seed, draws)


def _of_equal(cluster: OneCluster, window: _Window) -> Spread:
    """Of clusters that are alike."""
    fleet = cluster.fleet
    if _is_correlated(cluster) or (fleet.episodes is not None and not has_known_episodes(cluster)):
        return empty_spread(1)
    if fleet.episodes is not None:
        return episode_spread(
            cluster,
            window.seed,
            window.draws,
            num_rounds=window.num_rounds,
            window_hours=window.hours,
        )
    piped = simulate_pipelines(fleet, window.seed, window.draws)
    return _of_steps(piped, cluster, window.num_rounds)


def differs(cluster: OneCluster) -> bool:
    """Whether clusters do, for good."""
    return cluster.differs_lastingly or len(kinds_of(cluster).number) > 0


def varies(cluster: OneCluster) -> bool:
    """Whether steps of a cluster do."""
    return cluster.fleet.varies_per_step or cluster.shape.jitter is not None


def _is_correlated(cluster: OneCluster) -> bool:
    return cluster.fleet.transient is not None and bool(cluster.fleet.autocorrelation.any())


def _of_steps(piped: Piped, cluster: OneCluster, num_rounds: Floats) -> Spread:
    """The noise of a window is known better than what it lies about, where that was sampled."""
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
    return _of_sample(sampled(step, 0.0, float(cluster.fleet.outside_ratio[0]), seed))


def _of_sample(values: Sampled) -> Spread:
    found = empty_spread(1)
    found.method[:] = MONTE_CARLO
    for name, value in values._asdict().items():
        getattr(found, name)[0] = value
    return found
