"""Rounds of steps of random pipelined clusters: what a step takes on average over a round."""

from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.blocks_of_draws import blocks_of_lanes, blocks_of_replicas
from service.model.pipeline.jittered import JitteredReplicas, Pick, jittered_replicas
from service.model.pipeline.makespan_bounds import MakespanBounds
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.slowest_replicas import SlowestReplicas
from service.model.pipeline.step_factors import DrawnSteps


class Rounds(NamedTuple):
    """(draws,) each.

    step     a step on average over the round, over the nominal compute
    common   the factor of all GPUs, likewise
    """

    step: Floats
    common: Floats


def rounds_of(cluster: OneCluster, seed: int, num_lanes: int) -> Rounds:
    """So many lanes of draws."""
    drawn = DrawnSteps(cluster, seed)
    jittered = jittered_replicas(cluster, drawn, seed)
    bounds = MakespanBounds(cluster)
    found = Rounds(np.empty(num_lanes * LANE), np.empty(num_lanes * LANE))
    for lanes in blocks_of_lanes(cluster, num_lanes):
        draws = slice(lanes.start * LANE, lanes.stop * LANE)
        slowest = SlowestReplicas(cluster, bounds, len(lanes) * LANE)
        for replicas in blocks_of_replicas(cluster, lanes):
            if jittered is None:
                steps = drawn.of_round(lanes, replicas)
                slowest.add(np.array([factors.of_stages() for factors in steps]))
            else:
                slowest.add_means(_means(cluster, drawn, jittered, lanes, replicas))
        found.step[draws] = slowest.longest[0]
        found.common[draws] = drawn.common(lanes).mean(axis=0)
    return found


def _means(
    cluster: OneCluster,
    drawn: DrawnSteps,
    jittered: JitteredReplicas,
    lanes: range,
    replicas: range,
) -> Floats:
    """(replicas, draws) mean makespans over the round, where operations vary."""
    picks = [Pick(replica, lane) for replica in range(len(replicas)) for lane in range(len(lanes))]
    sums = np.zeros((len(replicas), len(lanes), LANE))
    for step, factors in enumerate(drawn.of_round(lanes, replicas, each_gpu=True)):
        for some in jittered.of_step(factors, step, lanes, replicas, picks):
            rows = np.array(some.picks)
            makespan = cluster.makespans(some.factor, some.jitter)
            sums[rows[:, 0], rows[:, 1]] += makespan.reshape(-1, LANE)
    return sums.reshape(len(replicas), -1) / drawn.num_steps
