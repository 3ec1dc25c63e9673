"""Plain tables as Parquet, read by batches of rows."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from service.calibration.reading.arrow_rows import rows_of
from service.calibration.reading.cells import Place
from service.calibration.reading.columns import FLAG, TableColumns, columns_of, shown
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.tables import Table
from service.calibration.refusals import TimingsRefusedError, refused

_BATCH_ROWS: Final = 65_536
# What Arrow raises of a file; not its MemoryError, which is no fault of the file's form.
BAD_FILE: Final = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowTypeError,
    pa.ArrowKeyError,
    pa.ArrowIndexError,
    pa.ArrowCapacityError,
    UnicodeError,
    OSError,
)


def opened(file: OpenFile) -> pq.ParquetFile:
    """The file, of which only the metadata is read; raises TimingsRefusedError."""
    file.stream.seek(0)
    try:
        return pq.ParquetFile(file.stream, pre_buffer=False)
    except BAD_FILE as error:
        raise unreadable(file, error) from None


def read_parquet(file: OpenFile, number: int, table: Table) -> int:
    """Put the rows of the file, the `number`-th of the table, into it; returns how many.

    Raises TimingsRefusedError, and what `Table.add` raises.
    """
    source = opened(file)
    columns = columns_of(source.schema_arrow.names, file.name)
    table.begin(columns)
    num_rows = 0
    for batch in cast_batches(file, source, _types(columns)):
        place = Place(number, num_rows)
        table.add(place, rows_of(batch, columns, table, place.row), columns)
        num_rows += batch.num_rows
    return num_rows


def cast_batches(
    file: OpenFile, source: pq.ParquetFile, types: dict[str, pa.DataType]
) -> Iterator[pa.RecordBatch]:
    """Batches of these columns in these types; raises TimingsRefusedError."""
    for name in types:
        kind = source.schema_arrow.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_temporal(kind):
            raise refused(
                "bad_value", f"the column {name} is of type {kind}, not numbers", file=file.name
            )
    num_rows = 0
    try:
        batches = source.iter_batches(_BATCH_ROWS, columns=list(types), use_threads=False)
        for batch in batches:
            yield _cast(batch, types, file, num_rows)
            num_rows += batch.num_rows
    except BAD_FILE as error:
        raise unreadable(file, error) from None


def _cast(
    batch: pa.RecordBatch, types: dict[str, pa.DataType], file: OpenFile, first_row: int
) -> pa.RecordBatch:
    columns = []
    for name, kind in types.items():
        try:
            columns.append(_as(batch.column(name), kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise refused(
                "bad_value",
                f"the column {name}: {shown(str(error), 200)} (rows {first_row + 1} to "
                f"{first_row + batch.num_rows})",
                file=file.name,
            ) from None
    return pa.RecordBatch.from_arrays(columns, names=list(types))


def _as(values: "pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_dictionary(kind):
        return values.cast(pa.string()).dictionary_encode()
    return values.cast(kind)


def _types(columns: TableColumns) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = dict.fromkeys(columns.names, pa.int64())
    types.update({column.name: pa.float64() for column in columns.times})
    text = pa.dictionary(pa.int32(), pa.string())
    types.update({name: text for name in (FLAG, "node") if name in types})
    return types


def unreadable(file: OpenFile, error: Exception) -> TimingsRefusedError:
    """What Arrow says of a file that it cannot read."""
    return refused(
        "unreadable_file",
        f"it cannot be read as Parquet: {shown(str(error), 200)}",
        file=file.name,
    )
