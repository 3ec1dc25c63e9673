"""Totals over the items of each run; what has no numbers is counted, runs are never added."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from service.reports.history import Run, ScheduledRun
from service.reports.history_totals import (
    Absent,
    HistoryTotal,
    LeftOut,
    Snapshot,
    group_runs,
    history_totals,
    previous_groups,
    runs_in_both,
)
from service.reports.loss_report import VolumeCause
from service.reports.money import CostStatus, Money
from service.reports.pairing import Known
from service.reports.price_causes import RateKey
from service.reports.pricing import PricedWindow, RateLine

CAUSE = VolumeCause(
    cause="template", detail="d", path="num_gpus", past="1", new="2", gpu_hours_per_30_days=100.0
)


def a_run(batch: int, name: str, lost: float, **values: Any) -> Run:
    line = RateLine(rate_id="r", price=Decimal("2.00"), days=30)
    run = Run(
        scenario=name,
        batch_id=UUID(int=batch),
        batch_name="night",
        batch_created_at=datetime(2026, 12, batch, tzinfo=UTC),
        point=0,
        profile="prod",
        profile_revision=1,
        custom_id=name,
        start_on=date(2026, 12, 1),
        period_days=30,
        num_gpus=64,
        ideal_step_ms=410.0,
        step_mean_ms=500.0,
        efficiency_fraction=0.8,
        gpu_hours_available=1000.0,
        gpu_hours_lost=lost,
        gpu_hours_not_useful=2 * lost,
        model_version="3.0",
        currency="EUR",
        window=PricedWindow(lines=(line,)),
    )
    return replace(run, **values)


def a_night(batch: int, *runs: Run, **values: Any) -> Snapshot:
    night = Snapshot(
        batch_id=UUID(int=batch),
        batch_name="night",
        batch_created_at=datetime(2026, 12, batch, tzinfo=UTC),
        on=date(2026, 12, batch),
        model_version="3.0",
        runs=runs,
        left_out={},
        currency="EUR",
    )
    return replace(night, **values)


def totals(*nights: Snapshot, by: Any = "team", **options: Any) -> list[HistoryTotal]:
    groups = group_runs(nights, by)
    return history_totals(groups, previous_groups(groups), **options)


def test_items_of_one_run_are_added_on_30_days() -> None:
    short = a_run(1, "b", 50.0, period_days=15, gpu_hours_available=500.0)
    left_out = {"prod": LeftOut(without_headline=1, failed=2), None: LeftOut(failed=1)}
    (row,) = totals(a_night(1, a_run(1, "a", 300.0), short, left_out=left_out))
    assert (row.items, row.items_without_headline, row.items_failed) == (2, 1, 3)
    assert row.gpu_hours_lost_per_30_days == 400.0
    assert row.gpu_hours_lost_per_day == pytest.approx(400.0 / 30)
    assert row.gpu_hours_available_per_30_days == 2000.0
    assert row.gpu_hours_not_useful_per_30_days == 800.0
    assert row.loss_fraction == 0.2
    assert row.cost_of_loss_per_30_days == Money(amount="800.00", currency="EUR")
    assert row.cost_of_loss_per_day == Money(amount="26.67", currency="EUR")
    assert (row.on, row.profile, row.change) == (date(2026, 12, 1), None, None)


def test_groups_are_profiles_in_order_and_follow_their_own() -> None:
    first = a_night(1, a_run(1, "a", 1.0), a_run(1, "b", 2.0, profile=None))
    second = a_night(2, left_out={"prod": LeftOut(failed=1)})
    third = a_night(3, a_run(3, "a", 5.0), a_run(3, "c", 1.0, profile="alpha"))
    rows = totals(first, second, third, by="profile")
    assert [(row.batch_id.int, row.profile, row.items) for row in rows] == [
        (1, "prod", 1),
        (1, None, 1),
        (2, "prod", 0),
        (3, "alpha", 1),
        (3, "prod", 1),
    ]
    failed, last = rows[2], rows[4]
    assert (failed.change, failed.loss_fraction, failed.items_failed) == (None, None, 1)
    assert failed.cost_status is CostStatus.NO_RATE
    assert last.change is not None
    # The run that failed says nothing to compare with.
    assert last.change.previous_batch_id == UUID(int=1)
    assert last.change.gpu_hours_lost_per_30_days.difference == 4.0


def test_batches_of_no_schedule_follow_those_they_share_an_item_with() -> None:
    """Two kinds in turn are held against their own, runs of a schedule against the one before."""
    slot = ScheduledRun(
        run_id=UUID(int=9),
        scheduled_for=datetime(2026, 12, 1, tzinfo=UTC),
        local_time="2026-12-01T01:00:00+01:00",
        attempt=1,
    )
    nights = [
        a_night(batch, *(a_run(batch, name, float(batch)) for name in names))
        for batch, names in enumerate(("ab", "x", "b", "xy", "z"), start=1)
    ]
    rows = totals(*nights)
    told = [
        row.change
        and (
            row.change.previous_batch_id.int,
            row.change.items_compared,
            row.change.gpu_hours_lost_per_30_days.difference,
        )
        for row in rows
    ]
    assert told == [None, (1, 0, 0.0), (1, 1, 2.0), (2, 1, 2.0), (4, 0, 0.0)]
    of_schedule = totals(*(replace(night, scheduled=slot) for night in nights))
    assert [row.change and row.change.previous_batch_id.int for row in of_schedule] == [
        None,
        *(1, 2, 3, 4),
    ]


def test_a_change_is_of_the_items_that_both_have() -> None:
    past = a_night(1, a_run(1, "a", 100.0), a_run(1, "gone", 7.0))
    new = a_night(
        2,
        a_run(2, "a", 200.0, ideal_step_ms=400.0),
        a_run(2, "came", 9.0, point=1),
        model_version="3.1",
    )
    _, row = totals(past, new)
    assert row.gpu_hours_lost_per_30_days == 209.0
    assert row.change is not None
    change = row.change
    assert (change.items_compared, change.items_appeared, change.items_gone) == (1, 1, 1)
    assert change.gpu_hours_lost_per_30_days.difference == 100.0
    assert change.cost_of_loss_per_30_days.difference == Money(amount="200.00", currency="EUR")
    assert (change.ideal_changed, change.model_version_changed) == (True, True)
    assert (change.causes_status, change.volume) == ("not_told", None)


def absent(name: str, custom_id: str | None = None, profile: str | None = "prod") -> Absent:
    return Absent(known=Known(name, profile, custom_id or name))


def test_a_moved_ideal_is_split_over_the_items() -> None:
    """By hand, A X / (I + X): of 1000 held one excess of 100 beside 400 stays, the ideal shrinks.

    The other item loses more beside the same ideal, which is all excess.
    """
    past = a_night(
        1,
        a_run(1, "a", 200.0, ideal_step_ms=400.0, gpu_hours_not_useful=500.0),
        a_run(1, "b", 100.0),
    )
    new = a_night(
        2,
        a_run(2, "a", 250.0, ideal_step_ms=300.0, gpu_hours_not_useful=490.0),
        a_run(2, "b", 130.0),
    )
    change = totals(past, new)[1].change
    assert change is not None
    assert change.ideal_changed
    assert change.lost_split is not None
    assert change.lost_split.gpu_hours_available == pytest.approx(0.0)
    assert change.lost_split.gpu_hours_ideal == pytest.approx(50.0)
    assert change.lost_split.gpu_hours_excess == pytest.approx(30.0)
    assert change.lost_split.gpu_hours_not_useful == pytest.approx(-10.0 + 60.0)
    assert change.gpu_hours_lost_per_30_days.difference == pytest.approx(80.0)
    same = totals(past, a_night(2, a_run(2, "b", 130.0)))[1].change
    assert same is not None
    assert (same.ideal_changed, same.lost_split) == (False, None)


def test_items_without_numbers_neither_came_nor_went() -> None:
    past = a_night(1, a_run(1, "a", 1.0), a_run(1, "b", 2.0), absent=(absent("c"), absent("d")))
    new = a_night(2, a_run(2, "a", 1.0), a_run(2, "c", 4.0), absent=(absent("b"),))
    for by in ("team", "profile"):
        change = totals(past, new, by=by)[-1].change
        assert change is not None
        assert (change.items_compared, change.gpu_hours_lost_per_30_days.difference) == (1, 0.0)
        assert (change.items_appeared, change.items_gone) == (0, 0)
        assert (change.items_failed, change.items_returned) == (1, 1)


def test_items_that_share_a_name_are_paired_by_their_custom_ids() -> None:
    """As reports do: without the first, the second is not compared with it."""
    twins = [a_run(1, "same", 655.0, custom_id="n1"), a_run(1, "same", 1432.0, custom_id="n2")]
    past = a_night(1, *twins)
    new = a_night(2, replace(twins[1], batch_id=UUID(int=2)))
    change = totals(past, new)[1].change
    assert change is not None
    assert change.gpu_hours_lost_per_30_days.past == 1432.0
    assert (change.items_compared, change.items_gone) == (1, 1)
    before, after = group_runs([past, new], "team")
    assert runs_in_both(before, after) == [(twins[1], *new.runs)]
    # Also where the one that shares the name has no numbers.
    failing = a_night(1, twins[0], absent=(absent("same", "n2"),))
    change = totals(failing, new)[1].change
    assert change is not None
    assert (change.items_compared, change.items_gone, change.items_returned) == (0, 1, 1)


def test_causes_and_rates_of_the_items_are_added() -> None:
    past = a_night(1, a_run(1, "a", 100.0), a_run(1, "b", 10.0))
    new = a_night(2, a_run(2, "a", 200.0), a_run(2, "b", 110.0, point=1))
    told = {
        (UUID(int=2), 0, UUID(int=1), 0): [CAUSE],
        (UUID(int=2), 1, UUID(int=1), 0): [CAUSE],
    }
    keys = {"r": RateKey(gpu_type="H100", cost_center=None)}
    change = totals(past, new, told=told, keys=keys)[1].change
    assert change is not None
    assert change.causes_status == "told"
    assert change.volume is not None
    assert [cause.gpu_hours_per_30_days for cause in change.volume] == [200.0]
    assert [(rate.rate_id, rate.gpu_type, rate.past_days) for rate in change.rates] == [
        ("r", "H100", 60)
    ]
    partly = totals(past, new, told=dict(list(told.items())[:1]))[1].change
    assert partly is not None
    assert (partly.causes_status, partly.volume) == ("not_told", None)


def test_runs_without_a_common_item_have_no_change_of_numbers() -> None:
    change = totals(a_night(1, a_run(1, "a", 1.0)), a_night(2, a_run(2, "b", 2.0)))[1].change
    assert change is not None
    assert (change.items_compared, change.gpu_hours_lost_per_30_days.difference) == (0, 0.0)
    assert (change.causes_status, change.volume, change.ideal_changed) == ("told", [], False)


def test_money_is_withheld_or_missing() -> None:
    runs = (a_run(1, "a", 1.0), a_run(1, "b", 1.0, window=None))
    (partly,) = totals(a_night(1, *runs))
    assert (partly.cost_of_loss_per_day, partly.cost_status) == (None, CostStatus.PARTLY_PRICED)
    (without,) = totals(a_night(1, *runs, currency=None))
    assert without.cost_status is CostStatus.NO_RATE
    hidden = totals(a_night(1, *runs), a_night(2, a_run(2, "a", 1.0)), withhold=True)
    assert {row.cost_status for row in hidden} == {CostStatus.WITHHELD}
    assert hidden[1].change is not None
    assert hidden[1].change.cost_of_loss_per_30_days.status == "withheld"
