"""The log of deliveries: read it, send something again, call something off."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import structs

from service.db import deliveries as rows
from service.db import webhook_endpoints
from service.db.deliveries import DeliveryFilter
from service.db.engine import Connection, Row
from service.errors import ConflictError, NotFoundError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.cost_access import require_costs
from service.jobs.delivery_codes import coded_reason
from service.jobs.delivery_documents import (
    DeliveryAttemptOut,
    DeliveryDetailOut,
    DeliveryOut,
    DeliveryPage,
    DroppedFileOut,
)
from service.jobs.page_tokens import make_token, read_token
from service.jobs.reason_sentences import coded
from service.jobs.recipients import shown_reached, shown_refused, shown_target, shown_text

MAX_ATTEMPTS_SHOWN: Final = 100
# Of a delivery whose state tells of money
_HIDDEN: Final[dict[str, Any]] = {
    "state": "withheld",
    "attempts": None,
    "last_status": None,
    "last_error": None,
    "last_error_coded": None,
    "next_attempt_at": None,
    "first_attempt_at": None,
    "ended_at": None,
    # It counts the attempts.
    "version": 1,
}
_NO_REASON: Final[dict[str, Any]] = {"reason": None, "reason_coded": None}
ENDED: Final = ("delivered", "dead", "skipped", "canceled")


def get(connection: Connection, actor: Actor, delivery_id: UUID) -> DeliveryDetailOut:
    """A delivery of the team with its attempts; raises `NotFoundError`."""
    row = _require(connection, actor, delivery_id)
    is_hidden = _hides_state(actor, row)
    outcome: dict[str, Any] = {} if is_hidden else row.outcome or {}
    attempts = rows.list_attempts(connection, delivery_id, limit=MAX_ATTEMPTS_SHOWN)
    sees_answers = actor.may("webhooks:write") and not _is_withheld(actor, row)
    return DeliveryDetailOut(
        **structs.asdict(_shown(actor, row)),
        payload=_payload(actor, row),
        recipients_reached=shown_reached(actor, outcome.get("accepted", [])),
        recipients_refused=shown_refused(actor, outcome.get("refused", {})),
        files=_files(actor, row, outcome),
        files_expire_at=None if is_hidden else row.files_expire_at,
        attempt_log=[
            _attempt(actor, attempt, sees_answers=sees_answers)
            for attempt in ([] if is_hidden else attempts)
        ],
    )


def list_page(
    connection: Connection,
    actor: Actor,
    wanted: DeliveryFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> DeliveryPage:
    """A page of the team's deliveries, newest first; by state only where the actor sees it."""
    wanted = structs.replace(wanted, sees_costs=actor.sees_costs)
    query = ["deliveries", msgspec.to_builtins(wanted)]
    after = read_token(page_token, query, tuple[datetime, UUID])
    found = rows.list_deliveries(
        connection, actor.team_id, wanted, after=after, limit=page_size + 1
    )
    shown = found[:page_size]
    token = None
    if len(found) > page_size:
        token = make_token(query, (shown[-1].created_at, shown[-1].id))
    return DeliveryPage(items=[_shown(actor, row) for row in shown], next_page_token=token)


def require_endpoint(connection: Connection, actor: Actor, endpoint_id: UUID) -> None:
    """Raise `NotFoundError` unless the team has (or had) the endpoint."""
    row = webhook_endpoints.find_endpoint(connection, endpoint_id)
    if row is None or row.team_id != actor.team_id:
        raise NotFoundError(f"there is no webhook endpoint {endpoint_id}")


def replay(
    connection: Connection, actor: Actor, delivery_id: UUID, *, now: datetime
) -> DeliveryDetailOut:
    """Send an ended delivery again: the same message, a new round of attempts.

    One that waits for its next attempt has it now, unless it is being sent. Raises
    `ConflictError` when its endpoint takes nothing.
    """
    before = get(connection, actor, delivery_id)
    if before.includes_costs:
        require_costs(actor, "to send a message with money again")
    row = _require(connection, actor, delivery_id)
    _refuse_closed(connection, row)
    is_held = row.claimed_until is not None and row.claimed_until > now
    if is_held and row.state == rows.PENDING:
        # It is being sent at this moment.
        return before
    if rows.set_state(
        connection, delivery_id, rows.PENDING, expected=(rows.PENDING,), next_attempt_at=now
    ):
        return _recorded(connection, actor, "replay_delivery", before)
    outcome: dict[str, Any] = row.outcome or {}
    is_replayed = rows.set_state(
        connection,
        delivery_id,
        rows.PENDING,
        expected=ENDED,
        next_attempt_at=now,
        first_attempt_at=None,
        ended_at=None,
        claimed_by=None,
        claimed_until=None,
        # Files that were written stay known until they are removed.
        outcome=outcome if "files" in outcome else None,
    )
    if not is_replayed:
        raise ConflictError("it has just been changed by somebody else; look again")
    return _recorded(connection, actor, "replay_delivery", before)


def cancel(
    connection: Connection, actor: Actor, delivery_id: UUID, *, now: datetime
) -> DeliveryDetailOut:
    """Call off what waits; an attempt that is on its way is not stopped. Harmless to repeat.

    Raises `ConflictError` when it has ended otherwise, and `ForbiddenError` where its state is
    withheld.
    """
    before = get(connection, actor, delivery_id)
    if before.state == "withheld":
        require_costs(actor, "to call off a message whose state tells of money")
    if before.state == "canceled":
        return before
    is_canceled = rows.set_state(
        connection,
        delivery_id,
        "canceled",
        expected=(rows.PENDING,),
        ended_at=now,
        next_attempt_at=None,
    )
    if not is_canceled:
        raise ConflictError(f"it is {before.state}: nothing of it waits")
    return _recorded(connection, actor, "cancel_delivery", before)


def _require(connection: Connection, actor: Actor, delivery_id: UUID) -> Row[Any]:
    row = rows.get_delivery(connection, actor.team_id, delivery_id)
    if row is None:
        raise NotFoundError(f"there is no delivery {delivery_id}")
    return row


def _refuse_closed(connection: Connection, row: Row[Any]) -> None:
    if row.kind != "webhook":
        return
    endpoint = row.endpoint_id and webhook_endpoints.find_endpoint(connection, row.endpoint_id)
    if not endpoint or endpoint.deleted_at is not None:
        raise ConflictError("its webhook endpoint was deleted")
    if endpoint.disabled_at is not None:
        raise ConflictError(f"its webhook endpoint {endpoint.name!r} is disabled: enable it first")
    if row.include_costs and not endpoint.include_costs:
        raise ConflictError(f"its webhook endpoint {endpoint.name!r} takes no money any more")


def _recorded(
    connection: Connection, actor: Actor, action: str, before: DeliveryDetailOut
) -> DeliveryDetailOut:
    after = get(connection, actor, before.id)
    audit.record(
        connection,
        actor,
        action=action,
        subject=f"delivery/{before.id}",
        before=_audited(before),
        after=_audited(after),
    )
    return after


def _audited(document: DeliveryDetailOut) -> DeliveryDetailOut:
    """What the digest in the trail is of: nothing of money, which could be tried out."""
    if not document.includes_costs:
        return document
    hidden = _HIDDEN if _tells_by_state(document.target) else {}
    bare = structs.replace(
        document, payload=None, reason=None, reason_coded=None, files=[], attempt_log=[]
    )
    return structs.replace(bare, **hidden)


def _attempt(actor: Actor, row: Row[Any], *, sees_answers: bool) -> DeliveryAttemptOut:
    error = shown_text(actor, row.error)
    return DeliveryAttemptOut(
        attempt=row.attempt,
        started_at=row.created_at,
        duration_ms=row.duration_ms,
        status=row.status,
        error=error,
        error_coded=coded(error),
        answer=row.answer if sees_answers else None,
    )


def _is_withheld(actor: Actor, row: Row[Any]) -> bool:
    return bool(row.include_costs) and not actor.sees_costs


def _hides_state(actor: Actor, row: Row[Any]) -> bool:
    """Whether being sent or not tells of money: over its budget it is sent whatever `when` says."""
    return _is_withheld(actor, row) and _tells_by_state(row.target)


def _tells_by_state(target: dict[str, Any]) -> bool:
    found: str = target.get("when", "always")
    return found != "always"


def _files(actor: Actor, row: Row[Any], outcome: dict[str, Any]) -> list[DroppedFileOut]:
    """What was written; a digest or a length with money in it could be tried out."""
    files = msgspec.convert(outcome.get("files", []), list[DroppedFileOut])
    if _is_withheld(actor, row):
        return [structs.replace(file, bytes=None, sha256=None) for file in files]
    return files


def _payload(actor: Actor, row: Row[Any]) -> dict[str, Any] | None:
    if row.payload is None or _is_withheld(actor, row):
        return None
    found: dict[str, Any] = msgspec.json.decode(row.payload)
    return found


def _shown(actor: Actor, row: Row[Any]) -> DeliveryOut:
    reason = None if _is_withheld(actor, row) else row.reason
    last_error = shown_text(actor, row.last_error)
    shown = DeliveryOut(
        id=row.id,
        message_id=row.message_id,
        event=row.event,
        kind=row.kind,
        state=row.state,
        reason=reason,
        reason_coded=coded_reason(reason),
        endpoint_id=row.endpoint_id,
        target=shown_target(actor, row.target),
        schedule_id=row.schedule_id,
        schedule=row.schedule_slug,
        run_id=row.run_id,
        report_id=row.report_id,
        includes_costs=row.include_costs,
        attempts=row.attempts,
        last_status=row.last_status,
        last_error=last_error,
        last_error_coded=coded(last_error),
        next_attempt_at=row.next_attempt_at,
        created_at=row.created_at,
        first_attempt_at=row.first_attempt_at,
        ended_at=row.ended_at,
        version=row.version,
    )
    return structs.replace(shown, **_HIDDEN) if _hides_state(actor, row) else shown
