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
from service.calibration.refusals import refused
from service.calibration.timings import FloatArray, IntArray

MAX_STEP: Final = 10**12
MAX_RANK: Final = 10**7
UNSET: Final = -(2**63)
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
    """Times (steps, ranks) by phase, NaN where a rank has no row in a step; labels (ranks,)."""

    steps: IntArray
    ranks: IntArray
    times: dict[str, FloatArray]
    labels: dict[str, IntArray]


class Cells:
    """Collects the rows; `matrices` ends it."""

    def __init__(self, limits: ReadingLimits) -> None:
        self._limits = limits
        self._chunks: list[_Chunk] = []
        self._num_rows = 0
        self._steps = np.empty(0, np.int64)
        self._ranks = np.empty(0, np.int64)
        self._labels: dict[str, IntArray] = {}

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
        _refuse_outside(steps, "step", MAX_STEP, place.row)
        _refuse_outside(ranks, "rank", MAX_RANK, place.row)
        self._steps = _merged(self._steps, steps)
        self._ranks = _merged(self._ranks, ranks)
        self._refuse_size()
        for name, values in labels.items():
            self._label(name, ranks, values, place.row)
        self._chunks.append(_Chunk(place, steps, ranks.astype(np.int32), times))
        self._num_rows += len(steps)
        if self._num_rows > len(self._steps) * len(self._ranks):
            raise self._repeated()

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
        labels = {name: found[self._ranks] for name, found in self._labels.items()}
        return Matrices(self._steps, self._ranks, times, labels)

    def _refuse_size(self) -> None:
        num_steps, num_ranks, limits = len(self._steps), len(self._ranks), self._limits
        if num_ranks > limits.num_ranks:
            raise refused("too_many_cells", f"over {limits.num_ranks} ranks, which is the limit")
        if num_steps > limits.num_steps:
            raise refused("too_many_cells", f"over {limits.num_steps} steps, which is the limit")
        if num_steps * num_ranks > limits.num_cells:
            raise refused(
                "too_many_cells",
                f"{num_steps} steps of {num_ranks} ranks are over {limits.num_cells} cells, which "
                "is the limit: give fewer steps, every tenth of a long run tells the same",
            )

    def _label(self, name: str, ranks: IntArray, values: IntArray, first_row: int) -> None:
        known = self._labels.setdefault(name, np.empty(0, np.int64))
        largest = int(ranks.max())
        if largest >= len(known):
            longer = np.full(max(largest + 1, 2 * len(known)), UNSET)
            longer[: len(known)] = known
            known = self._labels[name] = longer
        unset = known[ranks] == UNSET
        known[ranks[unset]] = values[unset]
        differs = known[ranks] != values
        if differs.any():
            row = int(np.argmax(differs))
            rank = int(ranks[row])
            raise BadRowError(
                first_row + row,
                "bad_value",
                f"rank {rank} has another {name} than in a row before; give the steps before and "
                "after a move as two calibrations",
            )

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
        """The first row, in the order of reading, whose cell was there before."""
        seen = np.zeros(len(self._steps) * len(self._ranks), np.bool_)
        for chunk in self._chunks:
            cells = self._cell_numbers(chunk)
            first_here = np.zeros(len(cells), np.bool_)
            first_here[np.unique(cells, return_index=True)[1]] = True
            again = seen[cells] | ~first_here
            if again.any():
                row = int(np.argmax(again))
                second = Place(chunk.place.file, chunk.place.row + row)
                step, rank = int(chunk.steps[row]), int(chunk.ranks[row])
                return RepeatedCellError(step, rank, self._first(int(cells[row])), second)
            seen[cells] = True
        raise AssertionError("more rows than cells, but none is there twice")

    def _first(self, cell: int) -> Place:
        for chunk in self._chunks:
            (rows,) = np.nonzero(self._cell_numbers(chunk) == cell)
            if len(rows):
                return Place(chunk.place.file, chunk.place.row + int(rows[0]))
        raise AssertionError("the cell of a row is in no chunk")


def _refuse_outside(values: IntArray, name: str, most: int, first_row: int) -> None:
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
