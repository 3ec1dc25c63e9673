"""The program at work: one block of lanes after the other in the same tables."""

from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.program import Level, Program, Rows, Span
from service.model.pipeline.times import row_times


class Lanes(NamedTuple):
    """Inputs with the lanes in the last axis, one or all of them; as of `engine.makespans`."""

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
            _some(self.forward, lanes),
            _some(self.backward, lanes),
            _some(self.weight_fraction, lanes),
            _some(self.p2p, lanes),
            None if self.factor is None else _some(self.factor, lanes),
            None if self.jitter is None else _some(self.jitter, lanes),
        )


def _some(values: Floats, lanes: slice) -> Floats:
    return values if values.shape[-1] == 1 else values[..., lanes]


class _Step(NamedTuple):
    """A level with its rows of the tables."""

    ends: Floats
    waiting: tuple[Floats, Floats] | None
    gathered: tuple[Rows, ...]
    times: Floats | None
    time_rows: Rows
    scratch: Floats
    jitter: slice | Rows
    p2p: Floats
    sent: Floats | None


class Tables:
    """Tables of `size` lanes for a program; `stages` is P."""

    def __init__(self, program: Program, stages: int, size: int) -> None:
        self._program = program
        self._ends = np.empty((stages, size))
        self._messages = np.full((program.num_messages, size), -np.inf)
        self._times = np.zeros((len(program.time_rows), size))
        self._scratch = np.empty((stages, size))
        # as many rows as ranks: adding the same row to all of them would take longer
        self._p2p = np.empty((stages, size))
        self._steps = self._bound(program.levels)

    def makespans(self, lanes: Lanes) -> Floats:
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
        makespans: Floats = self._ends.max(axis=0)
        return makespans

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


class _Views(dict[Span, Floats]):
    """Rows of a table, made when first asked for."""

    def __init__(self, table: Floats) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, span: Span) -> Floats:
        view = self._table[span[0] : span[1]]
        self[span] = view
        return view
