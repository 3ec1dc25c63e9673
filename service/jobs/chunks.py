"""One chunk of a batch: expand, evaluate, encode. Runs in a compute process; ids and JSON in.

What each of those processes imports is imported here: no SQL and no HTTP, which take a second.

A chunk is so many consecutive points of the batch (`CHUNK_POINTS`, fewer where they take long),
whatever items they belong to, and a whole number of blocks, so that block numbers do not depend on
who computes what.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.db.encoded_blocks import BLOCK_POINTS, EncodedBlock, encode_columns
from service.model.axes import decode_axes
from service.model.columns import Columns
from service.model.grid import Grid, build_grid
from service.model.inputs import input_column, input_names
from service.model.kernel import Results, evaluate
from service.model.remedy.remedy_gains import evaluated
from service.model.remedy.remedy_grid import RemedyGrid, stored_grid, stored_remedies
from service.model.scenario import decode_scenario

Array = NDArray[Any]

CHUNK_POINTS = 50_000


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


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of consecutive points, and per item (position, points, failed points)."""

    table: Mapping[str, Array]
    progress: list[tuple[int, int, int]]

    @property
    def num_points(self) -> int:
        """Points of the piece."""
        return sum(points for _, points, _ in self.progress)


def compute_chunk(
    chunk: int,
    items: Sequence[ItemSpan],
    columns: Sequence[str],
    chunk_points: int = CHUNK_POINTS,
) -> ComputedChunk:
    """Compute the chunk's points; `columns` are the stored input columns of the whole batch.

    A block at a time: all columns of a whole chunk are the most that a process would hold.
    """
    start, stop = chunk * chunk_points, (chunk + 1) * chunk_points
    last = max(item.first_point + item.num_points for item in items)
    parts = []
    for first in range(start, min(stop, last), BLOCK_POINTS):
        end = min(first + BLOCK_POINTS, stop)
        part = joined_pieces(chunk, [compute_piece(items, columns, first, end)])
        parts.append((part, (first - start) // BLOCK_POINTS))
    return ComputedChunk(
        chunk=chunk,
        blocks=[
            msgspec.structs.replace(block, block=block.block + first_block)
            for part, first_block in parts
            for block in part.blocks
        ],
        progress=_counted(entry for part, _ in parts for entry in part.progress),
    )


def compute_piece(
    items: Sequence[ItemSpan], columns: Sequence[str], start: int, stop: int
) -> Piece:
    """Compute the points [start, stop) of the batch, as many as the items have there."""
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
    return Piece(table=_joined(parts), progress=progress)


def joined_pieces(chunk: int, pieces: Sequence[Piece]) -> ComputedChunk:
    """The chunk of which these are all pieces, in order."""
    whole = one_piece(pieces)
    return ComputedChunk(chunk=chunk, blocks=encode_columns(whole.table), progress=whole.progress)


def one_piece(pieces: Sequence[Piece]) -> Piece:
    """The piece of which these are all parts, in order."""
    return Piece(
        table=_joined([piece.table for piece in pieces]),
        progress=_counted(entry for piece in pieces for entry in piece.progress),
    )


def _counted(entries: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Points and failed points of each item, added up."""
    counts: dict[int, tuple[int, int]] = {}
    for position, points, failed in entries:
        before = counts.get(position, (0, 0))
        counts[position] = (before[0] + points, before[1] + failed)
    return [(position, *counted) for position, counted in counts.items()]


def _joined(parts: Sequence[Mapping[str, Array]]) -> Mapping[str, Array]:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _evaluate_span(
    item: ItemSpan, start: int, stop: int, columns: Sequence[str]
) -> dict[str, Array]:
    expanded = grid_of(item.scenario, item.axes).columns(start, stop)
    results = _evaluate(item, expanded, start, stop)
    return {
        "item": np.full(stop - start, item.position, dtype=np.int64),
        "failure": results.failure,
        **{name: input_column(expanded, name) for name in columns},
        **results.columns,
    }


def _evaluate(item: ItemSpan, expanded: Columns, start: int, stop: int) -> Results:
    whole = _remedies_of(item.scenario, item.axes)
    if whole is None:
        return evaluate(expanded)
    rows = slice(start, stop)
    return Results(
        columns={name: values[rows] for name, values in whole.columns.items()},
        failure=whole.failure[rows],
    )


@lru_cache(maxsize=4)
def _remedies_of(scenario: bytes, axes: bytes) -> Results | None:
    """All points of an item of remedies, else None.

    What a remedy gives back needs point 0, in whatever chunk that is: they are few, all of them.
    """
    grid = grid_of(scenario, axes)
    return evaluated(grid)[0] if isinstance(grid, RemedyGrid) else None


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
