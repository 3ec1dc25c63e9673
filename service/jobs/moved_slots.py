"""Slots that newer data of the zones have moved: looked for once, when a process begins.

The next slot of a schedule was found with the data of then. One that comes later by newer data is
seen to be so at its old moment; one that comes earlier would be passed by and lost.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import structlog

from service.db import schedules as rows
from service.db import slot_ledger
from service.db.engine import Database, OperationalError, Row
from service.jobs.occurrences import slots_after
from service.jobs.zone_data import TZDATA_VERSION

SCHEDULES_AT_ONCE: Final = 100

log = structlog.get_logger()


def follow_zones(database: Database, *, is_stopping: Callable[[], bool] = lambda: False) -> int:
    """Let schedules come at the slots that the data of now say; how many were moved."""
    moved = 0
    last = None
    while not is_stopping():
        with database.read() as connection:
            found = slot_ledger.coming_schedules(connection, SCHEDULES_AT_ONCE, after=last)
            newest = [slot_ledger.newest_slot(connection, schedule.id) for schedule in found]
        for schedule, slot in zip(found, newest, strict=True):
            moved += _follow(database, schedule, slot)
        if len(found) < SCHEDULES_AT_ONCE:
            break
        last = found[-1].id
    return moved


def _follow(database: Database, schedule: Row[Any], newest: Row[Any] | None) -> bool:
    try:
        next_at = _earliest(schedule, newest)
        if next_at is None:
            return False
        with database.write() as connection:
            locked = slot_ledger.lock_schedule(connection, schedule.id)
            if locked is None or (locked.version, locked.next_at) != (
                schedule.version,
                schedule.next_at,
            ):
                return False
            rows.set_next(connection, schedule.id, next_at)
    except OperationalError:
        raise
    except Exception:
        # Such as a zone that newer data do not have: the other schedules must go on.
        log.exception("slot_not_followed", schedule=schedule.slug)
        return False
    log.warning(
        "slot_moved",
        schedule=schedule.slug,
        before=schedule.next_at.isoformat(),
        after=next_at.isoformat(),
        tzdata_version=TZDATA_VERSION,
    )
    return True


def _earliest(schedule: Row[Any], newest: Row[Any] | None) -> datetime | None:
    """The first slot that nobody has seen, if it comes before the one that is waited for."""
    since: datetime = schedule.updated_at
    wall = None
    if newest is not None and newest.zone == schedule.zone:
        if newest.tzdata_version == TZDATA_VERSION and newest.scheduled_for >= since:
            return None
        since = max(since, newest.scheduled_for)
        wall = datetime.fromisoformat(newest.local_time).replace(tzinfo=None)
    for slot in slots_after(schedule.cron, schedule.zone, since):
        if slot.at >= schedule.next_at:
            break
        # A night that has been run already is not run again because it would now come later.
        if wall is None or slot.local.replace(tzinfo=None) > wall:
            return slot.at
    return None
