"""Somebody else's reader for each format of exported files."""

import csv
import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]
READERS: dict[str, Callable[[bytes], list[Row]]] = {
    "csv": lambda data: list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True)),
    "jsonl": lambda data: [json.loads(line) for line in data.splitlines()],
    "parquet": lambda data: pq.read_table(io.BytesIO(data)).to_pylist(),
    "arrow": lambda data: pa.ipc.open_stream(data).read_all().to_pylist(),
}


def bits(number: Any) -> bytes | None:
    """The bits of a float as it was read: a number, digits, nothing."""
    return None if number is None or number == "" else struct.pack("<d", float(number))
