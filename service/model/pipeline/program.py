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
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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

_NO_ROWS: Rows = np.empty(0, dtype=np.intp)


class Level(NamedTuple):
    """Rows of the tables that one level works on.

    ranks      of the ends
    waiting    of the ends and of the messages, the same number; None if the messages are gathered
    gathered   of the messages, for each of `ranks`; two if operations have two inputs
    times      of the times; None if `time_rows`, else empty, are to be gathered
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


class _Filled(NamedTuple):
    """One entry for each rank of every level, from its first to its last one, idle or not.

    bounds     (levels + 1,) of the entries of each level
    first      (levels,) rank
    entry      (operations,) the entry of each
    level      (entries,) of each
    """

    bounds: Integers
    first: Integers
    entry: Integers
    level: Integers

    def spread(self, values: Integers, idle: ArrayLike) -> Rows:
        """(entries,) of values (operations,); `idle` for ranks that have nothing to do."""
        spread = np.empty(len(self.level), dtype=np.intp)
        spread[:] = idle
        spread[self.entry] = values
        return spread


def _filled(plan: Plan) -> _Filled:
    first = plan.stage[plan.level_starts[:-1]]
    widths = plan.stage[plan.level_starts[1:] - 1] + 1 - first
    bounds = np.concatenate([[0], np.cumsum(widths)])
    level = _levels(plan)
    return _Filled(
        bounds=bounds,
        first=first,
        entry=bounds[level] + plan.stage - first[level],
        level=np.repeat(np.arange(plan.num_levels), widths),
    )


def _levels(plan: Plan) -> Integers:
    """(operations,) the level of each."""
    return np.repeat(np.arange(plan.num_levels), np.diff(plan.level_starts))


def _compiled(plan: Plan) -> Program:
    filled, slots = _filled(plan), _slots(plan)
    num_messages = plan.stages * (1 + max(slots)) + 1
    inputs = [
        filled.spread(_message_rows(plan, upstream, slots, num_messages), num_messages - 1)
        for upstream in (plan.upstream, plan.second_upstream)
    ]
    base_times = time_rows(plan)
    times = filled.spread(base_times.row, len(base_times.kind))
    jitter = filled.spread(np.arange(plan.num_operations), plan.level_starts[:-1][filled.level])
    waiting, to_gather = _reads(filled, inputs, num_messages - 1)
    kept = _recurring(filled, times, 1 + len(base_times.kind), _MOST_TIMES * plan.stages)
    sizes = np.diff(plan.level_starts).tolist()
    ranks = filled.first.tolist()
    levels = []
    for index, (start, end) in enumerate(pairwise(filled.bounds.tolist())):
        rank, width, slot = ranks[index], end - start, slots[index] * plan.stages
        side_by_side = kept.spans.get(times[start:end].tobytes())
        operation = int(jitter[start])
        levels.append(
            Level(
                ranks=(rank, rank + width),
                waiting=waiting[index],
                gathered=tuple(rows[start:end] for rows in to_gather[index]),
                times=side_by_side,
                time_rows=_NO_ROWS if side_by_side else times[start:end],
                jitter=slice(operation, operation + width)
                if width == sizes[index]
                else jitter[start:end],
                sent=None if slot < 0 else (slot + rank, slot + rank + width),
            )
        )
    return Program(
        levels=tuple(levels),
        num_messages=num_messages,
        base_times=base_times,
        time_rows=kept.table,
    )


def _message_rows(plan: Plan, upstream: Integers, slots: list[int], num_messages: int) -> Integers:
    """(operations,) the message of each input, the last row for none."""
    slot = np.array(slots)[_levels(plan)[upstream]]
    return np.where(upstream < 0, num_messages - 1, slot * plan.stages + plan.stage[upstream])


def _slots(plan: Plan) -> list[int]:
    """(levels,) the slot that a level writes to, -1 if nobody reads what it ends."""
    level = _levels(plan)
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


class _Kept(NamedTuple):
    """Times that lie side by side: spans by the bytes of the base rows, and those of the table."""

    spans: dict[bytes, Span]
    table: Rows


def _recurring(filled: _Filled, times: Rows, num_base: int, most: int) -> _Kept:
    """What levels have in common and what lies side by side anyway, up to `most` more rows."""
    spans: dict[bytes, Span] = {}
    table = [np.arange(num_base, dtype=np.intp)]
    end = num_base
    bounds = pairwise(filled.bounds.tolist())
    uses = Counter(times[first:last].tobytes() for first, last in bounds)
    for key, number in uses.most_common():
        rows = np.frombuffer(key, dtype=np.intp)
        if (np.diff(rows) == 1).all():
            spans[key] = int(rows[0]), int(rows[-1]) + 1
        elif number >= _LEAST_USES and end - num_base + len(rows) <= most:
            spans[key] = end, end + len(rows)
            table.append(rows)
            end += len(rows)
    return _Kept(spans, np.concatenate(table))


def _reads(
    filled: _Filled, inputs: list[Rows], nothing: int
) -> tuple[list[tuple[Span, Span] | None], list[list[Rows]]]:
    """For each level what waits for what: a pair of spans, or the inputs to gather."""
    num_levels = len(filled.first)
    entries = [(rows != nothing).nonzero()[0] for rows in inputs]
    numbers = [np.bincount(filled.level[some], minlength=num_levels) for some in entries]
    some, level = entries[0], filled.level[entries[0]]
    message = inputs[0][some]
    follows = (np.diff(some) == 1) & (np.diff(message) == 1) & (np.diff(level) == 0)
    followers = np.bincount(level[1:][follows], minlength=num_levels)
    is_span = (numbers[0] > 0) & (followers == numbers[0] - 1) & (numbers[1] == 0)
    waiting: list[tuple[Span, Span] | None] = [None] * num_levels
    for index in is_span.nonzero()[0].tolist():
        place = int(np.searchsorted(level, index))
        rank = int(some[place] - filled.bounds[index] + filled.first[index])
        row, number = int(message[place]), int(numbers[0][index])
        waiting[index] = (rank, rank + number), (row, row + number)
    has = [((number > 0) & ~is_span).tolist() for number in numbers]
    gathered = [
        [rows for rows, there in zip(inputs, both, strict=True) if there]
        for both in zip(*has, strict=True)
    ]
    return waiting, gathered
