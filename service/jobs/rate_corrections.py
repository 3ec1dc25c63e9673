"""Corrections of dated rates: a new row supersedes the old one, and the old one stays."""

from typing import Any, TypeVar
from uuid import UUID

from msgspec import UNSET, UnsetType

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.tables import utc_now
from service.errors import ConflictError, FieldFault
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.rate_documents import CorrectionIn, RateIn, RateOut
from service.jobs.rate_entries import (
    entry_faults,
    locked_row,
    new_row,
    rate_out,
    refuse_faults,
    refuse_overlaps,
    require_row,
    stale,
)
from service.reports.money import Money

V = TypeVar("V")


def correct_rate(
    connection: Connection, actor: Actor, rate_id: UUID, document: CorrectionIn, *, version: int
) -> RateOut:
    """Record what the rate should have said; the old row stays, marked as superseded.

    Raises `ForbiddenError` unless the actor also sees money (the answer holds what is not
    corrected), `NotFoundError`, `PreconditionFailedError`, `ConflictError` when it was corrected
    already or the corrected days overlap another rate, `InvalidError` with every fault.
    """
    require_costs(actor, "to correct a rate")
    _, old = locked_row(connection, actor, rate_id)
    if old.version != version:
        raise stale(rate_id)
    if old.superseded_at is not None:
        raise ConflictError(
            f"the rate {rate_id} was corrected before; correct {old.superseded_by} instead"
        )
    corrected = _corrected(old, document)
    refuse_faults(entry_faults(corrected) + _moved_key(old, corrected))
    refuse_overlaps(connection, actor, corrected, but=rate_id)
    row = new_row(actor, corrected, utc_now())
    rows.insert_rates(connection, [row])
    if not rows.supersede(
        connection, rate_id, version=version, by=row["id"], moment=row["recorded_at"]
    ):
        raise stale(rate_id)
    rate = rate_out(require_row(connection, actor, row["id"]))
    audit.record(
        connection,
        actor,
        action="correct_rate",
        subject=f"gpu-hour-rate/{rate_id}",
        before=rate_out(old),
        after=rate,
        detail=f"superseded by {rate.id}",
    )
    return rate


def _corrected(old: Row[Any], document: CorrectionIn) -> RateIn:
    price = Money(amount=format(old.amount, "f"), currency=old.currency)
    return RateIn(
        gpu_type=old.gpu_type,
        cost_center=old.cost_center,
        price_per_gpu_hour=_given(document.price_per_gpu_hour, price),
        valid_from=_given(document.valid_from, old.valid_from),
        valid_until=_given(document.valid_until, old.valid_until),
        source=_given(document.source, old.source),
        reason=document.reason,
    )


def _given(value: V | UnsetType, otherwise: V) -> V:
    return otherwise if value is UNSET else value


def _moved_key(old: Row[Any], corrected: RateIn) -> list[FieldFault]:
    currency = corrected.price_per_gpu_hour.currency
    if currency == old.currency:
        return []
    return [
        FieldFault(
            pointer="/price_per_gpu_hour/currency",
            code="currency_changed",
            detail=f"the rate is in {old.currency}; a price in {currency!r} "
            "is another rate: add it",
        )
    ]
