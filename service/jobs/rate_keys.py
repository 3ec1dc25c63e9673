"""What the rates are for that price two sides."""

from collections.abc import Iterable
from uuid import UUID

from service.db import histories
from service.db.engine import Connection
from service.reports.cost_changes import CostPair
from service.reports.price_causes import RateKey


def keys_of(connection: Connection, pairs: Iterable[CostPair]) -> dict[str, RateKey]:
    """GPU type and cost center of every rate that prices a side of the pairs, by rate id."""
    needed = {
        UUID(line.rate_id)
        for pair in pairs
        for window in (pair.past_window, pair.new_window)
        if window is not None
        for line in window.lines
    }
    return {
        str(row.id): RateKey(gpu_type=row.gpu_type, cost_center=row.cost_center)
        for row in histories.list_rates(connection, needed)
    }
