"""Backfills run the slots of past days, or run them again, and keep what was there before."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from sqlalchemy import select

from service.db import slot_ledger
from service.db.engine import Database
from service.db.schedule_runs import RunFilter
from service.db.schedule_tables import delivery
from service.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from service.jobs import backfills, reports, runs
from service.jobs.actors import Actor
from service.jobs.backfill_documents import BackfillIn, BackfillOut, BackfillPlanOut, RunCounts
from service.jobs.run_handover import hand_over
from service.jobs.run_starts import start_due
from service.jobs.slot_ledger import tick
from service.settings import Limits
from tests.jobs.batch_bodies import item, read
from tests.jobs.completed import complete
from tests.jobs.ledger_bodies import LIMITS, add_schedule, change, ledger, settle

NOW = datetime(2027, 2, 1, 12, tzinfo=UTC)
ACTOR = Actor(name="ada")
JANUARY: dict[str, Any] = {"first_on": date(2027, 1, 1), "last_on": date(2027, 1, 31)}
GONE = {"custom_id": "a", "profile": "nowhere"}
FIVE: dict[str, Any] = {"first_on": date(2027, 1, 1), "last_on": date(2027, 1, 5)}


def create(database: Database, now: datetime = NOW, **body: Any) -> BackfillOut:
    with database.write() as connection:
        document = BackfillIn(**{**FIVE, **body})
        return backfills.create(connection, ACTOR, "nightly", document, limits=LIMITS, now=now)


def check(database: Database, limits: Limits = LIMITS, **body: Any) -> BackfillPlanOut:
    with database.read() as connection:
        document = BackfillIn(**{**FIVE, **body})
        return backfills.check(connection, ACTOR, "nightly", document, limits=limits, now=NOW)


def look(database: Database, backfill_id: UUID) -> BackfillOut:
    with database.read() as connection:
        return backfills.get(connection, ACTOR, "nightly", backfill_id)


def cancel(database: Database, backfill_id: UUID) -> BackfillOut:
    with database.write() as connection:
        return backfills.cancel(connection, ACTOR, "nightly", backfill_id, NOW)


def begin(database: Database) -> None:
    while start_due(database, LIMITS, NOW):
        pass


def finish(database: Database) -> None:
    """Compute, report and begin the next until nothing is left."""
    begin(database)
    while complete(database):
        settle(database, NOW)
    complete(database)


def fault_of(error: pytest.ExceptionInfo[InvalidError]) -> tuple[str, str, str]:
    (fault,) = error.value.errors
    return fault.pointer, fault.code, fault.detail


def test_a_month_of_nights_is_run_as_many_at_a_time_as_asked(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, **JANUARY, max_running=3)
    assert (made.state, made.slots, made.runs) == ("running", 31, RunCounts(due=31))
    assert (made.first_on, made.last_on) == (date(2027, 1, 1), date(2027, 1, 31))
    assert made.runs_url == f"/v1/schedules/nightly/runs?backfill={made.id}"
    begin(database)
    found = ledger(database, added)
    assert [run.state for run in found] == ["running"] * 3 + ["due"] * 28
    assert {run.kind for run in found} == {"backfill"}
    assert [str(run.start_on) for run in found[:2]] == ["2027-01-01", "2027-01-02"]
    finish(database)
    assert look(database, made.id).runs == RunCounts(succeeded=31)
    assert look(database, made.id).state == "ended"
    found = ledger(database, added)
    assert len({run.batch_id for run in found}) == 31
    # Each is compared with the night before, whichever was computed first.
    assert [run.baseline_run_id for run in found] == [None, *(run.id for run in found[:-1])]
    assert [read(database, run.batch_id).start_on for run in found[:2]] == [
        date(2027, 1, 1),
        date(2027, 1, 2),
    ]


def test_the_newest_first_is_still_compared_with_the_night_before(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, newest_first=True, max_running=2)
    begin(database)
    assert [run.state for run in ledger(database, added)] == ["due"] * 3 + ["running"] * 2
    finish(database)
    found = ledger(database, added)
    assert look(database, made.id).runs == RunCounts(succeeded=5)
    assert [run.baseline_run_id for run in found] == [None, *(run.id for run in found[:-1])]


def test_what_waits_of_a_backfill_says_for_what(database: Database) -> None:
    added = add_schedule(database, NOW)
    create(database, last_on=date(2027, 1, 3), max_running=1)

    def reasons() -> list[str | None]:
        with database.read() as connection:
            page = runs.list_page(
                connection, ACTOR, "nightly", RunFilter(), page_size=9, page_token=None
            )
        return [run.reason for run in reversed(page.items)]

    first, _, _ = ledger(database, added)
    behind = f"it waits: the run of {first.local_time} ({first.id}) begins before it"
    assert reasons() == [None, behind, behind]
    begin(database)
    full = "it waits: 1 of its backfill compute, and no more may at once (`max_running`)"
    assert reasons() == [None, full, full]
    change(database, added, paused_at=NOW, next_at=None)
    assert reasons() == [None, *["the schedule is paused"] * 2]


def test_a_run_is_compared_with_that_before_whichever_backfill_has_it(database: Database) -> None:
    added = add_schedule(database, NOW)
    first = create(database, last_on=date(2027, 1, 3), max_running=1)
    create(database, first_on=date(2027, 1, 4))
    begin(database)
    assert [run.state for run in ledger(database, added)] == ["running", "due", "due"] + [
        "running"
    ] * 2
    complete(database)
    # What has begun and what waits of the first one come before, whoever asked for them when.
    assert hand_over(database, NOW) == 1
    assert [run.state for run in ledger(database, added)] == ["reporting", "due", "due"] + [
        "running"
    ] * 2
    finish(database)
    found = ledger(database, added)
    assert {run.state for run in found} == {"succeeded"}
    assert [run.baseline_run_id for run in found] == [None, *(run.id for run in found[:-1])]
    assert look(database, first.id).state == "ended"


@pytest.mark.parametrize("what", ["canceled", "paused", "compared with none"])
def test_a_backfill_waits_for_no_other_that_goes_no_further(database: Database, what: str) -> None:
    compared = {"baseline": None} if what == "compared with none" else {}
    added = add_schedule(database, NOW, **compared)
    first = create(database, last_on=date(2027, 1, 3), max_running=1)
    create(database, first_on=date(2027, 1, 4))
    begin(database)
    complete(database)
    if what == "canceled":
        cancel(database, first.id)
    elif what == "paused":
        change(database, added, paused_at=NOW)
    assert hand_over(database, NOW) == 3
    assert [run.state for run in ledger(database, added)][3:] == ["reporting"] * 2


def test_tonight_waits_for_no_backfill(database: Database) -> None:
    added = add_schedule(database, NOW)
    create(database)
    tonight = datetime(2027, 2, 2, 1, 30, tzinfo=UTC)
    tick(database, tonight)
    while start_due(database, LIMITS, tonight):
        pass
    complete(database)
    assert [run.state for run in ledger(database, added)] == ["running"] * 4 + ["due", "running"]
    hand_over(database, tonight)
    assert [run.state for run in ledger(database, added)] == ["reporting"] * 4 + [
        "due",
        "reporting",
    ]


def test_what_is_left_of_the_quota_is_for_tonight(database: Database) -> None:
    """However many slots of a backfill are older: a thousand of them would take weeks of hours."""
    added = add_schedule(database, NOW)
    create(database)
    tonight = datetime(2027, 2, 2, 1, 30, tzinfo=UTC)
    tick(database, tonight)
    # Where nothing is to be had, what comes in its time is tried again before any backfill.
    start_due(database, Limits(unfinished_batches=0), tonight)
    waits = [one.not_before for one in ledger(database, added)]
    pause = timedelta(seconds=30)
    assert waits == [tonight + pause + timedelta(seconds=2), *[None] * 4, tonight + pause]
    later = tonight + timedelta(minutes=1)
    while start_due(database, Limits(points_per_hour=1), later):
        pass
    *past, run = ledger(database, added)
    assert [one.state for one in (*past, run)] == ["due"] * 5 + ["running"]
    assert "0 are left of the 1 points" in past[0].reason


def test_a_slot_keeps_the_zone_that_it_came_in(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, last_on=date(2027, 1, 1))
    change(database, added, zone="America/New_York")
    finish(database)
    with database.read() as connection:
        run = runs.get(connection, ACTOR, "nightly", ledger(database, added)[0].id)
        assert run.report_id is not None
        report = reports.read_document(connection, ACTOR, run.report_id)
        listed = reports.get(connection, ACTOR, run.report_id)
    assert (run.backfill_id, run.local_time) == (made.id, "2027-01-01T02:30:00+01:00")
    assert report.run is not None
    shown = {(one.local_time, one.zone) for one in (run, report.run, listed)}
    assert shown == {("2027-01-01T02:30:00+01:00", "Europe/Paris")}
    # One more attempt is one of the slot as it comes now.
    create(database, last_on=date(2027, 1, 1), reprocess="all", now=NOW + timedelta(hours=1))
    assert [(run.local_time, run.zone) for run in ledger(database, added)] == [
        ("2027-01-01T02:30:00+01:00", "Europe/Paris"),
        ("2027-01-01T02:30:00-05:00", "America/New_York"),
    ]


def with_history(database: Database) -> UUID:
    """Five slots: succeeded, failed, missed, running, and one that is not in the ledger."""
    added = add_schedule(database, datetime(2026, 12, 31, 12, tzinfo=UTC))
    night = datetime(2027, 1, 1, 1, 30, tzinfo=UTC)
    tick(database, night)
    finish(database)
    with_fault = {"items": [{"custom_id": "gone", "profile": "nowhere"}]}
    sound = {"items": [item()]}
    rows = ledger(database, added)
    assert rows[0].state == "succeeded"
    _template(database, added, with_fault)
    tick(database, night + timedelta(days=1))
    begin(database)
    _template(database, added, sound)
    _definition(database, added, misfire_policy="skip")
    tick(database, night + timedelta(days=2, hours=1))
    tick(database, night + timedelta(days=3))
    begin(database)
    change(database, added, next_at=NOW + timedelta(days=1))
    found = [run.state for run in ledger(database, added)]
    assert found == ["succeeded", "failed", "misfired", "running"]
    return added


def _definition(database: Database, schedule_id: UUID, **values: Any) -> None:
    with database.read() as connection:
        row = slot_ledger.find_schedule(connection, schedule_id)
    change(database, schedule_id, definition={**row.definition, **values})


def _template(database: Database, schedule_id: UUID, batch: dict[str, Any]) -> None:
    _definition(database, schedule_id, batch=batch)


# Of the five: which are run
REPROCESSED = {"none": [2, 4], "failed": [1, 2, 4], "all": [0, 1, 2, 4]}


@pytest.mark.parametrize("reprocess", REPROCESSED)
def test_what_is_run_hangs_on_what_is_there(database: Database, reprocess: str) -> None:
    added = with_history(database)
    before = ledger(database, added)
    chosen = REPROCESSED[reprocess]
    plan = check(database, reprocess=reprocess)
    assert [slot.runs for slot in plan.slots] == [number in chosen for number in range(5)]
    assert (plan.slots_run, plan.slots_left) == (len(chosen), 5 - len(chosen))
    assert [slot.state for slot in plan.slots] == [
        "succeeded",
        "failed",
        "misfired",
        "running",
        None,
    ]
    assert [slot.batch_id for slot in plan.slots[:4]] == [run.batch_id for run in before]
    assert plan.slots[3].reason == "it has not ended"
    assert plan.slots[4].reason == "it is not in the ledger"
    assert ledger(database, added) == before
    made = create(database, reprocess=reprocess)
    assert (made.slots, made.runs) == (len(chosen), RunCounts(due=len(chosen)))
    after = ledger(database, added)
    for number, run in enumerate(after):
        assert (run.backfill_id == made.id) == (number in chosen)
    assert [run.id for run in after[:4]] == [run.id for run in before]
    assert [run.attempt for run in after] == [
        2 if number in chosen and number < 4 else 1 for number in range(5)
    ]


def test_a_slot_that_is_run_again_keeps_what_it_had(database: Database) -> None:
    added = with_history(database)
    before = ledger(database, added)[0]
    made = create(database, reprocess="all")
    waiting = ledger(database, added)[0]
    assert (waiting.state, waiting.kind, waiting.attempt) == ("due", "backfill", 2)
    assert (waiting.batch_id, waiting.report_id, waiting.ended_at) == (None, None, None)
    assert (waiting.settings, waiting.budget_status) == (None, None)
    assert waiting.earlier_batches == [
        {
            "attempt": 1,
            "state": "succeeded",
            "batch_id": str(before.batch_id),
            "report_id": str(before.report_id),
            "ended_at": msgspec.to_builtins(before.ended_at),
        }
    ]
    finish(database)
    run = ledger(database, added)[0]
    assert (run.state, run.attempt) == ("succeeded", 2)
    assert run.batch_id not in {None, before.batch_id}
    assert run.report_id not in {None, before.report_id}
    assert read(database, before.batch_id).state == "succeeded"
    assert look(database, made.id).runs == RunCounts(succeeded=4)
    # Once more: the slots are another backfill's from now on.
    create(database, reprocess="all", last_on=date(2027, 1, 1))
    run = ledger(database, added)[0]
    assert [earlier["attempt"] for earlier in run.earlier_batches] == [1, 2]
    assert look(database, made.id).runs == RunCounts(succeeded=3, taken_over=1)


def test_a_dry_run_estimates_points_and_time(database: Database) -> None:
    sizes = {"path": "num_gpus", "values": [8, 16, 32]}
    add_schedule(database, NOW, batch={"items": [item(axes=[sizes]), item(custom_id="b")]})
    plan = check(database, Limits(points_per_hour=1_000))
    assert (plan.points_per_run, plan.points_total, plan.points_left) == (4, 20, 1_000)
    assert 0.5 <= plan.estimated_s < 5
    assert (plan.held, plan.warnings) == (None, [])
    first = plan.slots[0]
    assert (first.scheduled_for, first.local_time, first.dst) == (
        datetime(2027, 1, 1, 1, 30, tzinfo=UTC),
        "2027-01-01T02:30:00+01:00",
        None,
    )


def test_a_batch_that_is_refused_is_told_before_anything_is_run(database: Database) -> None:
    added = add_schedule(database, NOW, batch={"items": [GONE]})
    for attempt in (check, create):
        with pytest.raises(InvalidError) as error:
            attempt(database)
        assert fault_of(error)[:2] == ("/items/0/profile", "unknown_profile")
    assert ledger(database, added) == []


@pytest.mark.parametrize(
    ("body", "pointer", "code", "detail"),
    [
        (
            {"first_on": date(2027, 1, 5), "last_on": date(2027, 1, 1)},
            "/last_on",
            "before_first",
            "2027-01-01 is before 2027-01-05",
        ),
        (
            {"first_on": date(1969, 12, 31)},
            "/first_on",
            "too_early",
            "1969-12-31 is before 1970-01-01",
        ),
        (
            {"first_on": date(2010, 1, 1)},
            "/last_on",
            "range_too_long",
            "6214 days, but the limit is 3660",
        ),
        (
            {"last_on": date(2027, 2, 3)},
            "/last_on",
            "slot_in_future",
            "the slot of 2027-02-02T02:30:00+01:00 has not come yet",
        ),
        (
            {"first_on": date(9999, 12, 1), "last_on": date.max},
            "/last_on",
            "slot_in_future",
            "9999-12-31 has not come yet",
        ),
        (
            {"first_on": date(2024, 1, 1)},
            "/last_on",
            "too_many_slots",
            "there are more than 1000 slots from 2024-01-01 to 2027-01-05, which is the limit",
        ),
    ],
)
def test_days_that_cannot_be_taken(
    sqlite_database: Database, body: dict[str, Any], pointer: str, code: str, detail: str
) -> None:
    add_schedule(sqlite_database, NOW)
    for attempt in (check, create):
        with pytest.raises(InvalidError) as error:
            attempt(sqlite_database, **body)
        assert fault_of(error) == (pointer, code, detail)


def test_days_without_a_slot_and_slots_without_a_run(database: Database) -> None:
    added = add_schedule(database, NOW, cron="30 2 * * 1")
    with pytest.raises(InvalidError) as error:
        create(database, first_on=date(2027, 1, 1), last_on=date(2027, 1, 3))
    assert fault_of(error)[1] == "no_slots"
    create(database)
    with pytest.raises(InvalidError) as error:
        create(database)
    assert fault_of(error) == (
        "/reprocess",
        "nothing_to_run",
        "none of the 1 slots is to run: 2027-01-04T02:30:00+01:00 is left since it has not ended",
    )
    assert len(ledger(database, added)) == 1
    # Asked what it would do, it shows every slot and why it is left.
    plan = check(database)
    assert [(slot.local_time, slot.runs, slot.reason) for slot in plan.slots] == [
        ("2027-01-04T02:30:00+01:00", False, "it has not ended")
    ]
    assert (plan.slots_run, plan.slots_left, plan.points_total, plan.estimated_s) == (0, 1, 0, 0.0)
    assert [notice.code for notice in plan.warnings] == ["nothing_to_run"]


def test_a_thousand_slots_are_written_at_once(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, first_on=date(2027, 1, 5) - timedelta(days=999))
    assert len(ledger(database, added)) == made.slots == 1_000


def test_nothing_of_it_begins_while_the_schedule_is_paused(database: Database) -> None:
    added = add_schedule(database, NOW, paused=True)
    assert check(database).held == "the schedule is paused"
    made = create(database)
    assert made.held == "the schedule is paused"
    begin(database)
    assert {run.state for run in ledger(database, added)} == {"due"}
    change(database, added, paused_at=None)
    begin(database)
    assert look(database, made.id).runs == RunCounts(running=4, due=1)
    assert look(database, made.id).held is None


def test_a_canceled_backfill_begins_no_more_and_keeps_what_is_done(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, max_running=1)
    begin(database)
    complete(database)
    hand_over(database, NOW)
    complete(database)
    begin(database)
    found = [run.state for run in ledger(database, added)]
    assert found == ["succeeded", "running", "due", "due", "due"]
    canceled = cancel(database, made.id)
    assert canceled.state == "canceling"
    assert canceled.canceled_at == NOW
    assert canceled.runs == RunCounts(succeeded=1, running=1, canceled=3)
    assert cancel(database, made.id) == canceled
    settle(database, NOW)
    runs = ledger(database, added)
    assert [run.state for run in runs] == ["succeeded"] + ["canceled"] * 4
    assert runs[2].reason == "its backfill was canceled by ada"
    assert look(database, made.id).state == "canceled"


def test_a_backfill_that_has_ended_is_not_canceled(database: Database) -> None:
    add_schedule(database, NOW)
    made = create(database, last_on=date(2027, 1, 1))
    finish(database)
    with pytest.raises(ConflictError, match="has already ended"):
        cancel(database, made.id)


def test_what_computes_already_is_left_to_end_when_it_has(database: Database) -> None:
    added = add_schedule(database, NOW)
    made = create(database, max_running=2)
    begin(database)
    complete(database)
    # Both batches have ended and nobody has handed them over yet.
    canceled = cancel(database, made.id)
    assert canceled.runs == RunCounts(running=2, canceled=3)
    settle(database, NOW)
    complete(database)
    assert [run.state for run in ledger(database, added)][:2] == ["succeeded"] * 2


@pytest.mark.parametrize("deliver", [False, True])
def test_runs_are_delivered_only_when_asked(database: Database, deliver: bool) -> None:  # noqa: FBT001
    added = add_schedule(database, NOW, deliveries=[{"kind": "directory", "folder": "nightly"}])
    create(database, last_on=date(2027, 1, 2), deliver=deliver)
    finish(database)
    runs = ledger(database, added)
    assert [run.state for run in runs] == ["succeeded"] * 2
    with database.read() as connection:
        told = connection.execute(select(delivery.c.run_id, delivery.c.dedup_key)).all()
    expected = [(run.id, f"{run.id}:1:0") for run in runs] if deliver else []
    assert sorted(map(tuple, told)) == sorted(expected)


def test_a_refused_batch_of_a_backfill_tells_nobody(database: Database) -> None:
    added = add_schedule(database, NOW, deliveries=[{"kind": "directory", "folder": "nightly"}])
    create(database, last_on=date(2027, 1, 1))
    # Meanwhile its profile goes.
    with database.read() as connection:
        definition = slot_ledger.find_schedule(connection, added).definition
    batch = {**definition["batch"], "items": [GONE]}
    change(database, added, definition={**definition, "batch": batch})
    begin(database)
    assert ledger(database, added)[0].state == "failed"
    with database.read() as connection:
        assert connection.execute(select(delivery)).all() == []


def test_a_schedule_has_so_many_backfills_at_most(database: Database) -> None:
    add_schedule(database, NOW, cron="0 * * * *")
    for day in range(1, 21):
        create(database, first_on=date(2027, 1, day), last_on=date(2027, 1, day))
    # A dry run says so too.
    for attempt in (create, check):
        with pytest.raises(UnavailableError, match="20 backfills of the schedule 'nightly'"):
            attempt(database, first_on=date(2027, 1, 21), last_on=date(2027, 1, 21))


def test_backfills_are_listed_page_by_page(database: Database) -> None:
    add_schedule(database, NOW)
    made = [
        create(
            database,
            NOW + timedelta(seconds=day),
            first_on=date(2027, 1, day),
            last_on=date(2027, 1, day),
        )
        for day in (1, 2, 3)
    ]
    with database.read() as connection:
        first = backfills.list_page(connection, ACTOR, "nightly", page_size=2, page_token=None)
        last = backfills.list_page(
            connection, ACTOR, "nightly", page_size=2, page_token=first.next_page_token
        )
        with pytest.raises(NotFoundError):
            backfills.get(connection, Actor(team_id=made[0].id), "nightly", made[0].id)
    assert [one.id for one in (*first.items, *last.items)] == [one.id for one in made[::-1]]
    assert last.next_page_token is None


def test_a_backfill_across_a_night_of_change_has_one_slot_a_day(database: Database) -> None:
    now = datetime(2027, 11, 30, tzinfo=UTC)
    added = add_schedule(database, now)
    made = create(database, now, first_on=date(2027, 10, 30), last_on=date(2027, 11, 1))
    assert made.slots == 3
    assert [run.local_time for run in ledger(database, added)] == [
        "2027-10-30T02:30:00+02:00",
        "2027-10-31T02:30:00+02:00",
        "2027-11-01T02:30:00+01:00",
    ]
