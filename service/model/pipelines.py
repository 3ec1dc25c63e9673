"""Columns as pipelines: which mathematics they need, and what they take at nominal speed.

Where all GPUs of a replica do the same, what a replica takes is a function of the one factor that
all its operations share: lines, as with overlap, and replicas are the ranks of the barrier.
Anything else is simulated. Design page "The model", sections 7 and 11.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.active import is_active, occupancy, spikes_are_active
from service.model.columns import (
    COUNT,
    PLACEMENT,
    SPEED,
    Columns,
    Floats,
    kept_by_point,
    kept_with_columns,
)
from service.model.exchange.lines import Lines, joined
from service.model.nominal_makespans import Makespans
from service.model.nominal_makespans import joined as joined_makespans
from service.model.pipeline.schedule import Sizes
from service.model.pipeline.shape import PipelineShape
from service.model.sources import source_of
from service.model.stage_sizes import (
    SCHEDULE_NAMES,
    has_pipeline,
    num_chunks,
    num_microbatches,
    num_stages,
    stage_times_ms,
)
from service.model.times import compute_ms
from service.model.waiting import interval_steps

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

JITTER = "per_op_jitter"
PER_GPU = ("transient", "persistent", "node")


@kept_with_columns
def has_jitter(columns: Columns) -> Mask:
    """(points,) whether single operations vary."""
    return is_active(columns, JITTER)


@kept_with_columns
def are_stages_simulated(columns: Columns) -> Mask:
    """(points,) whether GPUs of a pipeline differ or vary, or its steps do not simply add up."""
    piped = has_pipeline(columns)
    if not piped.any():
        return piped
    differ = ((columns[COUNT] > 0) & (columns[SPEED] < 1)).any(axis=1) | has_jitter(columns)
    differ = differ | spikes_are_active(columns) | (occupancy(columns) > 0)
    for source in PER_GPU:
        differ = differ | is_active(columns, source)
    together = is_active(columns, "replica") | is_active(columns, "common")
    # The mean of several makespans is the makespan of the mean only on a straight line.
    bent = is_active(columns, "common") | (columns["pipeline.p2p_ms"] > 0)
    in_rounds = (interval_steps(columns) > 1) & together & bent
    simulated: Mask = piped & (differ | in_rounds)
    return simulated


def by_plan(columns: Columns, rows: Rows) -> Iterator[tuple[str, Sizes, Rows]]:
    """The rows, all with pipelines, by their plan: the schedule's name and its sizes."""
    if not len(rows):
        return
    part = columns.part(rows)
    keys = np.stack(
        [
            part["pipeline.schedule"].astype(np.float64),
            num_stages(part),
            num_microbatches(part),
            num_chunks(part),
        ]
    )
    distinct, inverse = np.unique(keys, axis=1, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    starts = np.searchsorted(inverse[order], np.arange(distinct.shape[1] + 1))
    for (code, *sizes), start, stop in zip(
        distinct.T.astype(np.int64).tolist(), starts, starts[1:], strict=False
    ):
        yield SCHEDULE_NAMES[code - 1], Sizes(*sizes), rows[order[start:stop]]


def bends(columns: Columns) -> Mask:
    """(points,) whether handing on takes time while the operations around it vary alike."""
    varies = is_active(columns, "replica") | is_active(columns, "common")
    bent: Mask = varies & (columns["pipeline.p2p_ms"] > 0)
    return bent


@kept_with_columns
def makespan_lines_of(columns: Columns) -> Lines:
    """What a replica takes, ms, by the factor that all its operations share; all with pipelines.

    Where nothing varies a single line through the nominal makespan.
    """
    is_bent = bends(columns)
    found: list[tuple[Rows, Lines]] = []
    for name, sizes, rows in by_plan(columns, np.arange(columns.num_points)):
        for some, bent in ((rows[is_bent[rows]], True), (rows[~is_bent[rows]], False)):
            if len(some):
                found.append((some, _lines(columns.part(some), name, sizes, bent=bent)))
    order = np.argsort(np.concatenate([rows for rows, _ in found]))
    return joined([lines for _, lines in found]).part(order)


def _lines(columns: Columns, name: str, sizes: Sizes, *, bent: bool) -> Lines:
    makespans = makespans_of(columns, name, sizes)
    return makespans.lines() if bent else makespans.line()


def makespans_of(columns: Columns, name: str, sizes: Sizes) -> Makespans:
    """Of points with one plan, at nominal speed."""
    forward, backward = stage_times_ms(columns, compute_ms(columns))
    return Makespans(
        schedule=name,
        **sizes._asdict(),
        forward=forward,
        backward=backward,
        weight_fraction=columns["pipeline.backward_weight_fraction"],
        p2p=columns["pipeline.p2p_ms"],
    )


class NominalPipeline(NamedTuple):
    """(points,) each, at nominal speed.

    makespan_ms     of a replica
    without_p2p_ms  if handing on took no time
    equal_ms        if besides all stages had the same work
    is_closed       by a formula, and not by working through all operations
    """

    makespan_ms: Floats
    without_p2p_ms: Floats
    equal_ms: Floats
    is_closed: Mask


@kept_by_point
def nominal_pipeline(columns: Columns) -> NominalPipeline:
    """At every point; without a pipeline a makespan is the compute."""
    compute = compute_ms(columns)
    found = NominalPipeline(
        makespan_ms=compute.astype(np.float64),
        without_p2p_ms=compute.astype(np.float64),
        equal_ms=compute.astype(np.float64),
        is_closed=np.ones(len(compute), dtype=np.bool_),
    )
    for name, sizes, rows in by_plan(columns, np.flatnonzero(has_pipeline(columns))):
        makespans = makespans_of(columns.part(rows), name, sizes)
        without = makespans.without_p2p()
        variants = joined_makespans([makespans, without, without.with_equal_stages()])
        nominal = variants.nominal().reshape(3, -1)
        found.makespan_ms[rows], found.without_p2p_ms[rows], found.equal_ms[rows] = nominal
        found.is_closed[rows] = makespans.is_closed
    return found


def shape_of(columns: Columns, floor_ms: Floats) -> PipelineShape:
    """Of points with one plan; `floor_ms` is the least that a replica is waited for, or -inf."""
    ((name, sizes, _),) = by_plan(columns, np.arange(columns.num_points))
    compute = compute_ms(columns)
    forward, backward = stage_times_ms(columns, compute)
    return PipelineShape(
        schedule=name,
        **sizes._asdict(),
        forward=forward / compute,
        backward=backward / compute,
        weight_fraction=columns["pipeline.backward_weight_fraction"],
        p2p=columns["pipeline.p2p_ms"] / compute,
        slow_count=columns[COUNT].T,
        slow_factor=1 / columns[SPEED].T,
        slow_placement=columns[PLACEMENT].T,
        round_steps=interval_steps(columns).astype(np.int64),
        floor=floor_ms / compute,
        jitter=source_of(columns, JITTER),
    )
