"""Parquet of single operations, as NDTimeline-like tools write: one row an operation of a rank.

Columns: step, rank, optype, duration (s); and, where they are there, stage, dp_rank, start_ts (s),
mb_id (micro-batch), mc (model chunk), seq_id. The names of operations are those of ByteDance's
StragglerAnalysis (Apache-2.0, OSDI 2025). Compute of a cell is the sum of its forward-compute and
backward-compute, which wait for nobody.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from service.calibration.findings import FileFound, LeftOut, Remark
from service.calibration.options import CalibrationOptions
from service.calibration.reading.detection import KnownFile
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.limits import ReadingLimits
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.operation_cells import OperationCells
from service.calibration.reading.operation_rows import open_operations
from service.calibration.reading.parquet_rows import opened
from service.calibration.reading.plain import rank_remarks
from service.calibration.reading.transfers import Transfers
from service.calibration.reading.units import check_units
from service.calibration.refusals import refused
from service.calibration.timings import Timings


def is_of_operations(file: OpenFile) -> bool:
    """Whether a Parquet file holds operations rather than a plain table."""
    return {"optype", "duration"} <= set(opened(file).schema_arrow.names)


def read_operations(
    files: Sequence[KnownFile], options: CalibrationOptions, limits: ReadingLimits
) -> Timings:
    """Cells of all files, which may be parts of one trace, one a rank for example.

    `communication_ms` is that of collectives without the wait for late ranks (`transfers`).
    Raises TimingsRefusedError with the file and the row, counted from 1.
    """
    cells, transfers, found = OperationCells(limits), Transfers(), []
    for known in files:
        num_rows = 0
        source = open_operations(known.file)
        cells.begin(source)
        try:
            for batch in source.batches():
                cells.add(batch)
                transfers.add(batch, cells.step_numbers(batch))
                num_rows += len(batch.steps)
        except BadRowError as error:
            raise refused(
                error.code, f"row {error.row + 1}: {error.reason}", file=known.file.name
            ) from None
        found.append(_file_found(known, num_rows))
    matrices = cells.matrices()
    communication_ms = transfers.matrix(matrices, cells.numbered_steps)
    remarks = [*matrices.remarks, *rank_remarks(matrices.ranks, options)]
    if communication_ms is not None:
        remarks.append(
            Remark(
                code="wait_removed",
                detail="collectives hold the wait for late ranks, so the time of each is taken to "
                "be that of the rank of its group that came last, the shortest",
            )
        )
    timings = Timings(
        format="operations",
        files=tuple(found),
        steps=matrices.steps,
        ranks=matrices.ranks,
        compute_ms=matrices.compute_ms,
        communication_ms=communication_ms,
        step_ms=matrices.step_ms,
        replicas=matrices.labels.get("dp_rank"),
        stages=matrices.labels.get("stage"),
        num_gpus_per_rank=options.tensor_parallel_size,
        includes_wait=False,
        passes=matrices.passes,
        left_out=(
            (
                LeftOut(
                    reason="cells with fewer passes than the rank has in other steps",
                    count=matrices.num_incomplete,
                ),
            )
            if matrices.num_incomplete
            else ()
        ),
        warnings=tuple(remarks),
    )
    return replace(timings, warnings=(*timings.warnings, *check_units(timings, {"compute": "s"})))


def _file_found(known: KnownFile, num_rows: int) -> FileFound:
    return FileFound(
        name=known.file.name,
        format="operations",
        num_bytes=known.file.num_bytes,
        sha256=known.file.sha256,
        num_rows=num_rows,
    )
