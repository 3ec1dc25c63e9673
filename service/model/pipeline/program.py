"""A plan as few array operations: which rows of a small table every level reads and writes.

Row r < P of the table is the end of the last operation of rank r. A rank has at most one operation
in a level, so a level updates the slice from its first to its last rank in place; a rank in between
that has nothing to do takes no time and waits for row P, which is -inf. An end that another rank
reads after its own rank has gone on is copied to a ring of rows behind row P.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from service.model.pipeline.operations import Integers
from service.model.pipeline.plan import Plan
from service.model.pipeline.times import TimeRows, time_rows

Rows = NDArray[np.intp]


class Level(NamedTuple):
    """One level: what the ranks of the slice `ranks` do, arrays have one entry for each of them.

    `waits_for` and `also_waits_for` (None if nobody has two inputs) are rows of the table, `times`
    rows of the times, `jitter` the operations; `copied` are pairs of slices of the table, to and
    from.
    """

    ranks: slice
    waits_for: Rows
    also_waits_for: Rows | None
    times: Rows
    jitter: slice | Rows
    copied: tuple[tuple[slice, slice], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Levels in order, the rows of the table, and the different times of operations."""

    levels: tuple[Level, ...]
    num_rows: int
    times: TimeRows


_PROGRAMS: WeakKeyDictionary[Plan, Program] = WeakKeyDictionary()


def program_of(plan: Plan) -> Program:
    """The program of a plan, made once."""
    found = _PROGRAMS.get(plan)
    if found is None:
        found = _PROGRAMS[plan] = _compiled(plan)
    return found


def _compiled(plan: Plan) -> Program:
    level = np.repeat(np.arange(plan.num_levels), np.diff(plan.level_starts))
    first, second, ring = _read_rows(plan, level)
    times = time_rows(plan)
    levels = []
    starts = plan.level_starts.tolist()
    for lowest, end in pairwise(starts):
        own = slice(lowest, end)
        stage = plan.stage[own]
        from_rank, to_rank = int(stage[0]), int(stage[-1]) + 1
        rows = [first[own], second[own], times.row[own]]
        jitter: slice | Rows = own
        if to_rank - from_rank > end - lowest:
            idle = (plan.stages, plan.stages, len(times.kind))
            rows = [
                _spread(values, stage - from_rank, to_rank - from_rank, fill)
                for values, fill in zip(rows, idle, strict=True)
            ]
            jitter = _spread(np.arange(lowest, end), stage - from_rank, to_rank - from_rank, lowest)
        levels.append(
            Level(
                ranks=slice(from_rank, to_rank),
                waits_for=rows[0],
                also_waits_for=rows[1] if (rows[1] != plan.stages).any() else None,
                times=rows[2],
                jitter=jitter,
                copied=_copies(stage, ring[own]),
            )
        )
    return Program(
        levels=tuple(levels), num_rows=max(plan.stages, int(ring.max())) + 1, times=times
    )


def _read_rows(plan: Plan, level: Integers) -> tuple[Rows, Rows, Rows]:
    """(operations,) the rows read for both inputs, and the row of the ring written to or -1."""
    never = plan.num_levels
    overwritten = np.full(plan.num_operations, never)
    follows = plan.previous >= 0
    overwritten[plan.previous[follows]] = level[follows]
    is_copied = np.zeros(plan.num_operations, dtype=np.bool_)
    late = []
    for upstream in (plan.upstream, plan.second_upstream):
        is_late = (upstream >= 0) & (level > overwritten[upstream])
        is_copied[upstream[is_late]] = True
        late.append(is_late)
    number: Integers = np.cumsum(is_copied) - is_copied
    written_before = np.concatenate([[0], np.cumsum(is_copied)])[plan.level_starts[level]]
    length = 1
    for upstream, is_late in zip((plan.upstream, plan.second_upstream), late, strict=True):
        kept_for = written_before[is_late] - number[upstream[is_late]]
        length = max(length, int(kept_for.max(initial=0)))
    ring = np.where(is_copied, plan.stages + 1 + number % length, -1)
    reads = [
        np.where(upstream < 0, plan.stages, np.where(is_late, ring[upstream], plan.stage[upstream]))
        for upstream, is_late in zip((plan.upstream, plan.second_upstream), late, strict=True)
    ]
    return reads[0], reads[1], ring


def _spread(values: Rows, places: Integers, width: int, fill: int) -> Rows:
    """Values at their places, `fill` elsewhere."""
    spread = np.full(width, fill, dtype=np.intp)
    spread[places] = values
    return spread


def _copies(stage: Integers, ring: Integers) -> tuple[tuple[slice, slice], ...]:
    """Pairs (to, from) of slices of the table, neighbours together."""
    (copied,) = (ring >= 0).nonzero()
    runs: list[list[int]] = []
    for to_row, from_row in zip(ring[copied].tolist(), stage[copied].tolist(), strict=True):
        if runs and runs[-1][0] + runs[-1][2] == to_row and runs[-1][1] + runs[-1][2] == from_row:
            runs[-1][2] += 1
        else:
            runs.append([to_row, from_row, 1])
    return tuple((slice(to, to + n), slice(start, start + n)) for to, start, n in runs)
