"""`trainard evaluate`: one scenario or a grid of them, from a file, without a service."""

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import rich_click as click
from rich.console import Console
from rich.progress import Progress

from service.cli.evaluation_extras import EXTRAS, extras_of
from service.cli.evaluation_formats import FORMATS, Chunk
from service.cli.scenario_files import decoded, placed_faults, read_json, refuse_file
from service.model.axes import decode_axes
from service.model.grid import Grid, build_grid
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.rules import describe_failure
from service.model.scenario import decode_scenario
from service.settings import Limits

CHUNK_POINTS = 50_000
TABLE_ROWS = 50


class EvaluationFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario with grid axes; a file that is a scenario itself has none."""

    scenario: dict[str, Any]
    axes: list[dict[str, Any]] = []


@click.command("evaluate")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(list(FORMATS)),
    default="table",
    show_default=True,
    help="`table` to read, `csv` for a spreadsheet, `json` for a program.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help=f"Compute only the first so many points. Default: {TABLE_ROWS} in a table, else all.",
)
@click.option(
    "--show",
    "extras",
    type=click.Choice(list(EXTRAS)),
    multiple=True,
    help="More about one scenario; may be repeated. `sensitivity`: each number moved by 10 %; "
    "`model-spread`: other families of the same cv; `independent-ranks`: of each source.",
)
def command(
    *, file: BinaryIO, output_format: str, limit: int | None, extras: tuple[str, ...]
) -> None:
    """Compute one scenario, or a grid of them, from a file.

    FILE is JSON: a scenario, or {"scenario": …, "axes": […]}; `-` reads standard input:

        trainard evaluate scenario.json

        trainard evaluate scenario.json --show sensitivity --show model-spread

        trainard evaluate grid.json --format csv > losses.csv

    A scenario that loses 176 008 GPU-hours in 30 days to one slow GPU among 1 024:

        {"num_gpus": 1024, "load_ms": 30, "compute_ms": 300, "communication": {"kind": "fixed",
        "allreduce_ms": 80}, "slow_groups": [{"count": 1, "speed_fraction": 0.7}]}

    Axes are e.g. [{"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}]. Exit code 2
    and every fault with its place in the file when it cannot be computed.
    """
    grid, prefix = _grid(file)
    for warning in grid.warnings:
        click.echo(f"note: {warning.pointer}: {warning.detail}", err=True)
    if extras and (grid.axis_paths or output_format == "csv"):
        raise click.UsageError("--show is of one scenario without axes, as a table or as JSON")
    if limit is None and output_format == "table":
        limit = TABLE_ROWS
    shown = grid.num_points if limit is None else min(limit, grid.num_points)
    try:
        found = extras_of(grid.base, extras)
    except InvalidScenario as error:
        refuse_file(file, placed_faults(error, prefix))
    FORMATS[output_format](grid, _computed(grid, shown), sys.stdout.buffer, found)
    if shown < grid.num_points:
        click.echo(
            f"{grid.num_points - shown} more points: --limit {grid.num_points} or another --format "
            "shows them",
            err=True,
        )


def _grid(file: BinaryIO) -> tuple[Grid, str]:
    """The grid of the file, and the place of its scenario in it."""
    value = read_json(file)
    wrapped = isinstance(value, dict) and "scenario" in value
    prefix = "/scenario" if wrapped else ""
    document = decoded(file, value if wrapped else {"scenario": value}, EvaluationFile)
    try:
        grid = build_grid(
            decode_scenario(document.scenario),
            decode_axes(document.axes),
            max_points=Limits().points_per_batch,
        )
    except InvalidScenario as error:
        refuse_file(file, placed_faults(error, prefix, apart=("/axes",)))
    if all(failures.all() for failures in _failures(grid)):
        fault = describe_failure(int(grid.failures(0, 1)[0]), grid.point_scenario(0))
        refuse_file(file, placed_faults(InvalidScenario([fault]), prefix))
    return grid, prefix


def _failures(grid: Grid) -> Iterator[Any]:
    for start in range(0, grid.num_points, CHUNK_POINTS):
        yield grid.failures(start, min(start + CHUNK_POINTS, grid.num_points))


def _computed(grid: Grid, num_points: int) -> Iterator[Chunk]:
    """Compute chunk by chunk, with a progress bar on standard error where there are several."""
    starts = range(0, num_points, CHUNK_POINTS)
    with Progress(
        console=Console(stderr=True), transient=True, disable=len(starts) == 1
    ) as progress:
        task = progress.add_task("Computing", total=num_points)
        for start in starts:
            stop = min(start + CHUNK_POINTS, num_points)
            yield Chunk(start=start, results=evaluate(grid.columns(start, stop)))
            progress.update(task, completed=stop)
