"""The program at work: one block of lanes after the other in the same tables."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.pipeline.plan import Plan
from service.model.pipeline.program import Level, Program, Rows, Span, program_of
from service.model.pipeline.times import row_times

# of all tables; the rows in use at any time are a part of them
_BLOCK_BYTES = 786_432
_MIN_BLOCK, _MAX_BLOCK = 64, 2048

Table = NDArray[Any]
"""Of floats, or of complex numbers whose imaginary part counts messages."""


class Lanes(NamedTuple):
    """Inputs with the lanes in the last axis, one or all of them; as of `engine.makespans`.

    `p2p` may be complex, c + i: of two complex numbers the maximum is that with the larger real
    part, and so the imaginary part of an end counts the messages on the chain that led to it.
    """

    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Table
    factor: Floats | None
    jitter: Floats | None

    def number(self) -> int:
        """Of lanes."""
        return max(int(part.shape[-1]) for part in self if part is not None)

    def part(self, lanes: slice) -> "Lanes":
        """Some of the lanes."""
        return Lanes(
            _some(self.forward, lanes),
            _some(self.backward, lanes),
            _some(self.weight_fraction, lanes),
            _some(self.p2p, lanes),
            None if self.factor is None else _some(self.factor, lanes),
            None if self.jitter is None else _some(self.jitter, lanes),
        )


def _some(values: Table, lanes: slice) -> Table:
    return values if values.shape[-1] == 1 else values[..., lanes]


def evaluated(plan: Plan, lanes: Lanes) -> Table:
    """(lanes,) the last end of a pass, of the kind of number that `p2p` is."""
    program = program_of(plan)
    number = lanes.number()
    # whole numbers count as floats
    dtype = np.result_type(lanes.p2p, np.float64)
    rows = 3 * plan.stages + program.num_messages + len(program.time_rows)
    fitting = _BLOCK_BYTES // (dtype.itemsize * rows)
    size = max(_MIN_BLOCK, min(_MAX_BLOCK, fitting))
    num_blocks = max(1, -(-number // size))
    size = -(-number // num_blocks)
    tables = Tables(program, plan.stages, size, dtype)
    found = np.empty(number, dtype=dtype)
    for index in range(num_blocks):
        # the last block may do some lanes again
        start = min(index * size, number - size)
        block = slice(start, start + size)
        found[block] = tables.last_ends(lanes.part(block))
    return found


class _Step(NamedTuple):
    """A level with its rows of the tables."""

    ends: Table
    waiting: tuple[Table, Table] | None
    gathered: tuple[Rows, ...]
    times: Table | None
    time_rows: Rows
    scratch: Table
    jitter: slice | Rows
    p2p: Table
    sent: Table | None


class Tables:
    """Tables of `size` lanes for a program; `stages` is P."""

    def __init__(self, program: Program, stages: int, size: int, dtype: np.dtype[Any]) -> None:
        self._program = program
        self._ends = np.empty((stages, size), dtype)
        self._messages = np.full((program.num_messages, size), -np.inf, dtype)
        self._times = np.zeros((len(program.time_rows), size), dtype)
        self._scratch = np.empty((stages, size), dtype)
        # as many rows as ranks: adding the same row to all of them would take longer
        self._p2p = np.empty((stages, size), dtype)
        self._steps = self._bound(program.levels)

    def last_ends(self, lanes: Lanes) -> Table:
        """(lanes,) of one block."""
        self._fill(lanes)
        jitter = lanes.jitter
        gather, gather_times = self._messages.take, self._times.take
        maximum, add = np.maximum, np.add
        for ends, waiting, gathered, times, rows, scratch, own, p2p, sent in self._steps:
            if waiting is not None:
                maximum(*waiting, out=waiting[0])
            for inputs in gathered:
                gather(inputs, 0, scratch, "clip")
                maximum(ends, scratch, out=ends)
            spent = gather_times(rows, 0, scratch, "clip") if times is None else times
            if jitter is not None:
                spent = np.multiply(spent, jitter[own], scratch)
            add(ends, spent, ends)
            if sent is not None:
                add(ends, p2p, sent)
        last: Table = self._ends.max(axis=0)
        return last

    def _fill(self, lanes: Lanes) -> None:
        """The tables at the start of a pass."""
        base = self._program.base_times
        times = row_times(base, lanes.forward, lanes.backward, lanes.weight_fraction, lanes.factor)
        number = len(times)
        self._times[:number] = times
        self._times[number + 1 :] = self._times[self._program.time_rows[number + 1 :]]
        self._p2p[:] = lanes.p2p
        self._ends[:] = 0

    def _bound(self, levels: tuple[Level, ...]) -> list[_Step]:
        """The views of every level, made once for all blocks."""
        ends, messages = _Views(self._ends), _Views(self._messages)
        times, scratch, p2p = _Views(self._times), _Views(self._scratch), _Views(self._p2p)
        steps = []
        for level in levels:
            span, waiting = level.ranks, level.waiting
            width = (0, span[1] - span[0])
            steps.append(
                _Step(
                    ends[span],
                    None if waiting is None else (ends[waiting[0]], messages[waiting[1]]),
                    level.gathered,
                    None if level.times is None else times[level.times],
                    level.time_rows,
                    scratch[width],
                    level.jitter,
                    p2p[width],
                    None if level.sent is None else messages[level.sent],
                )
            )
        return steps


class _Views(dict[Span, Table]):
    """Rows of a table, made when first asked for."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, span: Span) -> Table:
        view = self._table[span[0] : span[1]]
        self[span] = view
        return view
