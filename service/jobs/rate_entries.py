"""What every way of recording a rate shares: the rules of one rate, and its row."""

from datetime import date, datetime
from typing import Any
from uuid import UUID

import uuid_utils.compat

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.rates import RateKey
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs.actors import Actor
from service.jobs.labels import label_faults
from service.jobs.rate_documents import RateIn, RateOut
from service.jobs.rate_overlaps import overlapping
from service.reports.money import Money, MoneyError, parse_price


def entry_faults(rate: RateIn) -> list[FieldFault]:
    """All rules that one rate breaks by itself."""
    faults = label_faults(
        {
            "/gpu_type": rate.gpu_type,
            "/cost_center": rate.cost_center,
            "/source": rate.source,
            "/reason": rate.reason,
        }
    )
    try:
        parse_price(rate.price_per_gpu_hour)
    except MoneyError as error:
        pointer = f"/price_per_gpu_hour/{error.field}"
        faults.append(FieldFault(pointer=pointer, code=error.code, detail=str(error)))
    if rate.valid_from == date.max:
        # An open end is counted as this day, so nothing can start on it.
        detail = f"valid_from must be before {date.max}"
        faults.append(FieldFault(pointer="/valid_from", code="out_of_range", detail=detail))
    if rate.valid_until is not None and rate.valid_until <= rate.valid_from:
        faults.append(
            FieldFault(
                pointer="/valid_until",
                code="empty_validity",
                detail=f"valid_until is {rate.valid_until}, but must be after valid_from "
                f"{rate.valid_from}: it is the first day without the rate",
            )
        )
    return faults


def key_of(rate: RateIn) -> RateKey:
    """The key that the rate belongs to."""
    return RateKey(
        gpu_type=rate.gpu_type,
        currency=rate.price_per_gpu_hour.currency,
        cost_center=rate.cost_center,
    )


def new_row(actor: Actor, rate: RateIn, recorded_at: datetime) -> dict[str, Any]:
    """The row of a rate that breaks no rule."""
    return {
        "id": uuid_utils.compat.uuid7(),
        "team_id": actor.team_id,
        "created_at": recorded_at,
        "created_by": actor.name,
        "updated_at": recorded_at,
        "gpu_type": rate.gpu_type,
        "cost_center": rate.cost_center,
        "currency": rate.price_per_gpu_hour.currency,
        "amount": parse_price(rate.price_per_gpu_hour),
        "valid_from": rate.valid_from,
        "valid_until": rate.valid_until,
        "source": rate.source,
        "reason": rate.reason,
        "recorded_at": recorded_at,
        "recorded_by": actor.name,
    }


def rate_out(row: Row[Any]) -> RateOut:
    """The document of a stored rate."""
    price = Money(amount=format(row.amount, "f"), currency=row.currency)
    stored = {
        name: getattr(row, name)
        for name in RateOut.__struct_fields__
        if name != "price_per_gpu_hour"
    }
    return RateOut(price_per_gpu_hour=price, **stored)


def require_row(connection: Connection, actor: Actor, rate_id: UUID) -> Row[Any]:
    """The stored rate, current or superseded; raises `NotFoundError`."""
    row = rows.get_rate(connection, actor.team_id, rate_id)
    if row is None:
        raise NotFoundError(f"there is no GPU-hour rate {rate_id}")
    return row


def locked_row(connection: Connection, actor: Actor, rate_id: UUID) -> tuple[RateKey, Row[Any]]:
    """The key and the stored rate; no other writer of the key until the transaction ends.

    Raises `NotFoundError`.
    """
    unlocked = require_row(connection, actor, rate_id)
    key = RateKey(
        gpu_type=unlocked.gpu_type, currency=unlocked.currency, cost_center=unlocked.cost_center
    )
    rows.lock_keys(connection, actor.team_id, [key])
    # Again: another writer may have changed it before the lock was ours.
    return key, require_row(connection, actor, rate_id)


def stale(rate_id: UUID) -> PreconditionFailedError:
    """What a change of another version than the current one is refused with."""
    return PreconditionFailedError(
        f"the rate {rate_id} has changed since it was read; read it again"
    )


def refuse_faults(faults: list[FieldFault]) -> None:
    """Raise `InvalidError` with the faults, where there are any."""
    if faults:
        detail = faults[0].detail if len(faults) == 1 else f"{len(faults)} fields break a rule"
        raise InvalidError(detail, errors=faults)


def refuse_overlaps(
    connection: Connection, actor: Actor, rate: RateIn, *, but: UUID | None = None
) -> None:
    """Raise `ConflictError` with every stored rate of the key that shares a day.

    The caller holds the lock of the key; `but` is the rate that is about to be superseded.
    """
    current = rows.list_of_key(connection, actor.team_id, key_of(rate))
    if clashes := overlapping(current, rate, but=but):
        center = f" and cost center {rate.cost_center!r}" if rate.cost_center else ""
        raise ConflictError(
            f"{len(clashes)} other rate(s) of {rate.gpu_type!r} in "
            f"{rate.price_per_gpu_hour.currency}{center} are valid on days of the new one; "
            "end them first with a correction",
            errors=clashes,
        )
