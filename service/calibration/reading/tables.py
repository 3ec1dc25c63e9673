"""Plain tables of one upload: their rows checked and collected, then the timings they make."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from service.calibration.findings import Remark
from service.calibration.reading.cells import Cells, Matrices, Part, Place
from service.calibration.reading.columns import TableColumns, shown
from service.calibration.reading.durations import BadRowError, check_durations, to_ms
from service.calibration.reading.limits import ReadingLimits
from service.calibration.timings import BoolArray, FloatArray, IntArray

_MOST_NAMED: Final = 8
_MAX_NODE_NAME: Final = 256
MAX_WORLD: Final = 10**7


class Rows(NamedTuple):
    """A few rows of one file as they stand there, (rows,) each.

    `blank` has the rows without a value of the columns that have such rows. `nodes` are names or
    numbers as text; `flags` and `worlds` the different values in these rows, with a row of each.
    """

    steps: IntArray
    ranks: IntArray
    times: Mapping[str, FloatArray]
    blank: Mapping[str, BoolArray]
    labels: Mapping[str, IntArray]
    flags: Mapping[bool, int]
    worlds: Mapping[int, int]


class Table:
    """Collects the rows of all files."""

    def __init__(self, limits: ReadingLimits) -> None:
        self._cells = Cells(limits)
        self._max_nodes = limits.num_ranks
        self._nodes: dict[str, int] = {}
        self._flags: set[bool] = set()
        self._world: int | None = None
        self._left_out: dict[str, None] = {}
        self._partial_labels: list[str] = []
        self.units: dict[str, str] = {}

    def begin(self, columns: TableColumns) -> None:
        """Take the columns of the next file."""
        self._left_out.update(dict.fromkeys(columns.left_out))
        for column in columns.times:
            self.units.setdefault(column.phase, column.unit)

    def node_number(self, name: str, row: int) -> int:
        """The number of a node's name: that of its first appearance."""
        number = self._nodes.setdefault(name, len(self._nodes))
        if len(name) > _MAX_NODE_NAME or len(self._nodes) > self._max_nodes or not name:
            raise BadRowError(
                row,
                "bad_value",
                f"node is {shown(name)}; a node's name has 1 to {_MAX_NODE_NAME} characters, and "
                f"there are at most {self._max_nodes}",
            )
        return number

    def add(self, place: Place, rows: Rows, columns: TableColumns) -> None:
        """Check and keep rows; raises BadRowError, RepeatedCellError, TimingsRefusedError."""
        times = {}
        for column in columns.times:
            values = rows.times[column.name]
            check_durations(
                values,
                rows.blank.get(column.name),
                name=column.name,
                phase=column.phase,
                first_row=place.row,
            )
            times[column.phase] = to_ms(values, column.unit)
        for world, row in rows.worlds.items():
            self._set_world(world, place.row + row)
        self._flags.update(rows.flags)
        self._cells.add(place, rows.steps, rows.ranks, times, rows.labels)

    @property
    def num_ranks(self) -> int:
        """Different ranks of all rows so far."""
        return self._cells.num_ranks

    def parts(self) -> list[Part]:
        """The files, split where no step is in common; before `matrices`."""
        return self._cells.parts()

    def matrices(self) -> Matrices:
        """All rows; the numbers of nodes are in the order of their names."""
        found = self._cells.matrices()
        self._partial_labels = found.partial_labels
        labels = dict(found.labels)
        if "node" in labels:
            labels["node"] = _in_order(self._nodes)[labels["node"]]
        times = {
            phase: values for phase, values in found.times.items() if not np.isnan(values).all()
        }
        return found._replace(times=times, labels=labels)

    @property
    def includes_wait(self) -> bool | None:
        """What the files say: that of any row counts."""
        return any(self._flags) if self._flags else None

    @property
    def world_size(self) -> int | None:
        """Ranks of the whole job, where the files say it."""
        return self._world

    def warnings(self) -> list[Remark]:
        """Columns that were left out, and labels that only some files have."""
        remarks = []
        if self._left_out:
            named = ", ".join(shown(name) for name in list(self._left_out)[:_MOST_NAMED])
            more = len(self._left_out) - _MOST_NAMED
            remarks.append(
                Remark(
                    code="columns_left_out",
                    detail=f"columns that are not read: {named}"
                    + (f" and {more} more" if more > 0 else ""),
                )
            )
        remarks += [
            Remark(
                code="labels_left_out",
                detail=f"not every rank has a {label}, so it is not used",
            )
            for label in self._partial_labels
        ]
        return remarks

    def _set_world(self, world: int, row: int) -> None:
        if not 1 <= world <= MAX_WORLD or (self._world is not None and world != self._world):
            rule = (
                f"a row before says {self._world}"
                if 1 <= world <= MAX_WORLD
                else f"it is a number from 1 to {MAX_WORLD}"
            )
            raise BadRowError(row, "bad_value", f"world_size is {world}, but {rule}")
        self._world = world


def _in_order(nodes: Mapping[str, int]) -> IntArray:
    """From the number of first appearance to the number itself, or to the place by name."""
    names: Sequence[str] = list(nodes)
    if all(name.isascii() and name.isdigit() and len(name) <= 15 for name in names):
        return np.array([int(name) for name in names], np.int64)
    order = {name: place for place, name in enumerate(sorted(names))}
    return np.array([order[name] for name in names], np.int64)
