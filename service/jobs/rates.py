"""Dated GPU-hour rates: record, read, list, and find those that price an item.

A rate is never changed or deleted. A correction (`rate_corrections`) records a new row and marks
the old one as superseded, so it can be said for ever what was known at which moment.
"""

from datetime import date, datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.rates import RateFilter, RateKey
from service.db.tables import utc_now
from service.errors import MalformedError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.page_tokens import make_token, read_token
from service.jobs.rate_approvals import pricing_rows
from service.jobs.rate_documents import RateIn, RateOut, RatePage
from service.jobs.rate_entries import (
    entry_faults,
    key_of,
    new_row,
    rate_out,
    refuse_faults,
    refuse_overlaps,
    require_row,
)
from service.jobs.rate_imports import import_rates
from service.reports.pricing import Rate

__all__ = ["create_rate", "import_rates", "list_page", "rates_for", "read_rate"]


def create_rate(connection: Connection, actor: Actor, document: RateIn) -> RateOut:
    """Record a rate.

    Raises `InvalidError` with every fault, and `ConflictError` with every rate of the same key
    that shares a day.
    """
    refuse_faults(entry_faults(document))
    key = key_of(document)
    rows.lock_keys(connection, actor.team_id, [key])
    refuse_overlaps(connection, actor, document)
    row = new_row(actor, document, utc_now())
    rows.insert_rates(connection, [row])
    rate = read_rate(connection, actor, row["id"])
    audit.record(
        connection, actor, action="create_rate", subject=f"gpu-hour-rate/{rate.id}", after=rate
    )
    return rate


def read_rate(connection: Connection, actor: Actor, rate_id: UUID) -> RateOut:
    """One rate, current or superseded; raises `NotFoundError`."""
    return rate_out(require_row(connection, actor, rate_id))


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: RateFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> RatePage:
    """A page of rates by key and first day; raises `MalformedError` for a foreign token."""
    query = ["rates", msgspec.to_builtins(wanted)]
    after = read_token(page_token, query, tuple[str, str, str, date, UUID])
    if after is not None and "\0" in "".join(after[:3]):
        raise MalformedError("page_token is none of ours")
    found = rows.list_rates(connection, actor.team_id, wanted, after=after, limit=page_size + 1)
    shown = found[:page_size]
    token = None
    if len(found) > page_size:
        last = shown[-1]
        position = (last.gpu_type, last.currency, last.cost_center or "", last.valid_from, last.id)
        token = make_token(query, position)
    return RatePage(items=[rate_out(row) for row in shown], next_page_token=token)


def rates_for(
    connection: Connection,
    team_id: UUID,
    gpu_type: str,
    currency: str,
    cost_center: str | None,
    *,
    as_of: datetime | None = None,
) -> list[Rate]:
    """The rates that may price an item, those of its cost centre first, then those of none.

    On a day that both price, the one of the cost centre wins (`reports.pricing.price_days`).
    With `as_of` the rates as they were known at that recorded moment. Where the team demands
    approval (now), only approved rates: see `rate_approvals`.
    """
    key = RateKey(gpu_type=gpu_type, currency=currency, cost_center=cost_center)
    if rows.approval_required(connection, team_id):
        known = _approved(connection, team_id, key, as_of)
    else:
        known = rows.list_known(connection, team_id, key, as_of=as_of)
    return [
        Rate(
            id=str(row.id),
            price=row.amount,
            valid_from=row.valid_from,
            valid_until=row.valid_until,
            cost_center=row.cost_center,
        )
        for row in known
    ]


def _approved(
    connection: Connection, team_id: UUID, key: RateKey, as_of: datetime | None
) -> list[Row[Any]]:
    keys = [key] if key.cost_center is None else [key, replace(key, cost_center=None)]
    found = [rows.list_of_key(connection, team_id, part, include_superseded=True) for part in keys]
    return [row for part in found for row in pricing_rows(part, as_of, approval_required=True)]
