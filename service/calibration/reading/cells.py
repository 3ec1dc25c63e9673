"""Rows of plain tables become matrices of steps and ranks.

Memory grows with the number of cells, not with that of bytes: rows are kept as numbers until the
last one is there, since steps and ranks may come in any order. More rows than cells are repeated
ones, and end the reading.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from service.calibration.reading.durations import BadRowError
from service.calibration.reading.limits import ReadingLimits
from service.calibration.reading.rank_labels import MAX_RANK, RankLabels
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

MAX_STEP: Final = 10**12
# Above so many empty places for each value sorting takes less than marking.
_SPARSENESS: Final = 8


class Place(NamedTuple):
    """A row of a file, both counted from 0."""

    file: int
    row: int


class RepeatedCellError(ValueError):
    """Two rows of one rank and step, and where they stand."""

    def __init__(self, step: int, rank: int, first: Place, second: Place) -> None:
        super().__init__(f"rank {rank} has step {step} twice")
        self.step, self.rank, self.first, self.second = step, rank, first, second


class _Chunk(NamedTuple):
    place: Place
    steps: IntArray
    ranks: IntArray
    times: Mapping[str, FloatArray]


class Matrices(NamedTuple):
    """Times (steps, ranks) by phase, NaN where a rank has no row in a step; labels (ranks,).

    `partial_labels` are those that only some ranks have.
    """

    steps: IntArray
    ranks: IntArray
    times: dict[str, FloatArray]
    labels: dict[str, IntArray]
    partial_labels: list[str]


class Part(NamedTuple):
    """Files that share steps, by way of others too; their ranks, and their steps from and to."""

    files: list[int]
    ranks: IntArray
    first_step: int
    last_step: int


class Cells:
    """Collects the rows; `matrices` ends it."""

    def __init__(self, limits: ReadingLimits) -> None:
        self._limits = limits
        self._chunks: list[_Chunk] = []
        self._num_rows = 0
        self._steps = np.empty(0, np.int64)
        self._ranks = np.empty(0, np.int64)
        self._labels = RankLabels()

    def add(
        self,
        place: Place,
        steps: IntArray,
        ranks: IntArray,
        times: Mapping[str, FloatArray],
        labels: Mapping[str, IntArray],
    ) -> None:
        """Take rows, (rows,) each, the first of which stands at `place`.

        Raises BadRowError, RepeatedCellError, and TimingsRefusedError beyond the limits.
        """
        if not len(steps):
            return
        refuse_outside(steps, "step", MAX_STEP, place.row)
        refuse_outside(ranks, "rank", MAX_RANK, place.row)
        self._steps = _merged(self._steps, steps)
        self._ranks = _merged(self._ranks, ranks)
        refuse_size(len(self._steps), len(self._ranks), self._limits)
        self._labels.add(ranks, labels, place.row)
        self._chunks.append(_Chunk(place, steps, ranks.astype(np.int32), times))
        self._num_rows += len(steps)
        if self._num_rows > len(self._steps) * len(self._ranks):
            raise self._repeated()

    @property
    def num_ranks(self) -> int:
        """Different ranks of all rows so far."""
        return len(self._ranks)

    def parts(self) -> list[Part]:
        """The files, split where no step is in common; none of a single file. Before `matrices`."""
        files: dict[int, list[_Chunk]] = {}
        for chunk in self._chunks:
            files.setdefault(chunk.place.file, []).append(chunk)
        if len(files) < 2:
            return []
        owner = np.full(len(self._steps), -1, np.int64)
        for file, chunks in files.items():
            steps = _distinct(np.concatenate([chunk.steps for chunk in chunks]))
            places = np.searchsorted(self._steps, steps)
            # All that any of these steps belonged to becomes one with this file.
            joined = np.unique(owner[places])
            owner[np.isin(owner, joined[joined >= 0])] = file
            owner[places] = file
        of_file = {
            file: int(owner[np.searchsorted(self._steps, chunks[0].steps[0])])
            for file, chunks in files.items()
        }
        parts = []
        for part in np.unique(owner).tolist():
            there = [file for file in files if of_file[file] == part]
            ranks = np.concatenate([chunk.ranks for file in there for chunk in files[file]])
            steps = self._steps[owner == part]
            parts.append(Part(there, _distinct(ranks), int(steps[0]), int(steps[-1])))
        return parts

    def matrices(self) -> Matrices:
        """All rows that were taken, which are given up."""
        shape = len(self._steps), len(self._ranks)
        self._refuse_repeated(shape)
        phases = dict.fromkeys(phase for chunk in self._chunks for phase in chunk.times)
        times = {phase: np.full(shape, np.nan) for phase in phases}
        while self._chunks:
            chunk = self._chunks.pop()
            cells = self._cell_numbers(chunk)
            for phase, values in chunk.times.items():
                times[phase].reshape(-1)[cells] = values
        labels, partial = self._labels.of(self._ranks), self._labels.partial(self._ranks)
        return Matrices(self._steps, self._ranks, times, labels, partial)

    def _cell_numbers(self, chunk: _Chunk) -> IntArray:
        places: IntArray = np.searchsorted(self._steps, chunk.steps).astype(np.int64)
        places *= len(self._ranks)
        places += np.searchsorted(self._ranks, chunk.ranks)
        return places

    def _refuse_repeated(self, shape: tuple[int, int]) -> None:
        seen = np.zeros(shape[0] * shape[1], np.bool_)
        for chunk in self._chunks:
            seen[self._cell_numbers(chunk)] = True
        if int(np.count_nonzero(seen)) < self._num_rows:
            raise self._repeated()

    def _repeated(self) -> RepeatedCellError:
        """The repeated cell that was read first, and its first two rows."""
        cells = np.concatenate([self._cell_numbers(chunk) for chunk in self._chunks])
        order = np.argsort(cells, kind="stable")
        again = order[1:][cells[order[1:]] == cells[order[:-1]]]
        second = int(again.min())
        first = int(np.argmax(cells == cells[second]))
        step, rank = divmod(int(cells[second]), len(self._ranks))
        return RepeatedCellError(
            int(self._steps[step]), int(self._ranks[rank]), self._place(first), self._place(second)
        )

    def _place(self, row: int) -> Place:
        """Where the row, counted over all chunks, stands."""
        ends = np.cumsum([len(chunk.steps) for chunk in self._chunks])
        number = int(np.searchsorted(ends, row, side="right"))
        chunk = self._chunks[number]
        file, first_row = chunk.place
        return Place(file, first_row + row - int(ends[number]) + len(chunk.steps))


def refuse_size(num_steps: int, num_ranks: int, limits: ReadingLimits) -> None:
    """Refuse more steps, ranks, or cells than the limits."""
    if num_ranks > limits.num_ranks:
        raise refused("too_many_cells", f"over {limits.num_ranks} ranks, which is the limit")
    if num_steps > limits.num_steps:
        raise refused("too_many_cells", f"over {limits.num_steps} steps, which is the limit")
    if num_steps * num_ranks > limits.num_cells:
        raise refused(
            "too_many_cells",
            f"{num_steps} steps of {num_ranks} ranks are over {limits.num_cells} cells, which is "
            "the limit: give fewer steps, every tenth of a long run tells the same",
        )


def refuse_outside(values: IntArray, name: str, most: int, first_row: int) -> None:
    """Refuse numbers of steps or ranks under 0 or over `most`, with the row of the first."""
    outside = (values < 0) | (values > most)
    if outside.any():
        row = int(np.argmax(outside))
        raise BadRowError(
            first_row + row,
            "bad_value",
            f"{name} is {int(values[row])}, but it is a number from 0 to {most}",
        )


def _merged(known: IntArray, values: IntArray) -> IntArray:
    """Both, ascending, each number once; the same array when nothing is new."""
    new = _distinct(values)
    if len(known):
        places = np.minimum(np.searchsorted(known, new), len(known) - 1)
        new = new[known[places] != new]
    if not len(new):
        return known
    return np.union1d(known, new) if len(known) else new


def _distinct(values: IntArray) -> IntArray:
    low, high = int(values.min()), int(values.max())
    if high - low > _SPARSENESS * len(values):
        return np.unique(values)
    marks = np.zeros(high - low + 1, np.bool_)
    marks[values - low] = True
    found: IntArray = np.flatnonzero(marks).astype(np.int64) + low
    return found
