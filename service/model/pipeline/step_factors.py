"""The factors of single steps of random pipelined clusters, some replicas and draws at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.lasting_factors import LastingFactors
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import (
    COMMON,
    EPISODES,
    LANE,
    REPLICA,
    SPIKES,
    TRANSIENT,
    Numbers,
)
from service.model.recursion.score_factors import ScoreFactors

DRAWS_OF_STATE = 4
"""With the same GPUs in episodes: see `step_estimates.expected_over_time`."""


class StepFactors(NamedTuple):
    """Of one step of some replicas.

    own      (replicas, stages, GPUs, draws) of each GPU; 1 GPU where those of a stage are alike, or
             the slowest where nothing else matters
    shared   (replicas or 1, draws) of all GPUs of a replica
    """

    own: Floats
    shared: Floats

    def of_stages(self) -> Floats:
        """(replicas, stages, draws): a stage runs at its slowest GPU."""
        slowest: Floats = self.own[:, :, 0] if self.own.shape[2] == 1 else self.own.max(axis=2)
        return slowest * self.shared[:, np.newaxis]


class DrawnSteps:
    """Rounds of steps of one cluster; those of one draw, numbered from 0, have the same GPUs.

    Who is in an episode is drawn anew in each round; without `shares_states` also in each draw.
    """

    def __init__(self, cluster: OneCluster, seed: int, *, shares_states: bool = True) -> None:
        fleet = cluster.fleet
        self._cluster = cluster
        self._shares_states = shares_states
        self._lasting = LastingFactors(cluster, seed)
        self._laws = {
            name: ScoreFactors(source)
            for name, source in (
                ("transient", fleet.transient),
                ("replica", fleet.replica),
                ("common", fleet.common),
            )
            if source is not None
        }
        self._numbers = {
            name: Numbers(seed, number)
            for name, number in (
                ("transient", TRANSIENT),
                ("replica", REPLICA),
                ("common", COMMON),
                ("spikes", SPIKES),
                ("episodes", EPISODES),
            )
        }
        self.num_steps = int(cluster.shape.round_steps[0])

    @property
    def draws_of_state(self) -> int:
        """Draws that have the same GPUs in episodes; one where nothing else varies."""
        cluster, fleet = self._cluster, self._cluster.fleet
        varies = fleet.varies_per_step or cluster.shape.jitter is not None
        is_simple = fleet.episodes is None or (self._lasting.is_constant and not varies)
        if is_simple or not self._shares_states:
            return 1
        return DRAWS_OF_STATE

    @property
    def are_gpus_alike(self) -> bool:
        """Whether the GPUs of a stage never differ."""
        fleet = self._cluster.fleet
        of_gpu = (fleet.transient, fleet.spikes, fleet.episodes)
        return self._cluster.tensor_size == 1 or (
            self._lasting.is_one and all(source is None for source in of_gpu)
        )

    def steps_of(self, number: int) -> range:
        """Of the round of that number."""
        return range(number * self.num_steps, (number + 1) * self.num_steps)

    def common(self, lanes: range, number: int = 0) -> Floats:
        """(steps, draws) factor of all GPUs."""
        return np.array(
            [self._shared("common", lanes, range(1), step)[0] for step in self.steps_of(number)]
        )

    def of_round(
        self, lanes: range, replicas: range, number: int = 0, *, each_gpu: bool = False
    ) -> Iterator[StepFactors]:
        """Step after step; with `each_gpu` no GPU stands for all of its stage."""
        cluster, fleet = self._cluster, self._cluster.fleet
        of_replica = cluster.stages * cluster.tensor_size
        ranks = range(replicas.start * of_replica, replicas.stop * of_replica)
        lasting = self._lasting_and_episodes(lanes, ranks, number)
        slowest_only = not each_gpu and fleet.spikes is None and lasting is None
        phi = float(fleet.autocorrelation[0])
        scores = None
        for step in self.steps_of(number):
            own = np.ones((len(ranks), 1)) if lasting is None else lasting
            if "transient" in self._laws:
                now = self._numbers["transient"].scores(lanes, ranks, step)
                if scores is not None and phi != 0:
                    now *= (1 - phi * phi) ** 0.5
                    now += phi * scores
                scores = now
                if slowest_only:
                    now = now.reshape(-1, cluster.tensor_size, now.shape[1]).max(axis=1)
                    own = np.ones((len(now), 1))
                own = own * self._written("transient", now)
            if fleet.spikes is not None:
                hit = self._numbers["spikes"].uniforms(lanes, ranks, step)
                own = own * np.where(hit < fleet.spikes.probability, fleet.spikes.slowdown, 1.0)
            own = own.reshape(len(replicas), cluster.stages, -1, own.shape[1])
            shared = self._shared("replica", lanes, replicas, step)
            yield StepFactors(own, shared * self._shared("common", lanes, range(1), step))

    def _lasting_and_episodes(self, lanes: range, ranks: range, number: int) -> Floats | None:
        """(ranks, draws or 1), None if all are 1."""
        episodes = self._cluster.fleet.episodes
        lasting = None if self._lasting.is_one else self._lasting.of_lanes(lanes, ranks)
        if episodes is None:
            return lasting
        # States are numbered through, and their numbers lie in lanes of their own.
        states = np.arange(lanes.start * LANE, lanes.stop * LANE) // self.draws_of_state
        drawn = range(int(states[0]) // LANE, int(states[-1]) // LANE + 1)
        numbers = self._numbers["episodes"].uniforms(drawn, ranks, number)
        states -= drawn.start * LANE
        slow = np.where(numbers[:, states] < episodes.occupancy, episodes.severity, 1.0)
        return slow if lasting is None else lasting * slow

    def _written(self, name: str, scores: Floats) -> Floats:
        factors = np.empty((len(scores), 1, scores.shape[1]))
        self._laws[name].write(scores, factors)
        return factors[:, 0]

    def _shared(self, name: str, lanes: range, ranks: range, step: int) -> Floats:
        """(ranks, draws) factors; (1, draws) of 1 where there is no such source."""
        if name not in self._laws:
            return np.ones((1, len(lanes) * LANE))
        return self._written(name, self._numbers[name].scores(lanes, ranks, step))
