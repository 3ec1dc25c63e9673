"""What the runs of a history are priced with: each batch's first pricing, or its newest."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from msgspec import Struct

from service.db import histories, pricings
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.prices import FIRST_PRICING, Windows
from service.reports.pricing import PricedWindow


class RunPrices(Struct, frozen=True, kw_only=True):
    """One pricing of a batch."""

    number: int
    currency: str | None
    windows: dict[UUID, PricedWindow]


def read_run_prices(
    connection: Connection,
    actor: Actor,
    batch_ids: Sequence[UUID],
    *,
    which: Literal["first", "newest"],
    made_by: datetime | None = None,
    item_ids: Collection[UUID] | None = None,
) -> dict[UUID, RunPrices]:
    """The first or the newest pricing of each batch, of those that were made by then.

    None is read for an actor that may not see money. `item_ids`: only their windows.
    """
    if not batch_ids or not actor.sees_costs:
        return {}
    known = Windows()
    chosen: dict[UUID, Row[Any]] = {}
    for row in pricings.list_pricings(connection, batch_ids):
        if made_by is not None and row.rates_as_of > made_by:
            continue
        if which == "newest" or row.sequence == FIRST_PRICING:
            chosen[row.batch_id] = row
    lines: dict[UUID, dict[UUID, list[Row[Any]]]] = {row.id: {} for row in chosen.values()}
    for line in histories.list_lines(connection, list(lines), item_ids):
        lines[line.pricing_id].setdefault(line.item_id, []).append(line)
    return {
        batch_id: RunPrices(
            number=row.sequence,
            currency=row.currency,
            windows={item: known.of(found) for item, found in lines[row.id].items()},
        )
        for batch_id, row in chosen.items()
    }
