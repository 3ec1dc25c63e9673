"""Attempts at deliveries: who may send what now, and what becomes of it afterwards.

A delivery is taken by a lease in a short transaction, sent outside of any, and its outcome
recorded in another one. Whoever is killed in between loses the lease to somebody else, who sends
the same message again.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec import Struct

from service.db import deliveries as rows
from service.db import webhook_endpoints
from service.db.engine import Connection, Row
from service.jobs import audit
from service.jobs.delivery_places import Lane, Turns, lane_of
from service.jobs.reason_sentences import say
from service.jobs.webhook_payloads import with_public_links

LEASE_S: Final = 60.0
# Pauses after each failed attempt: 14 attempts in about a day.
DELAYS_S: Final = (5, 30, 120, 300, 900, 1_800, 3_600, 7_200, *(14_400,) * 5)
JITTER_FRACTION: Final = 0.2
MAX_RETRY_AFTER_S: Final = 6 * 3_600
# No attempt begins later than so long after the first one of its round.
GIVE_UP_S: Final = 26 * 3_600
# An endpoint that so many messages in a row were given up for is disabled.
MAX_DEAD_IN_A_ROW: Final = 10
MAX_ERROR_LENGTH: Final = 500
MAX_ANSWER_LENGTH: Final = 1_000

log = structlog.get_logger()


class Claim(Struct, frozen=True, kw_only=True):
    """A delivery that this process may send until `until`; `endpoint` of webhooks only."""

    delivery: Any
    endpoint: Any | None
    payload: bytes | None
    claimed_by: str

    @property
    def lane(self) -> Lane:
        """What it shares its places with."""
        return lane_of(self.delivery)


class Sent(Struct, frozen=True, kw_only=True):
    """What came of an attempt.

    - `is_permanent`: no repetition would help; `is_gone`: the endpoint wants no more (410);
    - `outcome`, `files_expire_at`: as the columns of the delivery, None leaves them.
    """

    is_delivered: bool
    status: int | None = None
    error: str | None = None
    answer: str | None = None
    retry_after_s: float | None = None
    is_permanent: bool = False
    is_gone: bool = False
    outcome: dict[str, Any] | None = None
    files_expire_at: datetime | None = None


def claim_due(
    connection: Connection,
    now: datetime,
    *,
    claimed_by: str,
    in_hand: Iterable[Lane],
    busy: Collection[UUID],
    waiting: Sequence[Row[Any]],
    public_url: str = "",
) -> list[Claim]:
    """Take what is due and has a place, in turns between the teams; `in_hand`, `busy` are sent now.

    `waiting` was due a moment ago (`rows.list_due`): looking for it is left out of the lock.
    What waits for an endpoint that is disabled, deleted or takes no money any more is canceled.
    """
    turns = Turns(in_hand)
    found: list[Claim] = []
    left = list(waiting)
    while True:
        chosen = []
        while (row := turns.next_of(left)) is not None:
            left.remove(row)
            turns.take(lane_of(row))
            chosen.append(row)
        # Of those that another process holds nothing comes back.
        held = {row.id: row for row in rows.lock_due(connection, now, [row.id for row in chosen])}
        num_ended = 0
        for row in chosen:
            claim = None
            if row.id in held:
                claim = _claimed(connection, held[row.id], claimed_by, public_url, now)
                num_ended += claim is None
            if claim is None:
                turns.give_back(lane_of(row))
            else:
                found.append(claim)
        if not num_ended:
            return found
        # What was canceled has left its places to others.
        left = rows.list_due(
            connection,
            now,
            kinds=turns.open_kinds,
            full_endpoints=turns.full_endpoints,
            busy=busy,
        )


def record(
    connection: Connection,
    claim: Claim,
    sent: Sent,
    *,
    started_at: datetime,
    now: datetime,
    jitter: Callable[[], float],
) -> None:
    """Write the attempt down, and what is next; `jitter` gives numbers from 0 to 1."""
    row = rows.lock_delivery(connection, claim.delivery.id)
    if row is None:
        return
    attempt = row.attempts + 1
    error = None if sent.error is None else sent.error[:MAX_ERROR_LENGTH]
    rows.add_attempt(
        connection,
        team_id=row.team_id,
        delivery_id=row.id,
        attempt=attempt,
        created_at=started_at,
        duration_ms=max(0, round((now - started_at).total_seconds() * 1000)),
        status=sent.status,
        error=error,
        answer=None if sent.answer is None else sent.answer[:MAX_ANSWER_LENGTH],
    )
    values: dict[str, Any] = {"attempts": attempt, "last_status": sent.status, "last_error": error}
    if sent.outcome is not None:
        values["outcome"] = sent.outcome
    if row.state == rows.PENDING:
        values |= _next(connection, row, claim, sent, now, jitter)
    rows.change_delivery(connection, row.id, **values)
    if values.get("state") == "dead":
        _after_death(connection, row, sent, now)


def pause_s(failed: int, retry_after_s: float | None, jitter: float) -> float | None:
    """Seconds until the next attempt after so many failed ones; None: there is no next.

    At least what the receiver asks for in Retry-After, up to six hours.
    """
    if failed > len(DELAYS_S):
        return None
    delay = DELAYS_S[failed - 1] * (1 + JITTER_FRACTION * (2 * jitter - 1))
    return max(delay, min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))


def _claimed(
    connection: Connection, row: Row[Any], claimed_by: str, public_url: str, now: datetime
) -> Claim | None:
    endpoint = None
    if row.kind == "webhook":
        found = row.endpoint_id and webhook_endpoints.find_endpoint(connection, row.endpoint_id)
        if not found or found.deleted_at is not None or found.disabled_at is not None:
            what = "disabled" if found and found.deleted_at is None else "deleted"
            _end(connection, row, say(f"endpoint_was_{what}"), now)
            return None
        if row.include_costs and not found.include_costs:
            # Whoever turned it so may not have been allowed to see what waits.
            _end(connection, row, say("endpoint_without_money"), now)
            return None
        endpoint = found
    payload = row.payload
    if payload is not None and public_url and row.attempts == 0 and row.first_attempt_at is None:
        # Before the first attempt and never again: the same bytes are sent each time.
        payload = with_public_links(payload, public_url)
    rows.claim(
        connection,
        row.id,
        claimed_by=claimed_by,
        claimed_until=now + timedelta(seconds=LEASE_S),
        first_attempt_at=row.first_attempt_at or now,
        payload=payload,
    )
    return Claim(delivery=row, endpoint=endpoint, payload=payload, claimed_by=claimed_by)


def _end(connection: Connection, row: Row[Any], error: str, now: datetime) -> None:
    rows.set_state(
        connection,
        row.id,
        "canceled",
        expected=(rows.PENDING,),
        ended_at=now,
        next_attempt_at=None,
        last_error=error,
    )


def _next(
    connection: Connection,
    row: Row[Any],
    claim: Claim,
    sent: Sent,
    now: datetime,
    jitter: Callable[[], float],
) -> dict[str, Any]:
    """The columns of a delivery that was not canceled meanwhile."""
    ended = {"ended_at": now, "next_attempt_at": None, "claimed_by": None, "claimed_until": None}
    if sent.is_delivered:
        return {"state": "delivered", "files_expire_at": sent.files_expire_at, **ended}
    if row.claimed_by != claim.claimed_by:
        # Somebody else holds it since the lease ran out, and will say how it went on.
        return {}
    began = row.first_attempt_at or now
    failed = rows.num_attempts(connection, row.id, began)
    pause = None if sent.is_permanent else pause_s(failed, sent.retry_after_s, jitter())
    if pause is None or now + timedelta(seconds=pause) > began + timedelta(seconds=GIVE_UP_S):
        return {"state": "dead", **ended}
    return {
        "next_attempt_at": now + timedelta(seconds=pause),
        "claimed_by": None,
        "claimed_until": None,
    }


def _after_death(connection: Connection, row: Row[Any], sent: Sent, now: datetime) -> None:
    """Disable the endpoint that wants no more, or that nothing has reached for long."""
    log.warning("delivery_dead", delivery=str(row.id), kind=row.kind, status=sent.status)
    if row.endpoint_id is None:
        return
    if sent.is_gone:
        reason, error = say("answered_gone"), say("endpoint_gone_410")
    else:
        endpoint = webhook_endpoints.find_endpoint(connection, row.endpoint_id)
        if endpoint is None:
            return
        # What somebody has changed since is given the same patience again.
        ends = webhook_endpoints.last_ends(
            connection, row.endpoint_id, since=endpoint.updated_at, limit=MAX_DEAD_IN_A_ROW
        )
        if len(ends) < MAX_DEAD_IN_A_ROW or "delivered" in ends:
            return
        reason = say("dead_in_a_row", limit=MAX_DEAD_IN_A_ROW)
        error = say("endpoint_dead", limit=MAX_DEAD_IN_A_ROW)
    if webhook_endpoints.disable(connection, row.endpoint_id, reason=reason, now=now):
        rows.cancel_pending(connection, row.endpoint_id, error=error, now=now)
        log.warning("webhook_endpoint_disabled", endpoint=str(row.endpoint_id), reason=reason)
        audit.record_program(
            connection,
            "courier",
            action="disable_webhook_endpoint",
            subjects=[(row.team_id, f"webhook-endpoint/{row.endpoint_id}")],
        )
