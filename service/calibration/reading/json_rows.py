"""Plain tables as JSON Lines: one flat object a line, read by blocks of lines."""

from collections.abc import Iterator, Mapping, Sequence
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
from service.calibration.reading.csv_rows import BOM, nth_line
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.tables import Rows, Table
from service.calibration.refusals import refused
from service.calibration.timings import BoolArray, FloatArray, IntArray

BLOCK_BYTES: Final = 4 << 20
MAX_LINE_BYTES: Final = 1 << 20
# Names are taken from so many lines; a column that comes later is not read.
_NUM_SAMPLED: Final = 1_000
_LARGEST: Final = 2**63 - 1


def read_json_lines(file: OpenFile, number: int, table: Table) -> int:
    """Put the rows of the file, the `number`-th of the table, into it; returns how many.

    Raises TimingsRefusedError, and what `Table.add` raises.
    """
    num_rows, columns, decoder = 0, None, None
    for lines in _blocks(file):
        if columns is None or decoder is None:
            columns = columns_of(_names(lines, file), file.name)
            table.begin(columns)
            decoder = msgspec.json.Decoder(_row_type(columns))
        place = Place(number, num_rows)
        rows = _decoded(lines, decoder, place.row)
        table.add(place, _columns(rows, columns, table, place.row), columns)
        num_rows += len(rows)
    return num_rows


def line_of(file: OpenFile, row: int) -> int:
    """The line, counted from 1, of a row counted from 0."""
    return nth_line(file, row)


def _blocks(file: OpenFile) -> Iterator[list[bytes]]:
    """Lines with text, a few megabytes at a time."""
    file.stream.seek(0)
    rest = file.stream.read(len(BOM)).removeprefix(BOM)
    while block := file.stream.read(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise refused(
                "unreadable_file",
                f"a line has over {MAX_LINE_BYTES} bytes; this is no table",
                file=file.name,
            )
        lines = [line for line in lines if line.strip()]
        if lines:
            yield lines
    if rest.strip():
        yield [rest]


def _names(lines: Sequence[bytes], file: OpenFile) -> list[str]:
    names: dict[str, None] = {}
    for line in lines[:_NUM_SAMPLED]:
        try:
            found = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            break
        names.update(dict.fromkeys(found))
    if not names:
        raise refused(
            "unreadable_file",
            f"the first line, {shown(lines[0].decode('utf-8', 'replace'))}, is no JSON object",
            file=file.name,
            line=1,
        )
    return list(names)


def _row_type(columns: TableColumns) -> type[Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [(name, int) for name in INDEXES]
    fields += [(column.name, float | None, None) for column in columns.times]
    fields += [
        (label, (int | str if label == "node" else int) | None, None) for label in columns.labels
    ]
    fields += [(FLAG, bool | None, None)] if columns.has_flag else []
    fields += [(WORLD, int | None, None)] if columns.has_world else []
    return msgspec.defstruct("TableRow", fields, gc=False)


def _decoded(lines: Sequence[bytes], decoder: msgspec.json.Decoder[Any], first: int) -> list[Any]:
    try:
        return decoder.decode_lines(b"\n".join(lines))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    # Once more, line by line, to say on which one it is.
    for row, line in enumerate(lines):
        try:
            decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadRowError(first + row, "bad_value", f"{_plain(error)}") from None
    return [decoder.decode(line) for line in lines]


def _plain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the JSON is nested too deeply"
    text = str(error)
    if "nan" in text.lower() or "inf" in text.lower():
        return f"{text}; NaN and infinity are no durations, nor JSON"
    return text


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
