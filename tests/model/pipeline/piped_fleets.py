"""Fleets of pipelines of one point, and their makespans written down a second time.

The makespans are event by event, of two schedules, as in the reference notes: every operation
starts when the one before on its stage has ended and its input has come.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.model.fleet import Episodes, Fleet, Spikes
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.shape import PipelineShape
from tests.model.fleets_for_tests import LAW_OF, SOURCES, source

Group = tuple[int, float, int]

_SHAPE = {
    "schedule": "1f1b",
    "replicas": 2,
    "stages": 3,
    "microbatches": 4,
    "chunks": 1,
    "tensor": 1,
    "weight_fraction": 0.5,
    "p2p": 0.01,
    "round_steps": 1,
    "floor": -np.inf,
}


def times_of(stages: int, microbatches: int) -> tuple[Floats, Floats]:
    """(stages,) forward and backward over the nominal compute of a step."""
    weight = 1 + 0.2 * np.cos(np.arange(stages))
    share = weight / weight.mean() / microbatches
    return share / 3, share * 2 / 3


def piped_fleet(slow: Sequence[Group] = (), **given: Any) -> Fleet:
    """One point; sources as (family, cv), spikes and episodes as tuples, the rest by name."""
    size = {name: given.pop(name, default) for name, default in _SHAPE.items()}
    forward, backward = given.pop("times", None) or times_of(size["stages"], size["microbatches"])
    jitter = given.pop("jitter", None)
    groups = list(slow) or [(0, 1.0, -1)]
    shape = PipelineShape(
        schedule=size["schedule"],
        stages=size["stages"],
        microbatches=size["microbatches"],
        chunks=size["chunks"],
        forward=np.array(forward)[:, np.newaxis],
        backward=np.array(backward)[:, np.newaxis],
        weight_fraction=np.array([size["weight_fraction"]]),
        p2p=np.array([size["p2p"]]),
        slow_count=np.array([[group[0]] for group in groups]),
        slow_factor=np.array([[float(group[1])] for group in groups]),
        slow_placement=np.array([[group[2]] for group in groups]),
        round_steps=np.array([size["round_steps"]]),
        floor=np.array([size["floor"]]),
        jitter=_source(jitter),
    )
    removed = given.pop("num_removed", 0)
    held = size["replicas"] * size["stages"] * size["tensor"] + removed
    fields: dict[str, Any] = {name: _source(given.pop(name, None)) for name in SOURCES}
    if "spikes" in given:
        probability, slowdown = given.pop("spikes")
        fields["spikes"] = Spikes(
            probability=np.array([probability]), slowdown=np.array([slowdown])
        )
    if "episodes" in given:
        occupancy, severity = given.pop("episodes")
        fields["episodes"] = Episodes(
            occupancy=np.array([occupancy]),
            severity=np.array([severity]),
            mean_hours=np.ones(1),
        )
    fleet = Fleet(
        num_gpus=np.array([[float(held)]]),
        mean=np.ones((1, 1)),
        gpus_per_node=np.array([given.pop("gpus_per_node", 8)]),
        tensor_parallel_size=np.array([size["tensor"]]),
        outside_ratio=np.array([given.pop("outside_ratio", 0.3)]),
        num_removed=np.array([removed]),
        num_backup=np.array([given.pop("num_backup", 0)]),
        autocorrelation=np.array([given.pop("autocorrelation", 0.0)]),
        pipeline=shape,
        **fields,
    )
    assert not given, f"no such field: {given}"
    return fleet


def cluster_of(slow: Sequence[Group] = (), **given: Any) -> OneCluster:
    """That point by itself."""
    return clusters_of(piped_fleet(slow, **given))[0]


def ints(number: int, num_points: int = 1) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(points,)."""
    return np.full(num_points, number, dtype=np.int64)


def _source(factor: tuple[str, float] | Source | None) -> Source | None:
    if factor is None or isinstance(factor, Source):
        return factor
    assert factor[0] in LAW_OF
    return source(factor)


def event_makespans(cluster: OneCluster, time_factor: Floats) -> Floats:
    """(lanes,) for factors (stages, 2 kinds, micro-batches or 1, lanes): 1F1B and GPipe."""
    shape = cluster.shape
    stages, number = shape.stages, shape.microbatches
    factor = np.broadcast_to(time_factor, (stages, 2, number, time_factor.shape[3]))
    nominal = np.stack([shape.forward[:, 0], shape.backward[:, 0]], axis=1)
    times = nominal[:, :, np.newaxis, np.newaxis] * factor
    orders = [_order(shape.schedule, stage, stages, number) for stage in range(stages)]
    ends: dict[tuple[int, int, int], Floats] = {}
    free = [np.zeros(times.shape[3]) for _ in range(stages)]
    while any(orders):
        for stage, order in enumerate(orders):
            if not order:
                continue
            kind, batch = order[0]
            needed = _input(stage, kind, batch, stages)
            if needed is not None and needed not in ends:
                continue
            order.pop(0)
            start = free[stage]
            if needed is not None:
                start = np.maximum(start, ends[needed] + shape.p2p[0] * (needed[0] != stage))
            free[stage] = ends[stage, kind, batch] = start + times[stage, kind, batch]
    longest: Floats = np.max(free, axis=0)
    return longest


def _order(schedule: str, stage: int, stages: int, number: int) -> list[tuple[int, int]]:
    """(kind, micro-batch) one after the other; kind 0 forward, 1 backward."""
    warm = {"gpipe": number, "1f1b": min(number, stages - 1 - stage)}[schedule]
    order = [(0, batch) for batch in range(warm)]
    for batch in range(number - warm):
        order += [(0, warm + batch), (1, batch)]
    return order + [(1, batch) for batch in range(number - warm, number)]


def _input(stage: int, kind: int, batch: int, stages: int) -> tuple[int, int, int] | None:
    if kind == 0:
        return (stage - 1, 0, batch) if stage > 0 else None
    return (stage + 1, 1, batch) if stage < stages - 1 else (stage, 0, batch)
