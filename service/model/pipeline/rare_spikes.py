"""Spikes so rare that the draws may have none, where their distribution is not worked out.

To first order a round has one spike or none. With the same random numbers that is a control variate
whose expectation is known but for rounds with several, half as probable as its share.
"""

from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.known_parts import only_spikes
from service.model.pipeline.one_cluster import OneCluster, clusters_of

# Rounds of a draw with a spike: where so many are expected, sampling sees what they do.
_SEEN = 30.0
_MOST_PROBABLE = 0.3


class RareSpikes(NamedTuple):
    """part: the cluster with nothing but spikes; what a round's step takes, and how probably.

    of_stage          probability of one at a stage of a replica in a step
    slowdown          what it then takes, as a factor
    nominal, of_one   what a replica takes without a spike, and (stages,) with one at a stage
    """

    part: OneCluster
    step: Floats
    probability: Floats
    of_stage: float
    slowdown: float
    nominal: float
    of_one: Floats


def rare_spikes(cluster: OneCluster, num_draws: int) -> RareSpikes | None:
    """None where there are no spikes, or not so rare ones, or replicas that nobody waits for.

    Each stage is as likely to have the one spike: P(some spike) = 1 - (1 - p)^(GPUs x steps).
    """
    fleet, shape = cluster.fleet, cluster.shape
    if fleet.spikes is None or cluster.num_backup > 0:
        return None
    num_steps = int(shape.round_steps[0])
    chances = cluster.num_working * num_steps
    log_without = float(np.log1p(-fleet.spikes.probability[0]))
    slowdown = float(fleet.spikes.slowdown[0])
    some = float(-np.expm1(chances * log_without))
    if not 0 < some <= min(_MOST_PROBABLE, _SEEN / num_draws):
        return None
    factor = np.ones((cluster.stages, cluster.stages + 1))
    np.fill_diagonal(factor[:, 1:], slowdown)
    makespan = cluster.makespans(factor)
    step = makespan[0] + (makespan - makespan[0]) / num_steps
    share = np.full(cluster.stages, some / cluster.stages)
    (part,) = clusters_of(only_spikes(cluster))
    probability = np.concatenate([[1 - some], share])
    return RareSpikes(
        part=part,
        step=step,
        probability=probability,
        of_stage=float(-np.expm1(cluster.tensor_size * log_without)),
        slowdown=slowdown,
        nominal=float(makespan[0]),
        of_one=makespan[1:],
    )
