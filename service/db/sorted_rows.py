"""Matching points of many batches in sort order: first only their keys, then their columns.

The order is that of `results.scan`: by the order's columns, null last, then batch as given, then
point. A row costs 8 bytes a key, 8 for its point and 4 for its batch until the last is fetched.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from sqlalchemy import Connection

from service.db.blocks import POINT, read_blocks
from service.db.codec import Array, as_floats
from service.db.conditions import BatchRef, Filter, Order
from service.db.encoded_blocks import BLOCK_POINTS
from service.db.results import iterate_columns

# Blocks read by one statement: of the few keys, and of all columns (some 25 MB).
KEY_BLOCKS = 50
ROW_BLOCKS = 10


class TooManyRowsError(Exception):
    """More rows match than are sorted."""


class SortedPlaces(Struct, frozen=True, kw_only=True, eq=False):
    """(rows,) numbers of the batches and points, in order."""

    batch: NDArray[np.int32]
    point: NDArray[np.int64]


def sorted_places(
    connection: Connection,
    batches: Sequence[BatchRef],
    filters: Sequence[Filter],
    order: Sequence[Order],
    *,
    limit: int,
) -> SortedPlaces:
    """Where the matching rows are, in order; raises `TooManyRowsError` above `limit` rows."""
    names = tuple(dict.fromkeys((POINT, *(part.column for part in order))))
    keys: list[list[Array]] = [[] for _ in order]
    numbers: list[Array] = []
    points: list[Array] = []
    num_rows = 0
    for number, ref in enumerate(batches):
        for table in iterate_columns(connection, ref, names, filters, chunk_blocks=KEY_BLOCKS):
            num_rows += len(table[POINT])
            if num_rows > limit:
                raise TooManyRowsError
            points.append(table[POINT])
            numbers.append(np.full(len(table[POINT]), number, dtype=np.int32))
            for part, column in zip(order, keys, strict=True):
                column.append(_key(table[part.column], descending=part.descending))
    if not points:
        return SortedPlaces(batch=np.empty(0, np.int32), point=np.empty(0, np.int64))
    # Rows come by batch and point, and equal keys keep that order.
    ranked = np.lexsort([np.concatenate(column) for column in reversed(keys)])
    return SortedPlaces(batch=np.concatenate(numbers)[ranked], point=np.concatenate(points)[ranked])


def fetch_places(
    connection: Connection,
    batches: Sequence[BatchRef],
    places: SortedPlaces,
    names: Sequence[str],
) -> dict[str, Array]:
    """The columns at the places, in their order; one neither stored nor constant is NaN."""
    block = places.point // BLOCK_POINTS
    grouped = np.lexsort((block, places.batch))
    starts = np.flatnonzero(
        np.diff(places.batch[grouped], prepend=-1) | np.diff(block[grouped], prepend=-1)
    )
    rows_of = {
        (batches[places.batch[rows[0]]].batch_id, int(block[rows[0]])): rows
        for rows in np.split(grouped, starts)[1:]
    }
    found: dict[str, list[tuple[Array, Array]]] = {name: [] for name in names}
    wanted = list(rows_of)
    for start in range(0, len(wanted), ROW_BLOCKS):
        for part in read_blocks(connection, wanted[start : start + ROW_BLOCKS], names):
            rows = rows_of[part.batch_id, part.block]
            found[part.column].append((rows, part.values_at(places.point[rows] % BLOCK_POINTS)))
    for number, ref in enumerate(batches):
        of_batch = np.flatnonzero(places.batch == number)
        for name in ref.constants.keys() & found.keys():
            found[name].append((of_batch, np.full(len(of_batch), ref.constants[name])))
    return {name: _gathered(len(grouped), parts) for name, parts in found.items()}


def _key(column: Array, *, descending: bool) -> NDArray[np.float64]:
    """Numbers that sort as asked in ascending order, null as infinity."""
    values = as_floats(column)
    return np.where(np.isnan(values), np.inf, -values if descending else values)


def _gathered(num_rows: int, parts: Sequence[tuple[Array, Array]]) -> Array:
    """One column of parts (rows, values). Rows that no part has are null: NaN, or -1 of a code."""
    dtype = np.result_type(*(values.dtype for _, values in parts)) if parts else np.dtype("f8")
    if dtype != np.int8 and sum(len(rows) for rows, _ in parts) < num_rows:
        dtype = np.dtype("f8")
    column: Array = np.full(num_rows, np.nan if dtype.kind == "f" else -1, dtype=dtype)
    for rows, values in parts:
        column[rows] = values
    return column
