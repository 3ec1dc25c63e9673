"""The classes of units of a point: what is alike, and independent of the rest.

A unit is what shares a lasting or a step's factor: a node where there is a node's factor, else a
tensor-parallel group where it shares a replica's, else a GPU.

Slow groups in nodes make units of several compositions, in expected numbers that are no whole ones:
every cluster has one of the whole numbers next to them, together as many units as there are.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.cluster_tops import Class
from service.model.clusters.gpu_units import GpuUnits
from service.model.clusters.node_units import NodeUnits
from service.model.clusters.slowest_of_group import SlowestOf
from service.model.clusters.step_factor import StepFactor, log_sd, narrow_lognormal, step_factor
from service.model.clusters.unit_members import Composition, Kind, sd_of
from service.model.fleet import Fleet
from service.model.laws.law import Floats, Law
from service.model.laws.source import Source
from service.model.slowest.blocks import expected_blocks, node_compositions
from service.model.slowest.layouts import Layout, layouts_of
from service.model.slowest.rank_law import merged

_FEWEST_UNITS = 1e-4
_NOTHING = 1e-3
NARROW = 0.02
"""Standard deviation of a step over that of the lasting factors: no narrower ones are sampled."""


class Part(NamedTuple):
    """Points `rows` of a fleet whose units are of the same sizes.

    own       lasting factors of a GPU, `node` the one that a unit's GPUs share
    per_step  factors of a GPU's step; `replica` the one that `group` GPUs share
    size      GPUs of a unit; the last one may be smaller
    """

    rows: NDArray[np.intp]
    fleet: Fleet
    own: list[Source]
    node: Source | None
    per_step: list[Source]
    replica: Source | None
    group: int
    size: int


class _Units(NamedTuple):
    """Units of one composition at every point of a part.

    gpus      (classes,) of each class
    expected  (points,) units
    """

    gpus: Floats
    expected: Floats


def parts_of(fleet: Fleet) -> Iterator[Part]:
    """The points by the sizes of their units; points that are not covered are left out."""
    for layout in layouts_of(fleet):
        part = _part(fleet, layout)
        if part is not None:
            yield part


def classes_of(part: Part) -> Iterator[list[Class]]:
    """Those of each point."""
    if part.size == 1 and len(part.own) == 1:
        for point in range(len(part.rows)):
            yield _of_gpus(part, point)
        return
    if part.size == 1:
        # A node of one GPU, whose two factors make no law of this room: a unit of one.
        part = part._replace(own=part.own[:1], node=part.own[1])
    units = _units(part)
    for point in range(len(part.rows)):
        yield _of_nodes(part, units, point)


def _of_gpus(part: Part, point: int) -> list[Class]:
    rows = slice(point, point + 1)
    lasting = part.own[0].part(rows)
    step = step_of(part, point)
    return [
        Class(
            law=GpuUnits(lasting=lasting, mean=float(part.fleet.mean[kind, point]), step=step),
            num_units=float(part.fleet.num_gpus[kind, point]),
            group=group,
        )
        # Random numbers by what the point has, whatever other points have.
        for group, kind in enumerate(np.flatnonzero(part.fleet.num_gpus[:, point] > 0).tolist())
    ]


def _of_nodes(part: Part, units: list[_Units], point: int) -> list[Class]:
    rows = slice(point, point + 1)
    own = part.own[0].part(rows) if part.own else None
    node = None if part.node is None else part.node.part(rows)
    # A GPU's own that is nothing beside its node's has no scores to tell.
    if own is not None and node is not None and sd_of(own) < _NOTHING * sd_of(node):
        own = None
    step = step_of(part, point)
    classes: list[Class] = []
    before = 0.0
    for unit in units:
        if unit.expected[point] > _FEWEST_UNITS:
            kinds = [
                Kind(float(mean), float(count))
                for mean, count in zip(part.fleet.mean[:, point], unit.gpus, strict=True)
                if count > 0
            ]
            composition = Composition(
                node=node,
                own=own,
                kinds=tuple(kinds),
                step=step,
                replica=None if part.replica is None else part.replica.part(rows),
                group_size=float(part.group),
            )
            number = float(unit.expected[point])
            law = NodeUnits(composition)
            group = len(classes)
            classes.append(Class(law=law, num_units=number, group=group, before=before))
            before += number
    return classes


def step_of(part: Part, point: int) -> StepFactor:
    """A GPU's factor per step; with a shade of noise where it has next to none."""
    rows = slice(point, point + 1)
    spikes = part.fleet.spikes
    probability, slowdown = 0.0, 1.0
    if spikes is not None:
        probability, slowdown = float(spikes.probability[point]), float(spikes.slowdown[point])
    narrowest = NARROW * _lasting_sd(part, point)
    sources = [source.part(rows) for source in part.per_step]
    if sources:
        step = step_factor(sources, probability, slowdown)
        if step.log_sd >= narrowest:
            return step
    return step_factor([narrow_lognormal(narrowest)], probability, slowdown)


def varies_per_step(part: Part, point: int) -> bool:
    """Whether steps differ by more than a shade, which then stands for what they differ by."""
    if part.replica is not None or part.fleet.spikes is not None or part.fleet.episodes is not None:
        return True
    rows = slice(point, point + 1)
    sources = [source.part(rows) for source in part.per_step]
    if not sources:
        return False
    return _joint_sd(sources) > NARROW / 2 * _lasting_sd(part, point)


def _lasting_sd(part: Part, point: int) -> float:
    """Of the logarithm of a GPU's lasting factor, about."""
    rows = slice(point, point + 1)
    return _joint_sd([source.part(rows) for source in lasting_of(part)])


def _joint_sd(sources: list[Source]) -> float:
    return float(np.sqrt(sum(log_sd(source.law, source.shape) ** 2 for source in sources)))


def lasting_of(part: Part) -> list[Source]:
    """All lasting factors of a GPU."""
    return part.own if part.node is None else [*part.own, part.node]


def _units(part: Part) -> list[_Units]:
    """Every composition that some point has."""
    num_gpus = part.fleet.num_gpus
    last_size = float(num_gpus[:, 0].sum() % part.size)
    compositions = node_compositions(len(num_gpus), part.size, last_size)
    expected = expected_blocks(compositions, num_gpus, part.size)
    return list(map(_Units, compositions, expected))


def _part(fleet: Fleet, layout: Layout) -> Part | None:
    """None where a replica's groups hold several speeds, or have spikes as their GPUs' only own."""
    of_rows = fleet.part(layout.rows)
    grouped, in_nodes = layout.group_size > 1, layout.node_size > 1
    if grouped and ((of_rows.num_gpus > 0).sum(axis=0).max() > 1):
        return None
    if grouped and fleet.transient is None and fleet.spikes is not None:
        return None
    own = [of_rows.persistent, None if in_nodes else of_rows.node]
    per_step = [of_rows.transient, None if grouped else of_rows.replica]
    part = Part(
        rows=layout.rows,
        fleet=of_rows,
        own=merged([source for source in own if source is not None]),
        node=of_rows.node if in_nodes else None,
        per_step=[source for source in per_step if source is not None],
        replica=of_rows.replica if grouped else None,
        group=layout.group_size,
        size=layout.node_size if in_nodes else layout.group_size,
    )
    return _of_groups(part) if grouped and not part.per_step else part


def _of_groups(part: Part) -> Part:
    """Where nothing but the replica's factor is drawn per step: its groups are as GPUs."""
    # Its class has what is asked of a lasting factor's law here, and no more.
    own = [
        Source(law=cast("Law", SlowestOf(law=source.law, number=part.group)), shape=source.shape)
        for source in part.own
    ]
    num_gpus = part.fleet.num_gpus / part.group
    node = part.node
    if node is not None and part.size == part.group:
        # A node of one group: its factor is the group's own.
        own, node = [*own, node], None
    return part._replace(
        fleet=replace(part.fleet, num_gpus=num_gpus),
        own=own,
        node=node,
        per_step=[cast("Source", part.replica)],
        replica=None,
        group=1,
        size=part.size // part.group,
    )
