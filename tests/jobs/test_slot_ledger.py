"""Slots that come are written once, whoever looks, and missed ones by the schedule's policy."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.schedule_tables import schedule, schedule_run
from service.db.tables import audit_event
from service.jobs.slot_ledger import MAX_MISSED, duration, slots_that_came, tick
from tests.jobs.ledger_bodies import add_schedule, change, ledger, states

MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def walk(database: Database, begin: datetime, end: datetime, step: timedelta = MINUTE) -> int:
    """Let the scheduler look once a step; how many rows it has written."""
    written, now = 0, begin
    while now <= end:
        written += tick(database, now)
        now += step
    return written


# Each with the local times that are to come between the two moments, by the design page's rules.
CHANGE_NIGHTS = {
    "Paris, forward over 02:30": (
        ("Europe/Paris", "30 2 * * *"),
        ("2027-03-27T22:00+01:00", "2027-03-29T04:00+02:00"),
        ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"],
    ),
    "Paris, back over 02:30": (
        ("Europe/Paris", "30 2 * * *"),
        ("2027-10-30T22:00+02:00", "2027-11-01T04:00+01:00"),
        ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"],
    ),
    "Paris, hourly on the night back": (
        ("Europe/Paris", "30 * * * *"),
        ("2027-10-31T00:00+02:00", "2027-10-31T04:00+01:00"),
        [
            "2027-10-31T00:30:00+02:00",
            "2027-10-31T01:30:00+02:00",
            "2027-10-31T02:30:00+02:00",
            "2027-10-31T02:30:00+01:00",
            "2027-10-31T03:30:00+01:00",
        ],
    ),
    "New York, forward over 02:30": (
        ("America/New_York", "30 2 * * *"),
        ("2027-03-13T22:00-05:00", "2027-03-15T04:00-04:00"),
        ["2027-03-14T03:00:00-04:00", "2027-03-15T02:30:00-04:00"],
    ),
    "New York, back over 01:30": (
        ("America/New_York", "30 1 * * *"),
        ("2027-11-06T22:00-04:00", "2027-11-08T04:00-05:00"),
        ["2027-11-07T01:30:00-04:00", "2027-11-08T01:30:00-05:00"],
    ),
    "Lord Howe, forward by half an hour over 02:15": (
        ("Australia/Lord_Howe", "15 2 * * *"),
        ("2027-10-02T22:00+10:30", "2027-10-04T04:00+11:00"),
        ["2027-10-03T02:30:00+11:00", "2027-10-04T02:15:00+11:00"],
    ),
    "Lord Howe, back by half an hour over 01:45": (
        ("Australia/Lord_Howe", "45 1 * * *"),
        ("2027-04-03T22:00+11:00", "2027-04-05T04:00+10:30"),
        ["2027-04-04T01:45:00+11:00", "2027-04-05T01:45:00+10:30"],
    ),
    "Casablanca, back for Ramadan over 02:30": (
        ("Africa/Casablanca", "30 2 * * *"),
        ("2026-02-14T22:00+01:00", "2026-02-16T04:00+00:00"),
        ["2026-02-15T02:30:00+01:00", "2026-02-16T02:30:00+00:00"],
    ),
    "Casablanca, forward after Ramadan over 02:30": (
        ("Africa/Casablanca", "30 2 * * *"),
        ("2026-03-21T22:00+00:00", "2026-03-23T04:00+01:00"),
        ["2026-03-22T03:00:00+01:00", "2026-03-23T02:30:00+01:00"],
    ),
}


@pytest.mark.parametrize("night", CHANGE_NIGHTS)
def test_a_slot_comes_once_on_a_night_of_change(sqlite_database: Database, night: str) -> None:
    (zone, cron), (begin, end), expected = CHANGE_NIGHTS[night]
    added = add_schedule(sqlite_database, at(begin), zone=zone, cron=cron)
    assert walk(sqlite_database, at(begin), at(end)) == len(expected)
    assert states(sqlite_database, added) == [(local, "due") for local in expected]
    rows = ledger(sqlite_database, added)
    assert [row.scheduled_for for row in rows] == [at(local) for local in expected]
    assert [str(row.start_on) for row in rows] == [local[:10] for local in expected]
    # Seen within the minute: nobody was late.
    assert all((row.created_at - row.scheduled_for) < MINUTE for row in rows)


def test_what_a_night_of_change_did_is_told(sqlite_database: Database) -> None:
    begin = at("2027-03-27T12:00+01:00")
    added = add_schedule(sqlite_database, begin)
    tick(sqlite_database, at("2027-03-28T03:00:05+02:00"))
    (row,) = ledger(sqlite_database, added)
    assert row.warnings == [
        {
            "pointer": "",
            "code": "dst_gap",
            "detail": "its wall time does not exist on that day, since clocks went forward: it "
            "came at the first moment after, 03:00",
        }
    ]
    change(sqlite_database, added, next_at=at("2027-10-31T02:30+02:00"))
    tick(sqlite_database, at("2027-10-31T02:30:05+02:00"))
    (notice,) = ledger(sqlite_database, added)[-1].warnings
    assert notice["code"] == "dst_overlap"
    assert notice["detail"] == "clocks went back on that day, and 02:30 was there twice"


def test_the_next_slot_moves_on_with_the_row(database: Database) -> None:
    begin = at("2027-01-01T12:00+01:00")
    added = add_schedule(database, begin)
    assert tick(database, at("2027-01-02T02:29:59+01:00")) == 0
    assert ledger(database, added) == []
    assert tick(database, at("2027-01-02T02:30:00+01:00")) == 1
    assert tick(database, at("2027-01-02T02:30:00+01:00")) == 0
    with database.read() as connection:
        row = connection.execute(select(schedule)).one()
    assert row.next_at == at("2027-01-03T02:30+01:00")
    # It is no change of the schedule: what its reader has read still holds.
    assert row.version == 1


POLICIES: dict[str, tuple[dict[str, Any], str]] = {
    # Of seven slots: m(isfired) or d(ue); the last came two minutes ago, within the grace
    "skip": ({"misfire_policy": "skip"}, "mmmmmmd"),
    "run_latest": ({"misfire_policy": "run_latest"}, "mmmmmdd"),
    "run_all": ({"misfire_policy": "run_all", "misfire_max_runs": 3}, "mmmdddd"),
    "run_all of more than there are": ({"misfire_policy": "run_all"}, "ddddddd"),
    "a short grace": ({"misfire_policy": "skip", "misfire_grace_s": 60}, "mmmmmmm"),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_service_that_was_down_for_days(database: Database, policy: str) -> None:
    changes, expected = POLICIES[policy]
    added = add_schedule(database, at("2027-01-01T12:00+01:00"), **changes)
    assert tick(database, at("2027-01-08T02:32+01:00")) == 7
    rows = ledger(database, added)
    assert "".join(row.state[0] for row in rows) == expected
    for number, row in enumerate(rows):
        missed = row.state == "misfired"
        assert (row.ended_at is not None) == missed
        assert [notice["code"] for notice in row.warnings] == (
            ["late_run"] if not missed and number < 6 else []
        )
        if missed:
            assert f"misfire policy `{changes['misfire_policy']}`" in row.reason
    if policy == "run_latest":
        assert rows[0].reason == (
            "nobody was there at the time: it was seen 6 d 0 h late, at 2027-01-08T01:32:00Z, and "
            "the misfire policy `run_latest` runs the newest missed slot only"
        )
        assert rows[5].warnings[0]["detail"] == (
            "nobody was there at the time: it was taken up 1 d 0 h late"
        )


DOWN_OVER: dict[str, tuple[tuple[str, str], list[str], list[str]]] = {
    "forward": (
        ("2027-03-26T12:00+01:00", "2027-03-29T12:00+02:00"),
        ["2027-03-27T02:30:00+01:00", "2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"],
        ["dst_gap"],
    ),
    "back": (
        ("2027-10-29T12:00+02:00", "2027-11-01T12:00+01:00"),
        ["2027-10-30T02:30:00+02:00", "2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"],
        ["dst_overlap"],
    ),
}


@pytest.mark.parametrize("night", DOWN_OVER)
@pytest.mark.parametrize(
    ("policy", "wanted"), [("skip", "mmm"), ("run_latest", "mmd"), ("run_all", "mdd")]
)
def test_a_service_that_was_down_over_a_night_of_change(
    sqlite_database: Database, night: str, policy: str, wanted: str
) -> None:
    (begin, end), slots, codes = DOWN_OVER[night]
    added = add_schedule(
        sqlite_database, at(begin), misfire_policy=policy, misfire_max_runs=2, misfire_grace_s=60
    )
    assert tick(sqlite_database, at(end)) == 3
    rows = ledger(sqlite_database, added)
    assert [row.local_time for row in rows] == slots
    assert [row.scheduled_for for row in rows] == [at(slot) for slot in slots]
    assert "".join(row.state[0] for row in rows) == wanted
    late = ["late_run"] if rows[1].state == "due" else []
    assert [notice["code"] for notice in rows[1].warnings] == [*codes, *late]


def test_of_years_the_newest_slots_are_kept_and_the_rest_is_counted(database: Database) -> None:
    begin = at("2017-01-01T00:00+00:00")
    added = add_schedule(database, begin, cron="*/15 * * * *", zone="UTC", misfire_policy="run_all")
    assert tick(database, at("2027-01-01T00:00+00:00")) == MAX_MISSED
    rows = ledger(database, added)
    # 2017 to 2026 with the leap days of 2020 and 2024
    left_out = 3_652 * 24 * 4 - MAX_MISSED
    (notice,) = [note for row in rows for note in row.warnings if "left_out" in note["code"]]
    assert notice == rows[0].warnings[0]
    assert notice["detail"] == (
        f"{left_out} slots before 2026-12-21T14:15:00Z were missed too and are not in the ledger, "
        "which takes the newest 1000 at a time"
    )
    assert [row.state for row in rows] == ["misfired"] * 989 + ["due"] * 11
    assert rows[-1].scheduled_for == at("2027-01-01T00:00+00:00")
    with database.read() as connection:
        event = connection.execute(select(audit_event)).one()
    assert (event.action, event.principal) == ("leave_out_slots", "program:schedule")
    assert event.detail == notice["detail"]
    assert tick(database, at("2027-01-01T00:14+00:00")) == 0


def test_counting_ends_when_the_process_does() -> None:
    found = slots_that_came(
        "* * * * *", "UTC", at("2020-01-01T00:00+00:00"), at("2030-01-01T00:00+00:00"), lambda: True
    )
    assert found is None


def test_paused_and_deleted_schedules_have_no_slots(database: Database) -> None:
    begin = at("2027-01-01T12:00+01:00")
    paused = add_schedule(database, begin, paused=True)
    deleted = add_schedule(database, begin, slug="gone")
    change(database, deleted, deleted_at=begin)
    assert tick(database, at("2027-01-08T02:32+01:00")) == 0
    assert ledger(database, paused) == ledger(database, deleted) == []


def test_a_slot_that_a_backfill_has_written_is_left(database: Database) -> None:
    added = add_schedule(database, at("2027-01-01T12:00+01:00"))
    tick(database, at("2027-01-02T02:30+01:00"))
    change(database, added, next_at=at("2027-01-02T02:30+01:00"))
    before = ledger(database, added)
    assert tick(database, at("2027-01-02T02:31+01:00")) == 0
    assert ledger(database, added) == before
    assert walk(database, at("2027-01-03T02:30+01:00"), at("2027-01-03T02:31+01:00")) == 1


def test_two_that_look_at_once_write_each_slot_once(database: Database) -> None:
    begin = at("2027-01-01T00:00+00:00")
    for number in range(5):
        add_schedule(
            database,
            begin,
            slug=f"hourly-{number}",
            cron="0 * * * *",
            zone="UTC",
            misfire_policy="run_all",
            misfire_max_runs=100,
        )
    other = Database(database.url.render_as_string(hide_password=False))
    faults: list[BaseException] = []
    ready = threading.Barrier(4)

    def look(opened: Database) -> None:
        ready.wait()
        try:
            for hour in range(1, 13):
                tick(opened, begin + timedelta(hours=hour))
        except BaseException as error:  # noqa: BLE001 - told by the test
            faults.append(error)

    threads = [
        threading.Thread(target=look, args=(opened,))
        for opened in (database, other, database, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert faults == []
    # Whoever was overtaken has left slots to the next look.
    tick(database, begin + timedelta(hours=12))
    c = schedule_run.c
    with database.read() as connection:
        counted = connection.execute(
            select(func.count(), func.count(c.scheduled_for.distinct())).group_by(c.schedule_id)
        ).all()
    assert [tuple(row) for row in counted] == [(12, 12)] * 5


def test_one_schedule_that_cannot_be_read_does_not_stop_the_others(database: Database) -> None:
    begin = at("2027-01-01T12:00+01:00")
    broken = add_schedule(database, begin, slug="a-broken")
    change(database, broken, zone="Mars/Olympus")
    sound = add_schedule(database, begin, slug="b-sound", cron="45 2 * * *")
    assert tick(database, at("2027-01-02T02:45+01:00")) == 1
    assert ledger(database, broken) == []
    assert len(ledger(database, sound)) == 1


def test_any_number_that_cannot_be_read_stop_nobody(sqlite_database: Database) -> None:
    begin = at("2027-01-01T12:00+01:00")
    for number in range(4):
        broken = add_schedule(sqlite_database, begin, slug=f"broken-{number}")
        change(sqlite_database, broken, zone="Mars/Olympus")
    sound = [
        add_schedule(sqlite_database, begin, slug=f"sound-{number}", cron="45 2 * * *")
        for number in range(3)
    ]
    moment = at("2027-01-02T02:45+01:00")
    # Two pages of what cannot be read, then as many as one takes, and then the rest.
    assert [tick(sqlite_database, moment, at_once=2) for _ in range(3)] == [2, 1, 0]
    assert [len(ledger(sqlite_database, one)) for one in sound] == [1, 1, 1]


def test_a_clock_that_jumps_back_makes_no_slot_twice(sqlite_database: Database) -> None:
    begin = at("2027-01-01T12:00+01:00")
    added = add_schedule(sqlite_database, begin)
    # By a day, over the slot and before it again; then by an hour over a night of change.
    walk(sqlite_database, begin, at("2027-01-02T03:00+01:00"), 30 * MINUTE)
    walk(sqlite_database, begin, at("2027-01-03T02:00+01:00"), 30 * MINUTE)
    assert states(sqlite_database, added) == [("2027-01-02T02:30:00+01:00", "due")]
    walk(sqlite_database, begin, at("2027-01-03T02:30+01:00"), 30 * MINUTE)
    assert [local for local, _ in states(sqlite_database, added)] == [
        "2027-01-02T02:30:00+01:00",
        "2027-01-03T02:30:00+01:00",
    ]
    change(sqlite_database, added, next_at=at("2027-10-31T02:30+02:00"))
    for _ in range(2):
        walk(
            sqlite_database,
            at("2027-10-31T02:00+02:00"),
            at("2027-10-31T02:45+01:00"),
            15 * MINUTE,
        )
    assert [local for local, _ in states(sqlite_database, added)][2:] == [
        "2027-10-31T02:30:00+02:00"
    ]


def test_durations_are_told_by_their_two_largest_units() -> None:
    told = [duration(timedelta(seconds=seconds)) for seconds in (5, 65, 3_725, 90_061)]
    assert told == ["5 s", "1 min 5 s", "1 h 2 min", "1 d 1 h"]
