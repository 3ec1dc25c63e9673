"""Result blocks: columns of points cut by point number, packed, written and read in bulk.

Block `b` of a batch holds its points `b * BLOCK_POINTS` and up, whatever items they belong to.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import UUID

import numpy as np
from msgspec import Struct
from sqlalchemy import Connection, and_, insert, or_, select

from service.db.codec import Array, unpack, unpack_rows
from service.db.encoded_blocks import BLOCK_POINTS, EncodedBlock
from service.db.tables import result_block, utc_now

# Names that are no stored columns but follow from the place.
POINT = "point"


class StoredBlock(Struct, frozen=True, kw_only=True):
    """One column of one block as it was read, not yet unpacked."""

    batch_id: UUID
    block: int
    column: str
    kind: str
    num_rows: int
    data: bytes

    def values(self) -> Array:
        """All values."""
        return unpack(self.kind, self.num_rows, self.data)

    def values_at(self, rows: Array) -> Array:
        """The values at the rows of the block."""
        return unpack_rows(self.kind, self.num_rows, self.data, rows)


class ZoneRow(Struct, frozen=True, kw_only=True):
    """What is known about one column of one block without reading its values."""

    batch_id: UUID
    block: int
    column: str
    num_rows: int
    num_nulls: int
    minimum: float | None
    maximum: float | None


def write_blocks(
    connection: Connection,
    team_id: UUID,
    batch_id: UUID,
    first_block: int,
    encoded: Sequence[EncodedBlock],
) -> None:
    """Write encoded columns as blocks `first_block` and up of the batch."""
    if not encoded:
        return
    now = utc_now()
    connection.execute(
        insert(result_block),
        [
            {
                "team_id": team_id,
                "created_at": now,
                "batch_id": batch_id,
                "block": first_block + part.block,
                "column": part.column,
                "kind": part.packed.kind,
                "num_rows": part.packed.num_rows,
                "num_nulls": part.packed.num_nulls,
                "minimum": part.packed.minimum,
                "maximum": part.packed.maximum,
                "data": part.packed.data,
            }
            for part in encoded
        ],
    )


def zone_maps(
    connection: Connection, batch_ids: Sequence[UUID], names: Sequence[str]
) -> list[ZoneRow]:
    """The zone maps of the named columns, by block; absent columns have no rows."""
    c = result_block.c
    rows = connection.execute(
        select(c.batch_id, c.block, c.column, c.num_rows, c.num_nulls, c.minimum, c.maximum)
        .where(c.batch_id.in_(batch_ids), c.column.in_(names))
        .order_by(c.batch_id, c.block)
    )
    return [
        ZoneRow(
            batch_id=row.batch_id,
            block=row.block,
            column=row.column,
            num_rows=row.num_rows,
            num_nulls=row.num_nulls,
            minimum=row.minimum,
            maximum=row.maximum,
        )
        for row in rows
    ]


def constant_columns(
    connection: Connection, batch_id: UUID, names: Sequence[str], num_points: int
) -> dict[str, float]:
    """Those of the columns that are the same at all points of the batch, null as NaN."""
    zones: dict[str, list[ZoneRow]] = {name: [] for name in names}
    for zone in zone_maps(connection, [batch_id], names):
        zones[zone.column].append(zone)
    found = {}
    for name, of_column in zones.items():
        bounds = {bound for zone in of_column for bound in (zone.minimum, zone.maximum)}
        # Points that are not stored are null too.
        num_values = sum(zone.num_rows - zone.num_nulls for zone in of_column)
        if num_values == 0:
            found[name] = np.nan
        elif num_values == num_points and len(bounds) == 1 and None not in bounds:
            found[name] = float(bounds.pop() or 0.0)
    return found


def read_blocks(
    connection: Connection, places: Sequence[tuple[UUID, int]], names: Sequence[str]
) -> Iterator[StoredBlock]:
    """The stored columns among `names` of the blocks at (batch, block), one query for all."""
    if not places or not names:
        return
    c = result_block.c
    ordered = sorted(places, key=lambda place: (place[0].bytes, place[1]))
    where = [
        and_(c.batch_id == batch_id, c.block.in_([block for _, block in group]))
        for batch_id, group in groupby(ordered, key=lambda place: place[0])
    ]
    rows = connection.execute(
        select(c.batch_id, c.block, c.column, c.kind, c.num_rows, c.data)
        .where(or_(*where), c.column.in_(names))
        .execution_options(binary_rows=True)
    )
    for batch_id, block, column, kind, num_rows, data in rows:
        yield StoredBlock(
            batch_id=batch_id, block=block, column=column, kind=kind, num_rows=num_rows, data=data
        )


def read_columns(
    connection: Connection,
    batch_id: UUID,
    names: Sequence[str],
    blocks: Sequence[int] | None = None,
) -> dict[str, Array]:
    """Whole columns of a batch, or of the blocks given, in the order of the points.

    `point` may be named like a column. A block that is not stored is passed over, a column that
    is not stored is NaN.
    """
    c = result_block.c
    query = select(c.block, c.column, c.kind, c.num_rows, c.data).where(
        c.batch_id == batch_id, c.column.in_([*names, "failure"])
    )
    if blocks is not None:
        query = query.where(c.block.in_(blocks))
    stored: dict[int, dict[str, Array]] = {}
    query = query.order_by(c.block).execution_options(binary_rows=True)
    for row in connection.execute(query):
        values = unpack(row.kind, row.num_rows, row.data)
        stored.setdefault(row.block, {})[row.column] = values
    tables = [complete(block, table, names) for block, table in stored.items()]
    return {name: joined([table[name] for table in tables]) for name in names}


def complete(block: int, table: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """The named columns of one block: `point` is made, absent ones are NaN."""
    num_rows = len(next(iter(table.values())))
    first_point = block * BLOCK_POINTS
    made: dict[str, Any] = {}
    for name in names:
        if name == POINT:
            made[name] = np.arange(first_point, first_point + num_rows, dtype=np.int64)
        else:
            made[name] = table[name] if name in table else np.full(num_rows, np.nan)
    return made


def joined(parts: Sequence[Array]) -> Array:
    """The parts one after the other; no parts are an empty float column."""
    return np.concatenate(parts) if parts else np.empty(0)
