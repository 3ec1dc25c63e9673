"""Results of `trainard evaluate` as a table, CSV or JSON; chunk by chunk, in bounded memory."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TextIO

from service.cli.text_tables import text_table
from service.model import MODEL_VERSION
from service.model.grid import Grid
from service.model.kernel import Results
from service.model.results import COLUMNS, Column
from service.model.rules import describe_failure

Cell = float | int | bool | str | None

# What a grid's table shows of the results: the questions of the founding page.
TABLE_COLUMNS = (
    "step_mean_ms",
    "efficiency_fraction",
    "displayed_utilization_fraction",
    "useful_compute_fraction",
    "gpu_hours_lost",
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


def write_table(grid: Grid, chunks: Iterable[Chunk], out: TextIO) -> None:
    """One scenario: every result with its unit and meaning. A grid: one line a point."""
    rows = list(_rows(grid, chunks))
    if not grid.axis_paths:
        _write_sheet(rows[0], out)
        return
    header = [*grid.axis_paths, *TABLE_COLUMNS]
    lines = [
        [_shown(value) for value in (*row.inputs.values(), *_table_cells(row))] for row in rows
    ]
    out.write(text_table(header, lines, left=0) + "\n")
    for row in rows:
        if row.failure:
            out.write(f"point {row.point} failed: {row.failure['detail']}\n")


def write_csv(grid: Grid, chunks: Iterable[Chunk], out: TextIO) -> None:
    """A header and one line a point: axis values, all results, and why a point failed."""
    writer = csv.writer(out, lineterminator="\n")
    names = [column.name for column in COLUMNS]
    writer.writerow(["point", *grid.axis_paths, *names, "failure"])
    for row in _rows(grid, chunks):
        failure = row.failure["code"] if row.failure else ""
        inputs = [_csv_cell(value) for value in row.inputs.values()]
        results = [_csv_cell(row.result[name]) for name in names]
        writer.writerow([row.point, *inputs, *results, failure])


def write_json(grid: Grid, chunks: Iterable[Chunk], out: TextIO) -> None:
    """One JSON document, written as it is computed: model version, warnings, points."""
    warnings = [
        {"pointer": warning.pointer, "code": warning.code, "detail": warning.detail}
        for warning in grid.warnings
    ]
    out.write(f'{{"model_version": {json.dumps(MODEL_VERSION)}, ')
    out.write(f'"warnings": {json.dumps(warnings)}, "points": [')
    out.writelines(
        ("," if position else "") + "\n  " + json.dumps(row._asdict(), allow_nan=False)
        for position, row in enumerate(_rows(grid, chunks))
    )
    out.write("\n]}\n")


FORMATS: dict[str, Callable[[Grid, Iterable[Chunk], TextIO], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_csv,
}


def _rows(grid: Grid, chunks: Iterable[Chunk]) -> Iterator[Row]:
    for start, results in chunks:
        cells = [_cells(column, results) for column in COLUMNS]
        codes = results.failure.tolist()
        for offset, values in enumerate(zip(*cells, strict=True)):
            point = start + offset
            yield Row(
                point=point,
                inputs=grid.inputs_at(point),
                result={column.name: value for column, value in zip(COLUMNS, values, strict=True)},
                failure=_failure(grid, point, codes[offset]),
            )


def _cells(column: Column, results: Results) -> list[Cell]:
    values: list[Any] = results.columns[column.name].tolist()
    if column.kind == "enum":
        return [column.labels[value] for value in values]
    if column.kind == "float64":
        return [None if math.isnan(value) else value for value in values]
    return values


def _failure(grid: Grid, point: int, code: int) -> dict[str, str] | None:
    if code == 0:
        return None
    fault = describe_failure(code, grid.point_scenario(point))
    return {"pointer": fault.pointer, "code": fault.code, "detail": fault.detail}


def _write_sheet(row: Row, out: TextIO) -> None:
    out.write(
        text_table(
            ["result", "value", "unit", "meaning"],
            [
                [column.name, _shown(row.result[column.name]), column.unit, column.sentence]
                for column in COLUMNS
            ],
            left=4,
        )
        + "\n"
    )


def _table_cells(row: Row) -> list[Cell]:
    if row.failure:
        return [FAILED, *("" for _ in TABLE_COLUMNS[1:])]
    return [row.result[name] for name in TABLE_COLUMNS]


def _shown(value: Any) -> str:
    """Enough digits to read; CSV and JSON carry all of them."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}".replace(",", " ") if abs(value) >= 1_000 else f"{value:.6g}"
    return str(value) if isinstance(value, str | bool | int) else json.dumps(value)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value)
    return "" if value is None else value
