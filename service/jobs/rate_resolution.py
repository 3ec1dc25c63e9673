"""Which rate prices a day, why, and which others do not."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal

from service.db import rates as rows
from service.db.engine import Connection, Row
from service.db.rates import RateKey
from service.jobs.actors import Actor
from service.jobs.rate_documents import LostCandidate, ResolutionOut
from service.jobs.rate_entries import rate_out
from service.jobs.rate_overlaps import span_of

LossCode = Literal["less_specific", "superseded", "ended", "not_started"]


def resolve_rate(
    connection: Connection, actor: Actor, key: RateKey, *, on: date, as_of: datetime | None = None
) -> ResolutionOut:
    """The rate that prices `on`, as known at the recorded moment `as_of` (now when None).

    A rate of exactly the key's cost centre wins over one without a cost centre. A superseded
    rate never prices anything. `lost` names the rates of the day that did not win; where a cost
    centre has none on the day, the ones nearest to it.
    """
    exact = _known(connection, actor, key, as_of) if key.cost_center is not None else []
    none = RateKey(gpu_type=key.gpu_type, currency=key.currency, cost_center=None)
    general = _known(connection, actor, none, as_of)
    contenders = [row for row in (*exact, *general) if _is_current(row, as_of) and _on(row, on)]
    winner = contenders[0] if contenders else None
    lost = [
        _lost(row, "less_specific", f"a rate of cost center {key.cost_center!r} is valid too")
        for row in contenders[1:]
    ]
    lost += [
        _lost(row, "superseded", f"it was corrected by {row.superseded_by}")
        for row in (*exact, *general)
        if not _is_current(row, as_of) and _on(row, on)
    ]
    lost += [*_nearest(exact, on, as_of), *_nearest(general, on, as_of)]
    code, detail = _why(key, on, winner)
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


def _known(
    connection: Connection, actor: Actor, key: RateKey, as_of: datetime | None
) -> list[Row[Any]]:
    found = rows.list_of_key(connection, actor.team_id, key, include_superseded=True)
    return [row for row in found if as_of is None or row.recorded_at <= as_of]


def _is_current(row: Row[Any], as_of: datetime | None) -> bool:
    if row.superseded_at is None:
        return True
    return as_of is not None and row.superseded_at > as_of


def _on(row: Row[Any], on: date) -> bool:
    return row.valid_from <= on and (row.valid_until is None or row.valid_until > on)


def _nearest(found: Sequence[Row[Any]], on: date, as_of: datetime | None) -> list[LostCandidate]:
    """The current rates just before and just after the day, where none is valid on it."""
    current = [row for row in found if _is_current(row, as_of)]
    if any(_on(row, on) for row in current):
        return []
    ended = [row for row in current if row.valid_from <= on]
    later = [row for row in current if row.valid_from > on]
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
