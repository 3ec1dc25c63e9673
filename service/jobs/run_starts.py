"""The start of runs: a due run and its batch are one transaction, so that neither is ever alone.

What takes time, resolving profiles and laying out grids, is done before the transaction that stores
the batch; in it, everything that decided is looked at again.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from service.db import run_queue, schedule_runs, slot_ledger
from service.db.engine import Connection, Database, OperationalError, Row
from service.errors import (
    ConflictError,
    InvalidError,
    NotFoundError,
    OverLimitError,
    TrainardError,
    UnavailableError,
)
from service.jobs import batches
from service.jobs.actors import Actor
from service.jobs.batch_storage import refuse_full_queue
from service.jobs.reason_sentences import say
from service.jobs.run_choices import Choice, choose, replaced_by
from service.jobs.run_documents import UNFINISHED_RUNS, WAITING, RunState
from service.jobs.run_ends import end_without_report
from service.jobs.run_plans import RunPlan, plan_run, settings_of
from service.jobs.schedule_actors import schedule_actor
from service.jobs.schedule_views import definition_of
from service.settings import Limits

FULL_QUEUE_PAUSE_S: Final = 30
FAULT_PAUSE_S: Final = 60
# So much later than others is a run of a backfill tried again: when an hour of quota begins, what
# comes in its time gets of it first.
BEHIND_S: Final = 2
MAX_FAULTS_TOLD: Final = 10

log = structlog.get_logger()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was read and decided before the transaction that carries it out."""

    schedule: Row[Any]
    backfill_id: UUID | None
    choice: Choice
    plan: RunPlan | None = None

    @property
    def run(self) -> Row[Any]:
        """The run that it is about."""
        assert self.choice.run is not None  # noqa: S101 - only `cancel_all` has none
        return self.choice.run


def start_due(
    database: Database,
    limits: Limits,
    now: datetime,
    *,
    is_stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Begin what is due and may begin, one run of each schedule and backfill; how many changed.

    Call it until it is 0. A run that is refused ends or waits, with its reason in the ledger.
    """
    changed = 0
    for seen in _look(database, now):
        if is_stopping():
            break
        try:
            changed += _carry_out(database, seen, limits, now)
        except OperationalError:
            raise
        except Exception:
            # One run that cannot be begun must not keep the others from it.
            log.exception("run_not_started", schedule=seen.schedule.slug, run=str(seen.run.id))
            _postpone(database, seen, say("internal_fault"), FAULT_PAUSE_S, now)
    return changed


def _look(database: Database, now: datetime) -> list[Seen]:
    found = []
    with database.read() as connection:
        for group in run_queue.waiting_groups(connection):
            schedule = slot_ledger.find_schedule(connection, group.schedule_id)
            try:
                choice = _choose(connection, schedule, group.backfill_id, now)
            except msgspec.ValidationError:
                # Of another version of the program: it may know what to do with it.
                log.exception("schedule_not_read", schedule=schedule.slug)
                continue
            if choice is not None:
                found.append(Seen(schedule=schedule, backfill_id=group.backfill_id, choice=choice))
    return found


def _choose(
    connection: Connection, schedule: Row[Any], backfill_id: UUID | None, now: datetime
) -> Choice | None:
    return choose(connection, schedule, definition_of(schedule), backfill_id, now)


def _carry_out(database: Database, seen: Seen, limits: Limits, now: datetime) -> int:
    try:
        if seen.choice.act == "start":
            with database.read() as connection:
                plan = plan_run(
                    connection, seen.schedule, definition_of(seen.schedule), seen.run, limits
                )
            seen = msgspec.structs.replace(seen, plan=plan)
        with database.write() as connection:
            return _carry_out_in(connection, seen, limits, now)
    except (OverLimitError, UnavailableError) as error:
        pause_s = getattr(error, "retry_after_s", FULL_QUEUE_PAUSE_S)
        return _postpone(database, seen, error.detail, pause_s, now)
    except InvalidError as error:
        with database.write() as connection:
            return _refuse(connection, seen, refusal_text(error), now)


def _carry_out_in(connection: Connection, seen: Seen, limits: Limits, now: datetime) -> int:
    schedule = slot_ledger.lock_schedule(connection, seen.schedule.id)
    if schedule is None or schedule.definition != seen.schedule.definition:
        return 0
    choice, again = seen.choice, _choose(connection, schedule, seen.backfill_id, now)
    if again is None or again.signature != choice.signature:
        # Another process was faster, or somebody has paused or canceled it meanwhile.
        return 0
    if choice.act == "cancel_all":
        return run_queue.cancel_waiting(
            connection,
            schedule.id,
            reason=choice.reason,
            now=now,
            backfill_id=seen.backfill_id,
        )
    if choice.act == "start":
        return _start(connection, seen, limits, now)
    state: RunState = "skipped" if choice.act == "skip" else "replaced"
    return int(_give_up(connection, seen.run.id, state, choice.reason, now))


def _start(connection: Connection, seen: Seen, limits: Limits, now: datetime) -> int:
    run, plan = schedule_runs.lock_run(connection, seen.run.id), seen.plan
    if run is None or plan is None or run.version != seen.run.version:
        return 0
    actor = schedule_actor(run.team_id, seen.schedule.slug)
    # Locked in one order everywhere: the schedule, its runs, then whatever they refer to.
    for stopped in seen.choice.stops:
        if schedule_runs.lock_run(connection, stopped.id) is not None:
            _replace(connection, stopped, run, actor, now)
    refuse_full_queue(connection, actor, limits)
    batch = batches.submit_planned(connection, actor, plan.body, plan.plan, limits)
    return int(
        schedule_runs.change_run(
            connection,
            run.id,
            expected=WAITING,
            now=now,
            state="running",
            batch_id=batch.id,
            reason=None,
            not_before=None,
            started_at=now,
            warnings=[*run.warnings, *msgspec.to_builtins(plan.warnings)],
            **_kept(seen),
        )
    )


def _kept(seen: Seen) -> dict[str, Any]:
    """What the run keeps of its schedule from now on."""
    settings = settings_of(definition_of(seen.schedule), deliver=seen.choice.deliver)
    return {
        "schedule_version": seen.schedule.version,
        "settings": msgspec.to_builtins(settings),
    }


def _replace(
    connection: Connection, stopped: Row[Any], by: Row[Any], actor: Actor, now: datetime
) -> None:
    """Cancel the batch of a run that still computes; one that has ended by now is reported on."""
    try:
        batches.cancel(connection, actor, stopped.batch_id)
    except (ConflictError, NotFoundError):
        return
    _give_up(connection, stopped.id, "replaced", replaced_by(by), now)


def _give_up(
    connection: Connection, run_id: UUID, state: RunState, reason: str, now: datetime
) -> bool:
    """End a run without telling anybody: the one that it made room for is told."""
    return schedule_runs.end_run(
        connection, run_id, expected=UNFINISHED_RUNS, state=state, reason=reason, now=now
    )


def _refuse(connection: Connection, seen: Seen, reason: str, now: datetime) -> int:
    """End a run that cannot begin, if nobody has begun or ended it meanwhile."""
    kept = schedule_runs.change_run(
        connection, seen.run.id, expected=WAITING, now=now, **_kept(seen)
    )
    return int(kept and end_without_report(connection, seen.run, "failed", reason, now))


def _postpone(database: Database, seen: Seen, reason: str, pause_s: float, now: datetime) -> int:
    """Let the run wait, and say why; 0: there is nothing more to do with it now."""
    if seen.backfill_id is not None:
        pause_s += BEHIND_S
    with database.write() as connection:
        schedule_runs.change_run(
            connection,
            seen.run.id,
            expected=WAITING,
            now=now,
            reason=reason,
            not_before=now + timedelta(seconds=pause_s),
        )
    return 0


def refusal_text(error: TrainardError) -> str:
    """Why a batch was refused, with the first faults."""
    told = [f"{fault.pointer or '/'}: {fault.detail}" for fault in error.errors[:MAX_FAULTS_TOLD]]
    more = len(error.errors) - len(told)
    text = "; ".join([error.detail, *told])
    return say("batch_refused", detail=text + (f"; and {more} more" if more else ""))
