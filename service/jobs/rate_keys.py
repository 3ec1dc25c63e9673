"""What the rates are for that price two sides."""

from collections.abc import Collection, Iterable
from uuid import UUID

from service.db import histories
from service.db.engine import Connection
from service.reports.cost_changes import CostPair
from service.reports.price_causes import RateKey


def keys_of(connection: Connection, pairs: Iterable[CostPair]) -> dict[str, RateKey]:
    """What every rate that prices a side of the pairs is for, by rate id, with its corrections."""
    return keys_of_rates(
        connection,
        {
            UUID(line.rate_id)
            for pair in pairs
            for window in (pair.past_window, pair.new_window)
            if window is not None
            for line in window.lines
        },
    )


def keys_of_rates(connection: Connection, rate_ids: Collection[UUID]) -> dict[str, RateKey]:
    """What the rates and their corrections are for, by rate id."""
    needed = set(rate_ids)
    found: dict[str, RateKey] = {}
    while needed:
        rows = histories.list_rates(connection, needed)
        found |= {
            str(row.id): RateKey(
                gpu_type=row.gpu_type,
                cost_center=row.cost_center,
                superseded_by=None if row.superseded_by is None else str(row.superseded_by),
            )
            for row in rows
        }
        needed = {row.superseded_by for row in rows if row.superseded_by is not None}
        needed = {rate_id for rate_id in needed if str(rate_id) not in found}
    return found
