"""What tells a random cluster's mean step from what lasts in it, without drawing a step."""

import numpy as np
from scipy import special

from service.model.clusters.product_law import log_sds
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.blocks_of_draws import blocks_of_lanes, blocks_of_replicas
from service.model.pipeline.cluster_parts import lasting_part
from service.model.pipeline.lasting_factors import LastingFactors
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.rounds import rounds_of

# The slowest of some hundred draws is so many standard deviations out.
_TYPICAL_SCORES = (1.5, 4.0)
_MOST_POWER = 2000.0


def predictors_of(cluster: OneCluster, seed: int, num_lanes: int) -> Floats:
    """(draws, predictors): the step if nothing but the lasting varied, then two soft maxima.

    A soft maximum is the logarithm of a power mean of all GPUs' slowness times their stage's work.
    With steps of log-normal scatter s, GPU i is the slowest about in proportion to its slowness to
    the power z / s, z the standard deviations that the slowest is out.
    """
    hard = rounds_of(lasting_part(cluster), seed, num_lanes).step
    sd = max(_fleeting_sd(cluster), 1e-9)
    powers = np.minimum(np.array(_TYPICAL_SCORES) / sd, _MOST_POWER)
    return np.column_stack([hard, *_soft_maxima(cluster, seed, num_lanes, powers)])


def _soft_maxima(cluster: OneCluster, seed: int, num_lanes: int, powers: Floats) -> Floats:
    """(powers, draws)."""
    lasting = LastingFactors(cluster, seed)
    log_works = np.repeat(np.log(cluster.busy / cluster.busy.max()), cluster.tensor_size)
    of_replica = len(log_works)
    found = np.full((len(powers), num_lanes * LANE), -np.inf)
    for lanes in blocks_of_lanes(cluster, num_lanes):
        draws = slice(lanes.start * LANE, lanes.stop * LANE)
        for replicas in blocks_of_replicas(cluster, lanes):
            ranks = range(replicas.start * of_replica, replicas.stop * of_replica)
            factor = lasting.of_lanes(lanes, ranks)
            slowness = np.log(factor)
            slowness += np.tile(log_works, len(replicas))[:, np.newaxis]
            for row, power in zip(found, powers.tolist(), strict=True):
                sums = special.logsumexp(power * slowness, axis=0)
                row[draws] = np.logaddexp(row[draws], sums)
    scaled: Floats = (found - np.log(cluster.num_working)) / powers[:, np.newaxis]
    return scaled


def _fleeting_sd(cluster: OneCluster) -> float:
    """About the standard deviation of the logarithm of a stage's work from step to step."""
    fleet: Fleet = cluster.fleet
    variance = 0.0
    for source in (fleet.transient, fleet.replica):
        if source is not None:
            variance += float(log_sds(source.law, source.shape)[0]) ** 2
    if cluster.shape.jitter is not None:
        of_one = float(log_sds(cluster.shape.jitter.law, cluster.shape.jitter.shape)[0])
        variance += of_one**2 / cluster.shape.microbatches
    if fleet.spikes is not None:
        variance += _of_spells(fleet.spikes.probability, fleet.spikes.slowdown)
    variance /= float(cluster.shape.round_steps[0])
    if fleet.episodes is not None:
        variance += _of_spells(fleet.episodes.occupancy, fleet.episodes.severity)
    return float(variance**0.5)


def _of_spells(probability: Floats, factor: Floats) -> float:
    """Variance of the logarithm of one point."""
    return float((probability * (1 - probability) * np.log(factor) ** 2)[0])
