"""The scheduler as a duty: a step does all that is due, and a process takes it by itself."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, update

from service.db.engine import Database
from service.db.schedule_tables import schedule_run
from service.errors import ConflictError, UnavailableError
from service.jobs import runs
from service.jobs.actors import Actor
from service.jobs.runtime import Runtime
from service.jobs.scheduler import Scheduler
from tests.jobs.batch_bodies import item
from tests.jobs.completed import complete
from tests.jobs.ledger_bodies import LIMITS, add_schedule, change, ledger

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)


def test_a_step_writes_begins_and_hands_over(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    woken = []
    scheduler = Scheduler(database, LIMITS, lambda: woken.append(len(woken)))
    assert scheduler.step(SLOT - timedelta(seconds=1)) is False
    assert scheduler.step(SLOT) is True
    assert [run.state for run in ledger(database, added)] == ["running"]
    # The engine is told of the batch at once, and of nothing where nothing was stored.
    assert len(woken) == 1
    assert scheduler.step(SLOT) is False
    complete(database)
    assert scheduler.step(SLOT) is True
    assert [run.state for run in ledger(database, added)] == ["reporting"]
    assert len(woken) == 2
    complete(database)
    assert scheduler.step(SLOT) is False
    assert [run.state for run in ledger(database, added)] == ["succeeded"]


def test_a_process_that_ends_begins_nothing_more(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    scheduler = Scheduler(database, LIMITS, lambda: None)
    assert scheduler.step(SLOT, is_stopping=lambda: True) is False
    assert ledger(database, added) == []


def test_a_running_process_does_it_by_itself(database: Database) -> None:
    now = datetime.now(UTC)
    last_month = now.replace(day=1) - timedelta(days=1)
    added = add_schedule(
        database,
        now - timedelta(days=364),
        cron=f"0 0 15 {last_month.month} *",
        zone="UTC",
        report={"remedies": False},
    )
    runtime = Runtime(database, role="embedded" if database.is_sqlite else "worker", processes=1)
    runtime.start()
    try:
        end = time.monotonic() + 60
        while [run.state for run in ledger(database, added)] != ["succeeded"]:
            assert time.monotonic() < end, ledger(database, added)
            time.sleep(0.05)
    finally:
        runtime.stop()


def test_a_look_at_nothing_costs_three_reads_and_no_write(database: Database) -> None:
    for number in range(20):
        add_schedule(database, BEGUN, slug=f"nightly-{number}")
    scheduler = Scheduler(database, LIMITS, lambda: None)
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    scheduler.step(SLOT - timedelta(hours=1))
    event.remove(database.engine, "before_cursor_execute", note)
    # SQLite is told to begin; a look that writes would be told IMMEDIATE.
    asked = [statement for statement in statements if statement != "BEGIN"]
    assert [statement.split()[0] for statement in asked] == ["SELECT"] * 3


def test_so_many_runs_of_a_schedule_may_wait(sqlite_database: Database) -> None:
    added = add_schedule(sqlite_database, BEGUN, batch={"items": [item()]})
    change(sqlite_database, added, paused_at=BEGUN)
    with sqlite_database.write() as connection:
        for number in range(1, 101):
            runs.run_now(connection, Actor(), "nightly", SLOT)
            if number % 20 == 0:
                # Of those that somebody has begun by hand fewer may.
                with pytest.raises(ConflictError, match=r"^20 runs .*begun by hand wait"):
                    runs.run_now(connection, Actor(), "nightly", SLOT)
                connection.execute(update(schedule_run).values(kind="scheduled"))
        with pytest.raises(UnavailableError, match="100 runs of the schedule 'nightly' wait"):
            runs.run_now(connection, Actor(), "nightly", SLOT)
    assert len(ledger(sqlite_database, added)) == 100
