"""Which run of a schedule or backfill is to begin now, or never will: the concurrency policies.

Runs wait in the order of their slots, those that the misfire policy has chosen among them. These
late ones are neither skipped nor replaced whatever the concurrency policy is, since that would be
no catching up; and what comes in its time waits for them, since they push nobody out.
"""

from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from service.db import backfills, run_queue
from service.db.engine import Connection, Row
from service.jobs.new_runs import LATE
from service.jobs.reason_sentences import say
from service.jobs.schedule_documents import ConcurrencyPolicy, ScheduleIn

# Of slots that came in their time and wait, under `queue`: a schedule whose runs take longer than
# the time between its slots would pile them up without end.
MAX_WAITING: Final = 100

Act = Literal["start", "skip", "replace", "cancel_all"]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done with the run, and why.

    - `start`: after stopping the runs `stops`; `deliver`: its schedule's deliveries are its own;
    - `skip`, `replace`: it never begins;
    - `cancel_all`: nothing that waits in its group will.
    """

    act: Act
    run: Row[Any] | None = None
    reason: str = ""
    stops: tuple[Row[Any], ...] = ()
    deliver: bool = True

    @property
    def signature(self) -> tuple[object, ...]:
        """What must be the same when it is carried out: the act, and the state of the runs."""
        run = self.run
        stops = tuple(stop.id for stop in self.stops)
        return (self.act, run and (run.id, run.version), stops, self.deliver)


def choose(
    connection: Connection,
    schedule: Row[Any],
    definition: ScheduleIn,
    backfill_id: UUID | None,
    now: datetime,
) -> Choice | None:
    """What is to be done next with what waits; None: it goes on waiting."""
    if schedule.deleted_at is not None:
        return Choice(act="cancel_all", reason=say("schedule_deleted"))
    active = run_queue.active_runs(connection, schedule.id)
    if backfill_id is not None:
        return _of_backfill(connection, schedule, backfill_id, active, now)
    only = ("manual",) if schedule.paused_at is not None else ()
    waiting = run_queue.waiting_runs(connection, schedule.id, None, kinds=only)
    active = [run for run in active if run.backfill_id is None]
    return _given_up(definition.concurrency_policy, waiting, active) or _begun(
        definition.concurrency_policy, waiting, active, now
    )


def _given_up(
    policy: ConcurrencyPolicy, waiting: list[Row[Any]], active: list[Row[Any]]
) -> Choice | None:
    """The first run that never begins."""
    in_time = [run for run in waiting if not is_late(run)]
    if policy == "forbid":
        return _forbidden(in_time, [run for run in active if not is_late(run)])
    if policy == "queue":
        return _too_many([run for run in in_time if run.kind != "manual"])
    if policy == "replace" and len(in_time) > 1:
        return Choice(act="replace", run=in_time[0], reason=replaced_by(in_time[-1]))
    return None


def _begun(
    policy: ConcurrencyPolicy, waiting: list[Row[Any]], active: list[Row[Any]], now: datetime
) -> Choice | None:
    if not waiting or _must_wait(waiting[0], now):
        return None
    if policy == "replace" and not any(is_late(run) for run in (waiting[0], *active)):
        stops = tuple(run for run in active if run.computes)
        return Choice(act="start", run=waiting[0], stops=stops)
    return None if active else Choice(act="start", run=waiting[0])


def _must_wait(run: Row[Any], now: datetime) -> bool:
    return run.not_before is not None and run.not_before > now


def is_late(run: Row[Any]) -> bool:
    """Whether the slot had been missed, and the misfire policy has chosen it."""
    return any(notice["code"] == LATE for notice in run.warnings)


def _forbidden(waiting: list[Row[Any]], active: list[Row[Any]]) -> Choice | None:
    """The first run that comes while one before it has not ended; late ones are left out."""
    runs = [*active[-1:], *waiting]
    if not waiting or len(runs) == 1:
        return None
    before = runs[0]
    reason = say("not_ended_forbid", local_time=before.local_time, run_id=before.id)
    return Choice(act="skip", run=runs[1], reason=reason)


def replaced_by(newer: Row[Any]) -> str:
    """Why a run is replaced."""
    return say("replaced", local_time=newer.local_time, run_id=newer.id)


def _too_many(waiting: list[Row[Any]]) -> Choice | None:
    """The oldest of those that wait, where they are more than may; what was asked for is none."""
    if len(waiting) <= MAX_WAITING:
        return None
    reason = say("too_many_waiting", at_once=MAX_WAITING)
    return Choice(act="skip", run=waiting[0], reason=reason)


def _of_backfill(
    connection: Connection,
    schedule: Row[Any],
    backfill_id: UUID,
    active: list[Row[Any]],
    now: datetime,
) -> Choice | None:
    backfill = backfills.get_backfill(connection, schedule.id, backfill_id)
    if backfill is None or backfill.canceled_at is not None:
        return Choice(act="cancel_all", reason=say("backfill_canceled"))
    computing = sum(run.backfill_id == backfill_id and run.computes for run in active)
    if schedule.paused_at is not None or computing >= backfill.max_running:
        return None
    waiting = run_queue.waiting_runs(
        connection, schedule.id, backfill_id, newest_first=backfill.newest_first, limit=1
    )
    if not waiting or _must_wait(waiting[0], now):
        return None
    return Choice(act="start", run=waiting[0], deliver=backfill.deliver)
