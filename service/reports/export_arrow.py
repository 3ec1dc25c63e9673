"""Parquet and Arrow IPC streams from column chunks: typed columns, streamed in bounded memory.

Beside the text formats, so that who writes only text does not load pyarrow (65 ms, measured).
Units and sentences are metadata of the fields, `facts` (query, versions, batches) of the schema,
under `trainard.`.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.reports.export_fields import Chunk, ChunkColumn, Field, cells, codes, finite
from service.reports.export_text import NO_FACTS

# Smaller chunks are gathered: many small row groups make a file slow to read.
MIN_BATCH_ROWS = 50_000
# Amounts stay exact decimals that a reader can add without parsing text. Four decimals are those
# of the finest minor unit in ISO 4217; 34 digits before the point are more than the largest
# amount needs (1e7 GPUs x 3 660 days x 24 hours at a price below 1e12 have 24).
MONEY = pa.decimal128(38, 4)
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL = 1

_TYPES: Mapping[str, pa.DataType] = {
    "float64": pa.float64(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "enum": pa.dictionary(pa.int8(), pa.utf8()),
    "number_or_word": pa.utf8(),
    "text": pa.utf8(),
    "decimal": MONEY,
    "date": pa.date32(),
}


def write_parquet(
    fields: Sequence[Field], chunks: Iterable[Chunk], facts: Mapping[str, str] = NO_FACTS
) -> Iterator[bytes]:
    """A Parquet file, row group by row group.

    Raises ValueError for an infinity, for an enum code without a label and for an amount that
    does not fit `MONEY`.
    """
    schema, sink = schema_of(fields, facts), _Sink()
    options: dict[str, Any] = {
        "compression": COMPRESSION,
        "compression_level": COMPRESSION_LEVEL,
        # Floats seldom repeat: a dictionary of them is built for nothing.
        "use_dictionary": [field.name for field in fields if field.kind != "float64"],
    }
    with pq.ParquetWriter(sink, schema, **options) as writer:
        for table in _tables(schema, fields, chunks):
            writer.write_table(table, row_group_size=table.num_rows)
            yield sink.take()
    yield sink.take()


def write_arrow(
    fields: Sequence[Field], chunks: Iterable[Chunk], facts: Mapping[str, str] = NO_FACTS
) -> Iterator[bytes]:
    """An Arrow IPC stream, record batch by record batch; raises as `write_parquet` does."""
    schema, sink = schema_of(fields, facts), _Sink()
    options = pa.ipc.IpcWriteOptions(
        compression=pa.Codec(COMPRESSION, compression_level=COMPRESSION_LEVEL)
    )
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for table in _tables(schema, fields, chunks):
            writer.write_table(table)
            yield sink.take()
    yield sink.take()


def schema_of(fields: Sequence[Field], facts: Mapping[str, str]) -> pa.Schema:
    """The schema of the fields; every column may hold nulls."""
    return pa.schema(
        [
            pa.field(
                field.name,
                _TYPES[field.kind],
                metadata={"unit": field.unit, "description": field.sentence},
            )
            for field in fields
        ],
        metadata={f"trainard.{name}": text for name, text in facts.items()},
    )


def arrow_column(field: Field, column: ChunkColumn) -> "pa.Array[Any]":
    """The values of a chunk's column as an Arrow array of the field's type, nulls as nulls."""
    if field.kind == "float64":
        return pa.array(finite(field, column), type=pa.float64(), from_pandas=True)
    if field.kind in {"int64", "bool"}:
        return _whole_numbers(np.asarray(column), _TYPES[field.kind])
    if field.kind == "enum":
        found = codes(field, column)
        indices = pa.array(found.astype(np.int8), type=pa.int8(), mask=found < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(field.labels, type=pa.utf8()))
    if field.kind == "number_or_word":
        texts = [None if cell is None else str(cell) for cell in cells(field, column)]
        return pa.array(texts, type=pa.utf8())
    return pa.array(column, type=_TYPES[field.kind])


def _whole_numbers(column: np.ndarray[Any, Any], kind: pa.DataType) -> "pa.Array[Any]":
    if column.dtype.kind != "f":
        return pa.array(column, type=kind)
    missing = np.isnan(column)
    plain = np.where(missing, 0, column).astype(kind.to_pandas_dtype())
    return pa.array(plain, type=kind, mask=missing)


def _tables(
    schema: pa.Schema, fields: Sequence[Field], chunks: Iterable[Chunk]
) -> Iterator[pa.Table]:
    """Tables of one record batch with at least `MIN_BATCH_ROWS` rows, but for the last."""
    waiting: list[pa.RecordBatch] = []
    num_rows = 0
    for chunk in chunks:
        columns = [arrow_column(field, chunk[field.name]) for field in fields]
        waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        num_rows += waiting[-1].num_rows
        if num_rows >= MIN_BATCH_ROWS:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, num_rows = [], 0
    if num_rows:
        yield pa.Table.from_batches(waiting).combine_chunks()


class _Sink(io.BytesIO):
    """A file that gives away what was written since the last look."""

    def take(self) -> bytes:
        """The bytes since the last call."""
        taken = self.getvalue()
        # The writers count their position themselves: nobody asks where this file stands.
        self.seek(0)
        self.truncate()
        return taken
