"""What the replicas of one drawn step take: the pass that all wait for, who is busy how long.

Of jobs whose replicas are pipelines; `drawn_pipelines.py` draws. Design page "The model", sections
2 and 7.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns
from service.model.drawn_jitter import DrawnJitter, Varied
from service.model.laws.law import Floats
from service.model.pipeline.engine import busy_ms, makespans
from service.model.pipeline.makespan_bounds import MakespanBounds
from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.plan import Plan
from service.model.pipeline.times import row_times, time_rows
from service.model.stage_sizes import stage_times_ms
from service.model.times import compute_ms

MAX_DRAWN_OPERATIONS = 20_000_000
"""Operations of all GPUs that are drawn one by one, a second or two."""

# Operations of replicas at a time: memory.
_AT_ONCE = 1 << 21
# An operation takes as long for fewer.
_LEAST_GPUS = 256
_FIRST_REPLICAS = 64
# A bound that is higher by less is round-off.
_TRIFLE = 1e-12

Number = TypeVar("Number", bound=np.generic)


class TooManyOperationsError(ValueError):
    """Single operations of so many GPUs are not drawn."""


class Pass(NamedTuple):
    """What a step waits for: the slowest replica, of those waited for, and its makespan, ms."""

    replica: int
    makespan_ms: float


class Times(NamedTuple):
    """What the engine takes of one point, ms: (stages, 1), (1,)."""

    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class DrawnStep:
    """GPU (replica P + stage) T + t of those that work is GPU t of a stage.

    rank     (GPUs,) their numbers among all that are held
    speed    (GPUs,)
    factor   (GPUs,) all operations of a GPU take so many times as long, jitter aside
    jitter   what varies from operation to operation, or None
    """

    columns: Columns
    cluster: OneCluster
    rank: NDArray[np.intp]
    speed: Floats
    factor: Floats
    jitter: DrawnJitter | None

    @property
    def plan(self) -> Plan:
        """Of every replica."""
        return self.cluster.plan

    @property
    def num_replicas(self) -> int:
        """D."""
        return self.cluster.num_replicas

    @cached_property
    def times(self) -> Times:
        """At nominal speed."""
        return times_of(self.columns)

    def stage_factors(self) -> Floats:
        """(replicas, stages) a stage runs at its slowest GPU, jitter aside."""
        slowest: Floats = self._of_replicas(self.factor).max(axis=2)
        return slowest

    def slowest_gpus(self, replica: int) -> NDArray[np.intp]:
        """(stages,) number of the slowest GPU of each stage of one replica, jitter aside."""
        slowest = self._of_replicas(self.factor)[replica].argmax(axis=1)
        ranks = self._of_replicas(self.rank)[replica]
        found: NDArray[np.intp] = np.take_along_axis(ranks, slowest[:, np.newaxis], axis=1)[:, 0]
        return found

    def operation_factors(self, replica: int) -> Floats | None:
        """(operations, 1) of one replica where single operations vary, own factors included."""
        if self.jitter is None:
            return None
        return self._varied(self.jitter, slice(replica, replica + 1)).factor

    def busy_ms(self) -> Floats:
        """(GPUs,) ms that each of them works in its pass."""
        if self.jitter is not None:
            return self._by_operation(self.jitter)[1]
        times = self.times
        nominal = busy_ms(
            self.plan, times.forward, times.backward, weight_fraction=times.weight_fraction
        )
        each: Floats = (self._of_replicas(self.factor) * nominal).ravel()
        return each

    def slowest(self) -> Pass:
        """Of the replicas that the step waits for; of equal ones the first."""
        waited_for = self.cluster.num_backup
        if self.jitter is not None:
            found = self._by_operation(self.jitter)[0]
            candidates = np.arange(self.num_replicas)
        else:
            candidates, found = self._candidates(waited_for + 1)
        order = np.lexsort((candidates, -found))
        chosen = order[waited_for]
        return Pass(int(candidates[chosen]), float(found[chosen]))

    def _candidates(self, number: int) -> tuple[NDArray[np.intp], Floats]:
        """Replicas among which the `number` slowest are, and their makespans."""
        factor = self.stage_factors()
        replicas = _without_quicker(factor, number)
        bound = MakespanBounds(self.cluster).upper(factor[replicas, :, np.newaxis])[:, 0]
        bound *= compute_ms(self.columns)[0]
        order = replicas[np.argsort(-bound, kind="stable")]
        bound = -np.sort(-bound)
        found = np.empty(0)
        size = max(number, _FIRST_REPLICAS)
        while len(found) < len(order):
            limit = np.partition(found, -number)[-number] if len(found) >= number else -np.inf
            if bound[len(found)] <= limit * (1 + _TRIFLE):
                break
            rows = order[len(found) : len(found) + size]
            found = np.concatenate([found, self._makespans(factor[rows].T, None)])
            size *= 2
        return order[: len(found)], found

    def _by_operation(self, jitter: DrawnJitter) -> tuple[Floats, Floats]:
        """(replicas,) makespans and (GPUs,) busy times where single operations vary."""
        per_gpu = self.plan.num_operations // self.plan.stages
        if per_gpu * max(len(self.rank), _LEAST_GPUS) > MAX_DRAWN_OPERATIONS:
            raise TooManyOperationsError(
                f"{per_gpu} operations of each of {len(self.rank)} GPUs are too many to be drawn "
                "one by one"
            )
        size = max(_AT_ONCE // self.plan.num_operations, 1)
        spans, busy = [], []
        for start in range(0, self.num_replicas, size):
            found = self._varied(jitter, slice(start, start + size))
            spans.append(self._makespans(np.ones((self.plan.stages, 1)), found.factor))
            busy.append(found.busy.ravel())
        return np.concatenate(spans), np.concatenate(busy)

    def _varied(self, jitter: DrawnJitter, replicas: slice) -> Varied:
        times = self.times
        rows = time_rows(self.plan)
        each = row_times(rows, times.forward, times.backward, times.weight_fraction)[rows.row, 0]
        own, rank = self._of_replicas(self.factor), self._of_replicas(self.rank)
        return jitter.varied(own[replicas], rank[replicas], each)

    def _makespans(self, factor: Floats, jitter: Floats | None) -> Floats:
        return makespans(
            self.plan,
            self.times.forward,
            self.times.backward,
            weight_fraction=self.times.weight_fraction,
            p2p=self.times.p2p,
            factor=factor,
            jitter=jitter,
        )

    def _of_replicas(self, values: NDArray[Number]) -> NDArray[Number]:
        """(replicas, stages, GPUs)."""
        return values.reshape(self.num_replicas, self.plan.stages, -1)


def _without_quicker(factor: Floats, number: int) -> NDArray[np.intp]:
    """Replicas without those that `number` others surely outlast.

    Of replicas whose stages all have one factor the largest takes longest.
    """
    lowest, highest = factor.min(axis=1), factor.max(axis=1)
    even = np.flatnonzero(lowest == highest)
    longest = even[np.argsort(-highest[even], kind="stable")[:number]]
    return np.sort(np.concatenate([np.flatnonzero(lowest < highest), longest]))


def times_of(columns: Columns) -> Times:
    """Of one point with a pipeline."""
    forward, backward = stage_times_ms(columns, compute_ms(columns))
    return Times(
        forward,
        backward,
        columns["pipeline.backward_weight_fraction"],
        columns["pipeline.p2p_ms"].astype(np.float64),
    )
