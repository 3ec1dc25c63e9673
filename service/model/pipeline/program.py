"""A plan as few array operations, level by level, on a few small tables.

A rank has at most one operation in a level. Row r of the table of ends is the end of the last
operation of rank r; a level updates the rows from its first to its last rank in place. Then it
writes what it sends, end + p2p, to a slot of P rows in the table of messages; a slot is used again
when its last reader is through. To wait for inputs is one maximum of rows: if the messages lie side
by side just these, otherwise they are gathered, and the last row, which is -inf, stands for no
input. (Arrays whose rows lie side by side are several times as fast as others.) Times of a level
that recur lie side by side in the table of times, behind those of `TimeRows` and a row of no time
for ranks between the first and the last that have nothing to do.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.pipeline.operations import Integers
from service.model.pipeline.plan import Plan
from service.model.pipeline.times import TimeRows, time_rows

Rows = NDArray[np.intp]
Span = tuple[int, int]
"""Rows from the first to before the second."""

# uses of the same times in as many levels make it worth while to keep them side by side,
# up to so many rows for each rank
_LEAST_USES = 3
_MOST_TIMES = 6


class Level(NamedTuple):
    """Rows of the tables that one level works on.

    ranks      of the ends
    waiting    of the ends and of the messages, the same number; None if the messages are gathered
    gathered   of the messages, for each of `ranks`; two if operations have two inputs
    times      of the times; None if `time_rows` are to be gathered
    jitter     the operations
    sent       of the messages, None if nobody reads them
    """

    ranks: Span
    waiting: tuple[Span, Span] | None
    gathered: tuple[Rows, ...]
    times: Span | None
    time_rows: Rows
    jitter: slice | Rows
    sent: Span | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Levels in order; `time_rows` (rows of the times,) are rows of the base times and the zero."""

    levels: tuple[Level, ...]
    num_messages: int
    base_times: TimeRows
    time_rows: Rows


def program_of(plan: Plan) -> Program:
    """The program of a plan, made once and kept with it."""
    found = plan.kept.get(__name__)
    if not isinstance(found, Program):
        found = plan.kept[__name__] = _compiled(plan)
    return found


def _compiled(plan: Plan) -> Program:
    level = np.repeat(np.arange(plan.num_levels), np.diff(plan.level_starts))
    slots = _slots(plan, level)
    slot_of_level = np.array(slots)
    num_messages = plan.stages * (1 + max(slots)) + 1
    messages = [
        np.where(
            upstream < 0,
            num_messages - 1,
            slot_of_level[level[upstream]] * plan.stages + plan.stage[upstream],
        )
        for upstream in (plan.upstream, plan.second_upstream)
    ]
    base_times = time_rows(plan)
    ranks = _rank_spans(plan)
    times = list(_time_rows(plan, base_times, ranks))
    spans, gathered = _recurring(times, 1 + len(base_times.kind), _MOST_TIMES * plan.stages)
    levels = []
    bounds = pairwise(plan.level_starts.tolist())
    for own, span, rows, slot in zip(bounds, ranks, times, slots, strict=True):
        stage = plan.stage[own[0] : own[1]]
        inputs = [source[own[0] : own[1]] for source in messages]
        waiting, to_gather = _reads(span, stage, inputs, num_messages - 1)
        first = slot * plan.stages
        levels.append(
            Level(
                ranks=span,
                waiting=waiting,
                gathered=to_gather,
                times=spans.get(rows.tobytes()),
                time_rows=rows,
                jitter=_jitter(span, stage, own[0]),
                sent=None if slot < 0 else (first + span[0], first + span[1]),
            )
        )
    return Program(
        levels=tuple(levels),
        num_messages=num_messages,
        base_times=base_times,
        time_rows=gathered,
    )


def _slots(plan: Plan, level: Integers) -> list[int]:
    """(levels,) the slot that a level writes to, -1 if nobody reads what it ends."""
    last_read = np.full(plan.num_levels, -1)
    for upstream in (plan.upstream, plan.second_upstream):
        reads = upstream >= 0
        np.maximum.at(last_read, level[upstream[reads]], level[reads])
    free: list[int] = []
    given_back: list[list[int]] = [[] for _ in range(plan.num_levels)]
    slots, number = [], 0
    for current, until in enumerate(last_read.tolist()):
        free.extend(given_back[current])
        if until < 0:
            slots.append(-1)
            continue
        if not free:
            free.append(number)
            number += 1
        slots.append(free.pop())
        given_back[until].append(slots[-1])
    return slots


def _rank_spans(plan: Plan) -> list[Span]:
    """(levels,) from the first to the last rank."""
    first = plan.stage[plan.level_starts[:-1]]
    last = plan.stage[plan.level_starts[1:] - 1]
    return list(zip(first.tolist(), (last + 1).tolist(), strict=True))


def _time_rows(plan: Plan, base: TimeRows, ranks: list[Span]) -> Iterator[Rows]:
    """For each level the rows of the base times, the row of no time where a rank is idle."""
    for own, span in zip(pairwise(plan.level_starts.tolist()), ranks, strict=True):
        yield _spread(base.row[slice(*own)], plan.stage[slice(*own)], span, len(base.kind))


def _recurring(times: list[Rows], num_base: int, most: int) -> tuple[dict[bytes, Span], Rows]:
    """Spans in the table of times by the bytes of the rows, and the base rows of that table."""
    spans: dict[bytes, Span] = {}
    table = [np.arange(num_base, dtype=np.intp)]
    end = num_base
    for key, uses in Counter(rows.tobytes() for rows in times).most_common():
        rows = np.frombuffer(key, dtype=np.intp)
        if _lie_side_by_side(rows):
            spans[key] = int(rows[0]), int(rows[-1]) + 1
        elif uses >= _LEAST_USES and end - num_base + len(rows) <= most:
            spans[key] = end, end + len(rows)
            table.append(rows)
            end += len(rows)
    return spans, np.concatenate(table)


def _reads(
    ranks: Span, stage: Integers, inputs: list[Integers], nothing: int
) -> tuple[tuple[Span, Span] | None, tuple[Rows, ...]]:
    """What waits for what, as one pair of spans or as rows to gather."""
    waits = [(rows != nothing).nonzero()[0] for rows in inputs]
    if len(waits[0]) and not len(waits[1]):
        ends, messages = stage[waits[0]], inputs[0][waits[0]]
        if _lie_side_by_side(ends) and _lie_side_by_side(messages):
            first, other, number = int(ends[0]), int(messages[0]), len(ends)
            return ((first, first + number), (other, other + number)), ()
    return None, tuple(
        _spread(rows, stage, ranks, nothing)
        for rows, there in zip(inputs, waits, strict=True)
        if len(there)
    )


def _lie_side_by_side(rows: Rows) -> bool:
    """Whether they can be a slice."""
    return bool((np.diff(rows) == 1).all())


def _spread(values: Rows, stage: Integers, ranks: Span, idle: int) -> Rows:
    """Values for each of `ranks`, `idle` for those that have nothing to do."""
    spread = np.full(ranks[1] - ranks[0], idle, dtype=np.intp)
    spread[stage - ranks[0]] = values
    return spread


def _jitter(ranks: Span, stage: Integers, first: int) -> slice | Rows:
    """The operations of a level; an idle rank has any of them, its time is 0 anyway."""
    if len(stage) == ranks[1] - ranks[0]:
        return slice(first, first + len(stage))
    return _spread(np.arange(first, first + len(stage)), stage, ranks, first)
