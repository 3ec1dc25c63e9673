"""Results of `trainard evaluate` as a table, CSV or JSON; chunk by chunk, in bounded memory."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np

from service.cli.evaluation_extras import extras_json, extras_tables
from service.cli.evaluation_table import scenario_tables
from service.jobs.evaluation_notices import notices_of
from service.model import MODEL_VERSION
from service.model.grid import Grid
from service.model.kernel import Results
from service.model.results import COLUMNS, Column
from service.model.rules import describe_failure
from service.reports.digits import whole
from service.reports.export_fields import (
    Cell,
    ChunkColumn,
    Field,
    FieldKind,
    cells,
    output_fields,
)
from service.reports.export_text import write_csv
from service.reports.tables import Heading, shown_value, text_table

# What a grid's table shows of the results: the questions of the founding page.
TABLE_COLUMNS = tuple(
    column
    for column in COLUMNS
    if column.name
    in {
        "step_mean_ms",
        "efficiency_fraction",
        "displayed_utilization_fraction",
        "useful_compute_fraction",
        "gpu_hours_lost",
    }
)
# And of pipelines, where there are any.
PIPELINE_TABLE_COLUMNS = tuple(
    column for column in COLUMNS if column.name in {"bubble_fraction", "busy_gpus_mean"}
)
FAILED = "failed"


class Chunk(NamedTuple):
    """Consecutive points of a grid from `start` on."""

    start: int
    results: Results


class Row(NamedTuple):
    """One point: its axis values, its results by name (None: not computed), its failure."""

    point: int
    inputs: dict[str, Any]
    result: dict[str, Cell]
    failure: dict[str, str] | None


def write_table(
    grid: Grid, chunks: Iterable[Chunk], out: BinaryIO, extras: Mapping[str, Any]
) -> None:
    """One scenario: every result with its unit and meaning. A grid: one line a point."""
    computed = list(chunks)
    rows = list(_rows(grid, computed))
    if not grid.axis_paths:
        _write_line(
            out,
            scenario_tables(
                rows[0].result,
                period_days=grid.base.period_days,
                total_steps=grid.base.total_steps,
            ),
        )
        if extras:
            _write_line(out, f"\n{extras_tables(extras)}")
        for notice in notices_of(computed[0].results.columns, grid.columns(0, 1)):
            _write_line(out, f"\nnote: {notice.detail}")
        return
    headings = [Heading(path) for path in grid.axis_paths]
    columns = _shown_columns(rows)
    headings += [Heading(f"{column.name} [{shown_value(column, None)[1]}]") for column in columns]
    _write_line(out, text_table(headings, [_table_line(row, columns) for row in rows]))
    for row in rows:
        if row.failure:
            _write_line(out, f"point {row.point} failed: {row.failure['detail']}")


def write_comma_separated(
    grid: Grid,
    chunks: Iterable[Chunk],
    out: BinaryIO,
    extras: Mapping[str, Any],  # noqa: ARG001 - a file of points has no place for them
) -> None:
    """A header and one line a point: axis values, all results, and why a point failed."""
    axes = _AxisColumns(grid)
    fields = [
        Field(name="point", kind="int64"),
        *axes.fields(),
        *output_fields(),
        Field(name="failure", kind="text"),
    ]
    out.writelines(write_csv(fields, (_file_chunk(grid, axes, chunk) for chunk in chunks)))


def write_json(
    grid: Grid, chunks: Iterable[Chunk], out: BinaryIO, extras: Mapping[str, Any]
) -> None:
    """One JSON document, written as it is computed: model version, warnings, points, extras."""
    warnings = [
        {"pointer": warning.pointer, "code": warning.code, "detail": warning.detail}
        for warning in grid.warnings
    ]
    head = f'{{"model_version": {json.dumps(MODEL_VERSION)}, "warnings": {json.dumps(warnings)}'
    out.write(f'{head}, "points": ['.encode())
    for position, row in enumerate(_rows(grid, chunks)):
        out.write(b",\n  " if position else b"\n  ")
        out.write(msgspec.json.encode(row._asdict()))
    out.write(b"\n]")
    out.write(extras_json(extras))
    out.write(b"}\n")


FORMATS: dict[str, Callable[[Grid, Iterable[Chunk], BinaryIO, Mapping[str, Any]], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_comma_separated,
}


def _rows(grid: Grid, chunks: Iterable[Chunk]) -> Iterator[Row]:
    axes = _AxisColumns(grid)
    fields = output_fields()
    for start, results in chunks:
        inputs = axes.values(start, len(results.failure))
        outputs = [cells(field, results.columns[field.name]) for field in fields]
        for offset, code in enumerate(results.failure.tolist()):
            yield Row(
                point=start + offset,
                inputs={path: values[offset] for path, values in inputs.items()},
                result={
                    field.name: values[offset]
                    for field, values in zip(fields, outputs, strict=True)
                },
                failure=_failure(grid, start + offset, code) if code else None,
            )


class _AxisColumns:
    """The axis values of consecutive points, a list an axis."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self.values_of = {
            axis.path: [axis.value_at(step) for step in range(part.length)]
            for part in grid.dimensions
            for axis in part.axes
        }

    def values(self, start: int, num_points: int) -> dict[str, list[Any]]:
        """By path, one value a point."""
        points = np.arange(start, start + num_points, dtype=np.int64)
        return {
            axis.path: [self.values_of[axis.path][step] for step in steps]
            for part in self._grid.dimensions
            for steps in [part.codes(points).tolist()]
            for axis in part.axes
        }

    def fields(self) -> list[Field]:
        """How a file holds them: numbers as such, sub-structures as JSON text."""
        return [Field(name=path, kind=_kind(values)) for path, values in self.values_of.items()]


def _kind(values: Sequence[Any]) -> FieldKind:
    if all(type(value) is int for value in values):
        return "int64"
    return "float64" if all(type(value) in {int, float} for value in values) else "text"


def _file_chunk(grid: Grid, axes: _AxisColumns, chunk: Chunk) -> dict[str, ChunkColumn]:
    codes = chunk.results.failure.tolist()
    values = axes.values(chunk.start, len(codes))
    inputs: dict[str, ChunkColumn] = {
        field.name: [_text(value) for value in values[field.name]]
        if field.kind == "text"
        else np.array(values[field.name])
        for field in axes.fields()
    }
    return {
        "point": np.arange(chunk.start, chunk.start + len(codes)),
        **inputs,
        **chunk.results.columns,
        "failure": [
            _failure(grid, chunk.start + offset, code)["code"] if code else None
            for offset, code in enumerate(codes)
        ],
    }


def _failure(grid: Grid, point: int, code: int) -> dict[str, str]:
    fault = describe_failure(code, grid.point_scenario(point))
    return {"pointer": fault.pointer, "code": fault.code, "detail": fault.detail}


def _shown_columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    of_pipelines = [column.name for column in PIPELINE_TABLE_COLUMNS]
    piped = any(row.result[name] is not None for row in rows for name in of_pipelines)
    return TABLE_COLUMNS + (PIPELINE_TABLE_COLUMNS if piped else ())


def _table_line(row: Row, columns: Sequence[Column]) -> list[str]:
    inputs = [_text(value) for value in row.inputs.values()]
    if row.failure:
        return [*inputs, FAILED, *("" for _ in columns[1:])]
    results = [shown_value(column, row.result[column.name])[0] for column in columns]
    return [*inputs, *results]


def _text(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(value)
    return value if isinstance(value, str) else json.dumps(value)


def _write_line(out: BinaryIO, text: str) -> None:
    out.write(f"{text}\n".encode())
