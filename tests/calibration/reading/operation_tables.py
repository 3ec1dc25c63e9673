"""Small Parquet files of single operations, with the columns of ByteDance's StragglerAnalysis."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.calibration.reading.small_files import parquet

Row = dict[str, Any]
TYPES = {
    "dp_rank": pa.int8(),
    "stage": pa.int8(),
    "rank": pa.int16(),
    "step": pa.int64(),
    "start_ts": pa.float32(),
    "duration": pa.float32(),
    "seq_id": pa.int32(),
    "mc": pa.int8(),
    "mb_id": pa.int8(),
    "gmc": pa.int16(),
}


def operation(step: int, rank: int, optype: str, start: float, duration: float, **more: Any) -> Row:
    """Of one rank; by default of stage 0 of the replica `rank`."""
    return {
        "dp_rank": rank,
        "stage": 0,
        "rank": rank,
        "step": step,
        "optype": optype,
        "start_ts": start,
        "duration": duration,
        "seq_id": 0,
        "mc": 0,
        "mb_id": -1,
        "gmc": -1,
        **more,
    }


def passes(
    step: int, rank: int, durations: Sequence[float], optype: str = "forward-compute", **more: Any
) -> list[Row]:
    """One after the other from 1 s on, one a micro-batch."""
    rows, start = [], 1.0
    for number, duration in enumerate(durations):
        rows.append(
            operation(step, rank, optype, start, duration, seq_id=number, mb_id=number, **more)
        )
        start += duration
    return rows


def table(rows: Sequence[Row], without: Sequence[str] = (), **types: Any) -> bytes:
    columns: dict[str, Any] = {}
    kinds = {**TYPES, **types}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name == "optype":
            columns[name] = pa.array(values).dictionary_encode()
        elif name not in without:
            columns[name] = pa.array(values, kinds[name])
    return parquet({name: column for name, column in columns.items() if name not in without})
