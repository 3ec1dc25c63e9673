"""Plain tables as JSON Lines: one flat object a line, read by blocks of lines."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct

from service.calibration.reading.cells import Place
from service.calibration.reading.columns import (
    FLAG,
    INDEXES,
    WORLD,
    TableColumns,
    columns_of,
    shown,
)
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.tables import Rows, Table
from service.calibration.reading.text_blocks import blocks, line_of_text
from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray, IntArray

# Names are taken from so many lines first, which mostly are all there are.
_NUM_SAMPLED: Final = 1_000
_NEW_NAME: Final = re.compile("Object contains unknown field")
_LARGEST: Final = 2**63 - 1
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_json_lines(file: OpenFile, number: int, table: Table) -> int:
    """Put the rows of the file, the `number`-th of the table, into it; returns how many.

    Raises TimingsRefusedError, and what `Table.add` raises.
    """
    num_rows, reader = 0, _Reader(file)
    for block in blocks(file):
        lines = [line for line in block.split(b"\n") if line.strip()]
        if not lines:
            continue
        place = Place(number, num_rows)
        rows, columns = reader.rows(lines, place.row, table)
        table.add(place, _columns(rows, columns, table, place.row), columns)
        num_rows += len(rows)
    return num_rows


def line_of(file: OpenFile, row: int) -> int:
    """The line, counted from 1, of a row counted from 0."""
    return line_of_text(file, row)


class _NewNameError(BadRowError):
    """A row has a name that none of the lines had from which the columns were taken."""


class _Reader:
    """Decodes the lines of a file; a name that is met later adds to its columns."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._names: dict[str, None] = {}

    def rows(
        self, lines: Sequence[bytes], first: int, table: Table
    ) -> tuple[list[Any], TableColumns]:
        """The rows of some lines, the first of which is row `first`, and the columns they have."""
        if not self._names:
            self._take(lines[:_NUM_SAMPLED], table)
        try:
            return _decoded(lines, self._decoder, first), self._columns
        except _NewNameError:
            self._take(lines, table)
        return _decoded(lines, self._decoder, first), self._columns

    def _take(self, lines: Sequence[bytes], table: Table) -> None:
        """Also the columns of these lines."""
        self._names.update(_names(lines))
        if not self._names:
            raise refused(
                "unreadable_file",
                f"the first line, {shown(lines[0].decode('utf-8', 'replace'))}, is no JSON object",
                file=self._file.name,
                line=1,
            )
        self._columns = columns_of(list(self._names), self._file.name)
        self._decoder = msgspec.json.Decoder(_row_type(self._columns))
        table.begin(self._columns)


def _names(lines: Sequence[bytes]) -> dict[str, None]:
    """Those of the lines before one that is no object."""
    names: dict[str, None] = {}
    for line in lines:
        try:
            found = _OBJECT.decode(line)
        except _UNDECODABLE:
            break
        names.update(dict.fromkeys(found))
    return names


def _row_type(columns: TableColumns) -> type[Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [(name, int) for name in INDEXES]
    fields += [(column.name, float | None, None) for column in columns.times]
    fields += [
        (label, (int | str if label == "node" else int) | None, None) for label in columns.labels
    ]
    fields += [(FLAG, bool | None, None)] if columns.has_flag else []
    fields += [(WORLD, int | None, None)] if columns.has_world else []
    # Whatever is not read has a field, too: a name without one is new.
    others = {f"other_{place}": name for place, name in enumerate(columns.left_out)}
    fields += [(field, msgspec.Raw, msgspec.Raw()) for field in others]
    return msgspec.defstruct(
        "TableRow", fields, gc=False, rename=others, forbid_unknown_fields=True
    )


def _decoded(lines: Sequence[bytes], decoder: msgspec.json.Decoder[Any], first: int) -> list[Any]:
    rows: list[Any] = []
    try:
        rows.extend(map(decoder.decode, lines))
    except _UNDECODABLE as error:
        line = lines[len(rows)]
        kind = _NewNameError if _NEW_NAME.match(str(error)) else BadRowError
        raise kind(first + len(rows), "bad_value", _reason(error, line)) from None
    return rows


def _reason(error: Exception, line: bytes) -> str:
    if _NEW_NAME.match(str(error)):
        # Its value may be what is wrong.
        try:
            _OBJECT.decode(line)
        except _UNDECODABLE as of_value:
            error = of_value
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    if b"NaN" in line or b"Infinity" in line:
        return f"{error}; NaN and Infinity are no JSON, and no durations"
    return str(error)


def _columns(rows: Sequence[Any], columns: TableColumns, table: Table, first: int) -> Rows:
    times: dict[str, FloatArray] = {}
    blank: dict[str, BoolArray] = {}
    for column in columns.times:
        values = _values(rows, column.name)
        times[column.name] = np.array(values, np.float64)
        if None in values:
            blank[column.name] = np.array([value is None for value in values], np.bool_)
    steps, ranks = (_whole(_values(rows, name), name, first) for name in INDEXES)
    return Rows(
        steps,
        ranks,
        times,
        blank,
        {label: _label(_values(rows, label), label, table, first) for label in columns.labels},
        _stated(rows, FLAG, first) if columns.has_flag else {},
        _stated(rows, WORLD, first) if columns.has_world else {},
    )


def _values(rows: Sequence[Any], name: str) -> list[Any]:
    return [getattr(row, name) for row in rows]


def _whole(values: Sequence[Any], name: str, first: int) -> IntArray:
    for row, value in enumerate(values):
        if value is None:
            raise BadRowError(first + row, "bad_value", f"{name} has no value")
        if abs(value) > _LARGEST:
            raise BadRowError(first + row, "bad_value", f"{name} is {value}, which is too large")
    return np.array(values, np.int64)


def _label(values: Sequence[Any], label: str, table: Table, first: int) -> IntArray:
    if label != "node":
        return _whole(values, label, first)
    numbers = {}
    for value, row in _different(values).items():
        if value is None:
            raise BadRowError(first + row, "bad_value", "node has no value")
        numbers[value] = table.node_number(str(value), first + row)
    return np.array([numbers[value] for value in values], np.int64)


def _stated(rows: Sequence[Any], name: str, first: int) -> Mapping[Any, int]:
    found = _different(_values(rows, name))
    if None in found:
        raise BadRowError(first + found[None], "bad_value", f"{name} has no value")
    return found


def _different(values: Sequence[Any]) -> Mapping[Any, int]:
    """The different values, each with its first row."""
    found: dict[Any, int] = {}
    for row, value in enumerate(values):
        found.setdefault(value, row)
    return found
