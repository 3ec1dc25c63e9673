"""What becomes of a run when its batch has ended: a report against its baseline, or an end."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, update

from service.db.engine import Database, Row
from service.db.schedule_tables import report, schedule_run
from service.db.tables import scenario_batch
from service.errors import ConflictError
from service.jobs import runs
from service.jobs.actors import Actor
from service.jobs.run_baselines import find_baseline
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.schedule_documents import NamedRun
from service.jobs.slot_ledger import tick
from tests.jobs.batch_bodies import cancel, item, read
from tests.jobs.completed import complete
from tests.jobs.ledger_bodies import LIMITS, add_schedule, ledger, settle

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
# 02:30 in Paris
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)
UNKNOWN = "01a22869-6f4e-72c6-8158-fe19e726e3f8"


def begin(database: Database, now: datetime) -> None:
    tick(database, now)
    while start_due(database, LIMITS, now):
        pass


def whole_night(database: Database, now: datetime) -> None:
    """Slot, batch, report."""
    begin(database, now)
    complete(database)
    settle(database, now)
    complete(database)


def report_of(database: Database, run: Row[Any]) -> Row[Any]:
    with database.read() as connection:
        return connection.execute(select(report).where(report.c.id == run.report_id)).one()


def set_batch(database: Database, batch_id: UUID, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(
            update(scenario_batch).where(scenario_batch.c.id == batch_id).values(**values)
        )


def test_a_run_is_handed_over_once_its_batch_has_ended(database: Database) -> None:
    added = add_schedule(database, BEGUN, name="Nightly what-if", report={"movers": 3})
    begin(database, SLOT)
    assert hand_over(database, SLOT) == 0
    complete(database)
    assert hand_over(database, SLOT) == 1
    assert hand_over(database, SLOT) == 0
    (run,) = ledger(database, added)
    assert (run.state, run.ended_at) == ("reporting", None)
    assert (run.baseline_run_id, run.baseline_missing) == (None, "no_earlier_run")
    asked = report_of(database, run)
    assert (asked.state, asked.run_id, asked.schedule_id) == ("queued", run.id, added)
    assert (asked.batch_id, asked.baseline_batch_id) == (run.batch_id, None)
    assert asked.name == "Nightly what-if"
    assert asked.settings["report"]["movers"] == 3
    complete(database)
    (run,) = ledger(database, added)
    assert run.state == "succeeded"
    assert run.ended_at is not None
    assert report_of(database, run).state == "succeeded"


def test_each_night_is_compared_with_the_one_before(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    for number in range(3):
        whole_night(database, SLOT + number * DAY)
    first, second, third = ledger(database, added)
    assert (second.baseline_run_id, third.baseline_run_id) == (first.id, second.id)
    assert report_of(database, third).baseline_batch_id == second.batch_id
    assert [run.state for run in (first, second, third)] == ["succeeded"] * 3


def test_a_night_without_results_is_no_baseline(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    for number in range(2):
        whole_night(database, SLOT + number * DAY)
    # The third is canceled before anything is computed, the second's batch is deleted.
    begin(database, SLOT + 2 * DAY)
    first, second, third = ledger(database, added)
    cancel(database, third.batch_id)
    settle(database, SLOT + 2 * DAY)
    set_batch(database, second.batch_id, deleted_at=SLOT)
    whole_night(database, SLOT + 3 * DAY)
    third, fourth = ledger(database, added)[2:]
    assert (third.state, third.report_id) == ("canceled", None)
    assert third.reason == "its batch was canceled before any headline point had a result"
    assert (fourth.state, fourth.baseline_run_id) == ("succeeded", first.id)


def test_one_run_is_the_baseline_for_ever(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    whole_night(database, SLOT)
    whole_night(database, SLOT + DAY)
    first = ledger(database, added)[0]
    named = add_schedule(
        database, BEGUN, slug="named", baseline={"kind": "run", "run_id": str(first.id)}
    )
    gone = add_schedule(database, BEGUN, slug="gone", baseline={"kind": "run", "run_id": UNKNOWN})
    none = add_schedule(database, BEGUN, slug="none", baseline=None)
    with database.write() as connection:
        # Runs of a schedule are its own.
        connection.execute(
            update(schedule_run).where(schedule_run.c.id == first.id).values(schedule_id=named)
        )
    whole_night(database, SLOT + 2 * DAY)
    (_, run), (stray,), (alone,) = (
        [row for row in ledger(database, added) if row.state == "succeeded"]
        for added in (named, gone, none)
    )
    assert (run.baseline_run_id, run.baseline_missing) == (first.id, None)
    assert (stray.baseline_run_id, stray.baseline_missing) == (None, "named_run_gone")
    assert (alone.baseline_run_id, alone.baseline_missing) == (None, "none_asked")


def test_a_named_run_without_results_is_told(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    (first,) = ledger(database, added)
    cancel(database, first.batch_id)
    settle(database, SLOT)
    begin(database, SLOT + DAY)
    second = ledger(database, added)[-1]
    with database.read() as connection:
        found = [
            find_baseline(connection, second, NamedRun(run_id=run_id), "Europe/Paris").missing
            for run_id in (first.id, second.id)
        ]
    assert found == ["named_run_without_results", "named_run_itself"]


@pytest.mark.parametrize(
    ("on", "expected"),
    [("2027-01-01", None), ("2027-01-02", 0), ("2027-01-03", 1), ("2027-06-01", 1)],
)
def test_the_baseline_of_a_day_is_of_the_zone(
    sqlite_database: Database, on: str, expected: int | None
) -> None:
    # 23:30 in New York is the next day in UTC.
    added = add_schedule(
        sqlite_database,
        datetime(2027, 1, 2, 12, tzinfo=UTC),
        cron="30 23 * * *",
        zone="America/New_York",
        baseline={"kind": "date", "on": on},
    )
    slot = datetime(2027, 1, 3, 4, 30, tzinfo=UTC)
    for number in range(3):
        whole_night(sqlite_database, slot + number * DAY)
    found = ledger(sqlite_database, added)
    last = found[-1]
    assert last.local_time == "2027-01-04T23:30:00-05:00"
    if expected is None:
        assert (last.baseline_run_id, last.baseline_missing) == (None, "no_run_by_date")
    else:
        assert last.baseline_run_id == found[expected].id


def test_the_last_day_of_the_calendar_is_a_baseline_too(sqlite_database: Database) -> None:
    added = add_schedule(
        sqlite_database, BEGUN, baseline={"kind": "date", "on": date.max.isoformat()}
    )
    for number in range(2):
        whole_night(sqlite_database, SLOT + number * DAY)
    first, second = ledger(sqlite_database, added)
    assert second.baseline_run_id == first.id


def test_a_batch_that_is_deleted_before_its_report_ends_the_run(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    complete(database)
    (run,) = ledger(database, added)
    set_batch(database, run.batch_id, deleted_at=SLOT)
    settle(database, SLOT)
    (run,) = ledger(database, added)
    assert (run.state, run.ended_at) == ("failed", SLOT)
    assert run.reason == "its batch was deleted before its report was made"


@pytest.mark.parametrize(
    ("state", "ends_as", "reason"),
    [
        ("failed", "failed", "no point of its batch has a result"),
        (
            "expired",
            "failed",
            "its batch passed its deadline before any headline point had a result",
        ),
    ],
)
def test_a_batch_without_results_ends_the_run(
    database: Database, state: str, ends_as: str, reason: str
) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    (run,) = ledger(database, added)
    set_batch(database, run.batch_id, state=state, ended_at=SLOT)
    settle(database, SLOT)
    (run,) = ledger(database, added)
    assert (run.state, run.reason, run.report_id) == (ends_as, reason, None)


def test_a_canceled_batch_with_results_is_still_reported_on(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    complete(database)
    (run,) = ledger(database, added)
    set_batch(database, run.batch_id, state="canceled")
    settle(database, SLOT)
    complete(database)
    (run,) = ledger(database, added)
    assert run.state == "canceled"
    assert report_of(database, run).state == "succeeded"


def test_a_run_that_is_canceled_by_hand_says_by_whom(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    (run,) = ledger(database, added)
    with database.write() as connection:
        shown = runs.cancel(connection, Actor(name="ada"), "nightly", run.id, SLOT)
    assert (shown.state, shown.reason) == ("running", "it was canceled by ada")
    assert read(database, run.batch_id).state == "canceled"
    settle(database, SLOT)
    (run,) = ledger(database, added)
    assert run.state == "canceled"


def test_a_report_waits_for_the_runs_of_earlier_slots(database: Database) -> None:
    added = add_schedule(
        database,
        BEGUN,
        misfire_policy="run_all",
        batch={"items": [item()], "reuse": False},
    )
    begin(database, SLOT + DAY)
    first, second = ledger(database, added)
    assert (first.state, second.state) == ("running", "due")
    with database.write() as connection:
        # As in a backfill: both compute, and the later one is faster.
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.id == second.id)
            .values(state="running", batch_id=first.batch_id, settings=first.settings)
        )
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.id == first.id)
            .values(batch_id=None, state="due", not_before=SLOT + 3 * DAY)
        )
    complete(database)
    assert hand_over(database, SLOT + DAY) == 0
    assert ledger(database, added)[1].state == "running"
    with database.write() as connection:
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.id == first.id)
            .values(state="canceled", ended_at=SLOT)
        )
    assert hand_over(database, SLOT + DAY) == 1
    assert ledger(database, added)[1].state == "reporting"


def test_a_run_that_cannot_be_handed_over_does_not_stop_the_others(database: Database) -> None:
    broken = add_schedule(database, BEGUN, slug="a-broken")
    sound = add_schedule(database, BEGUN, slug="b-sound")
    begin(database, SLOT)
    complete(database)
    with database.write() as connection:
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.schedule_id == broken)
            .values(settings={"report": "of another version"})
        )
    # Even if there are as many of them as one look takes
    assert hand_over(database, SLOT, at_once=1) == 1
    assert [ledger(database, one)[0].state for one in (broken, sound)] == [
        "running",
        "reporting",
    ]


def test_a_run_whose_batch_is_deleted_is_not_canceled(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    begin(database, SLOT)
    (run,) = ledger(database, added)
    set_batch(database, run.batch_id, deleted_at=SLOT)
    with (
        database.write() as connection,
        pytest.raises(ConflictError, match="no batch any more"),
    ):
        runs.cancel(connection, Actor(), "nightly", run.id, SLOT)
