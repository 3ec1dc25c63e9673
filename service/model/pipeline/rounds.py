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
    """(draws,) each; of several rounds of a draw (rounds, draws).

    step     a step on average over the round, over the nominal compute
    common   the factor of all GPUs, likewise
    """

    step: Floats
    common: Floats

    @property
    def num_lanes(self) -> int:
        """Of draws."""
        return int(self.step.shape[-1]) // LANE


def rounds_of(cluster: OneCluster, seed: int, num_lanes: int) -> Rounds:
    """One of each of so many lanes of draws."""
    found = _rounds(cluster, DrawnSteps(cluster, seed), seed, num_lanes, 1)
    return Rounds(found.step[0], found.common[0])


def repeated_rounds(cluster: OneCluster, seed: int, num_lanes: int, number: int) -> Rounds:
    """So many of each draw; without episodes the first ones are those of `rounds_of`."""
    drawn = DrawnSteps(cluster, seed, shares_states=False)
    return _rounds(cluster, drawn, seed, num_lanes, number)


def _rounds(
    cluster: OneCluster, drawn: DrawnSteps, seed: int, num_lanes: int, number: int
) -> Rounds:
    """(number, draws) each."""
    jittered = jittered_replicas(cluster, drawn, seed)
    bounds = MakespanBounds(cluster)
    size = number, num_lanes * LANE
    found = Rounds(np.empty(size), np.empty(size))
    for lanes in blocks_of_lanes(cluster, num_lanes):
        draws = slice(lanes.start * LANE, lanes.stop * LANE)
        for row in range(number):
            slowest = SlowestReplicas(cluster, bounds, len(lanes) * LANE)
            for replicas in blocks_of_replicas(cluster, lanes):
                if jittered is None:
                    steps = drawn.of_round(lanes, replicas, row)
                    slowest.add(np.array([factors.of_stages() for factors in steps]))
                else:
                    block = _Block(row, lanes, replicas)
                    slowest.add_means(_means(cluster, drawn, jittered, block))
            found.step[row, draws] = slowest.longest[0]
            found.common[row, draws] = drawn.common(lanes, row).mean(axis=0)
    return found


class _Block(NamedTuple):
    """Rounds of one number."""

    number: int
    lanes: range
    replicas: range


def _means(
    cluster: OneCluster, drawn: DrawnSteps, jittered: JitteredReplicas, block: _Block
) -> Floats:
    """(replicas, draws) mean makespans over the round, where operations vary."""
    number, lanes, replicas = block
    numbered = zip(
        drawn.steps_of(number),
        drawn.of_round(lanes, replicas, number, each_gpu=True),
        strict=True,
    )
    picks = [Pick(replica, lane) for replica in range(len(replicas)) for lane in range(len(lanes))]
    sums = np.zeros((len(replicas), len(lanes), LANE))
    for step, factors in numbered:
        for some in jittered.of_step(factors, step, lanes, replicas, picks):
            rows = np.array(some.picks)
            makespan = cluster.makespans(some.factor, some.jitter)
            sums[rows[:, 0], rows[:, 1]] += makespan.reshape(-1, LANE)
    return sums.reshape(len(replicas), -1) / drawn.num_steps
