"""Approval of dated rates by a second person, and which rates price where a team demands it.

Without the demand (`team.rate_approval_required`) a rate prices from when it is recorded until it
is corrected, and an approval is a remark. With it, of each rate and its corrections the newest
approved row prices, whatever was recorded after it: an unapproved correction changes nothing, and
a rate that nobody has approved prices nothing. See `.github/decisions/0009-rate-approval.md`.

Batches keep what they were priced with when they ended; neither an approval nor the demand
changes that.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.rates import RateKey
from service.errors import ConflictError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.rate_documents import RateOut
from service.jobs.rate_entries import locked_row, rate_out, require_row, stale
from service.jobs.rate_overlaps import clashes, span_of

# The end of an actor's name: the id of the key, or of the person at the issuer
_ID = re.compile(r"\[[^\[\]]+\]$")


def approve_rate(connection: Connection, actor: Actor, rate_id: UUID, *, version: int) -> RateOut:
    """Approve a rate that somebody else has recorded; to repeat it is harmless.

    Raises `ForbiddenError` unless the actor also sees money, `NotFoundError`,
    `PreconditionFailedError`, and `ConflictError` when the actor has recorded it or is nobody in
    particular, when it was corrected or approved by another before, and when the days of another
    approved rate of its key are among its own.
    """
    require_costs(actor, "to approve a rate")
    key, old = locked_row(connection, actor, rate_id)
    _refuse_same_person(actor, old)
    if old.approved_by is not None and _identity(old.approved_by) == _identity(actor.name):
        return rate_out(old)
    if old.version != version:
        raise stale(rate_id)
    _refuse_settled(old)
    _refuse_overlaps(connection, actor, key, old)
    if not rows.approve(connection, rate_id, version=version, by=actor.name):
        raise stale(rate_id)
    rate = rate_out(require_row(connection, actor, rate_id))
    audit.record(
        connection,
        actor,
        action="approve_rate",
        subject=f"gpu-hour-rate/{rate_id}",
        before=rate_out(old),
        after=rate,
        detail=f"recorded by {rate.recorded_by}",
    )
    return rate


def pricing_rows(
    found: Sequence[Row[Any]], as_of: datetime | None, *, approval_required: bool
) -> list[Row[Any]]:
    """The rows that price, of all rows of one or more keys, as known at that moment (None: now).

    No two of them share a day: what is current never does, and what is approved is held against
    that when it is approved.
    """
    if approval_required:
        return _newest_approved(found, as_of)
    return [row for row in found if _is_recorded(row, as_of) and is_current(row, as_of)]


def is_current(row: Row[Any], as_of: datetime | None) -> bool:
    """Whether the row had not been corrected by then (None: by now)."""
    if row.superseded_at is None:
        return True
    return as_of is not None and row.superseded_at > as_of


def _newest_approved(found: Sequence[Row[Any]], as_of: datetime | None) -> list[Row[Any]]:
    """Approved rows of which no correction, nor a correction of that, is approved."""
    approved = [row for row in found if _is_approved(row, as_of)]
    outdone = _corrected([row.id for row in approved], found)
    return [row for row in approved if row.id not in outdone]


def _corrected(ids: Sequence[UUID], found: Sequence[Row[Any]]) -> set[UUID]:
    """The rows that rows of these ids correct, directly or through others."""
    former = {row.superseded_by: row.id for row in found}
    corrected: set[UUID] = set()
    for row_id in ids:
        place = former.get(row_id)
        while place is not None and place not in corrected:
            corrected.add(place)
            place = former.get(place)
    return corrected


def _is_approved(row: Row[Any], as_of: datetime | None) -> bool:
    return row.approved_at is not None and (as_of is None or row.approved_at <= as_of)


def _is_recorded(row: Row[Any], as_of: datetime | None) -> bool:
    return as_of is None or row.recorded_at <= as_of


def _refuse_same_person(actor: Actor, old: Row[Any]) -> None:
    if actor.is_local:
        raise ConflictError(
            "a rate is approved by another person than the one who recorded it, but as long as no "
            "API key exists nobody is known here: make keys first (trainard key create)",
            problem="own-rate",
        )
    if _identity(old.recorded_by) == _identity(actor.name):
        raise ConflictError(
            f"{actor.name} has recorded the rate {old.id}: another person must approve it",
            problem="own-rate",
        )


def _identity(name: str) -> str:
    """What does not change of a stored name when its owner takes another: `… [<id of the key>]`."""
    found = _ID.search(name)
    return found[0] if found else name


def _refuse_settled(old: Row[Any]) -> None:
    if old.superseded_at is not None:
        raise ConflictError(
            f"the rate {old.id} was corrected before; approve {old.superseded_by} instead"
        )
    if old.approved_by is not None:
        raise ConflictError(f"the rate {old.id} was approved before, by {old.approved_by}")


def _refuse_overlaps(connection: Connection, actor: Actor, key: RateKey, old: Row[Any]) -> None:
    """Of a key at most one approved rate prices a day.

    Recorded rates never share a day, but a rate whose correction waits still prices: the days
    that the correction gives away are free only when it is approved.
    """
    found = rows.list_of_key(connection, actor.team_id, key, include_superseded=True)
    own = _corrected([old.id], found)
    others = [row for row in _newest_approved(found, None) if row.id not in own]
    if faults := clashes(others, span_of(old)):
        raise ConflictError(
            f"the rate {old.id} cannot be approved: {len(faults)} approved rate(s) still price "
            "days of it, because their corrections wait for approval; approve those first",
            errors=faults,
        )
