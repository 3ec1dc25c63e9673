"""Parquet of single operations, as NDTimeline-like tools write: one row an operation of a rank.

Columns: step, rank, optype, duration (s); and, where they are there, stage, dp_rank, start_ts (s),
mb_id (micro-batch), seq_id. The names of operations are those of ByteDance's StragglerAnalysis.
"""

from collections.abc import Sequence

from service.calibration.options import CalibrationOptions
from service.calibration.reading.detection import KnownFile
from service.calibration.reading.limits import ReadingLimits
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.parquet_rows import opened
from service.calibration.refusals import refused
from service.calibration.timings import Timings


def is_of_operations(file: OpenFile) -> bool:
    """Whether a Parquet file holds operations rather than a plain table."""
    return {"optype", "duration"} <= set(opened(file).schema_arrow.names)


def read_operations(
    files: Sequence[KnownFile], options: CalibrationOptions, limits: ReadingLimits
) -> Timings:
    """WIP."""
    raise refused("unknown_format", "operations are not read yet", file=files[0].file.name)
