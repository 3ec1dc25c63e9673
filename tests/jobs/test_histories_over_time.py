"""Histories as they were known, of other zones, in the order of days, and after a schedule went."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from service.db.engine import Database
from service.db.schedule_tables import schedule
from service.errors import NotFoundError
from service.jobs.history_documents import HistoryOut, HistoryQuery
from service.jobs.loss_histories import history
from service.jobs.schedule_repricings import RepricingsIn, reprice_runs
from tests.jobs.slot_runs import ACTOR, a_batch, a_run, a_schedule, ended

NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
ITEM: dict[str, Any] = {
    "name": "x",
    "scenario": {"num_gpus": 64, "compute_ms": 300},
    "pricing": {"gpu_type": "H100"},
}
DECEMBER = RepricingsIn(since=date(2026, 12, 1), until=date(2027, 1, 1), currency="EUR")


def ask(database: Database, **query: Any) -> HistoryOut:
    size = query.pop("size", 1000)
    with database.read() as connection:
        return history(connection, ACTOR, HistoryQuery(**query), NOW, page_size=size)


def slots_of(out: HistoryOut) -> list[str]:
    return [row.run.local_time[:16] for row in out.items if row.run]


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 12, day, hour, tzinfo=UTC)


def nights(database: Database, *days: int) -> None:
    """Each computed within an hour, the batches all made first."""
    nightly = a_schedule(database)
    for day in days:
        batch = a_batch(database, [ITEM])
        ended(database, batch, at(day, 2))
        a_run(
            database,
            nightly,
            f"2026-12-{day:02}T02:30",
            batch,
            started_at=at(day, 1),
            ended_at=at(day, 2),
        )


def test_later_slots_do_not_push_out_what_was_known(database: Database) -> None:
    nights(database, 1, 2, 3, 4)
    nightly = ask(database, schedule="nightly").schedule_id
    assert nightly is not None
    out = ask(database, schedule="nightly", as_of=at(2, 12), limit=2)
    assert slots_of(out) == ["2026-12-01T02:30", "2026-12-02T02:30"]
    assert (out.truncated, out.runs_without_results) == (False, {})
    # A backfill has made up for an earlier night since: nobody knew of it then.
    batch = a_batch(database, [ITEM])
    ended(database, batch, at(20))
    a_run(database, nightly, "2026-11-30T02:30", batch, created_at=at(19))
    assert ask(database, schedule="nightly", as_of=at(2, 12), limit=2) == out
    first = ask(database, schedule="nightly", as_of=at(20), limit=1, until=date(2026, 12, 1))
    assert slots_of(first) == ["2026-11-30T02:30"]
    change = ask(database, schedule="nightly", as_of=at(2, 12), since=date(2026, 12, 2)).items[0]
    assert change.change is not None
    assert change.change.previous_result_id.startswith(str(out.items[0].batch_id))


def test_a_run_without_results_has_the_state_of_then(database: Database) -> None:
    """Not what became of it: ran from the 3rd to the 5th, was due from the 2nd on."""
    nightly = a_schedule(database)
    batch = a_batch(database, [ITEM])
    ended(database, batch, at(5))
    tried = [
        {"attempt": 1, "state": "failed", "batch_id": None, "ended_at": at(2, 6).isoformat()},
        {"attempt": 2, "state": "canceled", "batch_id": None, "ended_at": None},
    ]
    a_run(
        database,
        nightly,
        "2026-12-02T02:30",
        batch,
        attempt=3,
        earlier_batches=tried,
        started_at=at(3),
        ended_at=at(5, 1),
    )
    a_run(database, nightly, "2026-12-02T12:00", None, state="misfired", ended_at=at(4))
    found = [
        ask(database, schedule="nightly", as_of=moment).runs_without_results
        for moment in (at(2), at(2, 2), at(2, 6), at(2, 12), at(3), at(4), at(5))
    ]
    assert found == [
        {},
        {"due": 1},
        {"failed": 1},
        {"failed": 1, "due": 1},
        {"running": 1, "due": 1},
        {"running": 1, "misfired": 1},
        {"misfired": 1},
    ]


def test_days_are_those_of_the_zone_that_a_slot_came_in(database: Database) -> None:
    """02:30 in Paris is the evening before in New York, where the schedule is at home now."""
    nights(database, 1, 2, 3)
    with database.write() as connection:
        connection.execute(update(schedule).values(zone="America/New_York"))
    days = {"since": date(2026, 12, 2), "until": date(2026, 12, 3)}
    assert slots_of(ask(database, schedule="nightly", **days)) == ["2026-12-02T02:30"]
    by_day = ask(database, schedule="nightly", step="day", since=date(2026, 12, 2))
    assert slots_of(by_day) == ["2026-12-02T02:30", "2026-12-03T02:30"]
    assert by_day.items[0].change is not None
    with database.write() as connection:
        made = reprice_runs(
            connection,
            ACTOR,
            "nightly",
            RepricingsIn(since=date(2026, 12, 2), until=date(2026, 12, 3), currency="EUR"),
        )
    assert [run.scheduled_for for run in made.items] == [at(2, 1) + timedelta(minutes=30)]


@pytest.mark.parametrize("query", [{"scenario": "x"}, {"group_by": "team"}])
def test_steps_are_in_order_though_older_days_were_made_later(
    database: Database, query: dict[str, Any]
) -> None:
    """A night is computed, then those before it; of one day the last that was made counts."""
    made = {}
    for place, start_on in enumerate(("12-03", "11-30", "12-01", "12-01", "12-02")):
        made[place] = a_batch(database, [ITEM], start_on=f"2026-{start_on}")

    def rows(**more: Any) -> list[Any]:
        out = ask(database, **query, **more)
        return [*out.items, *out.totals]

    def before(row: Any) -> str | None:
        change = row.change
        if change is None:
            return None
        return str(getattr(change, "previous_batch_id", None) or change.previous_result_id[:-2])

    expected = [made[1], made[3], made[4], made[0]]
    by_day = rows(step="day")
    assert [row.batch_id for row in by_day] == expected
    assert [before(row) for row in by_day] == [None, *map(str, expected[:-1])]
    later = rows(step="day", since=date(2026, 12, 2))
    assert [(row.batch_id, before(row)) for row in later] == [
        (made[4], str(made[3])),
        (made[0], str(made[4])),
    ]
    assert [row.batch_id for row in rows(step="month")] == [made[1], made[0]]
    # One page after the other, in the same order
    pages, token = [], None
    while True:
        out = ask(database, **query, step="day", size=1, page_token=token)
        pages += [*out.items, *out.totals]
        token = out.next_page_token
        if token is None:
            break
    assert pages == by_day
    # Run by run they come as they were made.
    assert [row.batch_id for row in rows()] == list(made.values())


def test_items_without_a_headline_are_those_that_were_there(database: Database) -> None:
    grid = {**ITEM, "axes": [{"path": "num_gpus", "values": [8, 16]}]}
    ended(database, a_batch(database, [grid]), at(1))
    ended(database, a_batch(database, [grid]), at(3))
    found = [ask(database, scenario="x", as_of=at(day)).without_headline for day in (1, 2, 3)]
    assert found == [1, 1, 2]
    assert ask(database, scenario="x").without_headline == 2


def test_runs_of_a_deleted_schedule_are_priced_again_by_its_id(database: Database) -> None:
    nights(database, 1)
    nightly = ask(database, schedule="nightly").schedule_id
    with database.write() as connection:
        connection.execute(update(schedule).values(deleted_at=NOW, unique_slug="gone"))
        made = reprice_runs(connection, ACTOR, str(nightly), DECEMBER)
        assert [(run.pricing.pricing, run.pricing.currency) for run in made.items] == [(2, "EUR")]
    asked: dict[str, Any] = {"schedule": str(nightly), "group_by": "team"}
    views = [
        ask(database, **asked, pricing=which).totals[0].pricing for which in ("first", "newest")
    ]
    assert views == [1, 2]
    with database.write() as connection, pytest.raises(NotFoundError):
        reprice_runs(connection, ACTOR, "nightly", DECEMBER)
