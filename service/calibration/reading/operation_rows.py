"""Rows of a Parquet file of single operations: their columns checked, batch by batch."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.calibration.reading.arrow_rows import whole_numbers
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.parquet_rows import cast_batches, opened
from service.calibration.refusals import Fault, TimingsRefusedError, refused
from service.calibration.timings import BoolArray, FloatArray, IntArray

_NEEDED: Final = ("step", "rank", "optype", "duration")
_OPTIONAL: Final = ("stage", "dp_rank", "seq_id", "mb_id", "mc")
_START: Final = "start_ts"
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
_MAX_NAMES: Final = 1_000
_MAX_NAME: Final = 256
_MOST_S: Final = 1e6


class Operations(NamedTuple):
    """Operations of one batch, (rows,) each; `numbers` has the columns that the file has.

    `optypes` are places in `names`. `starts_s` is None where the file has no start of each.
    """

    first_row: int
    steps: IntArray
    ranks: IntArray
    optypes: IntArray
    names: list[str]
    durations_s: FloatArray
    starts_s: FloatArray | None
    numbers: dict[str, IntArray]


class OperationsFile(NamedTuple):
    """A file that is open: which columns it has, and how fine its starts are told."""

    file: OpenFile
    source: pq.ParquetFile
    columns: frozenset[str]
    starts_are_single: bool

    def batches(self) -> Iterator[Operations]:
        """All rows; raises TimingsRefusedError and BadRowError."""
        numbers = [name for name in _OPTIONAL if name in self.columns]
        types: dict[str, pa.DataType] = dict.fromkeys(("step", "rank", *numbers), pa.int64())
        types |= {"optype": _TEXT, "duration": pa.float64()}
        if _START in self.columns:
            types[_START] = pa.float64()
        first_row = 0
        for batch in cast_batches(self.file, self.source, types):
            yield _operations(batch, numbers, first_row)
            first_row += batch.num_rows


def open_operations(file: OpenFile) -> OperationsFile:
    """Raises TimingsRefusedError where a column is missing."""
    source = opened(file)
    schema = source.schema_arrow
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        raise TimingsRefusedError(
            *(
                Fault(
                    code="missing_column",
                    detail=f"there is no column {name}, which operations need beside "
                    f"{', '.join(other for other in _NEEDED if other != name)}",
                    file=file.name,
                )
                for name in missing
            )
        )
    repeated = [name for name in (*_NEEDED, *_OPTIONAL, _START) if schema.names.count(name) > 1]
    if repeated:
        raise refused("unknown_column", f"the column {repeated[0]} is there twice", file=file.name)
    columns = frozenset(schema.names)
    start = schema.field(_START).type if _START in columns else pa.float64()
    single = pa.types.is_float32(start) or pa.types.is_float16(start)
    return OperationsFile(file, source, columns, single)


def _operations(batch: pa.RecordBatch, numbers: Sequence[str], first_row: int) -> Operations:
    words = cast("pa.DictionaryArray[Any, Any]", batch.column("optype"))
    optypes = whole_numbers(words.indices, "optype", first_row)
    names = [str(word) for word in words.dictionary.to_pylist()]
    _refuse_names(names, first_row)
    durations_s = _floats(batch, "duration")
    is_compute = np.isin(
        optypes, [names.index(name) for name in (FORWARD, BACKWARD) if name in names]
    )
    _check(durations_s, is_compute, first_row)
    return Operations(
        first_row,
        whole_numbers(batch.column("step"), "step", first_row),
        whole_numbers(batch.column("rank"), "rank", first_row),
        optypes,
        names,
        durations_s,
        _floats(batch, _START) if _START in batch.schema.names else None,
        {name: whole_numbers(batch.column(name), name, first_row) for name in numbers},
    )


def _refuse_names(names: list[str], first_row: int) -> None:
    if len(names) > _MAX_NAMES or any(len(name) > _MAX_NAME for name in names):
        raise BadRowError(
            first_row,
            "bad_value",
            f"optype has over {_MAX_NAMES} different values, or one of over {_MAX_NAME} "
            "characters: it names the kind of an operation",
        )


def _floats(batch: pa.RecordBatch, name: str) -> FloatArray:
    """The values, NaN where there is none."""
    return np.array(batch.column(name).to_numpy(zero_copy_only=False), np.float64)


def _check(durations_s: FloatArray, is_compute: BoolArray, first_row: int) -> None:
    good = (durations_s >= 0) & (durations_s < _MOST_S) & ((durations_s > 0) | ~is_compute)
    if good.all():
        return
    row = int(np.argmin(good))
    value = float(durations_s[row])
    is_sentinel = value == -1 or value >= _MOST_S
    raise BadRowError(
        first_row + row,
        "sentinel_value" if is_sentinel else "bad_value",
        f"duration is {value:g} s; it is a number from 0 to {_MOST_S:g}, over 0 for compute",
    )
