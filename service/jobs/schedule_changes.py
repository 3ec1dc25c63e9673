"""Changes of schedules: make, change, pause, resume and delete, each in the audit trail.

A change of the expression or the zone, and a resumption, look for the next slot from now on: what
came while it was paused is not caught up (a backfill can do that). What has come by the moment of
any change is in the ledger before it.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from service.db import schedules as rows
from service.db.engine import Connection, Row
from service.errors import (
    ConflictError,
    FieldFault,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs import audit, slot_ledger
from service.jobs.actors import Actor
from service.jobs.documents import decode_document
from service.jobs.occurrences import slots_after
from service.jobs.reason_sentences import say
from service.jobs.schedule_checks import ALL_FIELDS, Checking, check_schedule, decode_schedule
from service.jobs.schedule_costs import (
    require_costs_of_change,
    require_costs_of_new,
    require_costs_of_sent,
    with_withheld_budget,
)
from service.jobs.schedule_documents import ScheduleIn
from service.jobs.schedule_views import (
    SchedulePlanOut,
    definition_of,
    document_of,
    occurrence_of,
    shown_schedules,
)
from service.jobs.schedule_warnings import warnings_of
from service.jobs.schedules import ScheduleOut, require
from service.settings import Settings

# Columns of their own; all else is the definition.
COLUMNS = ("slug", "name", "cron", "zone")
NUM_PREVIEWED = 5


def plan_schedule(
    connection: Connection, actor: Actor, document: Any, settings: Settings, *, now: datetime
) -> SchedulePlanOut:
    """What `create_schedule` would do, without storing anything; raises as it does."""
    checking = Checking(settings=settings, now=now)
    body = decode_schedule(connection, actor, document, checking)
    require_costs_of_new(actor, body)
    plan = check_schedule(connection, actor, body, checking)
    assert plan is not None  # noqa: S101 # the batch is among the fields that are checked
    _refuse_taken(connection, actor, body, settings)
    slots = islice(slots_after(body.cron, body.zone, now), NUM_PREVIEWED)
    return SchedulePlanOut(
        schedule=body,
        next_occurrences=[occurrence_of(slot) for slot in slots],
        batch=plan,
        warnings=warnings_of(connection, actor.team_id, body),
    )


def create_schedule(
    connection: Connection, actor: Actor, document: Any, settings: Settings, *, now: datetime
) -> ScheduleOut:
    """Store a schedule.

    Raises `InvalidError` with every fault, `ForbiddenError` for money that its maker may not see,
    `ConflictError` when the slug is taken or the team has too many schedules.
    """
    checking = Checking(settings=settings, now=now)
    body = decode_schedule(connection, actor, document, checking)
    require_costs_of_new(actor, body)
    check_schedule(connection, actor, body, checking)
    rows.hold_team(connection, actor.team_id)
    _refuse_taken(connection, actor, body, settings)
    values = {
        **_columns(body),
        "created_by": actor.name,
        "next_at": None if body.paused else _next_at(body, now),
        "paused_at": now if body.paused else None,
        "paused_by": actor.name if body.paused else None,
    }
    rows.insert_schedule(connection, actor.team_id, values)
    return _recorded(connection, actor, "create_schedule", body.slug)


def change_schedule(
    connection: Connection,
    actor: Actor,
    key: str,
    sent: Any,
    settings: Settings,
    *,
    version: int,
    now: datetime,
) -> ScheduleOut:
    """Put the fields that were sent in the place of the former ones, each as a whole.

    Only what changes is checked: what has gone since, such as a profile, is a fault of the runs.
    Raises as `create_schedule` does, `NotFoundError` and `PreconditionFailedError`.
    """
    require_costs_of_sent(actor, sent)
    row = _at_version(connection, actor, key, version)
    before = shown_schedules(connection, actor, [row])[0]
    former = definition_of(row)
    merged = {**document_of(row), **_sent_fields(former, sent)}
    if "budget" in sent:
        merged["budget"] = with_withheld_budget(actor, former, merged["budget"])
    changed = [name for name in ALL_FIELDS if name in sent]
    checking = Checking(settings=settings, now=now, fields=changed, schedule_id=row.id)
    body = decode_schedule(connection, actor, merged, checking)
    require_costs_of_change(actor, former, body)
    changed = [name for name in changed if getattr(former, name) != getattr(body, name)]
    if not changed:
        return before
    check_schedule(connection, actor, body, msgspec.structs.replace(checking, fields=changed))
    values = {**_columns(body), **_state(row, actor, former, body, now)}
    _write(connection, row, values, now)
    return _recorded(connection, actor, "change_schedule", row.slug, before=before)


def pause_schedule(connection: Connection, actor: Actor, key: str, *, now: datetime) -> ScheduleOut:
    """Let no slot come from now on; what has begun goes on. Repeating it changes nothing."""
    row = require(connection, actor, key, lock=True)
    before = shown_schedules(connection, actor, [row])[0]
    if row.paused_at is not None:
        return before
    _write(connection, row, {"paused_at": now, "paused_by": actor.name, "next_at": None}, now)
    return _recorded(connection, actor, "pause_schedule", row.slug, before=before)


def resume_schedule(
    connection: Connection, actor: Actor, key: str, *, version: int, now: datetime
) -> ScheduleOut:
    """Let slots come again, from the next one on. Repeating it changes nothing."""
    row = _at_version(connection, actor, key, version)
    before = shown_schedules(connection, actor, [row])[0]
    if row.paused_at is None:
        return before
    next_at = _next_at(definition_of(row), now)
    _write(connection, row, {"paused_at": None, "paused_by": None, "next_at": next_at}, now)
    return _recorded(connection, actor, "resume_schedule", row.slug, before=before)


def delete_schedule(
    connection: Connection, actor: Actor, key: str, *, version: int, now: datetime
) -> None:
    """Take the schedule away; its runs, reports and deliveries stay, its slug is free again.

    Slots that wait are canceled; a run that has begun ends as it would have.
    """
    row = _at_version(connection, actor, key, version)
    before = shown_schedules(connection, actor, [row])[0]
    gone = {"deleted_at": now, "unique_slug": str(row.id), "next_at": None}
    _write(connection, row, gone, now)
    rows.cancel_due_runs(connection, row.id, reason=say("schedule_deleted"), now=now)
    audit.record(
        connection, actor, action="delete_schedule", subject=_subject(row.slug), before=before
    )


def _sent_fields(former: ScheduleIn, sent: Any) -> Mapping[str, Any]:
    """The fields of the body; raises `InvalidError` for what is no object, and another slug."""
    fields = decode_document(sent, dict[str, Any])
    if fields.get("slug", former.slug) != former.slug:
        detail = f"the slug of a schedule cannot be changed: it is {former.slug!r}"
        fault = FieldFault(pointer="/slug", code="slug_is_fixed", detail=detail)
        raise InvalidError(detail, problem="invalid-schedule", errors=[fault])
    return fields


def _state(
    row: Row[Any], actor: Actor, former: ScheduleIn, body: ScheduleIn, now: datetime
) -> dict[str, Any]:
    """The columns of pause and next slot, where the change touches them."""
    if body.paused:
        if former.paused:
            return {}
        return {"paused_at": now, "paused_by": actor.name, "next_at": None}
    if not former.paused and (row.cron, row.zone) == (body.cron, body.zone):
        return {}
    return {"paused_at": None, "paused_by": None, "next_at": _next_at(body, now)}


def _columns(body: ScheduleIn) -> dict[str, Any]:
    document = msgspec.to_builtins(body)
    del document["paused"]
    columns = {name: document.pop(name) for name in COLUMNS}
    return {**columns, "definition": document}


def _next_at(body: ScheduleIn, now: datetime) -> datetime | None:
    slot = next(slots_after(body.cron, body.zone, now), None)
    return None if slot is None else slot.at


def _refuse_taken(
    connection: Connection, actor: Actor, body: ScheduleIn, settings: Settings
) -> None:
    if rows.get_schedule(connection, actor.team_id, body.slug) is not None:
        detail = f"the slug {body.slug!r} is already taken by another schedule of the team"
        fault = FieldFault(pointer="/slug", code="slug_taken", detail=detail)
        raise ConflictError(detail, errors=[fault])
    limit = settings.limits.schedules
    if rows.count_schedules(connection, actor.team_id) >= limit:
        raise ConflictError(
            f"the team has {limit} schedules, which is the limit: delete one first",
            problem="too-many-schedules",
        )


def _at_version(connection: Connection, actor: Actor, key: str, version: int) -> Row[Any]:
    row = require(connection, actor, key, lock=True)
    if row.version != version:
        raise _stale(row)
    return row


def _write(connection: Connection, row: Row[Any], values: Mapping[str, Any], now: datetime) -> None:
    # What came before the change is judged by what the schedule was then.
    slot_ledger.write_come(connection, row, now)
    if not rows.change_schedule(connection, row.id, version=row.version, values=values):
        raise NotFoundError(f"there is no schedule {row.slug!r}")


def _stale(row: Row[Any]) -> PreconditionFailedError:
    return PreconditionFailedError(
        f"the schedule {row.slug!r} is at version {row.version}: it has changed since it was "
        "read; read it again"
    )


def _recorded(
    connection: Connection,
    actor: Actor,
    action: str,
    slug: str,
    *,
    before: ScheduleOut | None = None,
) -> ScheduleOut:
    """The schedule as it is now, with its change in the audit trail."""
    after = shown_schedules(connection, actor, [require(connection, actor, slug)])[0]
    audit.record(
        connection, actor, action=action, subject=_subject(slug), before=before, after=after
    )
    return after


def _subject(slug: str) -> str:
    return f"schedule/{slug}"
