"""Runs begin as concurrency policies, limits and pauses allow; run and batch are stored at once."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select

from service.db import batches as batch_rows
from service.db.engine import Database, Row
from service.db.schedule_runs import RunFilter
from service.db.tables import scenario_batch
from service.jobs import run_choices, runs
from service.jobs.actors import Actor
from service.jobs.profile_changes import create_profile
from service.jobs.profile_documents import ProfileIn
from service.jobs.run_handover import hand_over
from service.jobs.run_plans import plan_run
from service.jobs.run_starts import start_due
from service.jobs.slot_ledger import tick
from service.settings import Limits
from tests.jobs.batch_bodies import SEED, item, read
from tests.jobs.completed import complete
from tests.jobs.ledger_bodies import LIMITS, add_schedule, change, ledger, settle, states

BEGUN = datetime(2027, 1, 1, 11, tzinfo=UTC)
# 02:30 in Paris
SLOT = datetime(2027, 1, 2, 1, 30, tzinfo=UTC)
DAY = timedelta(days=1)
NIGHTS = [SLOT + number * DAY for number in range(5)]
ACTOR = Actor(name="ada")


def start(database: Database, now: datetime, limits: Limits = LIMITS) -> None:
    while start_due(database, limits, now):
        pass


def night(database: Database, now: datetime) -> None:
    """Look at the clock and begin what may begin."""
    tick(database, now)
    start(database, now)


def run_now(database: Database, now: datetime) -> UUID:
    with database.write() as connection:
        return runs.run_now(connection, ACTOR, "nightly", now).id


def num_batches(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(scenario_batch)) or 0


def test_a_due_run_gets_the_batch_of_its_template(database: Database) -> None:
    added = add_schedule(
        database,
        BEGUN,
        name="Nightly what-if",
        start_in_days=-1,
        batch={
            "items": [item(), item(custom_id="two", name="Two", start_on="2026-06-01")],
            "currency": "EUR",
            "metadata": {"ticket": "CAP-12"},
            "priority": 3,
        },
        budget={"gpu_hours_lost_per_30_days": 10},
        report={"language": "fr"},
        deliveries=[{"kind": "directory", "folder": "nightly"}],
    )
    night(database, SLOT)
    (run,) = ledger(database, added)
    assert (run.state, run.kind, run.attempt, run.reason) == ("running", "scheduled", 1, None)
    assert (run.started_at, run.ended_at, run.schedule_version) == (SLOT, None, 1)
    assert run.settings["report"]["language"] == "fr"
    assert run.settings["budget"]["gpu_hours_lost_per_30_days"] == 10
    assert run.settings["baseline"] == {"kind": "previous"}
    assert run.settings["currency"] == "EUR"
    assert [delivery["folder"] for delivery in run.settings["deliveries"]] == ["nightly"]
    batch = read(database, run.batch_id)
    assert (batch.name, batch.state, batch.priority) == ("Nightly what-if", "queued", 3)
    assert (str(batch.start_on), batch.currency) == ("2027-01-01", "EUR")
    assert batch.created_by == "schedule/nightly"
    assert batch.metadata == {
        "ticket": "CAP-12",
        "schedule": "nightly",
        "scheduled_for": "2027-01-02T01:30:00Z",
        "run": str(run.id),
    }
    with database.read() as connection:
        items = batch_rows.list_items(connection, [batch.id])
    assert [(row.name, str(row.start_on)) for row in items] == [
        ("one-slow", "2027-01-01"),
        ("Two", "2026-06-01"),
    ]


def test_forbid_skips_what_comes_while_a_run_has_not_ended(database: Database) -> None:
    added = add_schedule(database, BEGUN, concurrency_policy="forbid")
    for now in NIGHTS[:2]:
        night(database, now)
    first, second = ledger(database, added)
    assert (first.state, second.state) == ("running", "skipped")
    assert second.reason == (
        f"the run of 2027-01-02T02:30:00+01:00 ({first.id}) had not ended, and the concurrency "
        "policy is `forbid`"
    )
    assert (second.ended_at, second.batch_id) == (NIGHTS[1], None)
    # It is over when its report is made, not before.
    complete(database)
    night(database, NIGHTS[2])
    assert ledger(database, added)[2].state == "skipped"
    settle(database, NIGHTS[2])
    complete(database)
    night(database, NIGHTS[3])
    assert [row.state for row in ledger(database, added)] == [
        "succeeded",
        "skipped",
        "skipped",
        "running",
    ]
    assert num_batches(database) == 2


def test_queue_begins_one_after_the_other_in_the_order_of_slots(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    for now in NIGHTS[:3]:
        night(database, now)
    assert [row.state for row in ledger(database, added)] == ["running", "due", "due"]
    for number in range(1, 3):
        complete(database)
        settle(database, NIGHTS[3])
        complete(database)
        start(database, NIGHTS[3])
        found = [row.state for row in ledger(database, added)]
        assert found == ["succeeded"] * number + ["running"] + ["due"] * (2 - number)
    assert num_batches(database) == 3


def test_what_waits_says_for_what(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    for now in NIGHTS[:3]:
        night(database, now)

    def reasons() -> list[str | None]:
        with database.read() as connection:
            page = runs.list_page(
                connection, ACTOR, "nightly", RunFilter(), page_size=9, page_token=None
            )
        return [run.reason for run in reversed(page.items)]

    first, second, _ = ledger(database, added)
    told = f"it waits: the run of 2027-01-02T02:30:00+01:00 ({first.id}) has not ended"
    assert reasons() == [None, told, told]
    complete(database)
    hand_over(database, NIGHTS[2])
    complete(database)
    # The second begins in a moment.
    behind = f"it waits: the run of {second.local_time} ({second.id}) begins before it"
    assert reasons() == [None, None, behind]
    change(database, added, paused_at=NIGHTS[2], next_at=None)
    run_now(database, NIGHTS[2] + timedelta(hours=1))
    assert reasons() == [None, "the schedule is paused", "the schedule is paused", None]


def test_of_those_that_wait_the_newest_are_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_choices.MAX_WAITING == 100
    monkeypatch.setattr(run_choices, "MAX_WAITING", 2)
    added = add_schedule(database, BEGUN)
    night(database, NIGHTS[0])
    run_now(database, NIGHTS[0] + timedelta(hours=1))
    for now in NIGHTS[1:]:
        night(database, now)
    found = ledger(database, added)
    assert [row.state for row in found] == ["running", "due", "skipped", "skipped", "due", "due"]
    assert found[2].reason == (
        "2 newer slots wait already, which is as many as may under the concurrency policy "
        "`queue`: its runs take longer than the time between its slots"
    )
    assert (found[2].ended_at, found[2].batch_id) == (NIGHTS[3], None)


def test_replace_cancels_the_run_before(database: Database) -> None:
    added = add_schedule(database, BEGUN, concurrency_policy="replace")
    night(database, NIGHTS[0])
    night(database, NIGHTS[1])
    first, second = ledger(database, added)
    assert (first.state, second.state) == ("replaced", "running")
    assert first.reason == (
        f"the run of 2027-01-03T02:30:00+01:00 ({second.id}) came before it had ended, and the "
        "concurrency policy is `replace`"
    )
    assert read(database, first.batch_id).state == "canceled"
    # A batch that has ended is reported on, however late.
    complete(database)
    night(database, NIGHTS[2])
    assert [row.state for row in ledger(database, added)] == ["replaced", "running", "running"]
    settle(database, NIGHTS[2])
    complete(database)
    assert [row.state for row in ledger(database, added)] == [
        "replaced",
        "succeeded",
        "running",
    ]


def test_replace_begins_the_newest_of_those_that_wait(database: Database) -> None:
    added = add_schedule(database, BEGUN, concurrency_policy="replace")
    tick(database, NIGHTS[0])
    tick(database, NIGHTS[1])
    start(database, NIGHTS[1])
    first, second = ledger(database, added)
    assert (first.state, first.batch_id, second.state) == ("replaced", None, "running")
    assert num_batches(database) == 1


@pytest.mark.parametrize("policy", ["forbid", "queue", "replace"])
def test_what_the_misfire_policy_chose_waits_for_each_other(
    database: Database, policy: str
) -> None:
    added = add_schedule(
        database,
        BEGUN,
        concurrency_policy=policy,
        misfire_policy="run_all",
        misfire_max_runs=2,
    )
    night(database, NIGHTS[2] + timedelta(hours=1))
    assert [row.state for row in ledger(database, added)] == ["misfired", "running", "due"]
    complete(database)
    settle(database, NIGHTS[2] + timedelta(hours=1))
    complete(database)
    start(database, NIGHTS[2] + timedelta(hours=2))
    assert [row.state for row in ledger(database, added)] == ["misfired", "succeeded", "running"]


@pytest.mark.parametrize("policy", ["forbid", "queue", "replace"])
def test_what_was_missed_neither_pushes_out_nor_is_pushed_out(
    database: Database, policy: str
) -> None:
    added = add_schedule(
        database, BEGUN, concurrency_policy=policy, misfire_policy="run_all", misfire_max_runs=2
    )
    # Back a minute after the fourth slot, which is in time.
    now = NIGHTS[3] + timedelta(minutes=1)
    night(database, now)
    for number in range(3):
        found = [row.state for row in ledger(database, added)]
        done = ["misfired", *["succeeded"] * number, "running", *["due"] * (2 - number)]
        assert found == done, policy
        complete(database)
        settle(database, now)
        complete(database)
        start(database, now)
    found = ledger(database, added)
    assert [row.state for row in found] == ["misfired", *["succeeded"] * 3]
    assert [row.baseline_run_id for row in found[2:]] == [row.id for row in found[1:-1]]
    assert num_batches(database) == 3


@pytest.mark.parametrize("policy", ["forbid", "replace"])
def test_of_those_in_time_that_wait_for_a_late_run_one_is_left(
    database: Database, policy: str
) -> None:
    added = add_schedule(database, BEGUN, concurrency_policy=policy)
    # The late run of the first night computes for two days.
    for now in (NIGHTS[0] + timedelta(hours=1), NIGHTS[1], NIGHTS[2]):
        night(database, now)
    late, second, third = ledger(database, added)
    assert (late.state, late.reason) == ("running", None)
    if policy == "forbid":
        assert (second.state, third.state) == ("due", "skipped")
        assert str(second.id) in third.reason
    else:
        assert (second.state, third.state) == ("replaced", "due")
        assert str(third.id) in second.reason
    complete(database)
    settle(database, NIGHTS[2])
    complete(database)
    start(database, NIGHTS[2])
    assert [row.state for row in ledger(database, added)].count("running") == 1
    assert read(database, late.batch_id).state == "succeeded"


def test_a_batch_that_is_refused_ends_the_run_with_its_faults(database: Database) -> None:
    with database.write() as connection:
        create_profile(connection, ACTOR, _profile("prod"))
    added = add_schedule(
        database,
        BEGUN,
        batch={
            "items": [
                {"custom_id": "gone", "profile": "nowhere"},
                {"custom_id": "bad", "profile": "prod", "overrides": {"num_gpus": 0}},
            ]
        },
    )
    night(database, SLOT)
    (run,) = ledger(database, added)
    assert (run.state, run.batch_id, run.ended_at) == ("failed", None, SLOT)
    assert run.reason.startswith("the batch was refused: 2 items are invalid; ")
    assert "/items/0/profile: there is no cluster profile 'nowhere'" in run.reason
    assert "/items/1/overrides/num_gpus" in run.reason
    assert num_batches(database) == 0


def test_a_used_up_quota_lets_the_run_wait_for_the_next_hour(database: Database) -> None:
    limits = Limits(points_per_hour=1)
    first = add_schedule(database, BEGUN, slug="a-first")
    second = add_schedule(database, BEGUN, slug="b-second", cron="31 2 * * *")
    tick(database, SLOT + timedelta(minutes=1))
    start(database, SLOT, limits)
    assert ledger(database, first)[0].state == "running"
    (run,) = ledger(database, second)
    assert (run.state, run.batch_id) == ("due", None)
    assert "1 points, but 0 are left of the 1 points" in run.reason
    assert SLOT < run.not_before <= SLOT + timedelta(hours=1)
    # Nothing is tried before then, and it begins by itself afterwards.
    start(database, run.not_before - timedelta(seconds=1))
    assert ledger(database, run.schedule_id)[0].version == run.version
    start(database, run.not_before)
    begun = ledger(database, run.schedule_id)[0]
    assert (begun.state, begun.reason, begun.not_before) == ("running", None, None)


def test_a_full_queue_lets_the_run_wait(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    tick(database, SLOT)
    start(database, SLOT, Limits(unfinished_batches=0))
    (run,) = ledger(database, added)
    assert (run.state, run.not_before) == ("due", SLOT + timedelta(seconds=30))
    assert run.reason == "0 batches wait or run already, the limit is 0"
    start(database, SLOT + timedelta(seconds=30))
    assert ledger(database, added)[0].state == "running"


def test_more_points_than_an_hour_has_end_the_run(database: Database) -> None:
    sizes = {"path": "num_gpus", "values": [8, 16, 32]}
    added = add_schedule(database, BEGUN, batch={"items": [item(axes=[sizes])]})
    tick(database, SLOT)
    start(database, SLOT, Limits(points_per_hour=2))
    (run,) = ledger(database, added)
    assert run.state == "failed"
    assert "3 points, but the team may compute 2 points in an hour" in run.reason


def test_nothing_begins_while_a_schedule_is_paused_but_what_is_asked_for(
    database: Database,
) -> None:
    added = add_schedule(database, BEGUN)
    tick(database, SLOT)
    change(database, added, paused_at=SLOT, next_at=None)
    start(database, SLOT)
    assert states(database, added) == [("2027-01-02T02:30:00+01:00", "due")]
    asked = run_now(database, SLOT + timedelta(hours=1, seconds=5, microseconds=7))
    start(database, SLOT + timedelta(hours=2))
    assert states(database, added) == [
        ("2027-01-02T02:30:00+01:00", "due"),
        ("2027-01-02T03:30:05+01:00", "running"),
    ]
    assert ledger(database, added)[1].id == asked
    # What waits does not hold up the report either.
    complete(database)
    settle(database, SLOT + timedelta(hours=2))
    complete(database)
    assert ledger(database, added)[1].state == "succeeded"
    change(database, added, paused_at=None)
    start(database, SLOT + timedelta(hours=3))
    assert ledger(database, added)[0].state == "running"


def test_nothing_begins_of_a_deleted_schedule(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    tick(database, SLOT)
    run_now(database, SLOT + timedelta(minutes=1))
    change(database, added, deleted_at=SLOT)
    start(database, SLOT + timedelta(minutes=2))
    found = ledger(database, added)
    assert [(run.state, run.reason) for run in found] == [
        ("canceled", "the schedule was deleted")
    ] * 2
    assert num_batches(database) == 0


def test_a_run_of_now_waits_behind_the_run_of_the_night(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    night(database, SLOT)
    asked = run_now(database, SLOT + timedelta(minutes=1))
    start(database, SLOT + timedelta(minutes=1))
    first, second = ledger(database, added)
    assert (first.state, second.state, second.id) == ("running", "due", asked)
    assert (second.kind, second.created_by, second.scheduled_for) == (
        "manual",
        "ada",
        SLOT + timedelta(minutes=1),
    )


def test_two_runs_of_the_same_moment_are_two(database: Database) -> None:
    added = add_schedule(database, BEGUN)
    tick(database, SLOT)
    first, second = run_now(database, SLOT), run_now(database, SLOT)
    found = ledger(database, added)
    assert [run.id for run in found[1:]] == [first, second]
    assert [run.scheduled_for - SLOT for run in found] == [
        timedelta(microseconds=number) for number in range(3)
    ]


def test_two_that_begin_runs_at_once_begin_each_once(database: Database) -> None:
    added = [
        add_schedule(database, BEGUN, slug=f"s{number}", batch={"items": [item()]})
        for number in range(6)
    ]
    tick(database, SLOT)
    other = Database(database.url.render_as_string(hide_password=False))
    faults: list[BaseException] = []
    ready = threading.Barrier(4)

    def begin(opened: Database) -> None:
        ready.wait()
        try:
            for _ in range(8):
                start_due(opened, LIMITS, SLOT)
        except BaseException as error:  # noqa: BLE001 - told by the test
            faults.append(error)

    threads = [
        threading.Thread(target=begin, args=(opened,))
        for opened in (database, other, database, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert faults == []
    found = [run for one in added for run in ledger(database, one)]
    assert [run.state for run in found] == ["running"] * 6
    assert len({run.batch_id for run in found}) == num_batches(database) == 6


def test_a_fault_of_ours_lets_one_run_wait_and_the_others_begin(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = add_schedule(database, BEGUN, slug="a-broken")
    sound = add_schedule(database, BEGUN, slug="b-sound")
    tick(database, SLOT)

    def plan(connection: Any, schedule: Row[Any], *more: Any) -> Any:
        if schedule.slug == "a-broken":
            raise RuntimeError("a defect")
        return plan_run(connection, schedule, *more)

    monkeypatch.setattr("service.jobs.run_starts.plan_run", plan)
    start(database, SLOT)
    (run,) = ledger(database, broken)
    assert (run.state, run.reason) == ("due", "an internal fault; see the log")
    assert run.not_before == SLOT + timedelta(seconds=60)
    assert ledger(database, sound)[0].state == "running"


def test_a_schedule_of_another_version_does_not_stop_the_others(database: Database) -> None:
    newer = add_schedule(database, BEGUN, slug="a-newer")
    sound = add_schedule(database, BEGUN, slug="b-sound")
    tick(database, SLOT)
    change(database, newer, definition={"of_tomorrow": True})
    start(database, SLOT)
    assert [ledger(database, one)[0].state for one in (newer, sound)] == ["due", "running"]


def _profile(slug: str) -> ProfileIn:
    return ProfileIn(slug=slug, name=slug, gpu_type="H100", defaults=SEED)
