"""One chunk of a batch: expand, evaluate, encode. Runs in a compute process; ids and JSON in.

A chunk is so many consecutive points of the batch (`CHUNK_POINTS`, fewer where they take long),
whatever items they belong to, and a whole number of blocks, so that block numbers do not depend on
who computes what.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.db.blocks import EncodedBlock, encode_columns
from service.jobs.planning import CHUNK_POINTS
from service.model.axes import decode_axes
from service.model.columns import Columns
from service.model.grid import Grid, build_grid
from service.model.inputs import input_column, input_names
from service.model.kernel import Results, evaluate
from service.model.remedy_gains import evaluated
from service.model.remedy_grid import RemedyGrid, stored_grid, stored_remedies
from service.model.scenario import decode_scenario

Array = NDArray[Any]


class ItemSpan(msgspec.Struct, frozen=True, kw_only=True):
    """An item as the compute process needs it."""

    position: int
    scenario: bytes
    axes: bytes
    first_point: int
    num_points: int


class ComputedChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Encoded blocks, and per item (position, points, failed points)."""

    chunk: int
    blocks: list[EncodedBlock]
    progress: list[tuple[int, int, int]]


def num_chunks(num_points: int, chunk_points: int = CHUNK_POINTS) -> int:
    """Chunks of a batch with so many points."""
    return -(-num_points // chunk_points)


def compute_chunk(
    chunk: int,
    items: Sequence[ItemSpan],
    columns: Sequence[str],
    chunk_points: int = CHUNK_POINTS,
) -> ComputedChunk:
    """Compute the chunk's points; `columns` are the stored input columns of the whole batch."""
    start = chunk * chunk_points
    stop = start + chunk_points
    parts: list[Mapping[str, Array]] = []
    progress = []
    for item in items:
        begin = max(start, item.first_point)
        end = min(stop, item.first_point + item.num_points)
        if begin >= end:
            continue
        part = _evaluate_span(item, begin - item.first_point, end - item.first_point, columns)
        parts.append(part)
        progress.append((item.position, end - begin, int(np.count_nonzero(part["failure"]))))
    # A copy of all columns would be the most that a compute process holds.
    table = (
        parts[0]
        if len(parts) == 1
        else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )
    return ComputedChunk(
        chunk=chunk,
        blocks=encode_columns(table),
        progress=progress,
    )


def _evaluate_span(
    item: ItemSpan, start: int, stop: int, columns: Sequence[str]
) -> dict[str, Array]:
    grid = grid_of(item.scenario, item.axes)
    expanded = grid.columns(start, stop)
    results = _evaluate(grid, expanded, start, stop)
    return {
        "item": np.full(stop - start, item.position, dtype=np.int64),
        "failure": results.failure,
        **{name: input_column(expanded, name) for name in columns},
        **results.columns,
    }


def _evaluate(grid: Grid, expanded: Columns, start: int, stop: int) -> Results:
    if not isinstance(grid, RemedyGrid):
        return evaluate(expanded)
    # What a remedy gives back needs point 0, in whatever chunk that is: they are few, all of them.
    whole, _ = evaluated(grid)
    rows = slice(start, stop)
    return Results(
        columns={name: values[rows] for name, values in whole.columns.items()},
        failure=whole.failure[rows],
    )


@lru_cache(maxsize=64)
def grid_of(scenario: bytes, axes: bytes) -> Grid:
    """The grid of a stored item; kept, since the chunks of an item come one after the other."""
    base = decode_scenario(msgspec.json.decode(scenario))
    document = msgspec.json.decode(axes)
    remedies = stored_remedies(document)
    if remedies is not None:
        return stored_grid(base, remedies)
    decoded = decode_axes(document)
    # The limit was applied when the batch was accepted; a later, lower limit must not strand it.
    return build_grid(base, decoded, max_points=1 << 62)


def stored_input_columns(scenario: bytes, axes: bytes) -> tuple[str, ...]:
    """Names of the input columns that the item stores."""
    grid = grid_of(scenario, axes)
    paths = grid.changed_leaves() if isinstance(grid, RemedyGrid) else grid.axis_paths
    return input_names(grid.columns(0, 1), paths)
