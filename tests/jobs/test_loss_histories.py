"""How the loss moves over time: runs of schedules, totals, what was known then, new prices."""

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from sqlalchemy import insert, update

from service.db.engine import Database
from service.db.schedule_tables import loss_change, report, schedule
from service.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    NotFoundError,
)
from service.jobs import comparisons, repricings
from service.jobs.actors import Actor
from service.jobs.comparisons import ComparisonQuery
from service.jobs.history_documents import HistoryOut, HistoryQuery
from service.jobs.loss_histories import history
from service.jobs.profile_changes import create_profile, revise_profile
from service.jobs.profile_documents import ProfileIn, RevisionIn
from service.jobs.profiles import read_profile
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn
from service.jobs.rates import create_rate
from service.jobs.repricings import RepricingIn
from service.jobs.schedule_repricings import RepricingsIn, reprice_runs
from service.jobs.scopes import ROLE_SCOPES
from service.reports.loss_report import VolumeCause
from service.reports.money import Money
from tests.jobs.report_bodies import make
from tests.jobs.slot_runs import ACTOR, a_batch, a_run, a_schedule, ended

NOW = datetime(2026, 12, 31, 12, tzinfo=UTC)
VIEWER = Actor(role="viewer", scopes=ROLE_SCOPES["viewer"])
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
SIZES = {"path": "num_gpus", "values": [64, 128]}
ITEMS: list[dict[str, Any]] = [
    {"name": "one slow GPU", "profile": "prod"},
    {"name": "small", "profile": "prod", "overrides": {"num_gpus": 64}},
    {"name": "inline", "scenario": SEED | {"num_gpus": 128}},
    {"name": "grid", "profile": "prod", "axes": [SIZES]},
]


def a_profile(database: Database) -> None:
    with database.write() as connection:
        document = ProfileIn(
            slug="prod", name="P", gpu_type="H100", cost_center="research", defaults=SEED
        )
        create_profile(connection, ACTOR, document)


def revise(database: Database, **defaults: Any) -> None:
    with database.write() as connection:
        version = read_profile(connection, ACTOR, "prod").version
        document = RevisionIn(
            name="P", gpu_type="H100", cost_center="research", defaults=SEED | defaults
        )
        revise_profile(connection, ACTOR, "prod", document, version=version)


def a_rate(database: Database, amount: str) -> UUID:
    with database.write() as connection:
        document = RateIn(
            gpu_type="H100",
            cost_center="research",
            price_per_gpu_hour=Money(amount=amount, currency="EUR"),
            valid_from=date(2026, 1, 1),
            source="example",
        )
        return create_rate(connection, ACTOR, document).id


def correct(database: Database, rate_id: UUID, amount: str) -> None:
    with database.write() as connection:
        document = CorrectionIn(
            price_per_gpu_hour=Money(amount=amount, currency="EUR"), reason="wrong memo"
        )
        correct_rate(connection, ACTOR, rate_id, document, version=1)


def ask(database: Database, actor: Any = ACTOR, **query: Any) -> HistoryOut:
    size = query.pop("size", 1000)
    with database.read() as connection:
        return history(connection, actor, HistoryQuery(**query), NOW, page_size=size)


def per_day(out: HistoryOut) -> list[str]:
    """The local days of the rows shown."""
    rows: list[Any] = [*out.items, *out.totals]
    return [row.run.local_time[:10] if row.run else "" for row in rows]


def told(database: Database, new: UUID, past: UUID, point: int, causes: list[VolumeCause]) -> None:
    """What a report has said of a point of two batches."""
    report_id = uuid4()
    with database.write() as connection:
        connection.execute(
            insert(report).values(
                id=report_id,
                team_id=ACTOR.team_id,
                created_by="test",
                state="succeeded",
                name="r",
                batch_id=new,
                baseline_batch_id=past,
                settings={},
            )
        )
        connection.execute(
            insert(loss_change).values(
                report_id=report_id,
                team_id=ACTOR.team_id,
                point=point,
                batch_id=new,
                past_batch_id=past,
                past_point=point,
                name="one slow GPU",
                profile_slug="prod",
                past_gpu_hours_lost=1.0,
                new_gpu_hours_lost=2.0,
                causes=msgspec.to_builtins(causes),
            )
        )


def test_a_schedule_has_one_row_for_each_slot(database: Database) -> None:
    """The current attempt only; what has no results is counted, not left out in silence."""
    a_profile(database)
    nightly, other = a_schedule(database), a_schedule(database, "other")
    first, again, second, stray = (a_batch(database, ITEMS) for _ in range(4))
    earlier = [{"attempt": 1, "state": "failed", "batch_id": str(first)}]
    a_run(database, nightly, "2026-12-01T02:30", again, attempt=2, earlier_batches=earlier)
    a_run(database, nightly, "2026-12-02T02:30", None, state="misfired")
    a_run(database, nightly, "2026-12-03T02:30", None, state="misfired")
    last = a_run(database, nightly, "2026-12-04T02:30", second)
    a_run(database, other, "2026-12-04T02:30", stray)
    out = ask(database, scenario="one slow GPU", schedule="nightly")
    assert [row.batch_id for row in out.items] == [again, second]
    assert per_day(out) == ["2026-12-01", "2026-12-04"]
    assert out.runs_without_results == {"misfired": 2}
    assert (out.schedule_id, out.without_headline, out.failed) == (nightly, 0, 0)
    (_, row) = out.items
    assert row.run is not None
    assert (row.run.run_id, row.run.attempt) == (last, 1)
    assert row.run.scheduled_for == datetime(2026, 12, 4, 1, 30, tzinfo=UTC)
    assert row.change is not None
    assert row.change.gpu_hours_lost_per_30_days.difference == 0
    everything = ask(database, schedule=str(nightly))
    assert [row.scenario for row in everything.items] == ["one slow GPU", "small", "inline"] * 2
    assert [row.change is None for row in everything.items] == [True] * 3 + [False] * 3
    assert everything.without_headline == 2
    # Without a schedule all batches count.
    assert len(ask(database, scenario="one slow GPU").items) == 4
    with pytest.raises(NotFoundError, match="no schedule 'weekly'"):
        ask(database, schedule="weekly")
    with pytest.raises(MalformedError, match="scenario, profile, schedule or group_by"):
        ask(database)


def test_the_last_day_of_a_step_counts_whenever_its_batch_was_made(database: Database) -> None:
    """As by a backfill of the newest first: what was made last is of the first day."""
    item = [{"name": "x", "scenario": SEED}]
    days = ("2026-12-14", "2026-12-13", "2026-12-13", "2026-12-09", "2026-12-07")
    monday, _, sunday, *_ = (a_batch(database, item, start_on=day) for day in days)
    for group in ({}, {"group_by": "team"}):
        out = ask(database, scenario="x", step="week", **group)
        rows: list[Any] = [*out.items, *out.totals]
        assert [row.batch_id for row in rows] == [sunday, monday]
        # The same row has the same change, however little is asked for.
        alone = ask(database, scenario="x", step="week", since=date(2026, 12, 14), **group)
        assert [*alone.items, *alone.totals] == rows[1:]


def test_days_and_steps_are_those_of_the_schedules_zone(database: Database) -> None:
    """00:30 in Paris is the day before in UTC."""
    nightly = a_schedule(database)
    item = [{"name": "x", "scenario": SEED}]
    days = ["2026-11-30T00:30", "2026-12-01T00:30", "2026-12-01T12:00", "2026-12-06T00:30"]
    for day in (*days, "2026-12-07T00:30"):
        batch_id = a_batch(database, item)
        ended(database, batch_id, datetime(2026, 12, 1, tzinfo=UTC))
        a_run(database, nightly, day, batch_id)
    asked: dict[str, Any] = {"scenario": "x", "schedule": "nightly"}
    kept = ask(database, **asked, since=date(2026, 12, 1), until=date(2026, 12, 7))
    assert per_day(kept) == ["2026-12-01", "2026-12-01", "2026-12-06"]
    window = ask(database, **asked, window="6d", until=date(2026, 12, 7))
    assert window.items == kept.items
    by_day = ask(database, **asked, step="day")
    assert [row.run.local_time[:13] for row in by_day.items if row.run] == [
        "2026-11-30T00",
        "2026-12-01T12",
        "2026-12-06T00",
        "2026-12-07T00",
    ]
    by_week = ask(database, **asked, step="week")
    assert per_day(by_week) == ["2026-12-06", "2026-12-07"]
    by_month = ask(database, **asked, step="month")
    assert per_day(by_month) == ["2026-11-30", "2026-12-07"]
    change = by_month.items[1].change
    assert change is not None
    assert change.previous_result_id == by_month.items[0].result_id
    assert per_day(ask(database, **asked, limit=2)) == ["2026-12-06", "2026-12-07"]
    # Today is 31 December: 25 days back is the 7th, and the day of `as_of` counts too.
    assert per_day(ask(database, **asked, window="25d")) == ["2026-12-07"]
    past = ask(database, **asked, window="2d", as_of=datetime(2026, 12, 6, 23, 30, tzinfo=UTC))
    assert per_day(past) == ["2026-12-06", "2026-12-07"]
    for refused in (
        {"since": date(2026, 12, 1), "until": date(2026, 12, 1)},
        {"since": date(2026, 12, 1), "window": "3d"},
        {"until": date(1, 1, 2), "window": "3d"},
    ):
        with pytest.raises(MalformedError):
            ask(database, **asked, **refused)


def test_without_a_schedule_days_are_those_that_windows_begin_on(database: Database) -> None:
    item = [{"name": "x", "scenario": SEED}]
    made = [a_batch(database, item, start_on=f"2026-12-0{day}") for day in (1, 2, 3)]
    out = ask(database, scenario="x", since=date(2026, 12, 2), until=date(2026, 12, 3))
    assert [row.batch_id for row in out.items] == [made[1]]
    totals = ask(database, group_by="team", since=date(2026, 12, 2))
    assert [row.batch_id for row in totals.totals] == made[1:]
    assert [row.on for row in totals.totals] == [date(2026, 12, 2), date(2026, 12, 3)]


def test_totals_count_what_they_cannot_hold(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00")
    nightly = a_schedule(database)
    slow = [*ITEMS, {"name": "new one", "profile": "prod"}]
    past = a_batch(database, ITEMS, currency="EUR")
    revise(database, load_ms=60)
    new = a_batch(database, slow, currency="EUR")
    a_run(database, nightly, "2026-12-01T02:30", past)
    a_run(database, nightly, "2026-12-02T02:30", new)
    rows = {(row.batch_id, row.scenario): row for row in ask(database, schedule="nightly").items}
    by_profile = ask(database, schedule="nightly", group_by="profile").totals
    assert [(row.batch_id, row.profile, row.items) for row in by_profile] == [
        (past, "prod", 2),
        (past, None, 1),
        (new, "prod", 3),
        (new, None, 1),
    ]
    prod = by_profile[2]
    names = ("one slow GPU", "small", "new one")
    assert prod.gpu_hours_lost_per_30_days == math.fsum(
        rows[new, name].gpu_hours_lost_per_30_days for name in names
    )
    assert (prod.items_without_headline, prod.items_failed) == (1, 0)
    assert prod.loss_fraction == pytest.approx(
        prod.gpu_hours_lost_per_30_days / ((1024 + 64 + 1024) * 720)
    )
    costs = [rows[new, name].cost_of_loss_per_30_days for name in names]
    exact = sum(float(cost.amount) for cost in costs if cost)
    assert prod.cost_of_loss_per_30_days is not None
    assert float(prod.cost_of_loss_per_30_days.amount) == pytest.approx(exact, abs=0.02)
    assert prod.gpu_hours_lost_per_day == pytest.approx(prod.gpu_hours_lost_per_30_days / 30)
    assert prod.change is not None
    assert prod.change.previous_batch_id == past
    compared = (prod.change.items_compared, prod.change.items_appeared, prod.change.items_gone)
    assert compared == (2, 1, 0)
    both = [rows[batch, name] for name in names[:2] for batch in (past, new)]
    difference = prod.change.gpu_hours_lost_per_30_days.difference
    assert difference == pytest.approx(
        both[1].gpu_hours_lost_per_30_days
        - both[0].gpu_hours_lost_per_30_days
        + both[3].gpu_hours_lost_per_30_days
        - both[2].gpu_hours_lost_per_30_days
    )
    assert (prod.change.causes_status, prod.change.volume) == ("not_told", None)
    # What no rate prices leaves the whole team without a price.
    team = ask(database, schedule="nightly", group_by="team").totals
    assert [(row.items, row.cost_status.value) for row in team] == [
        (3, "partly_priced"),
        (4, "partly_priced"),
    ]
    assert team[1].gpu_hours_lost_per_30_days == pytest.approx(
        prod.gpu_hours_lost_per_30_days + by_profile[3].gpu_hours_lost_per_30_days
    )
    hidden = ask(database, VIEWER, schedule="nightly", group_by="team").totals[1]
    assert (hidden.cost_of_loss_per_30_days, hidden.cost_status.value) == (None, "withheld")
    assert hidden.change is not None
    assert (hidden.change.cost_of_loss_per_30_days.status, hidden.change.rates) == ("withheld", [])


def test_items_that_share_a_name_are_told_apart_as_in_reports(database: Database) -> None:
    """Nothing moves in them, and a report and the history of the same two runs say the same."""
    nightly = a_schedule(database)
    twins = [
        {"custom_id": f"n{number}", "name": "same", "scenario": SEED | {"num_gpus": 100 * number}}
        for number in (1, 2)
    ]
    other = {"custom_id": "o", "name": "other", "scenario": SEED}
    moved = {**other, "scenario": SEED | {"load_ms": 60}}
    nights = [[*twins, other], [*twins[::-1], other], [twins[1], moved]]
    batches = [a_batch(database, night) for night in nights]
    for day, batch_id in enumerate(batches, 1):
        a_run(database, nightly, f"2026-12-0{day}T02:30", batch_id)
    rows = ask(database, schedule="nightly", scenario="same").items
    differences = [
        None if row.change is None else row.change.gpu_hours_lost_per_30_days.difference
        for row in rows
    ]
    assert differences == [None, None, 0, 0, 0]
    made = make(database, batches[2], baseline_batch_id=str(batches[1]))
    total = ask(database, schedule="nightly", group_by="team").totals[2].change
    head = made.headline
    assert total is not None
    assert total.gpu_hours_lost_per_30_days == head.gpu_hours_lost_change
    assert (total.items_compared, total.items_gone) == (head.items_compared, head.items_gone)
    assert (total.items_compared, total.items_gone, total.items_appeared) == (2, 1, 0)
    assert (total.causes_status, total.volume) == ("told", head.volume)
    assert [cause.path for cause in head.volume] == ["load_ms"]


def test_a_headline_that_failed_is_counted_as_in_reports(database: Database) -> None:
    nightly = a_schedule(database)
    path = "slow_groups.0.count"
    grid = {"name": "big", "scenario": SEED, "axes": [{"path": path, "values": [1, 2000]}]}
    small = {"name": "small", "scenario": SEED | {"num_gpus": 64}}
    batches = [
        a_batch(database, [{**grid, "headline": {path: count}}, small]) for count in (1, 2000, 1)
    ]
    for day, batch_id in enumerate(batches, 1):
        a_run(database, nightly, f"2026-12-0{day}T02:30", batch_id)
    _, failed, returned = ask(database, schedule="nightly", group_by="team").totals
    for total, past, counts in ((failed, 0, (1, 0)), (returned, 1, (0, 1))):
        head = make(database, total.batch_id, baseline_batch_id=str(batches[past])).headline
        assert total.change is not None
        assert (total.change.items_failed, total.change.items_returned) == counts
        assert (head.items_failed, head.items_returned) == counts
        assert (total.change.items_compared, total.change.items_gone) == (1, 0)
        assert total.change.items_appeared == 0


def test_the_first_run_shown_has_its_change_too(database: Database) -> None:
    """Against the run before the days asked for, or before the limit; that one is not shown."""
    nightly = a_schedule(database)
    batches = []
    for day in (1, 2, 3, 4):
        item = [{"name": "x", "scenario": SEED | {"load_ms": 10 * day}}]
        batches.append(a_batch(database, item, start_on=f"2026-12-0{day}"))
        a_run(database, nightly, f"2026-12-0{day}T02:30", batches[-1])
        a_run(database, nightly, f"2026-12-0{day}T14:30", None, state="misfired")
    for asked in ({"schedule": "nightly"}, {"scenario": "x"}, {"scenario": "x", "profile": None}):
        whole = ask(database, **asked)
        later = ask(database, **asked, since=date(2026, 12, 3))
        assert [row.batch_id for row in later.items] == batches[2:]
        assert later.items == whole.items[2:]
        assert (whole.truncated, later.truncated) == (False, False)
        limit = 2 if asked.get("schedule") is None else 4
        cut = ask(database, **asked, limit=limit)
        assert (cut.items, cut.truncated) == (whole.items[2:], True)
        assert whole.items[0].change is None
    for asked in ({"schedule": "nightly"}, {}):
        totals = ask(database, **asked, group_by="team").totals
        later = ask(database, **asked, group_by="team", since=date(2026, 12, 4))
        assert later.totals == totals[3:]
        assert later.totals[0].change is not None
        assert later.totals[0].change.previous_batch_id == batches[2]
    # All four days are of one week: none of them is before it.
    for asked in ({"schedule": "nightly"}, {"scenario": "x"}):
        (week,) = ask(database, **asked, step="week", since=date(2026, 12, 3)).items
        assert (week.batch_id, week.change) == (batches[3], None)
    (daily,) = ask(database, schedule="nightly", step="day", since=date(2026, 12, 4)).items
    assert daily.change is not None
    assert daily.change.previous_result_id.startswith(str(batches[2]))
    assert ask(database, schedule="nightly", since=date(2027, 1, 1)).items == []


def test_a_deleted_schedule_is_found_by_its_id(database: Database) -> None:
    nightly = a_schedule(database)
    a_run(database, nightly, "2026-12-01T02:30", a_batch(database, ITEMS[2:3]))
    whole = ask(database, schedule=str(nightly))
    with database.write() as connection:
        connection.execute(
            update(schedule)
            .where(schedule.c.id == nightly)
            .values(deleted_at=NOW, unique_slug=str(nightly))
        )
    assert len(whole.items) == 1
    assert ask(database, schedule=str(nightly)) == whole
    with pytest.raises(NotFoundError):
        ask(database, schedule="nightly")
    foreign = Actor(team_id=uuid4(), role="admin", scopes=ROLE_SCOPES["admin"])
    with pytest.raises(NotFoundError):
        ask(database, foreign, schedule=str(nightly))


def test_causes_come_from_reports(database: Database) -> None:
    """A history evaluates nothing; the newest report of two runs is believed."""
    nightly = a_schedule(database)
    item = [{"name": "one slow GPU", "scenario": SEED}]
    moved = [{**item[0], "scenario": SEED | {"load_ms": 60}}]
    past, new = a_batch(database, item), a_batch(database, moved)
    a_run(database, nightly, "2026-12-01T02:30", past)
    a_run(database, nightly, "2026-12-02T02:30", new)
    unknown = ask(database, schedule="nightly").items[1].change
    assert unknown is not None
    assert (unknown.causes_status, unknown.volume) == ("not_told", None)
    difference = unknown.gpu_hours_lost_per_30_days.difference
    assert difference is not None
    cause = VolumeCause(
        cause="template",
        detail="set by the batch",
        path="load_ms",
        past="30",
        new="60",
        gpu_hours_per_30_days=difference,
    )
    told(database, new, past, 0, [cause])
    told(database, past, new, 0, [])
    for query in ({"scenario": "one slow GPU"}, {"schedule": "nightly"}):
        change = ask(database, **query).items[1].change
        assert change is not None
        assert (change.causes_status, change.volume) == ("told", [cause])
    total = ask(database, schedule="nightly", group_by="team").totals[1].change
    assert total is not None
    assert (total.causes_status, total.volume) == ("told", [cause])


def test_money_is_as_first_priced_or_newest_or_as_of(database: Database) -> None:
    a_profile(database)
    rate_id = a_rate(database, "2.00")
    nightly = a_schedule(database)
    batch = a_batch(database, ITEMS[:1], currency="EUR")
    # `as_of` knows only slots that have come
    run = a_run(database, nightly, "2026-11-01T02:30", batch)
    a_run(database, nightly, "2026-11-02T02:30", None, state="running")
    between = datetime.now(UTC)
    correct(database, rate_id, "3.00")
    with database.write() as connection:
        document = RepricingsIn(since=date(2026, 11, 1), until=date(2026, 12, 1))
        made = reprice_runs(connection, ACTOR, "nightly", document)
    assert [(one.run_id, one.batch_id, one.pricing.pricing) for one in made.items] == [
        (run, batch, 2)
    ]
    assert made.runs_without_results == {"running": 1}
    first, newest, then = (
        ask(database, schedule="nightly", **query).items[0]
        for query in ({}, {"pricing": "newest"}, {"as_of": between})
    )
    assert (first.pricing, newest.pricing, then.pricing) == (1, 2, 1)
    assert first == then
    assert first.cost_of_loss_per_30_days is not None
    assert newest.cost_of_loss_per_30_days is not None
    ratio = float(newest.cost_of_loss_per_30_days.amount) / float(
        first.cost_of_loss_per_30_days.amount
    )
    assert ratio == pytest.approx(1.5, abs=1e-6)
    # Both views compared: what the correction moved is 1.00 on each hour, and not 3.00.
    with database.read() as connection:
        query = ComparisonQuery(baseline=batch, candidate=batch, candidate_pricing=2, causes=True)
        (row,) = comparisons.compare(connection, ACTOR, query, page_size=10).items
    assert row.causes is not None
    (corrected, old) = row.causes.rates
    assert (old.rate_id, old.corrected_by) == (str(rate_id), corrected.rate_id)
    assert (corrected.price_per_gpu_hour.amount, corrected.corrected_by) == ("3.00", None)
    assert corrected.effect == row.cost_of_loss.price_effect == row.cost_of_loss.difference
    assert corrected.effect is not None
    assert float(corrected.effect.amount) == pytest.approx(row.new["gpu_hours_lost"], abs=0.011)
    # A report of the two says the same.
    report = make(database, batch, pricing=2, baseline_batch_id=str(batch), baseline_pricing=1)
    assert report.headline.rates == row.causes.rates
    now = ask(database, schedule="nightly", as_of=datetime.now(UTC)).items[0]
    assert now == newest
    was = ask(database, schedule="nightly", as_of=datetime.now(UTC), pricing="first").items[0]
    assert was == first
    hidden = ask(database, VIEWER, schedule="nightly", pricing="newest").items[0]
    assert (hidden.pricing, hidden.cost_of_loss_per_30_days) == (None, None)
    assert hidden.cost_status.value == "withheld"
    with database.write() as connection:
        with pytest.raises(ForbiddenError):
            reprice_runs(connection, VIEWER, "nightly", document)
        with pytest.raises(InvalidError, match="not after from"):
            reprice_runs(
                connection,
                ACTOR,
                "nightly",
                RepricingsIn(since=date(2026, 12, 1), until=date(2026, 12, 1)),
            )


def test_it_is_as_it_was_known_then(database: Database) -> None:
    """The attempt that was the newest then; later runs are not there yet."""
    nightly = a_schedule(database)
    item = [{"name": "x", "scenario": SEED}]
    first, again, later = (a_batch(database, item) for _ in range(3))
    moments = [datetime(2026, 12, day, tzinfo=UTC) for day in (2, 20, 21)]
    for batch_id, moment in zip((first, again, later), moments, strict=True):
        ended(database, batch_id, moment)
    tried = [
        {"attempt": 1, "state": "succeeded", "batch_id": str(first)},
        {"attempt": 0, "state": "failed", "batch_id": None},
    ]
    a_run(database, nightly, "2026-12-01T02:30", again, attempt=2, earlier_batches=tried)
    a_run(database, nightly, "2026-12-02T02:30", later)
    known = [
        [row.batch_id for row in ask(database, schedule="nightly", as_of=moment).items]
        for moment in (moments[0] - timedelta(days=1), *moments)
    ]
    assert known == [[], [first], [again], [again, later]]
    # The second slot had not come yet
    assert ask(database, schedule="nightly", as_of=moments[0]).runs_without_results == {}
    assert [row.batch_id for row in ask(database, scenario="x", as_of=moments[1]).items] == [
        first,
        again,
    ]


def test_pages_follow_each_other(database: Database) -> None:
    a_profile(database)
    nightly = a_schedule(database)
    for day in ("01", "02", "03"):
        a_run(database, nightly, f"2026-12-{day}T02:30", a_batch(database, ITEMS))
    for query, number in (({}, 9), ({"group_by": "profile"}, 6), ({"group_by": "team"}, 3)):
        whole = ask(database, schedule="nightly", **query)
        assert whole.next_page_token is None
        found, token = [], None
        for _ in range(number):
            page = ask(database, schedule="nightly", page_token=token, size=2, **query)
            found += [*page.items, *page.totals]
            token = page.next_page_token
            if token is None:
                break
        assert found == [*whole.items, *whole.totals]
        assert len(found) == number
    foreign = ask(database, schedule="nightly", size=2).next_page_token
    with pytest.raises(MalformedError, match="another filter"):
        ask(database, schedule="nightly", group_by="team", page_token=foreign)


def test_runs_are_compared_and_rows_say_why_they_moved(database: Database) -> None:
    a_profile(database)
    rate_id = a_rate(database, "2.00")
    nightly = a_schedule(database)
    past = a_batch(database, ITEMS, currency="EUR")
    revise(database, load_ms=60)
    correct(database, rate_id, "3.00")
    changed = [{**ITEMS[0], "overrides": {"compute_ms": 310}}, *ITEMS[1:]]
    new = a_batch(database, changed, currency="EUR")
    first = a_run(database, nightly, "2026-12-01T02:30", past)
    second = a_run(database, nightly, "2026-12-02T02:30", new)
    empty = a_run(database, nightly, "2026-12-03T02:30", None, state="skipped")

    def compared(**query: Any) -> comparisons.ComparisonOut:
        asked = ComparisonQuery(**{"baseline": first, "candidate": second} | query)
        with database.read() as connection:
            return comparisons.compare(connection, ACTOR, asked, page_size=1000)

    plain, out = compared(), compared(causes=True)
    assert (out.baseline, out.candidate) == (past, new)
    assert {row.causes for row in plain.items} == {None}
    assert compared(baseline=past, candidate=new) == plain
    causes = [row.causes for row in out.items]
    assert [
        [(cause.cause, cause.path) for cause in row.volume] for row in causes if row is not None
    ] == [
        [("profile_revision", "load_ms"), ("template", "compute_ms")],
        [("profile_revision", "load_ms")],
        [],
        [("profile_revision", "load_ms")],
        [("profile_revision", "load_ms")],
    ]
    for row in out.items:
        assert row.causes is not None
        parts = [cause.gpu_hours_per_30_days for cause in row.causes.volume]
        assert math.fsum(parts) == row.causes.gpu_hours_lost_per_30_days.difference
        if row.cost_of_loss.price_effect is not None:
            effects = [float(rate.effect.amount) for rate in row.causes.rates if rate.effect]
            assert sum(effects) == pytest.approx(float(row.cost_of_loss.price_effect.amount))
            assert len(effects) == 2
    with pytest.raises(ConflictError, match="has no batch: it is skipped"):
        compared(baseline=empty)
    with pytest.raises(NotFoundError):
        compared(baseline=uuid4())
    with database.write() as connection:
        repricings.reprice(connection, ACTOR, past, RepricingIn())
    moved = compared(causes=True, baseline_pricing=2).items[0]
    assert moved.causes is not None
    assert [rate.effect.amount for rate in moved.causes.rates if rate.effect] == ["0.00"]
