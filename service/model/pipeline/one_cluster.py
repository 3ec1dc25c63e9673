"""One cluster of pipelines of equal plan: its sizes, its nominal times and its slow GPUs."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline import SCHEDULES
from service.model.pipeline.engine import busy_ms, makespans
from service.model.pipeline.plan import Plan
from service.model.pipeline.plans import plan_of
from service.model.pipeline.shape import RANDOM, PipelineShape
from service.model.pipeline.times import row_times, time_rows


class SlowGroup(NamedTuple):
    """`number` GPUs that take `factor` times as long; `placement` as in PipelineShape."""

    number: int
    factor: float
    placement: int


@dataclass(frozen=True, kw_only=True)
class OneCluster:
    """One point: `fleet` and `shape` are of this point alone.

    GPU (replica P + stage) T + t of those that work is GPU t of a stage. Where nothing lasting is
    drawn, GPUs that stand by are gone already: slow ones first, the slowest first.
    """

    fleet: Fleet
    shape: PipelineShape
    num_held: int
    num_removed: int
    num_replicas: int
    tensor_size: int
    num_backup: int
    slow_groups: tuple[SlowGroup, ...]

    @cached_property
    def plan(self) -> Plan:
        """Of all points; ValueError if the sizes are not valid."""
        shape = self.shape
        return plan_of(shape.schedule, shape.stages, shape.microbatches, shape.chunks)

    @property
    def stages(self) -> int:
        """P."""
        return self.shape.stages

    @property
    def num_operations(self) -> int:
        """Of a replica and step, at most; no plan is compiled for it."""
        shape = self.shape
        each = 3 if SCHEDULES[shape.schedule].splits_backward else 2
        return each * shape.stages * shape.microbatches * shape.chunks

    @property
    def floor(self) -> float:
        """That a step takes at least; -inf where none is, as in rounds of several steps."""
        return float(self.shape.floor[0])

    @property
    def num_working(self) -> int:
        """GPUs in replicas."""
        return self.num_replicas * self.stages * self.tensor_size

    @property
    def is_random(self) -> bool:
        """Whether more is random than where slow GPUs sit."""
        return self.fleet.is_random or self.shape.jitter is not None

    @property
    def differs_lastingly(self) -> bool:
        """Whether chance makes GPUs differ for good."""
        return self.fleet.persistent is not None or self.fleet.node is not None

    @property
    def random_groups(self) -> tuple[SlowGroup, ...]:
        """Slow GPUs on random places."""
        return tuple(group for group in self.slow_groups if group.placement == RANDOM)

    def makespans(self, factor: Floats, jitter: Floats | None = None) -> Floats:
        """(lanes,) for factors (stages, lanes), over the nominal compute of a step."""
        return makespans(
            self.plan,
            self.shape.forward,
            self.shape.backward,
            weight_fraction=self.shape.weight_fraction,
            p2p=self.shape.p2p,
            factor=factor,
            jitter=jitter,
        )

    @cached_property
    def busy(self) -> Floats:
        """(stages,) nominal work of a stage in a step, over the nominal compute of a step."""
        busy: Floats = busy_ms(
            self.plan,
            self.shape.forward,
            self.shape.backward,
            weight_fraction=self.shape.weight_fraction,
        )[:, 0]
        return busy

    @cached_property
    def operation_times(self) -> Floats:
        """(operations,) nominal, over the nominal compute of a step."""
        rows = time_rows(self.plan)
        shape = self.shape
        times = row_times(rows, shape.forward, shape.backward, shape.weight_fraction)
        of_operation: Floats = times[rows.row, 0]
        return of_operation


def clusters_of(fleet: Fleet) -> list[OneCluster]:
    """Every point of a fleet with a pipeline; ValueError without one."""
    shape = fleet.pipeline
    if shape is None:
        raise ValueError("The fleet has no pipeline")
    rows = [slice(point, point + 1) for point in range(fleet.num_points)]
    return [_cluster(fleet.part(row), shape.part(row)) for row in rows]


def _cluster(fleet: Fleet, shape: PipelineShape) -> OneCluster:
    held, removed = int(np.rint(fleet.num_gpus.sum())), int(fleet.num_removed[0])
    size = int(fleet.tensor_parallel_size[0])
    groups = [
        SlowGroup(int(count), float(factor), int(placement))
        for count, factor, placement in zip(
            shape.slow_count[:, 0],
            shape.slow_factor[:, 0],
            shape.slow_placement[:, 0],
            strict=True,
        )
    ]
    lasting = fleet.persistent is not None or fleet.node is not None
    if not lasting:
        groups = _without_slowest(groups, removed)
        held, removed = held - removed, 0
    return OneCluster(
        fleet=fleet,
        shape=shape,
        num_held=held,
        num_removed=removed,
        num_replicas=(held - removed) // (shape.stages * size),
        tensor_size=size,
        num_backup=int(fleet.num_backup[0]),
        slow_groups=tuple(group for group in groups if group.number > 0),
    )


def _without_slowest(groups: list[SlowGroup], number: int) -> list[SlowGroup]:
    """After taking so many GPUs from the slowest groups first; of equal ones from the last."""
    left = list(groups)
    order = sorted(range(len(groups)), key=lambda place: (-groups[place].factor, -place))
    for place in order:
        taken = min(number, groups[place].number)
        number -= taken
        left[place] = groups[place]._replace(number=groups[place].number - taken)
    return left
