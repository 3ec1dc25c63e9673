"""Newer data of the zones move slots: none is lost by it, and no night is run twice."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import select, update

from service.db.engine import Database
from service.db.schedule_tables import schedule, schedule_run
from service.jobs.moved_slots import SCHEDULES_AT_ONCE, follow_zones
from service.jobs.scheduler import Scheduler
from service.jobs.slot_ledger import tick
from service.jobs.zone_data import TZDATA_VERSION
from tests.jobs.ledger_bodies import LIMITS, add_schedule, ledger, states

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def next_at(database: Database, schedule_id: UUID) -> datetime | None:
    with database.read() as connection:
        found: datetime | None = connection.scalar(
            select(schedule.c.next_at).where(schedule.c.id == schedule_id)
        )
    return found


def made(database: Database, *, waits_for: datetime, **changes: Any) -> UUID:
    """A schedule made at BEGUN, which by the data of then comes next at that moment."""
    added = add_schedule(database, BEGUN, **changes)
    change(database, added, next_at=waits_for, updated_at=BEGUN)
    return added


def change(database: Database, schedule_id: UUID, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(
            update(schedule)
            .where(schedule.c.id == schedule_id)
            .values(**{"updated_at": BEGUN, **values})
        )


def ran(database: Database, schedule_id: UUID, at: datetime, tzdata_version: str) -> None:
    """As if its newest slot had come at that moment, by the data of that release."""
    with database.write() as connection:
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.schedule_id == schedule_id)
            .values(scheduled_for=at, tzdata_version=tzdata_version)
        )


def test_a_slot_that_comes_earlier_now_is_not_passed_by(database: Database) -> None:
    added = made(database, waits_for=SLOT + HOUR)
    assert follow_zones(database) == 1
    assert next_at(database, added) == SLOT
    assert follow_zones(database) == 0
    assert tick(database, SLOT) == 1
    assert states(database, added) == [("2027-01-02T02:30:00+01:00", "due")]
    assert next_at(database, added) == SLOT + DAY


def test_one_that_would_have_come_before_the_program_began_is_missed_by_the_policy(
    sqlite_database: Database,
) -> None:
    added = made(sqlite_database, waits_for=SLOT + HOUR, misfire_policy="skip")
    follow_zones(sqlite_database)
    assert tick(sqlite_database, SLOT + HOUR / 2) == 1
    assert states(sqlite_database, added) == [("2027-01-02T02:30:00+01:00", "misfired")]


def test_one_that_comes_later_now_comes_then(sqlite_database: Database) -> None:
    added = made(sqlite_database, waits_for=SLOT - HOUR)
    assert follow_zones(sqlite_database) == 0
    assert tick(sqlite_database, SLOT - HOUR) == 0
    assert next_at(sqlite_database, added) == SLOT
    assert tick(sqlite_database, SLOT) == 1


def test_a_night_that_was_run_is_not_run_again_because_it_comes_later_now(
    sqlite_database: Database,
) -> None:
    added = made(sqlite_database, waits_for=SLOT)
    tick(sqlite_database, SLOT)
    ran(sqlite_database, added, SLOT - HOUR, "2020a")
    assert follow_zones(sqlite_database) == 0
    assert next_at(sqlite_database, added) == SLOT + DAY
    # The one after it is followed.
    change(sqlite_database, added, next_at=SLOT + DAY + HOUR)
    assert follow_zones(sqlite_database) == 1
    assert next_at(sqlite_database, added) == SLOT + DAY
    assert len(ledger(sqlite_database, added)) == 1


def test_what_was_found_with_the_data_of_now_is_left(sqlite_database: Database) -> None:
    added = made(sqlite_database, waits_for=SLOT)
    tick(sqlite_database, SLOT)
    (run,) = ledger(sqlite_database, added)
    assert run.tzdata_version == TZDATA_VERSION
    change(sqlite_database, added, next_at=SLOT + DAY + HOUR)
    assert follow_zones(sqlite_database) == 0
    # In another zone than that of its newest slot it is looked at.
    change(sqlite_database, added, zone="Europe/London", updated_at=SLOT + HOUR)
    assert follow_zones(sqlite_database) == 0
    change(sqlite_database, added, next_at=SLOT + DAY + 2 * HOUR, updated_at=SLOT + HOUR)
    assert follow_zones(sqlite_database) == 1
    assert next_at(sqlite_database, added) == SLOT + DAY + HOUR


def test_all_are_looked_at_but_those_that_do_not_come(sqlite_database: Database) -> None:
    later = SLOT + HOUR
    broken = made(sqlite_database, waits_for=later, slug="a-broken")
    change(sqlite_database, broken, zone="Mars/Olympus")
    paused = made(sqlite_database, waits_for=later, slug="b-paused")
    change(sqlite_database, paused, paused_at=BEGUN, next_at=None)
    deleted = made(sqlite_database, waits_for=later, slug="c-deleted")
    change(sqlite_database, deleted, deleted_at=BEGUN)
    others = [
        made(sqlite_database, waits_for=later, slug=f"d-{number}")
        for number in range(SCHEDULES_AT_ONCE)
    ]
    assert follow_zones(sqlite_database, is_stopping=lambda: True) == 0
    assert follow_zones(sqlite_database) == SCHEDULES_AT_ONCE
    assert {next_at(sqlite_database, one) for one in others} == {SLOT}
    assert next_at(sqlite_database, broken) == next_at(sqlite_database, deleted) == later
    assert next_at(sqlite_database, paused) is None


def test_a_process_that_begins_follows_them(sqlite_database: Database) -> None:
    now = datetime.now(UTC)
    slot = now.replace(minute=0, second=0, microsecond=0) + 3 * HOUR
    added = add_schedule(sqlite_database, now, cron=f"0 {slot.hour} * * *", zone="UTC")
    change(sqlite_database, added, next_at=slot + HOUR, updated_at=now)
    duty = Scheduler(sqlite_database, LIMITS, lambda: None).duty()
    duty.start()
    try:
        end = time.monotonic() + 30
        while next_at(sqlite_database, added) != slot:
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        duty.stop()
