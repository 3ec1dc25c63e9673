"""Plain tables of one run, in any of their formats, as timings."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from service.calibration.findings import FileFound, Remark
from service.calibration.options import CalibrationOptions
from service.calibration.reading import csv_rows, json_rows, parquet_rows
from service.calibration.reading.cells import Part, Place, RepeatedCellError
from service.calibration.reading.detection import Kind, KnownFile
from service.calibration.reading.durations import BadRowError
from service.calibration.reading.limits import ReadingLimits
from service.calibration.reading.open_file import OpenFile
from service.calibration.reading.tables import Table
from service.calibration.reading.units import check_units
from service.calibration.refusals import TimingsRefusedError, refused
from service.calibration.timings import IntArray, Timings

RowReader = Callable[[OpenFile, int, Table], int]
LineOf = Callable[[OpenFile, int], int]

# Of a Parquet file a row is named, which has no line.
ROW_READERS: Final[Mapping[Kind, tuple[RowReader, LineOf | None]]] = {
    "csv": (csv_rows.read_csv, csv_rows.line_of),
    "jsonl": (json_rows.read_json_lines, json_rows.line_of),
    "parquet": (parquet_rows.read_parquet, None),
}
_MOST_NAMED: Final = 8
_MIN_SHARE_OF_RANKS: Final = 0.5


def read_tables(
    files: Sequence[KnownFile], options: CalibrationOptions, limits: ReadingLimits
) -> Timings:
    """Cells of all files, which may be parts of one table, one a rank for example.

    Raises TimingsRefusedError with the file and the line (of Parquet the row, counted from 1).
    """
    table = Table(limits)
    found = []
    for number, known in enumerate(files):
        try:
            num_rows = ROW_READERS[known.kind][0](known.file, number, table)
        except BadRowError as error:
            raise _of_row(known, error) from None
        except RepeatedCellError as error:
            raise _of_repeated(files, error) from None
        found.append(_file_found(known, num_rows))
    if not any(file.num_rows for file in found):
        raise refused("no_steps", "there is no row beneath the names", file=found[0].name)
    _refuse_other_runs(files, table.parts(), num_ranks=table.num_ranks)
    try:
        matrices = table.matrices()
    except RepeatedCellError as error:
        raise _of_repeated(files, error) from None
    timings = Timings(
        format="table",
        files=tuple(found),
        steps=matrices.steps,
        ranks=matrices.ranks,
        compute_ms=matrices.times["compute"],
        load_ms=matrices.times.get("load"),
        communication_ms=matrices.times.get("communication"),
        step_ms=matrices.times.get("step"),
        nodes=matrices.labels.get("node"),
        replicas=matrices.labels.get("replica"),
        stages=matrices.labels.get("stage"),
        world_size=table.world_size,
        num_gpus_per_rank=options.tensor_parallel_size,
        includes_wait=table.includes_wait,
        warnings=(*table.warnings(), *rank_remarks(matrices.ranks, options)),
    )
    return replace(timings, warnings=(*timings.warnings, *check_units(timings, table.units)))


def _refuse_other_runs(
    files: Sequence[KnownFile], parts: Sequence[Part], *, num_ranks: int
) -> None:
    """Refuse files of steps of their own in which most ranks are not there: another run's."""
    for part in parts:
        if len(part.ranks) >= _MIN_SHARE_OF_RANKS * num_ranks:
            continue
        raise refused(
            "missing_ranks",
            f"its steps {part.first_step} to {part.last_step} are in no other file, and hold "
            f"{len(part.ranks)} of {num_ranks} ranks: it seems to be of another run; calibrate "
            "each run by itself",
            file=files[part.files[0]].file.name,
        )


def rank_remarks(ranks: IntArray, options: CalibrationOptions) -> list[Remark]:
    """What the numbers of the ranks say: that some are missing, or that each is of a group."""
    apart = np.unique(np.diff(ranks))
    # One in every tensor-parallel group, named by the number of its first GPU.
    if not len(apart) or (len(apart) == 1 and apart[0] in {1, options.tensor_parallel_size}):
        return []
    if len(apart) == 1:
        return [
            Remark(
                code="ranks_apart",
                detail=f"the ranks are {apart[0]} apart, from {ranks[0]} to {ranks[-1]}: if each "
                f"stands for {apart[0]} GPUs in lockstep, say so by tensor_parallel_size; if not, "
                "ranks are missing",
            )
        ]
    missing = np.setdiff1d(np.arange(ranks[0], min(ranks[-1], ranks[0] + 10**6)), ranks)
    named = ", ".join(str(rank) for rank in missing[:_MOST_NAMED])
    more = len(missing) - _MOST_NAMED
    return [
        Remark(
            code="ranks_missing",
            detail=f"of the ranks {ranks[0]} to {ranks[-1]} there are no rows of {named}"
            + (f" and {more} more" if more > 0 else ""),
        )
    ]


def _file_found(known: KnownFile, num_rows: int) -> FileFound:
    return FileFound(
        name=known.file.name,
        format=known.kind,  # type: ignore[arg-type]
        num_bytes=known.file.num_bytes,
        sha256=known.file.sha256,
        num_rows=num_rows,
    )


def _of_row(known: KnownFile, error: BadRowError) -> TimingsRefusedError:
    line_of = ROW_READERS[known.kind][1]
    if line_of is None:
        detail = f"row {error.row + 1}: {error.reason}"
        return refused(error.code, detail, file=known.file.name)
    line = line_of(known.file, error.row)
    return refused(error.code, error.reason, file=known.file.name, line=line)


def _of_repeated(files: Sequence[KnownFile], error: RepeatedCellError) -> TimingsRefusedError:
    first, second = files[error.first.file], files[error.second.file]
    where = _where(first, error.first)
    if first is not second:
        where += f" of {first.file.name}"
    detail = f"rank {error.rank} has step {error.step} twice, first in {where}"
    line_of = ROW_READERS[second.kind][1]
    if line_of is None:
        detail += f", then in row {error.second.row + 1}"
    line = None if line_of is None else line_of(second.file, error.second.row)
    return refused("duplicate_row", detail, file=second.file.name, line=line)


def _where(known: KnownFile, place: Place) -> str:
    line_of = ROW_READERS[known.kind][1]
    return f"row {place.row + 1}" if line_of is None else f"line {line_of(known.file, place.row)}"
