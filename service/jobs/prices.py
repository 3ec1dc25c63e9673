"""What stored batches are priced with: the kept rate lines, read back as priced windows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from msgspec import Struct

from service.db import pricings
from service.db.engine import Connection, Row
from service.errors import NotFoundError
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.reports.pricing import PricedWindow, RateLine, mean_price

FIRST_PRICING = 1
"""The pricing that a batch gets when it ends; shown unless another is asked for."""


class ItemPrice(Struct, frozen=True, kw_only=True):
    """The priced window of an item, in the pricing's currency (None: none was asked for)."""

    currency: str | None
    window: PricedWindow

    @property
    def price(self) -> Fraction | None:
        """Exact mean price per GPU-hour; None where a day has no rate."""
        return None if self.currency is None else mean_price(self.window)


class BatchPrices(Struct, frozen=True, kw_only=True):
    """One pricing of a batch: per item, and when its rates were read."""

    rates_as_of: datetime
    created_by: str
    sequence: int
    currency: str | None
    by_item: dict[UUID, ItemPrice]


def read_prices(
    connection: Connection,
    actor: Actor,
    batch_ids: Sequence[UUID],
    *,
    sequence: int = FIRST_PRICING,
) -> dict[UUID, BatchPrices]:
    """The numbered pricing of each batch; batches without it are left out.

    None is read for an actor that may not see money: what is made from the answer cannot show any.
    Then only the first pricing may be asked for (`ForbiddenError`), since whether there are others
    would tell of money.
    """
    if sequence != FIRST_PRICING:
        require_costs(actor, f"pricing {sequence}")
    if not batch_ids or not actor.sees_costs:
        return {}
    headers = [
        row for row in pricings.list_pricings(connection, batch_ids) if row.sequence == sequence
    ]
    found = _with_lines(connection, headers)
    return {row.batch_id: prices for row, prices in zip(headers, found, strict=True)}


def require_pricing(prices: Mapping[UUID, BatchPrices], batch_id: UUID, sequence: int) -> None:
    """Raise `NotFoundError` for a repricing that was never made.

    The first may be missing: a batch that was canceled while it waited has none.
    """
    if sequence != FIRST_PRICING and batch_id not in prices:
        raise NotFoundError(f"batch {batch_id} has no pricing {sequence}")


def read_all_prices(connection: Connection, batch_id: UUID) -> list[BatchPrices]:
    """All pricings of a batch, the first one first."""
    return _with_lines(connection, pricings.list_pricings(connection, [batch_id]))


def _with_lines(connection: Connection, headers: Sequence[Row[Any]]) -> list[BatchPrices]:
    windows = Windows()
    lines: dict[UUID, dict[UUID, list[Row[Any]]]] = {}
    for line in pricings.list_lines(connection, [row.id for row in headers]):
        lines.setdefault(line.pricing_id, {}).setdefault(line.item_id, []).append(line)
    return [
        BatchPrices(
            rates_as_of=header.rates_as_of,
            created_by=header.created_by,
            sequence=header.sequence,
            currency=header.currency,
            by_item={
                item_id: ItemPrice(currency=header.currency, window=windows.of(rows))
                for item_id, rows in lines.get(header.id, {}).items()
            },
        )
        for header in headers
    ]


class Windows:
    """Priced windows of many items, made once where they are equal: most of a batch's are."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], PricedWindow] = {}

    def of(self, rows: Sequence[Row[Any]]) -> PricedWindow:
        """The priced window of an item from its lines, in their order."""
        key = tuple([(row.rate_id, row.amount, row.num_days) for row in rows])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _window(rows)
        return found


def _window(rows: Sequence[Row[Any]]) -> PricedWindow:
    return PricedWindow(
        lines=tuple(
            RateLine(rate_id=str(row.rate_id), price=row.amount, days=row.num_days)
            for row in rows
            if row.rate_id is not None
        ),
        unpriced_days=sum(row.num_days for row in rows if row.rate_id is None),
    )
