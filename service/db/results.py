"""Listing of stored points: filter, sort and page over column blocks without a row per point.

A block is read only if its zone maps leave open that it holds a row of the page. Order and
filters compare in float64. A batch without a named column has null there.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from service.db.blocks import POINT, complete, read_blocks
from service.db.candidates import Candidate, Query, candidate_blocks
from service.db.codec import Array
from service.db.conditions import (
    BatchRef,
    Cursor,
    Derived,
    Filter,
    Order,
    PointRef,
    floats_of,
    matching,
    stored_names,
    with_computed,
)
from service.db.encoded_blocks import BLOCK_POINTS
from service.db.ranking import Key, Ranking
from service.errors import MalformedError

__all__ = [
    "BatchRef",
    "Cursor",
    "Derived",
    "Filter",
    "Order",
    "PointRef",
    "fetch_batches",
    "fetch_points",
    "iterate_columns",
    "scan",
]

# Blocks whose values are asked for by one statement.
BLOCKS_PER_QUERY = 50
# Of these, full ones while a page is looked for, statement by statement; the last number stays.
# The first blocks often fill the page for good; where they do not, a statement a block would cost
# more than its values (62 against 200 ms for 100 blocks).
FULL_BLOCKS = (1, 1, 2, 4, 8, 16)


def scan(
    connection: Connection,
    batches: Sequence[BatchRef],
    filters: Sequence[Filter],
    order: Sequence[Order],
    *,
    after: Cursor | None = None,
    limit: int,
) -> list[PointRef]:
    """The first `limit` points after `after`, sorted by `order`, then batch as given, then point.

    Only computed points (failure 0), unless a filter names `failure`. `batches` are the newest
    first. What comes after `after` is decided by its values alone: batches that have come or gone
    since shift nothing, so no row is given twice and none that stays is passed over. Raises
    `MalformedError` when `after` is of another order.
    """
    if limit < 1:
        raise ValueError(f"limit is {limit}, but must be at least 1")
    query = Query(batches=batches, filters=with_computed(tuple(filters)), order=order)
    start = None if after is None else _key_of(query, after)
    ranking = Ranking(limit=limit, num_keys=len(order), after=start)
    for group in _groups(candidate_blocks(connection, query, start), ranking):
        tables = _read(connection, query, group)
        for candidate in group:
            _offer(ranking, query, candidate, tables[candidate.batch, candidate.block])
    return [_point_ref(query, ranking.row_key(row)) for row in range(len(ranking.points))]


def fetch_points(
    connection: Connection, batch_id: UUID, points: NDArray[np.int64], names: Sequence[str]
) -> dict[str, Array]:
    """The named columns at the points, in the order given; only their blocks are read.

    Where a point is not stored, floats are NaN, integers -1 and bools False (so `failure` is not
    0 there); a column that is stored for none of the points is NaN.
    """
    return fetch_batches(connection, {batch_id: points}, names)[batch_id]


def fetch_batches(
    connection: Connection, points: Mapping[UUID, NDArray[np.int64]], names: Sequence[str]
) -> dict[UUID, dict[str, Array]]:
    """The named columns at points of several batches, each as `fetch_points` gives them."""
    places = [
        (batch_id, block)
        for batch_id, wanted in points.items()
        for block in np.unique(wanted // BLOCK_POINTS).tolist()
    ]
    found: dict[tuple[UUID, str], list[tuple[Array, Array]]] = {}
    for start in range(0, len(places), BLOCKS_PER_QUERY):
        for part in read_blocks(connection, places[start : start + BLOCKS_PER_QUERY], names):
            block_of, row_of = np.divmod(points[part.batch_id], BLOCK_POINTS)
            (chosen,) = np.nonzero((block_of == part.block) & (row_of < part.num_rows))
            values = chosen, part.values_at(row_of[chosen])
            found.setdefault((part.batch_id, part.column), []).append(values)
    return {
        batch_id: {name: _gathered(len(wanted), found.get((batch_id, name), [])) for name in names}
        for batch_id, wanted in points.items()
    }


def iterate_columns(
    connection: Connection,
    ref: BatchRef,
    names: Sequence[str],
    filters: Sequence[Filter] = (),
    *,
    chunk_blocks: int = 5,
) -> Iterator[dict[str, Array]]:
    """Matching rows of a batch in the order of the points, `chunk_blocks` blocks at a time.

    `names` are stored, derived or constant columns, or `point`. Only computed points, unless a
    filter names `failure`. Parts without a matching row are left out.
    """
    query = Query(batches=[ref], filters=with_computed(tuple(filters)), order=())
    candidates = list(candidate_blocks(connection, query, None))
    stored = sorted(stored_names(ref, query.columns | set(names)) - {POINT})
    for start in range(0, len(candidates), chunk_blocks):
        blocks = [candidate.block for candidate in candidates[start : start + chunk_blocks]]
        tables: dict[int, dict[str, Array]] = {block: {} for block in blocks}
        places = [(ref.batch_id, block) for block in blocks]
        for part in read_blocks(connection, places, stored):
            tables[part.block][part.column] = part.values()
        parts = []
        for block, found in tables.items():
            table = complete(block, found, [*stored, POINT])
            mask = matching(ref, table, query.filters)
            if mask.any():
                parts.append([_column(ref, table, name)[mask] for name in names])
        if parts:
            yield {
                name: np.concatenate(column)
                for name, column in zip(names, zip(*parts, strict=True), strict=True)
            }


def _column(ref: BatchRef, table: dict[str, Array], name: str) -> Array:
    is_made = name in ref.derived or name in ref.constants
    return floats_of(ref, table, name) if is_made else table[name]


def _groups(candidates: Iterator[Candidate], ranking: Ranking) -> Iterator[list[Candidate]]:
    """Candidates to read by one statement: as many rows as some full blocks have, or fewer.

    Ends at the first that can hold no row of the page: later ones are no earlier.
    """
    group: list[Candidate] = []
    sizes = chain(FULL_BLOCKS, repeat(FULL_BLOCKS[-1]))
    num_rows, max_rows = 0, next(sizes) * BLOCK_POINTS
    for candidate in candidates:
        if ranking.excludes(candidate.earliest):
            break
        if group and (num_rows + candidate.num_rows > max_rows or len(group) == BLOCKS_PER_QUERY):
            yield group
            group, num_rows, max_rows = [], 0, next(sizes) * BLOCK_POINTS
            if ranking.excludes(candidate.earliest):
                break
        group.append(candidate)
        num_rows += candidate.num_rows
    if group:
        yield group


def _read(
    connection: Connection, query: Query, group: Sequence[Candidate]
) -> dict[tuple[int, int], dict[str, Array]]:
    """The columns that filters and order need; constant and absent ones without reading."""
    tables: dict[tuple[int, int], dict[str, Array]] = {}
    missing: set[str] = set()
    for candidate in group:
        first_point = candidate.block * BLOCK_POINTS
        table = tables.setdefault(
            (candidate.batch, candidate.block),
            {POINT: np.arange(first_point, first_point + candidate.num_rows)},
        )
        for name in stored_names(query.batches[candidate.batch], query.columns) - {POINT}:
            zone = candidate.zones.get(name)
            value = np.nan if zone is None or not zone.has_values else zone.constant
            if value is None:
                missing.add(name)
            else:
                table[name] = np.broadcast_to(np.float64(value), (candidate.num_rows,))
    numbers = {query.batches[candidate.batch].batch_id: candidate.batch for candidate in group}
    places = [(query.batches[candidate.batch].batch_id, candidate.block) for candidate in group]
    for part in read_blocks(connection, places, sorted(missing)):
        tables[numbers[part.batch_id], part.block][part.column] = part.values()
    return tables


def _offer(ranking: Ranking, query: Query, candidate: Candidate, table: dict[str, Array]) -> None:
    ref = query.batches[candidate.batch]
    (rows,) = np.nonzero(matching(ref, table, query.filters))
    keys = np.empty((len(query.order), len(rows)))
    for number, part in enumerate(query.order):
        values = floats_of(ref, table, part.column)[rows]
        keys[number] = np.where(np.isnan(values), np.inf, -values if part.descending else values)
    ranking.add(keys, candidate.batch, candidate.block * BLOCK_POINTS + rows)


def _key_of(query: Query, cursor: Cursor) -> Key:
    if len(cursor.values) != len(query.order):
        raise MalformedError("the page token belongs to a list of another order: start again")
    keys = [
        np.inf if value is None else -value if part.descending else value
        for value, part in zip(cursor.values, query.order, strict=True)
    ]
    return (*keys, _batch_number(query, cursor), cursor.point)


def _batch_number(query: Query, cursor: Cursor) -> float:
    """The number of the cursor's batch; between two numbers when it is in the list no more."""
    newer = 0
    for number, ref in enumerate(query.batches):
        if ref.batch_id == cursor.batch_id:
            return number
        newer += (ref.created_at, ref.batch_id) > (cursor.created_at, cursor.batch_id)
    return newer - 0.5


def _point_ref(query: Query, key: Key) -> PointRef:
    *keys, batch, point = key
    ref = query.batches[int(batch)]
    values = tuple(
        None if key == np.inf else -key if part.descending else key
        for key, part in zip(keys, query.order, strict=True)
    )
    return PointRef(
        batch_id=ref.batch_id,
        point=int(point),
        cursor=Cursor(
            values=values, batch_id=ref.batch_id, point=int(point), created_at=ref.created_at
        ),
    )


def _gathered(num_points: int, parts: Sequence[tuple[Array, Array]]) -> Array:
    if not parts:
        return np.full(num_points, np.nan)
    dtype = np.result_type(*(values.dtype for _, values in parts))
    fill = {"f": np.nan, "b": False}.get(dtype.kind, -1)
    gathered: Array = np.full(num_points, fill, dtype=dtype)
    for chosen, values in parts:
        gathered[chosen] = values
    return gathered
