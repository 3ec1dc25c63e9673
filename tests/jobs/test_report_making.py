"""The task that makes reports: killed anywhere it makes one; what cannot be made ends its run."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select

from service.db import batches as batch_rows
from service.db import reports as rows
from service.db.engine import Database, Row
from service.db.schedule_tables import delivery, loss_change, schedule_run
from service.errors import ConflictError
from service.jobs import (
    backfills,
    batches,
    deletions,
    delivery_plans,
    report_making,
    reports,
    run_ends,
    runs,
)
from service.jobs.backfill_documents import BackfillIn
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.slot_ledger import tick
from service.jobs.tasks import TASKS
from tests.jobs.batch_bodies import ACTOR, item
from tests.jobs.chunk_steps import end, record
from tests.jobs.ledger_bodies import LIMITS, add_schedule, ledger
from tests.jobs.report_bodies import (
    SLOW,
    a_profile,
    a_rate,
    ask,
    batch,
    document,
    listed,
    look_at,
    one,
)

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
# 02:30 in Paris
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


def change_rows(database: Database, report_id: UUID) -> list[Row[Any]]:
    with database.read() as connection:
        query = select(loss_change).where(loss_change.c.report_id == report_id)
        return list(connection.execute(query.order_by(loss_change.c.point)))


def count(database: Database, table: Any) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(table)) or 0


def two_batches(database: Database) -> tuple[UUID, UUID]:
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01")
    past = batch(database, one("a"), one("b", **SLOW), start_on="2026-11-01")
    return past, batch(database, one("a", **SLOW), one("b", **SLOW))


def test_what_moved_is_kept_for_histories(database: Database) -> None:
    past, new = two_batches(database)
    report_id = ask(database, new, baseline_batch_id=str(past))
    report_making.run(database, report_id)
    report = document(database, report_id)
    found = change_rows(database, report_id)
    assert [(row.point, row.past_point, row.name, row.profile_slug) for row in found] == [
        (0, 0, "a", "prod"),
        (1, 1, "b", "prod"),
    ]
    assert {(row.batch_id, row.past_batch_id) for row in found} == {(new, past)}
    moved, same = found
    assert moved.new_gpu_hours_lost == report.items[0].gpu_hours_lost_per_30_days
    assert [cause["path"] for cause in moved.causes] == ["slow_groups"]
    assert same.past_gpu_hours_lost == same.new_gpu_hours_lost
    assert same.causes == []


def killed_in(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, act: Any) -> None:
    """Run `act`, and end the process where it calls `name`, before that does anything."""

    def die(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(place, name, die)
        with pytest.raises(KilledError):
            act()


def night(database: Database, now: datetime, **changes: Any) -> Row[Any]:
    """A run whose batch has ended, and whose report waits to be made."""
    added = add_schedule(
        database,
        BEGUN,
        batch={"items": [item()], "currency": "EUR"},
        report={"remedies": False},
        **changes,
    )
    tick(database, now)
    start_due(database, LIMITS, now)
    (run,) = ledger(database, added)
    record(database, run.batch_id, 0)
    end(database, run.batch_id)
    assert hand_over(database, now) == 1
    return ledger(database, added)[0]


def run_row(database: Database, run_id: UUID) -> Row[Any]:
    with database.read() as connection:
        return connection.execute(select(schedule_run).where(schedule_run.c.id == run_id)).one()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (report_making, "collect"),
        (report_making, "packed"),
        (rows, "end"),
        (rows, "insert_changes"),
        (run_ends, "end_with_report"),
        (delivery_plans, "plan"),
    ],
)
def test_killed_anywhere_it_makes_one_report_of_the_run(
    database: Database, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    run = night(database, SLOT, deliveries=[{"kind": "directory", "folder": "nightly"}])
    killed_in(monkeypatch, place, name, lambda: report_making.run(database, run.report_id))
    assert look_at(database, run.report_id).state == "running"
    assert run_row(database, run.id).state == "reporting"
    assert count(database, delivery) == 0
    report_making.run(database, run.report_id)
    made = look_at(database, run.report_id)
    ended = run_row(database, run.id)
    assert (made.state, ended.state, ended.budget_status) == ("succeeded", "succeeded", None)
    assert count(database, delivery) == 1
    report_making.run(database, run.report_id)
    assert look_at(database, run.report_id) == made
    assert run_row(database, run.id) == ended
    assert count(database, delivery) == 1


def test_the_second_of_two_makers_leaves_no_trace(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = night(database, SLOT, deliveries=[{"kind": "directory", "folder": "nightly"}])
    finish: Callable[..., bool] = report_making.finish

    def overtaken(database: Database, row: Row[Any], collected: Any) -> bool:
        assert finish(database, row, collected)
        return finish(database, row, collected)

    monkeypatch.setattr(report_making, "finish", overtaken)
    report_making.run(database, run.report_id)
    assert look_at(database, run.report_id).version == 2
    assert count(database, delivery) == 1


@pytest.mark.parametrize(("hours", "status"), [(1e9, "within"), (1.0, "over")])
def test_a_budget_marks_the_run(database: Database, hours: float, status: str) -> None:
    run = night(database, SLOT, budget={"gpu_hours_lost_per_30_days": hours})
    report_making.run(database, run.report_id)
    ended = run_row(database, run.id)
    assert (ended.state, ended.budget_status) == ("succeeded", status)
    assert ended.budget["gpu_hours_budget_per_30_days"] == hours
    report = document(database, run.report_id)
    assert report.budget is not None
    assert report.budget.status == status
    assert report.run is not None
    assert (report.run.schedule, report.run.zone) == ("nightly", "Europe/Paris")
    assert report.run.scheduled_for == SLOT
    assert report.batch.run_id == run.id


def test_a_run_that_is_late_says_so_in_its_report(database: Database) -> None:
    run = night(database, SLOT + timedelta(hours=3))
    report_making.run(database, run.report_id)
    report = document(database, run.report_id)
    assert report.warnings[0].code == "late_run"


def test_a_batch_that_was_deleted_fails_the_report_and_its_run(database: Database) -> None:
    run = night(database, SLOT, deliveries=[{"kind": "directory", "folder": "nightly"}])
    with database.write() as connection:
        version = batches.get(connection, ACTOR, run.batch_id).version
        deletions.delete_batch(connection, ACTOR, run.batch_id, expected_version=version)
    report_making.run(database, run.report_id)
    why = f"there is no batch {run.batch_id}"
    made, ended = look_at(database, run.report_id), run_row(database, run.id)
    assert (made.state, made.failure, made.headline) == ("failed", why, None)
    assert (ended.state, ended.reason) == ("failed", f"its report: {why}")
    assert count(database, delivery) == 1


def test_a_report_that_kills_its_process_ends_with_the_reason(database: Database) -> None:
    run = night(database, SLOT)
    for reason in ("it was tried too often", "again"):
        with database.write() as connection:
            TASKS["report"].fail(connection, run.report_id, reason)
    ended = run_row(database, run.id)
    assert (ended.state, ended.reason) == ("failed", "its report: it was tried too often")
    assert look_at(database, run.report_id).failure == "it was tried too often"
    report_making.run(database, run.report_id)
    assert look_at(database, run.report_id).state == "failed"


def test_what_waits_is_sent_until_it_has_ended(database: Database) -> None:
    past, new = two_batches(database)
    report_id = ask(database, new, baseline_batch_id=str(past))
    task = TASKS["report"]
    with database.write() as connection:
        assert task.unsent(connection, 1) == [report_id]
        task.mark_sent(connection, [report_id], 1)
        assert task.unsent(connection, 1) == []
        assert task.unsent(connection, 2) == [report_id]
    report_making.run(database, report_id)
    with database.read() as connection:
        assert task.unsent(connection, 2) == []


def test_a_backfill_of_one_schedule_holds_up_no_other(database: Database) -> None:
    """Ten nights of one, then a run of another, one by hand, and a run of now of the first."""
    night, other = (
        add_schedule(database, BEGUN, slug=slug, report={"remedies": False})
        for slug in ("a-night", "b-other")
    )
    days = BackfillIn(first_on=date(2026, 12, 1), last_on=date(2026, 12, 10), max_running=10)
    with database.write() as connection:
        backfills.create(connection, ACTOR, "a-night", days, limits=LIMITS, now=BEGUN)
    computed(database)
    with database.write() as connection:
        runs.run_now(connection, ACTOR, "b-other", BEGUN)
        runs.run_now(connection, ACTOR, "a-night", BEGUN)
    computed(database)
    of_backfill = [run.report_id for run in ledger(database, night)[:10]]
    now, others = ledger(database, night)[-1].report_id, ledger(database, other)[0].report_id
    batch_id = ledger(database, other)[0].batch_id
    by_hand = [ask(database, batch_id) for _ in range(3)]
    nightly, task = TASKS["nightly_report"], TASKS["report"]
    # What can wait takes no place of runs in their time, whoever asks for how much of it.
    assert (nightly.is_nightly, task.is_nightly) == (True, False)
    assert nightly.num_unfinished is not None
    assert task.num_unfinished is not None
    with database.write() as connection:
        assert set(nightly.unsent(connection, 1)) == {now, others}
        assert nightly.num_unfinished(connection) == 2
        sent = list(task.unsent(connection, 1))
        assert set(sent) == {*of_backfill[:2], *by_hand[:2]}
        task.mark_sent(connection, sent, 1)
        assert task.unsent(connection, 1) == []
        assert task.num_unfinished(connection) == 13
    # As soon as one of a schedule has ended, it is given the next one.
    report_making.run(database, of_backfill[0])
    report_making.run(database, by_hand[0])
    with database.read() as connection:
        assert set(task.unsent(connection, 1)) == {of_backfill[2], by_hand[2]}


def computed(database: Database) -> None:
    """Run the batches of what is due until their reports are asked for; make none of these."""
    while start_due(database, LIMITS, BEGUN):
        pass
    with database.read() as connection:
        waiting = batch_rows.unsent_batches(connection, 1, 100)
    for found in waiting:
        with database.write() as connection:
            batch_rows.mark_sent(connection, found.id, 1)
        record(database, found.id, 0)
        end(database, found.id)
    while hand_over(database, BEGUN):
        pass


def test_a_run_that_never_began_is_told_by_the_settings_of_its_schedule(database: Database) -> None:
    added = add_schedule(database, BEGUN, deliveries=[{"kind": "directory", "folder": "nightly"}])
    tick(database, SLOT)
    (run,) = ledger(database, added)
    assert run.settings is None
    for expected in (True, False):
        with database.write() as connection:
            ended = run_ends.end_without_report(connection, run, "failed", "no profile", SLOT)
        assert ended is expected
    assert run_row(database, run.id).reason == "no profile"
    assert count(database, delivery) == 1


def test_a_report_that_its_run_waits_for_stays(database: Database) -> None:
    run = night(database, SLOT)
    with pytest.raises(ConflictError, match=f"run {run.id} waits for it"):
        delete(database, run.report_id, 1)
    report_making.run(database, run.report_id)
    assert [one.id for one in listed(database, schedule="nightly")] == [run.report_id]
    assert [one.id for one in listed(database, run=run.id)] == [run.report_id]
    delete(database, run.report_id, 2)
    assert run_row(database, run.id).state == "succeeded"


def delete(database: Database, report_id: UUID, version: int) -> None:
    with database.write() as connection:
        reports.delete(connection, ACTOR, report_id, expected_version=version)


def test_a_report_deleted_before_it_is_made_is_not_made(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, new = two_batches(database)
    report_id = ask(database, new)
    begin = rows.begin

    def deleted_first(*arguments: Any) -> bool:
        delete_row(arguments[0], report_id)
        return begin(*arguments)

    def delete_row(connection: Any, found: UUID) -> None:
        assert rows.delete_report(connection, found, version=1)

    monkeypatch.setattr(rows, "begin", deleted_first)
    report_making.run(database, report_id)
    report_making.run(database, report_id)
    assert listed(database) == []
