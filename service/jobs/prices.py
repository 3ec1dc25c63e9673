"""What stored batches are priced with: the kept rate lines, read back as priced windows."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from uuid import UUID

from msgspec import Struct

from service.db import pricings
from service.db.engine import Connection, Row
from service.reports.pricing import PricedWindow, RateLine, mean_price


class ItemPrice(Struct, frozen=True, kw_only=True):
    """The priced window of an item, in the batch's currency (None: no currency was asked for)."""

    currency: str | None
    window: PricedWindow

    @property
    def price(self) -> Fraction | None:
        """Exact mean price per GPU-hour; None where a day has no rate."""
        return None if self.currency is None else mean_price(self.window)


class BatchPrices(Struct, frozen=True, kw_only=True):
    """The newest pricing of a batch: per item, and when its rates were read."""

    rates_as_of: Any
    sequence: int
    currency: str | None
    by_item: dict[UUID, ItemPrice]


def read_prices(
    connection: Connection, batch_ids: Sequence[UUID], *, sequence: int | None = None
) -> dict[UUID, BatchPrices]:
    """The newest pricing of each batch, or the numbered one; batches without one are left out."""
    headers: dict[UUID, Row[Any]] = {}
    for row in pricings.list_pricings(connection, batch_ids):
        if sequence is None or row.sequence == sequence:
            headers[row.batch_id] = row
    lines: dict[UUID, dict[UUID, list[Row[Any]]]] = {}
    for line in pricings.list_lines(connection, [row.id for row in headers.values()]):
        lines.setdefault(line.pricing_id, {}).setdefault(line.item_id, []).append(line)
    return {
        batch_id: BatchPrices(
            rates_as_of=header.rates_as_of,
            sequence=header.sequence,
            currency=header.currency,
            by_item={
                item_id: ItemPrice(currency=header.currency, window=_window(rows))
                for item_id, rows in lines.get(header.id, {}).items()
            },
        )
        for batch_id, header in headers.items()
    }


def _window(rows: Sequence[Row[Any]]) -> PricedWindow:
    return PricedWindow(
        lines=tuple(
            RateLine(rate_id=str(row.rate_id), price=row.amount, days=row.num_days)
            for row in rows
            if row.rate_id is not None
        ),
        unpriced_days=sum(row.num_days for row in rows if row.rate_id is None),
    )
