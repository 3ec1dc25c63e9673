"""Small files in memory, as the door is given them."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.calibration.options import CalibrationOptions
from service.calibration.reading.door import OpenFile, read_timings
from service.calibration.reading.limits import DEFAULT_LIMITS, ReadingLimits
from service.calibration.refusals import Fault, TimingsRefusedError
from service.calibration.timings import Timings

HEADER = b"step,rank,compute_ms\n"


def opened(content: bytes, name: str = "run.csv") -> OpenFile:
    return OpenFile(
        name=name,
        stream=io.BytesIO(content),
        num_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def read(*contents: bytes, limits: ReadingLimits = DEFAULT_LIMITS, **options: Any) -> Timings:
    files = [opened(content, f"file{number}") for number, content in enumerate(contents)]
    return read_timings(files, CalibrationOptions(**options), limits=limits)


def faults(*contents: bytes, limits: ReadingLimits = DEFAULT_LIMITS, **options: Any) -> list[Fault]:
    with pytest.raises(TimingsRefusedError) as caught:
        read(*contents, limits=limits, **options)
    return list(caught.value.faults)


def fault(*contents: bytes, limits: ReadingLimits = DEFAULT_LIMITS, **options: Any) -> Fault:
    (only,) = faults(*contents, limits=limits, **options)
    return only


def parquet(columns: Mapping[str, Any], **written: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink, **written)
    return sink.getvalue()


def csv(rows: Sequence[Sequence[object]], header: bytes = HEADER) -> bytes:
    return header + b"".join(",".join(map(str, row)).encode() + b"\n" for row in rows)
