"""Schedules as resources, on both databases: made, listed, changed, paused, deleted."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from sqlalchemy import insert, select, update

from service.db import schedules as rows
from service.db.engine import Database
from service.db.schedule_tables import schedule, schedule_run
from service.db.schedules import ScheduleFilter
from service.errors import (
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
    UnavailableError,
)
from service.jobs import batches, profile_changes, schedule_changes, schedules
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.profile_documents import ProfileIn
from service.jobs.schedule_checks import first_day
from service.jobs.schedule_documents import PreviousRun, ScheduleIn
from service.jobs.slot_ledger import tick
from service.jobs.zone_data import TZDATA_VERSION
from service.settings import Deliveries, Limits, Settings
from tests.api.access_keys import new_team
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import LIMITS, SEED, item
from tests.jobs.ledger_bodies import ledger
from tests.jobs.schedule_bodies import (
    ACTOR,
    NOW,
    PLANNER,
    SETTINGS,
    body,
    change,
    create,
    money,
    read,
    row,
)

FOLDER = Settings(deliveries=Deliveries(folder="/srv/reports"))
SATURDAY = datetime(2027, 3, 27, 1, 30, tzinfo=UTC)
SUNDAY = datetime(2027, 3, 28, 1, 0, tzinfo=UTC)
FILES = {"kind": "directory", "folder": "finance"}


def faults(error: pytest.ExceptionInfo[InvalidError]) -> list[tuple[str, str]]:
    assert error.value.problem == "invalid-schedule"
    return [(fault.pointer, fault.code) for fault in error.value.errors]


def add_run(database: Database, schedule_id: UUID, at: datetime, state: str = "due") -> UUID:
    run_id = uuid4()
    with database.write() as connection:
        connection.execute(
            insert(schedule_run).values(
                id=run_id,
                team_id=DEFAULT_TEAM_ID,
                created_by="scheduler",
                schedule_id=schedule_id,
                scheduled_for=at,
                local_time=at.isoformat(),
                zone="UTC",
                kind="scheduled",
                state=state,
                start_on=at.date(),
                earlier_batches=[],
                warnings=[],
                tzdata_version=TZDATA_VERSION,
            )
        )
    return run_id


def test_a_new_schedule_is_stored_whole_and_waits_for_its_next_slot(database: Database) -> None:
    made = create(database, body(cron="30  2 * *   *"))
    assert made == read(database) == read(database, str(made.id))
    assert (made.slug, made.cron, made.zone, made.version) == (
        *("nightly", "30 2 * * *", "Europe/Paris"),
        1,
    )
    assert made.batch.items[0].custom_id == "one-slow"
    assert made.baseline == PreviousRun()
    assert (made.misfire_policy, made.concurrency_policy) == ("run_latest", "queue")
    assert (made.paused, made.paused_at, made.last_run) == (False, None, None)
    assert made.next_occurrence is not None
    assert made.next_occurrence.at == SATURDAY
    assert made.next_occurrence.local == "2027-03-27T02:30:00+01:00"
    assert made.runs_url == "/v1/schedules/nightly/runs"
    assert row(database).next_at == SATURDAY
    (event,) = events(database)
    assert (event.action, event.subject, event.actor) == (
        *("create_schedule", "schedule/nightly"),
        "sre",
    )
    with database.read() as connection:
        definition = schedules.definition_of(schedules.require(connection, ACTOR, "nightly"))
    assert definition == msgspec.convert(body(), ScheduleIn)


def test_a_check_stores_nothing_and_shows_the_nights(database: Database) -> None:
    with database.read() as connection:
        plan = schedule_changes.plan_schedule(connection, ACTOR, body(), SETTINGS, now=NOW)
    assert [one.local for one in plan.next_occurrences] == [
        "2027-03-27T02:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
        "2027-03-30T02:30:00+02:00",
        "2027-03-31T02:30:00+02:00",
    ]
    assert [one.dst for one in plan.next_occurrences] == [None, "gap", None, None, None]
    assert plan.next_occurrences[1].note is not None
    assert plan.batch.points_total == 1
    assert plan.schedule.misfire_grace_s == 300
    with pytest.raises(NotFoundError):
        read(database)
    assert events(database) == []
    create(database, body())
    with database.read() as connection, pytest.raises(ConflictError, match="already taken"):
        schedule_changes.plan_schedule(connection, ACTOR, body(), SETTINGS, now=NOW)


def test_every_fault_is_told_with_its_place(database: Database) -> None:
    document = body(
        slug="Nightly!",
        name=" x",
        cron="*/5 * * * *",
        zone="Mars/Olympus",
        batch={
            "items": [
                item(),
                item(custom_id="b", profile="absent", scenario=None),
                item(custom_id="c", scenario={**SEED, "num_gpus": -1}),
            ],
            "currency": "XXX",
        },
        baseline={"kind": "run", "run_id": str(UUID(int=1))},
        budget={},
        deliveries=[{**FILES, "when": "on_change"}],
    )
    with pytest.raises(InvalidError) as error:
        create(database, document)
    assert set(faults(error)) == {
        ("/slug", "malformed_slug"),
        ("/name", "malformed_label"),
        ("/cron", "too_frequent"),
        ("/zone", "unknown_zone"),
        ("/baseline/run_id", "unknown_run"),
        ("/budget", "empty_budget"),
        ("/deliveries/0/threshold", "missing_threshold"),
        ("/deliveries/0/kind", "folder_not_set_up"),
        ("/batch/currency", "not_monetary"),
        ("/batch/items/1/profile", "unknown_profile"),
        ("/batch/items/2/scenario/num_gpus", "out_of_range"),
    }


def test_faults_of_form_do_not_hide_those_of_the_items(database: Database) -> None:
    document = body(
        misfire_policy="never",
        batch={
            "items": [
                {"custom_id": "a", "scenario": SEED, "colour": "red"},
                item(custom_id="b", scenario={**SEED, "num_gpus": -1}),
            ],
            "priority": 10,
            "start_on": "2027-01-01",
        },
    )
    with pytest.raises(InvalidError) as error:
        create(database, document)
    assert sorted(pointer for pointer, _ in faults(error)) == [
        "/batch/items/0/colour",
        "/batch/items/1/scenario/num_gpus",
        "/batch/priority",
        "/batch/start_on",
        "/misfire_policy",
    ]


@pytest.mark.parametrize("document", [None, [], "x", 1, {}, {"batch": 1}, {"batch": {"items": 1}}])
def test_what_is_no_schedule_is_refused(sqlite_database: Database, document: Any) -> None:
    with pytest.raises(InvalidError) as error:
        create(sqlite_database, document)
    assert faults(error)


@pytest.mark.parametrize(
    ("budget", "currency", "wanted"),
    [
        ({"gpu_hours_lost_per_30_days": 1}, None, []),
        (money("0.01"), "EUR", []),
        (money("0.00"), "EUR", [("amount", "not_positive")]),
        (money("-1"), "EUR", [("amount", "not_positive")]),
        (money("1", "USD"), "EUR", [("currency", "other_currency")]),
        (money("1"), None, [("currency", "other_currency")]),
        (money("0", "XAU"), "EUR", [("currency", "not_monetary"), ("amount", "not_positive")]),
    ],
)
def test_budgets(
    sqlite_database: Database,
    budget: dict[str, Any],
    currency: str | None,
    wanted: list[tuple[str, str]],
) -> None:
    document = body(budget=budget, batch={"items": [item()], "currency": currency})
    if not wanted:
        assert create(sqlite_database, document).budget is not None
        return
    with pytest.raises(InvalidError) as error:
        create(sqlite_database, document)
    place = "/budget/cost_of_loss_per_30_days/"
    assert faults(error) == [(place + name, code) for name, code in wanted]


def test_a_batch_that_no_hour_has_points_for_is_refused(sqlite_database: Database) -> None:
    limits = Limits(points_per_hour=10)
    axis = {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}
    with pytest.raises(InvalidError) as error:
        create(
            sqlite_database,
            body(batch={"items": [item(axes=[axis])]}),
            actor=PLANNER,
            settings=Settings(limits=limits),
        )
    assert faults(error) == [("/batch", "over_quota")]


def test_checking_takes_no_points_of_the_team(sqlite_database: Database) -> None:
    create(sqlite_database, body(), actor=PLANNER)
    with sqlite_database.read() as connection:
        plan = batches.check(connection, PLANNER, {"name": "x", "items": [item()]}, LIMITS)
    assert plan.points_left == LIMITS.points_per_hour


@pytest.mark.parametrize(
    ("changes", "day"),
    [
        ({}, "2027-03-27"),
        ({"start_in_days": -30}, "2027-02-25"),
        # Already the day after in Auckland
        ({"zone": "Pacific/Auckland", "cron": "30 2 * * *"}, "2027-03-27"),
        ({"zone": "Pacific/Auckland", "cron": "30 0 * * 0", "start_in_days": 1}, "2027-03-29"),
        # Its fault is told elsewhere.
        ({"cron": "x"}, "2027-03-26"),
    ],
)
def test_the_loss_window_begins_on_the_day_of_the_slot(changes: dict[str, Any], day: str) -> None:
    assert first_day(msgspec.convert(body(**changes), ScheduleIn), NOW).isoformat() == day


def test_a_slug_is_taken_once_and_free_again_after_deletion(database: Database) -> None:
    first = create(database, body())
    with pytest.raises(ConflictError) as error:
        create(database, body())
    assert [fault.code for fault in error.value.errors] == ["slug_taken"]
    with database.write() as connection:
        schedule_changes.delete_schedule(connection, ACTOR, "nightly", version=1, now=NOW)
    second = create(database, body())
    assert second.id != first.id
    assert read(database).id == second.id
    with pytest.raises(NotFoundError):
        read(database, str(first.id))


def test_of_racers_for_a_slug_one_wins(database: Database) -> None:
    made, refused = [], []

    def race() -> None:
        try:
            made.append(create(database, body()))
        except ConflictError as error:
            refused.append(error)

    racers = [threading.Thread(target=race) for _ in range(6)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert (len(made), len(refused)) == (1, 5)


def test_the_number_of_schedules_is_limited_whoever_comes_at_once(database: Database) -> None:
    settings = Settings(limits=Limits(schedules=2))
    made, refused = [], []

    def race(slug: str) -> None:
        try:
            made.append(create(database, body(slug), settings=settings))
        except ConflictError as error:
            refused.append(error.problem)

    racers = [threading.Thread(target=race, args=(f"s{number}",)) for number in range(5)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert (len(made), refused) == (2, ["too-many-schedules"] * 3)
    with database.write() as connection:
        schedule_changes.delete_schedule(connection, ACTOR, made[0].slug, version=1, now=NOW)
    create(database, body("another"), settings=settings)


@pytest.mark.parametrize("slug", ["01990000-0000-7000-8000-000000000001"])
def test_a_slug_that_looks_like_an_id_is_refused(sqlite_database: Database, slug: str) -> None:
    with pytest.raises(InvalidError) as error:
        create(sqlite_database, body(slug))
    assert faults(error) == [("/slug", "slug_is_an_id")]


def test_lists_are_by_slug_page_by_page_and_filtered(database: Database) -> None:
    for slug, zone in [("b", "UTC"), ("a-1", "Europe/Paris"), ("ax", "UTC")]:
        create(database, body(slug, zone=zone))
    create(database, body("c", paused=True))

    def slugs(wanted: ScheduleFilter, page_size: int = 10, actor: Actor = ACTOR) -> list[str]:
        found: list[str] = []
        token = None
        while True:
            with database.read() as connection:
                page = schedules.list_page(
                    connection, actor, wanted, page_size=page_size, page_token=token
                )
            found += [one.slug for one in page.items]
            token = page.next_page_token
            if token is None:
                return found

    assert slugs(ScheduleFilter()) == ["a-1", "ax", "b", "c"]
    assert slugs(ScheduleFilter(), page_size=1) == ["a-1", "ax", "b", "c"]
    assert slugs(ScheduleFilter(paused=True)) == ["c"]
    assert slugs(ScheduleFilter(paused=False, zone="UTC"), page_size=1) == ["ax", "b"]
    assert slugs(ScheduleFilter(slug_prefix="a")) == ["a-1", "ax"]
    assert slugs(ScheduleFilter(slug_prefix="A")) == []
    assert slugs(ScheduleFilter(slug_prefix="a_")) == []
    assert slugs(ScheduleFilter(slug_prefix="%")) == []
    other = Actor(team_id=new_team(database, "other"))
    assert slugs(ScheduleFilter(), actor=other) == []
    with pytest.raises(NotFoundError):
        read(database, "b", other)
    with database.read() as connection:
        page = schedules.list_page(
            connection, ACTOR, ScheduleFilter(), page_size=1, page_token=None
        )
        with pytest.raises(MalformedError):
            schedules.list_page(
                connection,
                ACTOR,
                ScheduleFilter(paused=True),
                page_size=1,
                page_token=page.next_page_token,
            )


def test_a_change_puts_whole_fields_in_the_place_of_others(database: Database) -> None:
    create(database, body(report={"movers": 3}))
    changed = change(database, {"name": "Every night", "report": {"language": "fr"}})
    assert (changed.version, changed.name) == (2, "Every night")
    assert (changed.report.language, changed.report.movers) == ("fr", 10)
    assert changed.batch == read(database).batch
    assert row(database).next_at == SATURDAY
    event = events(database)[-1]
    assert (event.action, event.subject) == ("change_schedule", "schedule/nightly")
    assert set(event.changed) == {"name", "report", "updated_at", "version"}
    # Nothing that changes: no version, no event.
    num = len(events(database))
    assert change(database, {}).version == 2
    assert change(database, {"slug": "nightly", "name": "Every night"}).version == 2
    assert len(events(database)) == num


def test_a_change_is_refused_for_another_version_or_slug(database: Database) -> None:
    create(database, body())
    change(database, {"name": "second"}, version=1)
    with pytest.raises(PreconditionFailedError, match="at version 2"):
        change(database, {"name": "third"}, version=1)
    with pytest.raises(InvalidError) as error:
        change(database, {"slug": "other"})
    assert faults(error) == [("/slug", "slug_is_fixed")]
    with pytest.raises(InvalidError):
        change(database, ["name"])
    with pytest.raises(InvalidError) as error:
        change(database, {"colour": "red", "misfire_grace_s": 0, "zone": None})
    assert sorted(pointer for pointer, _ in faults(error)) == [
        *("/colour", "/misfire_grace_s", "/zone")
    ]
    with pytest.raises(NotFoundError):
        change(database, {"name": "x"}, key="absent", version=1)
    assert read(database).name == "second"


def test_another_expression_or_zone_looks_for_the_next_slot_from_now_on(
    database: Database,
) -> None:
    create(database, body())
    assert row(database).next_at == SATURDAY
    assert change(database, {"name": "x"}).next_occurrence is not None
    assert row(database).next_at == SATURDAY
    later = NOW + timedelta(days=10)
    changed = change(database, {"cron": "0 4 * * *"}, now=later)
    assert changed.next_occurrence is not None
    assert changed.next_occurrence.local == "2027-04-06T04:00:00+02:00"
    changed = change(database, {"zone": "Asia/Tokyo"}, now=later)
    assert changed.next_occurrence is not None
    assert changed.next_occurrence.local == "2027-04-06T04:00:00+09:00"


def test_of_racing_changes_of_one_version_one_wins(database: Database) -> None:
    create(database, body())
    won, lost = [], []

    def race(number: int) -> None:
        try:
            won.append(change(database, {"name": f"racer {number}"}, version=1).name)
        except PreconditionFailedError:
            lost.append(number)

    racers = [threading.Thread(target=race, args=(number,)) for number in range(16)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert (len(won), len(lost)) == (1, 15)
    assert (read(database).name, read(database).version) == (won[0], 2)


def test_pausing_and_resuming_are_repeatable_and_catch_nothing_up(database: Database) -> None:
    made = create(database, body())

    def pause(now: datetime) -> schedules.ScheduleOut:
        with database.write() as connection:
            return schedule_changes.pause_schedule(connection, ACTOR, "nightly", now=now)

    def resume(version: int, now: datetime) -> schedules.ScheduleOut:
        with database.write() as connection:
            return schedule_changes.resume_schedule(
                connection, ACTOR, "nightly", version=version, now=now
            )

    assert resume(made.version, NOW) == made
    paused = pause(NOW)
    assert (paused.paused, paused.paused_by, paused.paused_at) == (True, "sre", NOW)
    assert (paused.next_occurrence, paused.version) == (None, 2)
    assert pause(NOW + timedelta(days=1)) == paused
    assert row(database).next_at is None
    # A change of the expression does not wake it.
    changed = change(database, {"cron": "0 4 * * *"})
    assert (changed.paused, changed.next_occurrence) == (True, None)
    with pytest.raises(PreconditionFailedError):
        resume(2, NOW)
    resumed = resume(3, NOW + timedelta(days=30))
    assert (resumed.paused, resumed.paused_by, resumed.version) == (False, None, 4)
    assert resumed.next_occurrence is not None
    assert resumed.next_occurrence.local == "2027-04-26T04:00:00+02:00"
    assert [event.action for event in events(database)] == [
        *("create_schedule", "pause_schedule", "change_schedule", "resume_schedule")
    ]


CHANGES: dict[str, dict[str, Any]] = {
    "pause": {"paused": True},
    "expression": {"cron": "0 4 * * *"},
    "zone": {"zone": "America/New_York"},
    "policy": {"misfire_policy": "run_all"},
    "pause by itself": {},
    "deletion": {},
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_come_before_a_change_is_in_the_ledger_as_it_came(
    database: Database, what: str
) -> None:
    """The service was down for two nights and is asked before it has looked at the clock."""
    made = create(database, body())
    now = SUNDAY + timedelta(hours=23, minutes=30, seconds=1)
    with database.write() as connection:
        if what == "pause by itself":
            schedule_changes.pause_schedule(connection, ACTOR, "nightly", now=now)
        elif what == "deletion":
            schedule_changes.delete_schedule(connection, ACTOR, "nightly", version=1, now=now)
    if CHANGES[what]:
        changed = change(database, CHANGES[what], now=now)
        assert (changed.version, changed.last_run is not None) == (2, True)
    # Its own policy of then: of two missed ones the newer runs, and that of now is in time.
    expected = [
        ("2027-03-27T02:30:00+01:00", "Europe/Paris", "misfired"),
        ("2027-03-28T03:00:00+02:00", "Europe/Paris", "due"),
        ("2027-03-29T02:30:00+02:00", "Europe/Paris", "due"),
    ]
    if what == "deletion":
        expected[1:] = [(local, zone, "canceled") for local, zone, _ in expected[1:]]
    found = ledger(database, made.id)
    assert [(run.local_time, run.zone, run.state) for run in found] == expected
    # Nothing is written twice, and what comes is another one.
    assert tick(database, now) == 0


def test_a_change_does_not_count_for_ever(database: Database) -> None:
    made = create(database, body(cron="*/15 * * * *"))
    decade = NOW + timedelta(days=3_650)
    with pytest.raises(UnavailableError, match="being written into the ledger: try again"):
        change(database, {"paused": True}, now=decade)
    assert ledger(database, made.id) == []
    # The scheduler does it meanwhile.
    assert tick(database, decade) == 1_000
    assert change(database, {"paused": True}, now=decade).paused


def test_a_change_may_pause_and_resume(database: Database) -> None:
    create(database, body(paused=True))
    assert read(database).paused_by == "sre"
    assert row(database).next_at is None
    resumed = change(database, {"paused": False})
    assert (resumed.paused, row(database).next_at) == (False, SATURDAY)
    paused = change(database, {"paused": True}, now=SATURDAY)
    assert (paused.paused, paused.paused_at, row(database).next_at) == (True, SATURDAY, None)


def test_deleting_keeps_the_ledger_and_cancels_what_waits(database: Database) -> None:
    made = create(database, body())
    ended = add_run(database, made.id, SATURDAY - timedelta(days=1), "succeeded")
    due = add_run(database, made.id, SATURDAY)
    with database.write() as connection:
        with pytest.raises(PreconditionFailedError):
            schedule_changes.delete_schedule(connection, ACTOR, "nightly", version=9, now=NOW)
        schedule_changes.delete_schedule(connection, ACTOR, str(made.id), version=1, now=SUNDAY)
    with pytest.raises(NotFoundError):
        read(database)
    with database.read() as connection:
        c = schedule_run.c
        runs = {
            one.id: one
            for one in connection.execute(select(c.id, c.state, c.reason, c.ended_at, c.version))
        }
        left = connection.execute(select(schedule)).one()
    assert (runs[ended].state, runs[ended].version) == ("succeeded", 1)
    assert (runs[due].state, runs[due].reason) == ("canceled", "the schedule was deleted")
    assert (runs[due].ended_at, runs[due].version) == (SUNDAY, 2)
    assert (left.deleted_at, left.unique_slug, left.next_at) == (SUNDAY, str(made.id), None)
    event = events(database)[-1]
    assert (event.action, event.subject) == ("delete_schedule", "schedule/nightly")
    with database.write() as connection, pytest.raises(NotFoundError):
        schedule_changes.delete_schedule(connection, ACTOR, "nightly", version=2, now=SUNDAY)


def test_the_newest_slot_of_the_ledger_is_shown(database: Database) -> None:
    made = create(database, body())
    other = create(database, body("other"))
    add_run(database, made.id, SATURDAY - timedelta(days=2), "failed")
    newest = add_run(database, made.id, SATURDAY - timedelta(days=1), "running")
    shown = read(database).last_run
    assert shown is not None
    assert (shown.id, shown.state, shown.scheduled_for) == (
        *(newest, "running"),
        SATURDAY - timedelta(days=1),
    )
    assert shown.url == f"/v1/schedules/nightly/runs/{newest}"
    assert read(database, str(other.id)).last_run is None


def test_a_run_of_the_schedule_can_be_the_baseline_for_ever(database: Database) -> None:
    made = create(database, body())
    other = create(database, body("other"))
    mine = add_run(database, made.id, SATURDAY, "succeeded")
    foreign = add_run(database, other.id, SATURDAY, "succeeded")
    with pytest.raises(InvalidError) as error:
        change(database, {"baseline": {"kind": "run", "run_id": str(foreign)}})
    assert faults(error) == [("/baseline/run_id", "unknown_run")]
    changed = change(database, {"baseline": {"kind": "run", "run_id": str(mine)}})
    assert msgspec.to_builtins(changed.baseline) == {"kind": "run", "run_id": str(mine)}
    assert change(database, {"baseline": None}).baseline is None


def test_a_profile_that_is_archived_later_is_no_fault_of_the_schedule(database: Database) -> None:
    profile = ProfileIn(slug="prod", name="Production", gpu_type="H100", defaults=SEED)
    with database.write() as connection:
        profile_changes.create_profile(connection, ACTOR, profile)
    of_profile = {"items": [{"custom_id": "a", "profile": "prod"}]}
    create(database, body(batch=of_profile))
    with database.write() as connection:
        profile_changes.archive_profile(connection, ACTOR, "prod", version=1)
    assert change(database, {"name": "renamed", "batch": of_profile}).name == "renamed"
    with pytest.raises(InvalidError) as error:
        change(database, {"batch": {**of_profile, "priority": 1}})
    assert faults(error) == [("/batch/items/0/profile", "archived_profile")]
    with pytest.raises(InvalidError):
        create(database, body("second", batch=of_profile))


# --- what the scheduler asks for ---


def test_due_schedules_are_locked_by_one_and_moved_on(database: Database) -> None:
    for slug, cron in [("b", "30 2 * * *"), ("a", "0 3 * * *"), ("c", "0 5 * * *")]:
        create(database, body(slug, cron=cron, zone="UTC"))
    create(database, body("paused", zone="UTC", paused=True))
    at = datetime(2027, 3, 27, 3, 0, tzinfo=UTC)
    with database.write() as connection:
        before = at - timedelta(hours=1)
        assert rows.lock_due(connection, before, 10) == []
        found = rows.lock_due(connection, at, 10)
        assert [one.slug for one in found] == ["b", "a"]
        assert [one.slug for one in rows.lock_due(connection, at, 1)] == ["b"]
        if not database.is_sqlite:
            with database.write() as other:
                assert rows.lock_due(other, at, 10) == []
        touched = found[0].updated_at
        rows.set_next(connection, found[0].id, at + timedelta(days=1))
        rows.set_next(connection, found[1].id, None)
    with database.write() as connection:
        assert rows.lock_due(connection, at, 10) == []
    moved = row(database, "b")
    assert (moved.next_at, moved.version, moved.updated_at) == (at + timedelta(days=1), 1, touched)
    assert row(database, "a").next_at is None


def test_a_slot_that_newer_zone_data_have_moved_is_shown_as_it_is(database: Database) -> None:
    create(database, body())
    moved = SATURDAY + timedelta(minutes=7)
    with database.write() as connection:
        connection.execute(update(schedule).values(next_at=moved))
    shown = read(database).next_occurrence
    assert shown is not None
    assert (shown.at, shown.local, shown.dst) == (moved, "2027-03-27T02:37:00+01:00", None)


def test_occurrences_are_marked_on_nights_of_change(database: Database) -> None:
    create(database, body())
    with database.read() as connection:
        found = schedules.occurrences(connection, ACTOR, "nightly", after=NOW, count=3)
    assert [(one.at, one.dst) for one in found.items] == [
        (SATURDAY, None),
        (SUNDAY, "gap"),
        (datetime(2027, 3, 29, 0, 30, tzinfo=UTC), None),
    ]
    assert found.items[1].local == "2027-03-28T03:00:00+02:00"
    assert (found.cron, found.zone, found.paused) == ("30 2 * * *", "Europe/Paris", False)
    assert found.tzdata_version == TZDATA_VERSION


def test_the_batch_has_no_more_items_than_a_submission(sqlite_database: Database) -> None:
    settings = Settings(limits=Limits(items_per_batch=1))
    items = [item(), item(custom_id="b")]
    with pytest.raises(InvalidError) as error:
        create(sqlite_database, body(batch={"items": items}), settings=settings)
    assert faults(error) == [("/batch/items", "too_many_items")]
