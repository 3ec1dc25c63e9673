"""What a report says of stored batches, against sums over the stored results, on both databases."""

import math
from datetime import date
from decimal import ROUND_HALF_EVEN, Decimal

from service.db.engine import Database
from service.jobs import batches, deletions, report_making
from service.jobs.report_reading import Rates, read_batch, read_side
from service.jobs.report_remedies import OF_CLOCK, OF_TIME, rank
from service.jobs.result_documents import ResultOut
from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.loss_report import LossReport, RemediesLeftOut
from tests.jobs.batch_bodies import ACTOR, cancel, rows, speeds, submit
from tests.jobs.report_bodies import EVEN, SLOW, a_profile, a_rate, ask, batch, document, make, one

CENT = Decimal("0.01")
MONEY = "cost_of_loss_per_30_days"
HOURS = "gpu_hours_lost_per_30_days"
NORMAL = {"kind": "normal", "cv": 0.05}


def codes(report: LossReport) -> list[str]:
    return [one.code for one in report.warnings]


def stored(database: Database, **query: object) -> dict[str, ResultOut]:
    """The stored results by custom id; of grids the last point."""
    return {row.custom_id: row for row in rows(database, **query)}


def per_30(row: ResultOut, days: int, column: str = "gpu_hours_lost") -> Decimal:
    value = getattr(row.result, column) or 0.0
    return Decimal(repr(value)) * 30 / days


def test_headline_items_and_waterfall_are_sums_of_stored_results(database: Database) -> None:
    a_profile(database)
    own = a_rate(database, "2.00", "2026-10-01", "2026-12-11", "research")
    later = a_rate(database, "2.50", "2026-12-11", None, "research")
    made = batch(
        database,
        one("slow", **SLOW),
        one("waits", **{"variability.transient": NORMAL}),
        one("short", period_days=20, **SLOW),
        {**one("grid", **SLOW), "axes": [speeds(3)]},
    )
    report = make(database, made)
    found = stored(database, batch=made, page_size=50)
    days = {"slow": 30, "waits": 30, "short": 20}
    # 10 days at 2.00 and the rest at 2.50
    mean = {"slow": Decimal(70) / 30, "waits": Decimal(70) / 30, "short": Decimal("2.25")}
    lost = {name: per_30(found[name], length) for name, length in days.items()}
    head = report.headline
    assert head.items == 3
    assert math.isclose(head.gpu_hours_lost_per_30_days, float(sum(lost.values())), rel_tol=1e-15)
    exact = sum((lost[name] * mean[name] for name in days), Decimal(0))
    total = exact.quantize(CENT, ROUND_HALF_EVEN)
    assert head.cost_of_loss_per_30_days is not None
    assert head.cost_of_loss_per_30_days.amount == str(total)
    shown = {item.custom_id: item for item in report.items}
    amounts = [shown[name].cost_of_loss_per_30_days for name in days]
    assert sum(Decimal(one.amount) for one in amounts if one is not None) == total
    for name, length in days.items():
        item = shown[name]
        assert item.result_id == found[name].id
        assert item.cost_of_loss == found[name].cost_of_loss
        assert item.gpu_hours_lost == found[name].result.gpu_hours_lost
        assert item.method == found[name].result.method
        assert sum(part.days for part in item.price_days) == length
        assert [(part.first_on, part.rate_id) for part in item.price_days] == [
            (date(2026, 12, 1), own),
            (date(2026, 12, 11), later),
        ]
    assert (shown["grid"].missing, shown["grid"].gpu_hours_lost) == ("no_headline", None)
    for step in report.waterfall:
        by_hand = sum(per_30(found[name], days[name], step.column) for name in days)
        assert math.isclose(step.gpu_hours_per_30_days, float(by_hand), rel_tol=1e-12)
    assert math.fsum(step.gpu_hours_per_30_days for step in report.waterfall) == (
        head.gpu_hours_available_per_30_days
    )
    named = {step.column for step in report.waterfall}
    assert "gpu_hours_slow_groups" in named <= set(ATTRIBUTION_COLUMNS)
    assert codes(report) == ["items_without_headline"]
    assert (report.baseline, report.baseline_missing) == (None, "none_asked")
    assert report.batch.items_without_headline == 1


def test_a_change_is_told_by_its_causes_and_rates(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01", "2026-12-01")
    a_rate(database, "3.00", "2026-12-01")
    past = batch(database, one("a"), one("b", **SLOW), one("gone"), start_on="2026-11-01")
    new = batch(database, one("a", **SLOW), one("b", **SLOW), one("came"))
    report = make(database, new, baseline_batch_id=str(past))
    before, after = stored(database, batch=past), stored(database, batch=new)
    moved = after["a"].result.gpu_hours_lost - before["a"].result.gpu_hours_lost
    change = report.headline.gpu_hours_lost_change
    assert change is not None
    assert change.difference is not None
    assert math.isclose(change.difference, moved, rel_tol=1e-12)
    assert report.headline.items_compared == 2
    (cause,) = report.headline.volume
    assert (cause.cause, cause.path) == ("template", "slow_groups")
    assert cause.gpu_hours_per_30_days == change.difference
    cost = report.headline.cost_of_loss_change
    assert cost is not None
    # All hours of the past cost 2.00, and all of now 3.00.
    hours = Decimal(repr(after["a"].result.gpu_hours_lost)) + Decimal(
        repr(after["b"].result.gpu_hours_lost)
    )
    assert cost.new is not None
    assert cost.new.amount == str((3 * hours).quantize(CENT))
    assert cost.price_effect is not None
    assert abs(Decimal(cost.price_effect.amount) - hours) <= 2 * CENT
    effects = [rate.effect for rate in report.headline.rates]
    assert sum(Decimal(one.amount) for one in effects if one) == Decimal(cost.price_effect.amount)
    assert [(one.custom_id, one.kind) for one in report.movers] == [
        ("a", "changed"),
        ("came", "appeared"),
        ("gone", "gone"),
    ]
    assert report.items[0].volume[0].gpu_hours_per_30_days == change.difference
    assert codes(report) == ["unmatched_items"]
    assert report.baseline is not None
    assert report.baseline.batch_id == past


def test_a_headline_is_one_scenario_whatever_stands_on_its_axes(database: Database) -> None:
    """An input that an axis is over moves like any other, in every item of the batch."""
    a_profile(database)
    path = "slow_groups.0.speed_fraction"
    grid = {
        **one("grid", **SLOW),
        "axes": [{"path": path, "values": [0.5, 0.7]}],
        "headline": {path: 0.7},
    }
    past = batch(database, grid, one("a", **SLOW), one("b", **SLOW), start_on="2026-11-01")
    other = {**grid, "headline": {path: 0.5}}
    slower = {"slow_groups": [{"count": 1, "speed_fraction": 0.5}]}
    same = make(database, batch(database, grid, one("a", **SLOW)), baseline_batch_id=str(past))
    assert same.headline.items_compared == 2
    assert same.headline.gpu_hours_lost_change is not None
    assert same.headline.gpu_hours_lost_change.difference == 0
    assert (same.headline.items_gone, [mover.kind for mover in same.movers]) == (1, ["gone"])
    new = batch(database, other, one("a", **slower), one("b", **SLOW))
    moved = make(database, new, baseline_batch_id=str(past))
    assert (moved.headline.items_compared, moved.headline.is_compared_in_part) == (3, False)
    assert {mover.custom_id: mover.kind for mover in moved.movers} == {
        "a": "changed",
        "grid": "changed",
    }
    (cause,) = moved.headline.volume
    assert (cause.path, cause.past, cause.new) == (path, "0.7", "0.5")
    change, head = moved.headline.gpu_hours_lost_change, moved.headline
    assert change is not None
    assert cause.gpu_hours_per_30_days == change.difference
    assert head.past_gpu_hours_lost_per_30_days is not None
    assert change.past == head.past_gpu_hours_lost_per_30_days
    assert change.new == head.gpu_hours_lost_per_30_days


def test_a_headline_that_fails_and_comes_back_is_told(database: Database) -> None:
    a_profile(database)
    path = "slow_groups.0.count"
    item = {**one("big", **SLOW), "axes": [{"path": path, "values": [1, 2000]}]}
    sound = batch(database, {**item, "headline": {path: 1}}, one("small", **SLOW))
    failing = batch(database, {**item, "headline": {path: 2000}}, one("small", **SLOW))
    for new, past, kind in ((failing, sound, "failed"), (sound, failing, "returned")):
        report = make(database, new, baseline_batch_id=str(past))
        (mover,) = report.movers
        assert (mover.custom_id, mover.kind) == ("big", kind)
        assert "counterpart_missing" in codes(report)
        head = report.headline
        assert (head.items_failed, head.items_returned) == (
            int(kind == "failed"),
            int(kind == "returned"),
        )
        assert head.past_gpu_hours_lost_per_30_days is not None
        moved = head.gpu_hours_lost_per_30_days - head.past_gpu_hours_lost_per_30_days
        assert math.isclose(moved, mover.difference_per_30_days, rel_tol=1e-12)
        (row,) = report.profiles
        assert row.gpu_hours_lost_per_30_days == head.gpu_hours_lost_per_30_days
        assert row.past_gpu_hours_lost_per_30_days == head.past_gpu_hours_lost_per_30_days


def test_a_budget_is_of_what_was_not_rounded(database: Database) -> None:
    a_profile(database)
    a_rate(database, "0.000001", "2026-10-01")
    made = batch(database, one("a", **SLOW))
    found = make(database, made).headline
    shown, exact = found.cost_of_loss_per_30_days, Decimal(repr(found.gpu_hours_lost_per_30_days))
    exact /= 1_000_000
    assert shown is not None
    assert Decimal(shown.amount) != exact
    for amount, status in ((exact, "within"), (exact - Decimal("1e-18"), "over")):
        budget = {MONEY: {"amount": f"{amount:f}", "currency": "EUR"}}
        outcome = make(database, made, budget=budget).budget
        assert outcome is not None
        assert outcome.status == status


def test_a_batch_of_alternatives_alone_is_within_no_budget(database: Database) -> None:
    """Its loss is in no sum: a sum of nothing would always be within."""
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01")
    axes = [{"path": path, "values": [64, 128]} for path in ("num_gpus", "load_ms")]
    grid = {**one("grid", **SLOW), "axes": axes}
    report = make(database, batch(database, grid), budget={HOURS: 1e9})
    assert report.budget is not None
    assert (report.budget.status, report.budget.reason_unknown) == (
        "unknown",
        "items_without_numbers",
    )
    assert codes(report) == ["items_without_headline", "budget_incomplete"]
    beside = make(database, batch(database, grid, one("a", **SLOW)), budget={HOURS: 1e9})
    assert beside.budget is not None
    assert (beside.budget.status, codes(beside)) == ("within", ["items_without_headline"])


def test_failed_points_and_days_without_a_rate_are_told(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01", "2026-12-21")
    path = "slow_groups.0.count"
    failing = {
        **one("fails", **SLOW),
        "axes": [{"path": path, "values": [1, 2000]}],
        "headline": {path: 2000},
    }
    made = batch(database, one("a", **SLOW), failing)
    report = make(database, made, budget={MONEY: {"amount": "1000000", "currency": "EUR"}})
    over = make(database, made, budget={MONEY: {"amount": "1", "currency": "EUR"}})
    assert report.batch.state == "partially_failed"
    assert report.batch.points_failed == 1
    assert [(item.custom_id, item.missing) for item in report.items] == [
        ("a", None),
        ("fails", "failed"),
    ]
    assert report.items[0].unpriced_days == 10
    assert report.headline.cost_status == "partly_priced"
    assert report.budget is not None
    assert (report.budget.status, report.budget.reason_unknown) == ("unknown", "no_rate")
    # What its days with a rate cost is more than that already
    assert over.budget is not None
    assert (over.budget.status, over.budget.cost_of_loss_per_30_days) == ("over", None)
    assert over.budget.priced_cost_per_30_days == over.headline.priced_cost_per_30_days
    assert (over.headline.items_unpriced, over.headline.unpriced_days) == (1, 10)
    assert codes(report) == [
        "failed_points",
        "headline_failed",
        "unpriced_days",
        "budget_unknown",
        "budget_incomplete",
    ]


def test_a_baseline_that_was_deleted_is_none(database: Database) -> None:
    a_profile(database)
    past = batch(database, one("a"))
    new = batch(database, one("a", **SLOW))
    report_id = ask(database, new, baseline_batch_id=str(past))
    with database.write() as connection:
        version = batches.get(connection, ACTOR, past).version
        deletions.delete_batch(connection, ACTOR, past, expected_version=version)
    report_making.run(database, report_id)
    report = document(database, report_id)
    assert (report.baseline, report.baseline_missing) == (None, "batch_deleted")
    assert report.headline.gpu_hours_lost_change is None


def test_results_that_were_taken_over_are_told(database: Database) -> None:
    a_profile(database)
    first = batch(database, one("a", **SLOW))
    again = batch(database, one("a", **SLOW), reuse=True)
    report = make(database, again, baseline_batch_id=str(first))
    assert report.batch.reused_from == first
    assert codes(report) == ["unpriced_days", "reused", "windows_overlap"]
    assert report.movers == []


def test_remedies_of_what_loses_most(database: Database) -> None:
    a_profile(database, num_gpus=64)
    a_rate(database, "2.00", "2026-10-01")
    items = [
        one(f"i{number}", slow_groups=[{"count": 1, "speed_fraction": speed}])
        for number, speed in enumerate((0.9, 0.5, 0.7, 0.8))
    ]
    report = make(database, batch(database, *items, one("none", **EVEN)), report={"remedies": True})
    assert list(dict.fromkeys(one.custom_id for one in report.remedies)) == ["i1", "i2", "i3"]
    by_item = [one for one in report.remedies if one.custom_id == "i1"]
    assert 1 <= len(by_item) <= 3
    assert len({one.kind for one in by_item}) == len(by_item)
    assert [one.gpu_hours_given_back for one in by_item] == sorted(
        (one.gpu_hours_given_back for one in by_item), reverse=True
    )
    gains = [one.gpu_hours_given_back_per_30_days for one in report.remedies]
    assert gains == sorted(gains, reverse=True)
    best = report.remedies[0]
    assert best.cost_given_back_per_30_days is not None
    exact = Decimal(repr(best.gpu_hours_given_back_per_30_days)) * 2
    assert best.cost_given_back_per_30_days.amount == str(exact.quantize(CENT))


def test_what_was_not_computed_is_told(database: Database) -> None:
    a_profile(database)
    made = submit(database, one("a", **SLOW), one("b"), currency="EUR").id
    cancel(database, made)
    report = make(database, made)
    assert [item.missing for item in report.items] == ["not_computed", "not_computed"]
    assert (report.headline.items, report.headline.loss_fraction) == (0, 0.0)
    assert codes(report) == ["batch_incomplete", "headline_not_computed"]
    assert len(report.reproduce.commands) == 3


def test_remedies_that_take_too_long_are_left_out(database: Database) -> None:
    a_profile(database)
    made = batch(database, one("a", **SLOW))
    with database.read() as connection:
        read = read_batch(connection, ACTOR, made, 1)
        side = read_side(connection, read, Rates(rates={}, keys={}))
    for limits, reason in (({"longest_s": 0.0}, OF_TIME), ({"latest_s": -1.0}, OF_CLOCK)):
        found = rank(side, read.items, **limits)
        assert found.remedies == []
        assert found.left_out == [RemediesLeftOut(custom_id="a", name="a", reason=reason)]
        assert [(one.code, one.params) for one in found.notices] == [
            ("remedies_left_out", {"name": "a", "reason": reason})
        ]
