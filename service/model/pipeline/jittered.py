"""Replicas whose operations vary one by one: what their makespans are made of."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.pipeline.jitter import Jitter
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.step_factors import DrawnSteps, StepFactors

# Numbers at a time: memory.
_AT_ONCE = 1 << 19


class Pick(NamedTuple):
    """A replica, counted within its block, in a lane, counted likewise."""

    replica: int
    lane: int


class Jittered(NamedTuple):
    """Factors of some picks in one step: (stages, picks x LANE) and (operations, picks x LANE)."""

    picks: list[Pick]
    factor: Floats
    jitter: Floats


class JitteredReplicas:
    """Of one cluster."""

    def __init__(self, cluster: OneCluster, drawn: DrawnSteps, source: Source, seed: int) -> None:
        self._cluster = cluster
        self._alike = drawn.are_gpus_alike
        self._jitter = Jitter(source, seed, cluster.plan)
        self._at_once = max(_AT_ONCE // (LANE * cluster.plan.num_operations), 1)

    def of_step(
        self, factors: StepFactors, step: int, lanes: range, replicas: range, picks: list[Pick]
    ) -> Iterator[Jittered]:
        """The picks of one step, some at a time; `factors` of each GPU."""
        for first in range(0, len(picks), self._at_once):
            some = picks[first : first + self._at_once]
            found = [self._factors(factors, step, lanes, replicas, pick) for pick in some]
            factor = np.concatenate([of_stage for of_stage, _ in found], axis=1)
            jitter = np.concatenate([of_operation for _, of_operation in found], axis=1)
            yield Jittered(some, factor, jitter)

    def _factors(
        self, factors: StepFactors, step: int, lanes: range, replicas: range, pick: Pick
    ) -> tuple[Floats, Floats]:
        """(stages, LANE) and (operations, LANE)."""
        lane, replica = lanes[pick.lane], replicas[pick.replica]
        draws = slice(pick.lane * LANE, (pick.lane + 1) * LANE)
        own = factors.own[pick.replica]
        own = own[..., draws] if own.shape[-1] > 1 else own
        shared = factors.shared[pick.replica if len(factors.shared) > 1 else 0, draws]
        if not self._alike:
            jitter = self._jitter.of_slowest(step, lane, replica, own)
            return np.repeat(shared[np.newaxis], self._cluster.stages, axis=0), jitter
        if self._cluster.tensor_size == 1:
            jitter = self._jitter.of_one(step, lane, replica)
        else:
            jitter = self._jitter.of_largest(step, lane, replica, self._cluster.tensor_size)
        return own[:, 0] * shared, jitter


def jittered_replicas(cluster: OneCluster, drawn: DrawnSteps, seed: int) -> JitteredReplicas | None:
    """None where operations do not vary one by one."""
    source = cluster.shape.jitter
    return None if source is None else JitteredReplicas(cluster, drawn, source, seed)
