"""A schedule of one size as arrays: who runs what, after what, level by level."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from service.model.pipeline.operations import (
    BACKWARD,
    BACKWARD_INPUT,
    CHUNK,
    FORWARD,
    FORWARD_BACKWARD,
    KIND,
    MICROBATCH,
    PARTNER_CHUNK,
    PARTNER_MICROBATCH,
    Integers,
)
from service.model.pipeline.schedule import Schedule

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Operations sorted by level, then rank; a rank has at most one in a level.

    An operation starts when the previous one of its rank (`previous`) has ended and its input from
    another rank (`upstream`, for a forward_backward also `second_upstream`) has arrived, `p2p_ms`
    after the end there. Inputs made on the same rank are there by the order of the rank. All three
    are indices into the operations, -1 for none; they point to lower levels.

    The time of an operation at nominal speed is, per chunk (divided by `chunks`), forward[s] of
    s = `model_stage` for "forward", backward[s] for "backward", (1 - w) backward[s] for
    "backward_input", w backward[s] for "backward_weight" and forward[model_stage] +
    backward[partner_model_stage] for "forward_backward". `model_stage` differs from `stage`, the
    rank that runs it, only for dualpipe. All arrays but `level_starts` (levels + 1,) are
    (operations,); partners are -1 but for "forward_backward".
    """

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    kind: Integers
    stage: Integers
    model_stage: Integers
    chunk: Integers
    microbatch: Integers
    partner_model_stage: Integers
    partner_chunk: Integers
    partner_microbatch: Integers
    previous: Integers
    upstream: Integers
    second_upstream: Integers
    level_starts: Integers
    kept: dict[str, Any] = field(default_factory=dict, repr=False)
    """What others made of the plan and keep with it, by their name."""

    @property
    def num_operations(self) -> int:
        """All ranks together."""
        return len(self.kind)

    @property
    def num_levels(self) -> int:
        """Operations on the longest chain."""
        return len(self.level_starts) - 1


def compiled(schedule: Schedule, stages: int, microbatches: int, chunks: int) -> Plan:
    """The plan of a valid size; RuntimeError if ranks would wait for each other for ever."""
    orders = schedule.order(stages, microbatches, chunks)
    rows = np.concatenate(orders)
    counts = np.array([len(order) for order in orders])
    rank = np.repeat(np.arange(stages), counts)
    part = schedule.part_of(rank, rows[:, CHUNK], stages)
    partner_part = schedule.part_of(rank, rows[:, PARTNER_CHUNK], stages)
    is_pair = rows[:, KIND] == FORWARD_BACKWARD
    upstream, second = _inputs(
        rows, rank, part, partner_part, schedule.num_parts(stages, chunks), microbatches
    )
    level = _levels(counts, upstream, second)
    sorting = np.lexsort((rank, level))
    place = np.empty(len(rows) + 1, dtype=np.int64)
    place[sorting] = np.arange(len(rows))
    place[-1] = -1
    starts_rank = np.concatenate([[0], np.cumsum(counts)[:-1]])
    previous = np.arange(len(rows)) - 1
    previous[starts_rank] = -1
    both_ways = schedule.layout == "both_ways"
    return Plan(
        schedule=schedule.name,
        stages=stages,
        microbatches=microbatches,
        chunks=chunks,
        kind=rows[sorting, KIND],
        stage=rank[sorting],
        model_stage=(part if both_ways else rank)[sorting],
        chunk=rows[sorting, CHUNK],
        microbatch=rows[sorting, MICROBATCH],
        partner_model_stage=np.where(is_pair, partner_part if both_ways else rank, -1)[sorting],
        partner_chunk=rows[sorting, PARTNER_CHUNK],
        partner_microbatch=rows[sorting, PARTNER_MICROBATCH],
        previous=place[previous][sorting],
        upstream=place[upstream][sorting],
        second_upstream=place[second][sorting],
        level_starts=np.searchsorted(level[sorting], np.arange(level.max() + 2)),
    )


def _inputs(
    rows: Integers,
    rank: Integers,
    part: Integers,
    partner_part: Integers,
    num_parts: int,
    microbatches: int,
) -> tuple[Integers, Integers]:
    """The operations on other ranks that an operation waits for, -1 for none."""
    kind, index = rows[:, KIND], np.arange(len(rows))
    is_pair = kind == FORWARD_BACKWARD
    goes_forward = (kind == FORWARD) | is_pair
    goes_back = (kind == BACKWARD) | (kind == BACKWARD_INPUT)
    # one more row at each end: the first forward and the last backward wait for nothing
    forwards = np.full((num_parts + 2, microbatches), -1)
    backwards = forwards.copy()
    forwards[part[goes_forward] + 1, rows[goes_forward, MICROBATCH]] = index[goes_forward]
    backwards[part[goes_back] + 1, rows[goes_back, MICROBATCH]] = index[goes_back]
    backwards[partner_part[is_pair] + 1, rows[is_pair, PARTNER_MICROBATCH]] = index[is_pair]
    upstream = np.full(len(rows), -1)
    second = upstream.copy()
    upstream[goes_forward] = forwards[part[goes_forward], rows[goes_forward, MICROBATCH]]
    upstream[goes_back] = backwards[part[goes_back] + 2, rows[goes_back, MICROBATCH]]
    second[is_pair] = backwards[partner_part[is_pair] + 2, rows[is_pair, PARTNER_MICROBATCH]]
    return _elsewhere(upstream, rank), _elsewhere(second, rank)


def _elsewhere(upstream: Integers, rank: Integers) -> Integers:
    """Without the inputs that the same rank made."""
    return np.where(rank[upstream] == rank, -1, upstream)


def _levels(counts: Integers, upstream: Integers, second: Integers) -> Integers:
    """(operations,) levels: every rank does its next operation as soon as its inputs are there."""
    number = len(upstream)
    if len(counts) == 1:
        return np.arange(number)
    # two places more: what is always there (index -1) and what finished ranks wait for
    level = np.full(number + 2, _NEVER)
    level[-1] = -1
    first_input = np.append(upstream, number)
    second_input = np.append(second, -1)
    ends = np.cumsum(counts)
    heads = ends - counts
    for current in range(number):
        waits_for = np.maximum(level[first_input[heads]], level[second_input[heads]])
        (ready,) = (waits_for < current).nonzero()
        if not len(ready):
            break
        level[heads[ready]] = current
        heads[ready] += 1
        done = heads[ready] == ends[ready]
        heads[ready[done]] = number
    if (heads != number).any():
        raise RuntimeError("The ranks of this pipeline would wait for each other for ever")
    return level[:number]
