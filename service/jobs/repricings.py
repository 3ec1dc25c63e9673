"""The pricings of a batch: the one made when it ended, and later ones with the rates of then.

What a batch was first priced with is shown for ever; another pricing is another view, asked for
by its number (design page "Decisions", 15).
"""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from service.db import batches
from service.db.engine import Connection
from service.errors import FieldFault, InvalidError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.batch_documents import Currency
from service.jobs.batch_ends import price_batch
from service.jobs.batches import no_batch, require_batch, require_finished
from service.jobs.cost_access import require_costs
from service.jobs.prices import BatchPrices, read_all_prices, read_prices
from service.reports.money import CostStatus, MoneyError, minor_digits
from service.reports.pricing import cost_status


class RepricingIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to price the batch again."""

    currency: (
        Annotated[Currency, Meta(description="Default: the currency of the batch.")] | None
    ) = None


class PricingOut(Struct, frozen=True, kw_only=True):
    """One pricing of a batch; `pricing` is its number in `pricing=` of results and exports."""

    pricing: int
    currency: str | None
    rates_as_of: datetime
    created_by: str
    items_priced: int
    items_partly_priced: int
    items_without_rate: int


class PricingList(Struct, frozen=True, kw_only=True):
    """All pricings of a batch, the first one first."""

    items: list[PricingOut]


def reprice(
    connection: Connection, actor: Actor, batch_id: UUID, document: RepricingIn
) -> PricingOut:
    """Price an ended batch with the rates that are current now.

    The batch gets a new version: its document shows when its newest rates were read.

    Raises `ForbiddenError` unless the actor sees money, `NotFoundError`, `ConflictError` for a
    batch that has not ended, and `InvalidError` without a currency or with an unknown one.
    """
    require_costs(actor, "to price a batch")
    batch = require_finished(connection, actor, batch_id)
    currency = document.currency or batch.currency
    if currency is None:
        detail = f"batch {batch_id} has no currency: name one"
        raise InvalidError(
            detail, errors=[FieldFault(pointer="/currency", code="missing_field", detail=detail)]
        )
    try:
        minor_digits(currency)
    except MoneyError as error:
        fault = FieldFault(pointer="/currency", code=error.code, detail=str(error))
        raise InvalidError(str(error), errors=[fault]) from error
    # Before anything is read that another pricing may write: they get their numbers in turn.
    if not batches.begin_change(connection, batch_id):
        raise no_batch(batch_id)
    items = batches.list_items(connection, [batch_id])
    now = datetime.now(UTC)
    number = price_batch(connection, batch, items, currency=currency, now=now, actor=actor.name)
    made = _out(read_prices(connection, actor, [batch_id], sequence=number)[batch_id])
    audit.record(
        connection,
        actor,
        action="reprice_batch",
        subject=f"scenario-batch/{batch_id}",
        after=made,
        detail=f"pricing {made.pricing} in {currency}",
    )
    return made


def list_pricings(connection: Connection, actor: Actor, batch_id: UUID) -> PricingList:
    """All pricings of the batch; none before it ends.

    Raises `ForbiddenError` unless the actor sees money, and `NotFoundError`.
    """
    require_costs(actor, "to look at the pricings of a batch")
    require_batch(connection, actor, batch_id)
    return PricingList(items=[_out(prices) for prices in read_all_prices(connection, batch_id)])


def _out(prices: BatchPrices) -> PricingOut:
    statuses = [
        cost_status(item.window if item.currency else None) for item in prices.by_item.values()
    ]
    return PricingOut(
        pricing=prices.sequence,
        currency=prices.currency,
        rates_as_of=prices.rates_as_of,
        created_by=prices.created_by,
        items_priced=statuses.count(CostStatus.PRICED),
        items_partly_priced=statuses.count(CostStatus.PARTLY_PRICED),
        items_without_rate=statuses.count(CostStatus.NO_RATE),
    )
