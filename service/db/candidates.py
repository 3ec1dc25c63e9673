"""Which blocks can hold rows of a listing, judged by their zone maps before any is read."""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct
from sqlalchemy import Connection

from service.db.blocks import POINT, ZoneRow, zone_maps
from service.db.conditions import BatchRef, Filter, Order, stored_names
from service.db.encoded_blocks import BLOCK_POINTS
from service.db.ranking import Key
from service.db.zones import Zone, column_zone, earliest_key, latest_key, may_match, zone_of

# Batches whose zone maps are asked for by one statement.
BATCHES_PER_QUERY = 100


class Candidate(Struct, frozen=True, kw_only=True):
    """A block that may hold rows of the page; no row sorts before `earliest`."""

    batch: int
    block: int
    num_rows: int
    zones: dict[str, Zone]
    earliest: Key
    latest: Key


class Query(Struct, frozen=True, kw_only=True):
    """What is asked of which batches."""

    batches: Sequence[BatchRef]
    filters: tuple[Filter, ...]
    order: Sequence[Order]

    @property
    def columns(self) -> set[str]:
        """All columns, stored or derived, that filters and order name."""
        filtered = {condition.column for condition in self.filters}
        return filtered | {part.column for part in self.order}


def candidate_blocks(
    connection: Connection, query: Query, start: Key | None
) -> Iterator[Candidate]:
    """Blocks that may hold rows after `start`, the earliest first."""
    # Without an order the batches before the cursor's hold nothing that comes after it.
    first = int(start[0]) if start is not None and not query.order else 0
    groups = (
        _candidates_of(connection, query, range(begin, begin + BATCHES_PER_QUERY), start)
        for begin in range(first, len(query.batches), BATCHES_PER_QUERY)
    )
    if not query.order:
        return chain.from_iterable(groups)
    return iter(sorted(chain.from_iterable(groups), key=lambda candidate: candidate.earliest))


def _candidates_of(
    connection: Connection, query: Query, span: range, start: Key | None
) -> list[Candidate]:
    numbers = {
        query.batches[number].batch_id: number for number in span if number < len(query.batches)
    }
    names = set[str]().union(
        *(stored_names(query.batches[number], query.columns) for number in numbers.values())
    )
    blocks: dict[tuple[int, int], dict[str, Zone]] = {}
    num_rows: dict[tuple[int, int], int] = {}
    for row in zone_maps(connection, list(numbers), sorted(names)):
        place = (numbers[row.batch_id], row.block)
        blocks.setdefault(place, {POINT: _point_zone(row)})[row.column] = zone_of(row)
        num_rows[place] = row.num_rows
    candidates = []
    for (batch, block), zones in sorted(blocks.items(), key=lambda entry: entry[0]):
        if not may_match(query.batches[batch], zones, query.filters):
            continue
        candidate = _candidate(query, (batch, block), num_rows[batch, block], zones)
        if start is None or candidate.latest > start:
            candidates.append(candidate)
    return candidates


def _point_zone(row: ZoneRow) -> Zone:
    first_point = row.block * BLOCK_POINTS
    return Zone(
        lowest=float(first_point),
        highest=float(first_point + row.num_rows - 1),
        has_values=True,
        has_nulls=False,
    )


def _candidate(
    query: Query, place: tuple[int, int], num_rows: int, zones: dict[str, Zone]
) -> Candidate:
    batch, block = place
    first_point = block * BLOCK_POINTS
    ordered = [
        (column_zone(query.batches[batch], zones, part.column), part.descending)
        for part in query.order
    ]
    # Bounds of each part are bounds of the whole key, since keys compare part by part.
    early = [earliest_key(zone, descending=descending) for zone, descending in ordered]
    late = [latest_key(zone, descending=descending) for zone, descending in ordered]
    return Candidate(
        batch=batch,
        block=block,
        num_rows=num_rows,
        zones=zones,
        earliest=(*early, batch, first_point),
        latest=(*late, batch, first_point + num_rows - 1),
    )
