"""Clusters that are alike but for the episodes that a window happens to hold.

What episodes add to a step is taken as a gamma of its mean and variance about a step without any,
as in `clusters/steady_spread.py`. Their variance is worked out for episodes alone; where steps vary
as well, episodes show less beside that noise, and their deviation goes with what they add to the
mean step.
"""

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.spread_types import MONTE_CARLO, QUADRATURE, Spread
from service.model.clusters.steady_spread import delayed_quantiles, normal_spread
from service.model.fleet import Episodes
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import episodes_part, fleeting_part
from service.model.pipeline.episode_windows import kept_variance
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_places import placements_of
from service.model.pipeline.replica_states import is_exact
from service.model.pipeline.simulate import simulate_pipelines

Ints = NDArray[np.int64]

_ROUND_OFF = 1e-12


def has_known_episodes(cluster: OneCluster) -> bool:
    """Whether the distribution of what episodes alone do to a step is worked out."""
    return is_exact(episodes_part(cluster))


def episode_spread(
    cluster: OneCluster, seed: Ints, draws: Ints, *, num_rounds: Floats, window_hours: float
) -> Spread:
    """Of a cluster in which nothing lasting is random; seed, draws, num_rounds (1,)."""
    rho = cluster.fleet.outside_ratio
    whole = simulate_pipelines(cluster.fleet, seed, draws)
    healthy = simulate_pipelines(fleeting_part(cluster).fleet, seed, draws)
    alone = alone_of(episodes_part(cluster), window_hours)
    added = np.maximum(whole.mean - healthy.mean, 0.0) if alone.added > 0 else np.zeros(1)
    found = normal_spread(whole.mean, healthy.variance / num_rounds, rho)
    to_rate = (rho + whole.mean) ** 2
    # NaN where the noise of steps is too much.
    of_steps = (found.reciprocal_sd * to_rate) ** 2
    variance = of_steps + alone.variance * (added / (alone.added or 1.0)) ** 2
    quantiles = delayed_quantiles(whole.mean - added, added, variance)
    return replace(
        found,
        quantiles=quantiles,
        quantiles_se=np.broadcast_to(whole.mean_se[:, np.newaxis], quantiles.shape),
        mean_se=whole.mean_se,
        reciprocal_mean_se=whole.mean_se / to_rate,
        reciprocal_sd=np.sqrt(variance) / to_rate,
        method=np.where(whole.is_exact, QUADRATURE, MONTE_CARLO).astype(np.int8),
    )


class Alone(NamedTuple):
    """What episodes do where nothing else is random.

    added      to the mean step
    variance   of a window's effective step
    kept       of the variance of a moment
    """

    added: float
    variance: float
    kept: float


def alone_of(cluster: OneCluster, window_hours: float) -> Alone:
    """Of a cluster with `has_known_episodes` and nothing else that is random."""
    rho, episodes = float(cluster.fleet.outside_ratio[0]), cast("Episodes", cluster.fleet.episodes)
    placements = placements_of(cluster)
    probability = placements.step_probability
    rate = 1 / (rho + np.maximum(placements.step, cluster.floor))
    kept = kept_variance(rate, probability, float(episodes.mean_hours[0]), window_hours)
    effective = 1 / float(probability @ rate)
    without = placements_of(fleeting_part(cluster))
    healthy = float(without.step_probability @ without.step)
    added = effective - rho - max(healthy, cluster.floor)
    variance = float(probability @ (rate - 1 / effective) ** 2)
    return Alone(
        added=added if added > _ROUND_OFF else 0.0,
        variance=kept * effective**4,
        kept=kept / variance if variance > 0 else 0.0,
    )
