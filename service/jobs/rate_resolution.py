"""Which rate prices a day, why, and which others do not."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

from msgspec import Struct

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.rates import RateKey
from service.jobs.actors import Actor
from service.jobs.rate_approvals import is_current, pricing_rows
from service.jobs.rate_documents import LossCode, LostCandidate, ResolutionOut
from service.jobs.rate_entries import rate_out
from service.jobs.rate_overlaps import span_of


class Candidates(Struct, frozen=True, kw_only=True):
    """The rows of one key that were recorded by the moment asked for, and those that price."""

    known: list[Row[Any]]
    pricing: list[Row[Any]]

    def on(self, day: date) -> list[Row[Any]]:
        """Those that price the day: one or none."""
        return [row for row in self.pricing if _on(row, day)]


NONE = Candidates(known=[], pricing=[])


def resolve_rate(
    connection: Connection, actor: Actor, key: RateKey, *, on: date, as_of: datetime | None = None
) -> ResolutionOut:
    """The rate that prices `on`, as known at the recorded moment `as_of` (now when None).

    A rate of exactly the key's cost centre wins over one without a cost centre. A superseded
    rate prices nothing, but where the team demands approval (now) it does so until its correction
    is approved, and what nobody has approved prices nothing (`rate_approvals`). `lost` names the
    rates of the day that did not win; where a cost centre has none on the day, the ones nearest
    to it.
    """
    demanded = rows.approval_required(connection, actor.team_id)
    none = RateKey(gpu_type=key.gpu_type, currency=key.currency, cost_center=None)
    general = _candidates(connection, actor, none, as_of, demanded=demanded)
    exact = NONE
    if key.cost_center is not None:
        exact = _candidates(connection, actor, key, as_of, demanded=demanded)
    contenders = [*exact.on(on), *general.on(on)]
    winner = contenders[0] if contenders else None
    lost = [
        _lost(row, "less_specific", f"a rate of cost center {key.cost_center!r} is valid too")
        for row in contenders[1:]
    ]
    others = [
        row
        for part in (exact, general)
        for row in part.known
        if _on(row, on) and row not in part.pricing
    ]
    lost += [
        _lost(row, "superseded", f"it was corrected by {row.superseded_by}")
        for row in others
        if not is_current(row, as_of)
    ]
    waiting = [row for row in others if is_current(row, as_of)]
    lost += [_lost(row, "awaits_approval", _why_waiting(row)) for row in waiting]
    lost += [*_nearest(exact.pricing, on), *_nearest(general.pricing, on)]
    code, detail = _why(key, on, winner)
    if winner is not None and not is_current(winner, as_of):
        detail += f"; its correction {winner.superseded_by} is not approved yet"
    if waiting:
        names = ", ".join(str(row.id) for row in waiting)
        detail += f"; {len(waiting)} recorded rate(s) of the day wait for approval: {names}"
    return ResolutionOut(
        gpu_type=key.gpu_type,
        currency=key.currency,
        cost_center=key.cost_center,
        on=on,
        as_of=as_of,
        rate=None if winner is None else rate_out(winner),
        code=code,
        detail=detail,
        lost=lost,
    )


def _candidates(
    connection: Connection, actor: Actor, key: RateKey, as_of: datetime | None, *, demanded: bool
) -> Candidates:
    found = rows.list_of_key(connection, actor.team_id, key, include_superseded=True)
    return Candidates(
        known=[row for row in found if as_of is None or row.recorded_at <= as_of],
        pricing=pricing_rows(found, as_of, approval_required=demanded),
    )


def _on(row: Row[Any], on: date) -> bool:
    return row.valid_from <= on and (row.valid_until is None or row.valid_until > on)


def _why_waiting(row: Row[Any]) -> str:
    return (
        f"it was recorded by {row.recorded_by} and waits for the approval of another person, "
        "which the team demands"
    )


def _nearest(pricing: Sequence[Row[Any]], on: date) -> list[LostCandidate]:
    """The pricing rates just before and just after the day, where none is valid on it."""
    if any(_on(row, on) for row in pricing):
        return []
    ended = [row for row in pricing if row.valid_from <= on]
    later = [row for row in pricing if row.valid_from > on]
    return [
        *(_lost(row, "ended", f"it ended before {row.valid_until}") for row in ended[-1:]),
        *(_lost(row, "not_started", f"it starts on {row.valid_from}") for row in later[:1]),
    ]


def _lost(row: Row[Any], code: LossCode, why: str) -> LostCandidate:
    return LostCandidate(rate=rate_out(row), code=code, detail=f"{span_of(row).text()}: {why}")


def _why(
    key: RateKey, on: date, winner: Row[Any] | None
) -> tuple[Literal["exact_cost_center", "no_cost_center", "no_rate"], str]:
    wanted = f"{key.currency} rate of {key.gpu_type!r}"
    center = f"cost center {key.cost_center!r}"
    if winner is None:
        scope = f"of {center} or of none " if key.cost_center else "without a cost center "
        return "no_rate", f"no {wanted} {scope}is valid on {on}"
    if winner.cost_center is not None:
        return "exact_cost_center", f"the {wanted} of {center} is valid on {on}; it wins"
    if key.cost_center is not None:
        return (
            "no_cost_center",
            f"no {wanted} of {center} is valid on {on}, so the one without a cost center is used",
        )
    return "no_cost_center", f"the {wanted} without a cost center is valid on {on}"
