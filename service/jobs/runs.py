"""Use cases of runs: run a schedule now, look at its ledger, cancel a run."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from service.db import batches as batch_rows
from service.db import run_queue, schedule_runs, slot_ledger
from service.db.engine import Connection, Row
from service.db.schedule_runs import RunFilter
from service.errors import ConflictError, NotFoundError, UnavailableError
from service.jobs import audit, batches
from service.jobs.actors import Actor
from service.jobs.new_runs import new_run
from service.jobs.occurrences import Slot
from service.jobs.page_tokens import make_token, read_token
from service.jobs.reason_sentences import say
from service.jobs.run_choices import MAX_WAITING
from service.jobs.run_documents import UNFINISHED_RUNS, WAITING, RunOut, RunPage
from service.jobs.run_views import shown_runs
from service.jobs.schedule_views import definition_of
from service.jobs.schedules import id_in, require
from service.jobs.zone_data import zone

# By hand and not ended: a mistaken loop must not mail its recipients a thousand times.
MAX_BY_HAND: Final = 20
MICROSECOND: Final = timedelta(microseconds=1)


def run_now(connection: Connection, actor: Actor, key: str, now: datetime) -> RunOut:
    """Write a run of now, which begins as the schedule's concurrency policy allows.

    Raises `NotFoundError`, `ConflictError` when too many that were begun by hand have not ended,
    and `UnavailableError` when too many runs of the schedule wait.
    """
    schedule = require(connection, actor, key, lock=True)
    by_hand = schedule_runs.num_unfinished(connection, schedule.id, "manual")
    if by_hand >= MAX_BY_HAND:
        raise ConflictError(
            f"{by_hand} runs of the schedule {schedule.slug!r} that were begun by hand wait or "
            "run, which is the limit: wait for their end, or cancel some"
        )
    waiting = run_queue.waiting_runs(connection, schedule.id, None, limit=MAX_WAITING)
    if len(waiting) >= MAX_WAITING:
        raise UnavailableError(
            f"{MAX_WAITING} runs of the schedule {schedule.slug!r} wait already, which is the "
            "limit",
            problem="queue-full",
        )
    definition = definition_of(schedule)
    at = now
    while True:
        slot = Slot(at=at, local=at.astimezone(zone(schedule.zone)))
        row = new_run(schedule, definition, slot, kind="manual", now=now, created_by=actor.name)
        if slot_ledger.insert_slots(connection, [row]):
            break
        # That very moment is in the ledger: as a slot, or asked for by somebody else.
        at += MICROSECOND
    run = _shown(connection, actor, _require_id(connection, actor, row["id"]))
    audit.record(
        connection, actor, action="create_run", subject=f"schedule-run/{run.id}", after=run
    )
    return run


def get(connection: Connection, actor: Actor, key: str, run_id: UUID) -> RunOut:
    """One run; raises `NotFoundError`."""
    return _shown(connection, actor, _require(connection, actor, key, run_id))


def list_page(
    connection: Connection,
    actor: Actor,
    key: str,
    wanted: RunFilter,
    *,
    page_size: int,
    page_token: str | None,
) -> RunPage:
    """A page of runs, the newest slot first; raises `NotFoundError`, `MalformedError`."""
    schedule = require_any(connection, actor, key)
    query = ["schedule-runs", str(schedule.id), msgspec.to_builtins(wanted)]
    before = read_token(page_token, query, tuple[datetime, UUID])
    found = schedule_runs.list_runs(
        connection, schedule.id, wanted, before=before, limit=page_size + 1
    )
    shown = found[:page_size]
    last = (shown[-1].scheduled_for, shown[-1].id) if len(found) > page_size else None
    return RunPage(
        items=shown_runs(connection, actor, shown),
        next_page_token=None if last is None else make_token(query, last),
    )


def cancel(connection: Connection, actor: Actor, key: str, run_id: UUID, now: datetime) -> RunOut:
    """Cancel a run: what has not begun never will, and of a batch the finished points are kept.

    Repeating it is harmless. Raises `NotFoundError`, and `ConflictError` when the run or its
    batch has ended.
    """
    schedule = require_any(connection, actor, key)
    # In the order of the scheduler's own locks: the schedule first.
    slot_ledger.lock_schedule(connection, schedule.id, wait=True)
    schedule_runs.lock_run(connection, run_id)
    row = _require(connection, actor, key, run_id)
    before = _shown(connection, actor, row)
    if row.state == "canceled":
        return before
    if not _cancel(connection, actor, row, now):
        return before
    run = _shown(connection, actor, _require_id(connection, actor, run_id))
    audit.record(
        connection,
        actor,
        action="cancel_run",
        subject=f"schedule-run/{run_id}",
        before=before,
        after=run,
    )
    return run


def require_any(connection: Connection, actor: Actor, key: str) -> Row[Any]:
    """The schedule, by its id also a deleted one: its ledger stays; raises `NotFoundError`."""
    schedule_id = id_in(key)
    if schedule_id is not None:
        row = slot_ledger.get_schedule(connection, actor.team_id, schedule_id)
        if row is not None:
            return row
    return require(connection, actor, key)


def cancel_runs(
    connection: Connection, actor: Actor, runs: Sequence[Row[Any]], now: datetime
) -> None:
    """Cancel those of the runs that can still be; the caller holds their schedule."""
    for run in runs:
        row = schedule_runs.lock_run(connection, run.id)
        if row is not None and row.state in {"due", "running"}:
            try:
                _cancel(connection, actor, row, now)
            except ConflictError:
                # Its batch has ended or is gone: it is handed over as it is.
                continue


def _cancel(connection: Connection, actor: Actor, run: Row[Any], now: datetime) -> bool:
    """Whether anything changed."""
    if run.state in WAITING:
        return schedule_runs.end_run(
            connection,
            run.id,
            expected=WAITING,
            state="canceled",
            reason=say("canceled_by", name=actor.name),
            now=now,
        )
    if run.state != "running":
        told = "is being reported on" if run.state in UNFINISHED_RUNS else f"is {run.state}"
        raise ConflictError(f"run {run.id} has been computed already: it {told}")
    batch = batch_rows.get_batch(connection, run.team_id, run.batch_id)
    if batch is None:
        raise ConflictError(f"run {run.id} has no batch any more: it was deleted")
    if batch.state in {"canceling", "canceled"}:
        return False
    batches.cancel(connection, actor, run.batch_id)
    return schedule_runs.change_run(
        connection,
        run.id,
        expected=("running",),
        now=now,
        reason=say("canceled_by", name=actor.name),
    )


def _require(connection: Connection, actor: Actor, key: str, run_id: UUID) -> Row[Any]:
    schedule = require_any(connection, actor, key)
    row = schedule_runs.get_run(connection, actor.team_id, run_id)
    if row is None or row.schedule_id != schedule.id:
        raise NotFoundError(f"the schedule {schedule.slug!r} has no run {run_id}")
    return row


def _require_id(connection: Connection, actor: Actor, run_id: UUID) -> Row[Any]:
    row = schedule_runs.get_run(connection, actor.team_id, run_id)
    if row is None:
        raise NotFoundError(f"there is no run {run_id}")
    return row


def _shown(connection: Connection, actor: Actor, row: Row[Any]) -> RunOut:
    return shown_runs(connection, actor, [row])[0]
