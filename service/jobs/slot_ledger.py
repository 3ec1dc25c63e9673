"""The clock of the schedules: slots that have come are written into the ledger.

Each schedule is a transaction of its own, and its next slot moves on in the same one: whoever is
killed in between has written nothing, and whoever comes second finds nothing to write.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from service.db import schedules as rows
from service.db import slot_ledger
from service.db.engine import Connection, Database, OperationalError, Row
from service.errors import UnavailableError
from service.jobs import audit
from service.jobs.batch_documents import Notice
from service.jobs.new_runs import LATE, new_run
from service.jobs.occurrences import Slot, slots_after
from service.jobs.reason_sentences import say
from service.jobs.schedule_actors import schedule_actor
from service.jobs.schedule_documents import ScheduleIn
from service.jobs.schedule_views import definition_of

# Of years in which nobody was there, the ledger gets the newest ones, and the number of the rest.
MAX_MISSED: Final = 1_000
SCHEDULES_AT_ONCE: Final = 100
LOOK_EVERY: Final = 1_000
# While a change of the schedule waits for it: almost three years of quarters of an hour, 0.4 s
MAX_LOOKS: Final = 100
MICROSECOND: Final = timedelta(microseconds=1)

log = structlog.get_logger()


class Come(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of a schedule that have come, oldest first, and the one that comes next."""

    slots: Sequence[Slot]
    left_out: int
    next_at: datetime | None


def tick(
    database: Database,
    now: datetime,
    *,
    at_once: int = SCHEDULES_AT_ONCE,
    is_stopping: Callable[[], bool] = lambda: False,
) -> int:
    """Write the slots that have come into the ledger; how many rows that were."""
    written = 0
    after: tuple[datetime, UUID] | None = None
    while not is_stopping():
        with database.read() as connection:
            found = slot_ledger.come_schedules(connection, now, at_once, after=after)
        for schedule in found:
            if is_stopping():
                return written
            written += _write_what_came(database, schedule, now, is_stopping)
        if written or len(found) < at_once:
            break
        # Nothing could be written of any of these: those behind must not wait for ever.
        after = (found[-1].next_at, found[-1].id)
    return written


def _write_what_came(
    database: Database, schedule: Row[Any], now: datetime, is_stopping: Callable[[], bool]
) -> int:
    try:
        # Outside of the transaction: ten years of quarters of an hour take seconds to count.
        come = slots_that_came(schedule.cron, schedule.zone, schedule.next_at, now, is_stopping)
        if come is None:
            return 0
        with database.write() as connection:
            return _write(connection, schedule, come, now)
    except OperationalError:
        raise
    except Exception:
        # Such as a zone that newer data do not have: the other schedules must go on.
        log.exception("slots_not_written", schedule=schedule.slug)
        return 0


def slots_that_came(
    cron: str,
    zone: str,
    first_at: datetime,
    now: datetime,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Come | None:
    """The slots from the one at `first_at` to now; None when there is no time to count them."""
    newest: deque[Slot] = deque(maxlen=MAX_MISSED)
    number = 0
    for slot in slots_after(cron, zone, first_at - MICROSECOND):
        if slot.at > now:
            return Come(slots=newest, left_out=number - len(newest), next_at=slot.at)
        newest.append(slot)
        number += 1
        if number % LOOK_EVERY == 0 and is_stopping():
            return None
    return Come(slots=newest, left_out=number - len(newest), next_at=None)


def _write(connection: Connection, seen: Row[Any], come: Come, now: datetime) -> int:
    schedule = slot_ledger.lock_schedule(connection, seen.id)
    if schedule is None or _has_changed(schedule, seen):
        # Another process is at it, or somebody has changed it: what is left is seen next time.
        return 0
    return _store(connection, schedule, come, now)


def write_come(connection: Connection, schedule: Row[Any], now: datetime) -> None:
    """Write what has come of a schedule that the caller has locked and is about to change.

    A service that begins to run has seconds in which slots have come that nobody has seen: they
    are the schedule's as it was. Raises `UnavailableError` when there are too many to count in a
    transaction.
    """
    if schedule.next_at is None or schedule.next_at > now:
        return
    looks = iter(range(MAX_LOOKS))
    come = slots_that_came(
        schedule.cron, schedule.zone, schedule.next_at, now, lambda: next(looks, None) is None
    )
    if come is None:
        raise UnavailableError(
            f"the slots of the schedule {schedule.slug!r} since {schedule.next_at:%Y-%m-%d} are "
            "being written into the ledger: try again in a few seconds"
        )
    _store(connection, schedule, come, now)


def _store(connection: Connection, schedule: Row[Any], come: Come, now: datetime) -> int:
    definition = definition_of(schedule)
    judged = judge(schedule, definition, come, now)
    ids = slot_ledger.insert_slots(connection, judged)
    rows.set_next(connection, schedule.id, come.next_at)
    missed = sum(row["state"] == "misfired" for row in judged)
    if missed or come.left_out:
        log.warning(
            "slots_missed",
            schedule=schedule.slug,
            missed=missed,
            left_out=come.left_out,
            policy=definition.misfire_policy,
        )
    if come.left_out:
        audit.record(
            connection,
            schedule_actor(schedule.team_id, schedule.slug),
            action="leave_out_slots",
            subject=f"schedule/{schedule.id}",
            detail=_left_out_text(come),
        )
    return len(ids)


def _has_changed(schedule: Row[Any], seen: Row[Any]) -> bool:
    watched = ("next_at", "cron", "zone", "paused_at", "deleted_at")
    return any(getattr(schedule, name) != getattr(seen, name) for name in watched)


def judge(
    schedule: Row[Any], definition: ScheduleIn, come: Come, now: datetime
) -> list[dict[str, Any]]:
    """Rows for all slots: due, or missed and not run by the schedule's policy."""
    grace = timedelta(seconds=definition.misfire_grace_s)
    missed = [slot for slot in come.slots if now - slot.at >= grace]
    chosen = {slot.at for slot in missed[len(missed) - _num_to_run(definition, len(missed)) :]}
    made = []
    for position, slot in enumerate(come.slots):
        is_missed = position < len(missed)
        is_due = not is_missed or slot.at in chosen
        notices = [_late(slot, now)] if is_missed and is_due else []
        if position == 0 and come.left_out:
            notices.append(_left_out(come))
        made.append(
            new_run(
                schedule,
                definition,
                slot,
                kind="scheduled",
                now=now,
                created_by=f"schedule/{schedule.slug}",
                state="due" if is_due else "misfired",
                reason=None if is_due else _why_missed(slot, definition, now),
                warnings=tuple(notices),
            )
        )
    return made


def _num_to_run(definition: ScheduleIn, num_missed: int) -> int:
    most = {"skip": 0, "run_latest": 1, "run_all": definition.misfire_max_runs}
    return min(num_missed, most[definition.misfire_policy])


def _why_missed(slot: Slot, definition: ScheduleIn, now: datetime) -> str:
    return say(
        f"missed_{definition.misfire_policy}",
        late=duration(now - slot.at),
        at=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        limit=definition.misfire_max_runs,
    )


def _late(slot: Slot, now: datetime) -> Notice:
    detail = say("taken_up_late", late=duration(now - slot.at))
    return Notice(pointer="", code=LATE, detail=detail)


def _left_out(come: Come) -> Notice:
    return Notice(pointer="", code="older_slots_left_out", detail=_left_out_text(come))


def _left_out_text(come: Come) -> str:
    return say(
        "older_slots_left_out",
        left=come.left_out,
        at=f"{come.slots[0].at:%Y-%m-%dT%H:%M:%SZ}",
        limit=MAX_MISSED,
    )


def duration(late: timedelta) -> str:
    """The time for a person: its two largest units."""
    minutes, seconds = divmod(int(late.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
