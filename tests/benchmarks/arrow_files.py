"""The baseline of exports: files of pyarrow from arrays that are in memory, written to nowhere."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.benchmarks.batch_tables import Table

# Those of the service's own files.
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1


def write_file(form: str, tables: Sequence[Table]) -> float | None:
    """Seconds to write all tables; None for a format that pyarrow cannot write."""
    parts = [pa.RecordBatch.from_pydict(dict(table)) for table in tables]
    start = time.perf_counter()
    with Path(os.devnull).open("wb") as sink:
        if form == "csv":
            with pyarrow.csv.CSVWriter(sink, parts[0].schema) as text:
                for part in parts:
                    text.write_batch(part)
        elif form == "parquet":
            options: dict[str, Any] = {
                "compression": COMPRESSION,
                "compression_level": COMPRESSION_LEVEL,
                "use_dictionary": False,
            }
            with pq.ParquetWriter(sink, parts[0].schema, **options) as file:
                for part in parts:
                    file.write_batch(part)
        elif form == "arrow":
            codec = pa.Codec(COMPRESSION, compression_level=COMPRESSION_LEVEL)
            ipc = pa.ipc.IpcWriteOptions(compression=codec)
            with pa.ipc.new_stream(sink, parts[0].schema, options=ipc) as stream:
                for part in parts:
                    stream.write_batch(part)
        else:
            return None
    return time.perf_counter() - start
