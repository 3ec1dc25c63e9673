"""Use cases of backfills: run the slots of some days, look how far it is, cancel it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import uuid_utils.compat

from service.db import backfills as rows
from service.db import run_queue, schedule_runs, slot_ledger
from service.db.engine import Connection, Row
from service.errors import ConflictError, FieldFault, InvalidError, NotFoundError, UnavailableError
from service.jobs import audit
from service.jobs.actors import Actor
from service.jobs.backfill_documents import (
    BackfillIn,
    BackfillOut,
    BackfillPage,
    BackfillPlanOut,
    BackfillState,
    RunCounts,
)
from service.jobs.backfill_slots import ChosenSlot, choose_slots
from service.jobs.batch_documents import Notice
from service.jobs.batches import NUM_CORES
from service.jobs.new_runs import first_day, new_run
from service.jobs.page_tokens import make_token, read_token
from service.jobs.reason_sentences import coded, say
from service.jobs.run_documents import EarlierAttempt
from service.jobs.run_plans import RunPlan, SlotToPlan, plan_run
from service.jobs.run_views import run_notice
from service.jobs.runs import cancel_runs, require_any
from service.jobs.schedule_actors import schedule_actor
from service.jobs.schedule_views import definition_of
from service.jobs.schedules import require
from service.jobs.usage import points_left
from service.settings import Limits

MAX_UNFINISHED: Final = 20
HELD: Final = say("schedule_paused")
# Of a run beside its points
OVERHEAD_S: Final = 0.1


def check(
    connection: Connection,
    actor: Actor,
    key: str,
    body: BackfillIn,
    *,
    limits: Limits,
    now: datetime,
) -> BackfillPlanOut:
    """What `create` would do, and what it would take; raises as it does.

    Where nothing is to run it does not raise: each slot is shown, and why it is left.
    """
    schedule = require(connection, actor, key)
    _refuse_too_many(connection, schedule)
    slots = choose_slots(connection, schedule, body, now)
    chosen = [slot for slot in slots if slot.runs]
    left = points_left(connection, schedule_actor(schedule.team_id, schedule.slug), limits)
    told: Sequence[Notice | FieldFault]
    if chosen:
        planned = _plan_newest(connection, schedule, chosen, limits)
        points = planned.plan.num_points
        taken_s = len(chosen) * (OVERHEAD_S + planned.plan.core_s / NUM_CORES)
        told = [*planned.plan.warnings, *planned.warnings]
    else:
        points, taken_s, told = 0, 0.0, [_nothing_to_run(slots)]
    held = _held(schedule)
    return BackfillPlanOut(
        slots=[slot.shown() for slot in slots],
        slots_run=len(chosen),
        slots_left=len(slots) - len(chosen),
        points_per_run=points,
        points_total=points * len(chosen),
        points_left=left,
        estimated_s=round(taken_s, 1),
        held=held,
        held_coded=coded(held),
        warnings=[run_notice(one.pointer, one.code, one.detail) for one in told],
    )


def create(
    connection: Connection,
    actor: Actor,
    key: str,
    body: BackfillIn,
    *,
    limits: Limits,
    now: datetime,
) -> BackfillOut:
    """Write the backfill and its runs.

    Raises `NotFoundError`, `InvalidError` when the days cannot be taken, nothing of them is to run
    or the batch would be refused, and `UnavailableError` when too many backfills of the schedule
    have not ended.
    """
    schedule = require(connection, actor, key, lock=True)
    _refuse_too_many(connection, schedule)
    chosen = _to_run(choose_slots(connection, schedule, body, now))
    _plan_newest(connection, schedule, chosen, limits)
    backfill_id = uuid_utils.compat.uuid7()
    rows.insert_backfill(
        connection,
        {
            "id": backfill_id,
            "team_id": actor.team_id,
            "created_at": now,
            "created_by": actor.name,
            "updated_at": now,
            "version": 1,
            "schedule_id": schedule.id,
            "num_slots": len(chosen),
            **msgspec.structs.asdict(body),
        },
    )
    _write_runs(connection, schedule, chosen, backfill_id, now)
    backfill = get(connection, actor, key, backfill_id)
    audit.record(
        connection,
        actor,
        action="create_backfill",
        subject=f"schedule-backfill/{backfill_id}",
        after=backfill,
    )
    return backfill


def get(connection: Connection, actor: Actor, key: str, backfill_id: UUID) -> BackfillOut:
    """One backfill; raises `NotFoundError`."""
    schedule = require_any(connection, actor, key)
    return _shown(connection, schedule, [_require(connection, schedule, backfill_id)])[0]


def list_page(
    connection: Connection,
    actor: Actor,
    key: str,
    *,
    page_size: int,
    page_token: str | None,
) -> BackfillPage:
    """A page of backfills, newest first; raises `NotFoundError`, `MalformedError`."""
    schedule = require_any(connection, actor, key)
    query = ["schedule-backfills", str(schedule.id)]
    before = read_token(page_token, query, tuple[datetime, UUID])
    found = rows.list_backfills(connection, schedule.id, before=before, limit=page_size + 1)
    shown = found[:page_size]
    last = (shown[-1].created_at, shown[-1].id) if len(found) > page_size else None
    return BackfillPage(
        items=_shown(connection, schedule, shown),
        next_page_token=None if last is None else make_token(query, last),
    )


def cancel(
    connection: Connection, actor: Actor, key: str, backfill_id: UUID, now: datetime
) -> BackfillOut:
    """Begin no more of it and cancel what computes; what is finished is kept.

    Repeating it is harmless. Raises `NotFoundError`, and `ConflictError` when it has ended.
    """
    schedule = require_any(connection, actor, key)
    slot_ledger.lock_schedule(connection, schedule.id, wait=True)
    before = get(connection, actor, key, backfill_id)
    if before.state == "ended":
        raise ConflictError(f"backfill {backfill_id} has already ended")
    if not rows.cancel_backfill(connection, backfill_id, now):
        return before
    run_queue.cancel_waiting(
        connection,
        schedule.id,
        reason=say("backfill_canceled_by", name=actor.name),
        now=now,
        backfill_id=backfill_id,
    )
    active = run_queue.active_runs(connection, schedule.id)
    cancel_runs(connection, actor, [run for run in active if run.backfill_id == backfill_id], now)
    after = get(connection, actor, key, backfill_id)
    audit.record(
        connection,
        actor,
        action="cancel_backfill",
        subject=f"schedule-backfill/{backfill_id}",
        before=before,
        after=after,
    )
    return after


def _plan_newest(
    connection: Connection, schedule: Row[Any], chosen: Sequence[ChosenSlot], limits: Limits
) -> RunPlan:
    """What the run of the newest slot would be; raises `InvalidError` with the batch's faults."""
    slot, definition = chosen[-1].slot, definition_of(schedule)
    wanted = SlotToPlan(
        team_id=schedule.team_id,
        scheduled_for=slot.at,
        start_on=first_day(slot, definition),
    )
    return plan_run(connection, schedule, definition, wanted, limits)


def _refuse_too_many(connection: Connection, schedule: Row[Any]) -> None:
    unfinished = rows.num_unfinished(connection, schedule.id)
    if unfinished >= MAX_UNFINISHED:
        raise UnavailableError(
            f"{unfinished} backfills of the schedule {schedule.slug!r} have not ended, the limit "
            f"is {MAX_UNFINISHED}",
            problem="queue-full",
        )


def _to_run(slots: Sequence[ChosenSlot]) -> list[ChosenSlot]:
    chosen = [slot for slot in slots if slot.runs]
    if not chosen:
        fault = _nothing_to_run(slots)
        raise InvalidError(fault.detail, errors=[fault])
    return chosen


def _nothing_to_run(slots: Sequence[ChosenSlot]) -> FieldFault:
    newest = slots[-1]
    detail = say(
        "nothing_to_run",
        slots=len(slots),
        local_time=newest.slot.local.isoformat(),
        detail=newest.reason,
    )
    return FieldFault(pointer="/reprocess", code="nothing_to_run", detail=detail)


def _write_runs(
    connection: Connection,
    schedule: Row[Any],
    chosen: Sequence[ChosenSlot],
    backfill_id: UUID,
    now: datetime,
) -> None:
    definition = definition_of(schedule)
    new = []
    for slot in chosen:
        row = new_run(
            schedule,
            definition,
            slot.slot,
            kind="backfill",
            now=now,
            created_by=f"schedule/{schedule.slug}",
            backfill_id=backfill_id,
        )
        if slot.row is None:
            new.append(row)
        else:
            schedule_runs.change_run(
                connection,
                slot.row.id,
                expected=(slot.row.state,),
                now=now,
                **_again(slot.row, row),
            )
    slot_ledger.insert_slots(connection, new)


# What an attempt begins without; what the one before it had of these is kept in `earlier_batches`
_ANEW: Final[Mapping[str, None]] = dict.fromkeys(
    (
        "reason",
        "schedule_version",
        "settings",
        "batch_id",
        "report_id",
        "baseline_run_id",
        "baseline_missing",
        "budget_status",
        "budget",
        "not_before",
        "started_at",
        "ended_at",
    )
)
_OF_SLOT: Final = (
    "local_time",
    "zone",
    "kind",
    "backfill_id",
    "state",
    "start_on",
    "tzdata_version",
    "warnings",
)


def _again(before: Row[Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What makes one more attempt of a run that has ended."""
    attempt = EarlierAttempt(
        attempt=before.attempt,
        state=before.state,
        batch_id=before.batch_id,
        report_id=before.report_id,
        ended_at=before.ended_at,
    )
    return {
        **_ANEW,
        **{name: new[name] for name in _OF_SLOT},
        "attempt": before.attempt + 1,
        "earlier_batches": [*before.earlier_batches, msgspec.to_builtins(attempt)],
    }


def _require(connection: Connection, schedule: Row[Any], backfill_id: UUID) -> Row[Any]:
    row = rows.get_backfill(connection, schedule.id, backfill_id)
    if row is None:
        raise NotFoundError(f"the schedule {schedule.slug!r} has no backfill {backfill_id}")
    return row


def _held(schedule: Row[Any]) -> str | None:
    return HELD if schedule.paused_at is not None else None


def _shown(
    connection: Connection, schedule: Row[Any], found: Sequence[Row[Any]]
) -> list[BackfillOut]:
    counted = rows.run_states(connection, [row.id for row in found])
    return [_out(schedule, row, counted[row.id]) for row in found]


def _out(schedule: Row[Any], row: Row[Any], states: Mapping[str, int]) -> BackfillOut:
    taken_over = row.num_slots - sum(states.values())
    runs = msgspec.convert({**states, "taken_over": taken_over}, RunCounts)
    is_going_on = runs.due + runs.running + runs.reporting > 0
    held = _held(schedule) if runs.due else None
    state: BackfillState
    if row.canceled_at is None:
        state = "running" if is_going_on else "ended"
    else:
        state = "canceling" if is_going_on else "canceled"
    return BackfillOut(
        id=row.id,
        schedule_id=schedule.id,
        schedule=schedule.slug,
        state=state,
        first_on=row.first_on,
        last_on=row.last_on,
        reprocess=row.reprocess,
        newest_first=row.newest_first,
        max_running=row.max_running,
        deliver=row.deliver,
        slots=row.num_slots,
        runs=runs,
        held=held,
        held_coded=coded(held),
        runs_url=f"/v1/schedules/{schedule.slug}/runs?backfill={row.id}",
        created_at=row.created_at,
        created_by=row.created_by,
        canceled_at=row.canceled_at,
        version=row.version,
    )
