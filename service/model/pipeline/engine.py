"""When operations end: end = max(end of the previous one, end of the input + p2p) + time.

Every lane (a draw, a point) has its own times; all lanes go through the plan together, level by
level, in blocks that fit into the cache.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.plan import Plan
from service.model.pipeline.program import Program, program_of
from service.model.pipeline.times import row_times, time_rows

_BLOCK_BYTES = 262_144
_MIN_BLOCK, _MAX_BLOCK = 64, 2048


class Ends(NamedTuple):
    """(operations, lanes) ms from the start of the pass, in the order of the plan."""

    starts: Floats
    ends: Floats


class Lanes(NamedTuple):
    """Inputs with the lanes in the last axis, one or all of them."""

    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats
    factor: Floats | None
    jitter: Floats | None

    def number(self) -> int:
        """Of lanes."""
        return max(int(part.shape[-1]) for part in self if part is not None)

    def part(self, lanes: slice) -> "Lanes":
        """Some of the lanes."""
        return Lanes(
            _lanes(self.forward, lanes),
            _lanes(self.backward, lanes),
            _lanes(self.weight_fraction, lanes),
            _lanes(self.p2p, lanes),
            None if self.factor is None else _lanes(self.factor, lanes),
            None if self.jitter is None else _lanes(self.jitter, lanes),
        )


def makespans(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    p2p: Floats,
    factor: Floats | None = None,
    jitter: Floats | None = None,
) -> Floats:
    """(lanes,) ms from the first start to the last end.

    forward, backward   (stages, lanes) ms of a micro-batch in a stage, all its chunks
    weight_fraction     (lanes,) share of the backward that is the weight gradient
    p2p                 (lanes,) ms from rank to rank
    factor              (stages, lanes) of all operations of a rank
    jitter              (operations, lanes) of single operations, in the order of the plan
    The last axis may be 1 instead of lanes.
    """
    lanes = Lanes(forward, backward, weight_fraction, p2p, factor, jitter)
    program = program_of(plan)
    number = lanes.number()
    found = np.empty(number)
    size = _block_size(program, number)
    table = np.empty((program.num_rows, size))
    scratch = np.empty((plan.stages, size))
    for start in range(0, number, size):
        block = slice(start, min(start + size, number))
        width = block.stop - block.start
        found[block] = _pass(
            program, lanes.part(block), table[:, :width], scratch[:, :width], plan.stages
        )
    return found


def _pass(program: Program, lanes: Lanes, table: Floats, scratch: Floats, stages: int) -> Floats:
    """(lanes,) makespans of one block."""
    times = _times(program, lanes, table.shape[1])
    table[:stages] = 0
    table[stages] = -np.inf
    jitter, p2p = lanes.jitter, lanes.p2p
    for level in program.levels:
        ranks = table[level.ranks]
        other = scratch[: len(ranks)]
        table.take(level.waits_for, axis=0, out=other, mode="clip")
        if level.also_waits_for is not None:
            np.maximum(other, table[level.also_waits_for], out=other)
        other += p2p
        np.maximum(ranks, other, out=ranks)
        times.take(level.times, axis=0, out=other, mode="clip")
        if jitter is not None:
            other *= jitter[level.jitter]
        ranks += other
        for to_rows, from_rows in level.copied:
            table[to_rows] = table[from_rows]
    makespan: Floats = table[:stages].max(axis=0)
    return makespan


def _times(program: Program, lanes: Lanes, width: int) -> Floats:
    """(rows + 1, lanes) with a last row of no time."""
    times = np.zeros((len(program.times.kind) + 1, width))
    times[:-1] = row_times(
        program.times, lanes.forward, lanes.backward, lanes.weight_fraction, lanes.factor
    )
    return times


def ends(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    p2p: Floats,
    factor: Floats | None = None,
    jitter: Floats | None = None,
) -> Ends:
    """Every start and end, for pictures and peaks: arguments as of `makespans`."""
    lanes = Lanes(forward, backward, weight_fraction, p2p, factor, jitter)
    rows = time_rows(plan)
    times = row_times(rows, forward, backward, weight_fraction, factor)[rows.row]
    if jitter is not None:
        times = times * jitter
    times = np.broadcast_to(times, (plan.num_operations, lanes.number()))
    # two rows more: index -1 is the start of the pass, index -2 never keeps anybody waiting
    found = np.zeros((plan.num_operations + 2, lanes.number()))
    found[-2] = -np.inf
    upstream, second = (
        np.where(inputs < 0, -2, inputs) for inputs in (plan.upstream, plan.second_upstream)
    )
    started = np.empty(times.shape)
    bounds = plan.level_starts.tolist()
    for lowest, highest in pairwise(bounds):
        own = slice(lowest, highest)
        arrived = np.maximum(found[upstream[own]], found[second[own]]) + p2p
        started[own] = np.maximum(found[plan.previous[own]], arrived)
        found[own] = started[own] + times[own]
    return Ends(started, found[:-2])


def busy_ms(
    plan: Plan,
    forward: Floats,
    backward: Floats,
    *,
    weight_fraction: Floats,
    factor: Floats | None = None,
) -> Floats:
    """(stages, lanes) ms that each rank works in a pass, without jitter: M (f + b) x factor.

    For dualpipe, M/2 of each of the two parts of the model that a rank holds.
    """
    rows = time_rows(plan)
    times = row_times(rows, forward, backward, weight_fraction, factor)
    times = times * rows.count[:, np.newaxis]
    busy = np.zeros((plan.stages, times.shape[1]))
    np.add.at(busy, rows.stage, times)
    return busy


def _lanes(values: Floats, lanes: slice) -> Floats:
    return values if values.shape[-1] == 1 else values[..., lanes]


def _block_size(program: Program, number: int) -> int:
    rows = program.num_rows + len(program.times.kind)
    return min(number, max(_MIN_BLOCK, min(_MAX_BLOCK, _BLOCK_BYTES // (8 * rows))))
