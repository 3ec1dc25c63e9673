"""A batch of Arrow columns, of CSV or of Parquet, as the rows of a table."""

from collections.abc import Mapping
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from service.calibration.reading.columns import FLAG, INDEXES, WORLD, TableColumns, shown
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.tables import Rows, Table
from service.calibration.timings import BoolArray, FloatArray, IntArray

_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def rows_of(batch: pa.RecordBatch, columns: TableColumns, table: Table, first_row: int) -> Rows:
    """The batch's rows; integers are int64, times float64, flag and node a dictionary of text.

    Raises BadRowError where an index or a label has no value.
    """
    times: dict[str, FloatArray] = {}
    blank: dict[str, BoolArray] = {}
    for column in columns.times:
        values = batch.column(column.name)
        # Copied, since a view would keep the whole block in memory.
        times[column.name] = np.array(values.to_numpy(zero_copy_only=False), np.float64)
        if values.null_count:
            blank[column.name] = values.is_null().to_numpy(zero_copy_only=False)
    steps, ranks = (whole_numbers(batch.column(name), name, first_row) for name in INDEXES)
    return Rows(
        steps,
        ranks,
        times,
        blank,
        {label: _label(batch, label, table, first_row) for label in columns.labels},
        _flags(batch, first_row) if columns.has_flag else {},
        _worlds(batch, first_row) if columns.has_world else {},
    )


def whole_numbers(values: "pa.Array[Any]", name: str, first_row: int) -> IntArray:
    """The values as int64, none of which is null; raises BadRowError."""
    if values.null_count:
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise BadRowError(first_row + row, "bad_value", f"{name} has no value")
    return np.array(values.to_numpy(zero_copy_only=False), np.int64)


def _label(batch: pa.RecordBatch, label: str, table: Table, first_row: int) -> IntArray:
    values = batch.column(label)
    if label != "node":
        return whole_numbers(values, label, first_row)
    places, names = _dictionary(values, label, first_row)
    rows = first_row + _first_rows(places, len(names))
    numbers = [table.node_number(name, int(row)) for name, row in zip(names, rows, strict=True)]
    return np.array(numbers, np.int64)[places]


def _dictionary(column: "pa.Array[Any]", name: str, first_row: int) -> tuple[IntArray, list[str]]:
    values = cast("pa.DictionaryArray[Any, Any]", column)
    places = whole_numbers(values.indices, name, first_row)
    return places, [str(word) for word in values.dictionary.to_pylist()]


def _first_rows(places: IntArray, num_places: int) -> IntArray:
    """The first row of each place."""
    rows = np.zeros(num_places, np.int64)
    # Of several values for one place the last one stays, which is the first row.
    rows[places[::-1]] = np.arange(len(places) - 1, -1, -1)
    return rows


def _flags(batch: pa.RecordBatch, first_row: int) -> Mapping[bool, int]:
    places, words = _dictionary(batch.column(FLAG), FLAG, first_row)
    found = {}
    for word, row in zip(words, _first_rows(places, len(words)).tolist(), strict=True):
        if word.strip().lower() not in _FLAGS:
            raise BadRowError(
                first_row + row, "bad_value", f"{FLAG} is {shown(word)}, not true or false"
            )
        found[_FLAGS[word.strip().lower()]] = row
    return found


def _worlds(batch: pa.RecordBatch, first_row: int) -> Mapping[int, int]:
    values, rows = np.unique(
        whole_numbers(batch.column(WORLD), WORLD, first_row), return_index=True
    )
    return {int(value): int(row) for value, row in zip(values, rows, strict=True)}
