from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from service.reports.join import Side, SideItem, join
from service.reports.pricing import PricedWindow, RateLine
from service.reports.totals import LeftOut, summary

NAN = float("nan")
NONE_LEFT_OUT = LeftOut(
    without_headline_in_baseline=0,
    without_headline_in_candidate=0,
    unmatched_in_baseline=0,
    unmatched_in_candidate=0,
    failed=0,
)


def item(name: str, profile: str | None, headline: int | None, price: str = "1.00") -> SideItem:
    window = PricedWindow(lines=(RateLine(rate_id="r", price=Decimal(price), days=30),))
    return SideItem(name=name, profile=profile, headline=headline, window=window)


def side(*rows: tuple[SideItem, float], ideal_ms: float = 410.0) -> Side:
    """One point an item."""
    points = len(rows)
    return Side(
        items=tuple(item for item, _ in rows),
        item=np.arange(points),
        axes={},
        values={
            "gpu_hours_lost": np.array([lost for _, lost in rows]),
            "gpu_hours_available": np.full(points, 1000.0),
            "ideal_step_ms": np.full(points, ideal_ms),
            "gpu_hours_not_useful": np.full(points, 500.0),
        },
        currency="EUR",
    )


def test_headlines_are_summed_per_profile_and_in_all() -> None:
    past = side(
        (item("a", "p", 0), 100.0),
        (item("b", "p", 1), 50.0),
        (item("c", "q", 2), 10.0),
        (item("d", None, 3), 1.0),
    )
    new = side(
        (item("d", None, 0), 2.0),
        (item("c", "q", 1, "2.00"), 10.0),
        (item("b", "p", 2), 25.0),
        (item("a", "p", 3), 100.0),
    )
    found = summary(join(past, new))
    assert [(row.profile, row.items) for row in found.profiles] == [
        ("p", 2),
        ("q", 1),
        (None, 1),
    ]
    assert [row.gpu_hours_lost.difference for row in found.profiles] == [-25.0, 0.0, 1.0]
    assert found.items == 4
    assert found.left_out == NONE_LEFT_OUT
    assert (found.gpu_hours_lost.past, found.gpu_hours_lost.new) == (161.0, 137.0)
    money = found.cost_of_loss
    assert money.difference is not None
    assert money.volume_effect is not None
    assert money.price_effect is not None
    assert money.difference.amount == "-14.00"
    assert money.volume_effect.amount == "-24.00"
    assert money.price_effect.amount == "10.00"
    assert not found.ideal_changed
    assert found.lost_split is None


def test_a_moved_ideal_is_split_in_the_total() -> None:
    rows = [(item("a", "p", 0), 200.0), (item("b", "p", 1), 100.0)]
    found = summary(join(side(*rows), side(*rows, ideal_ms=300.0)))
    assert found.ideal_changed
    split = found.lost_split
    assert split is not None
    assert split.gpu_hours_excess is not None
    assert split.gpu_hours_ideal is not None
    assert split.gpu_hours_excess + split.gpu_hours_ideal == pytest.approx(0, abs=1e-9)
    assert split.gpu_hours_ideal > 0
    assert split.gpu_hours_not_useful == 0


def test_what_no_total_holds_is_counted() -> None:
    past = side(
        (item("no headline", "p", None), 1.0),
        (item("only here", "p", 1), 2.0),
        (item("failed", "p", 2), NAN),
        (item("lost its headline", "p", 3), 4.0),
        (item("kept", "p", 4), 5.0),
    )
    new = side(
        (item("lost its headline", "p", None), 4.0),
        (item("failed", "p", 1), 3.0),
        (item("kept", "p", 2), 5.0),
        (item("new a", "p", 3), 5.0),
        (item("new b", "p", 4), 5.0),
    )
    found = summary(join(past, new))
    assert found.items == 1
    assert found.left_out == LeftOut(
        without_headline_in_baseline=1,
        without_headline_in_candidate=1,
        unmatched_in_baseline=2,
        unmatched_in_candidate=2,
        failed=1,
    )
    assert found.gpu_hours_lost.past == 5.0


def test_withheld_totals_show_no_money() -> None:
    row = (item("a", "p", 0), 1.0)
    found = summary(join(side(row), side(row)), withhold=True)
    assert found.cost_of_loss.status == "withheld"
    assert found.profiles[0].cost_of_loss.past is None


def test_nothing_joined_is_a_total_of_nothing() -> None:
    past = side((item("a", "p", 0), 1.0))
    found = summary(join(past, replace(past, items=(item("b", "p", 0),))))
    assert found.items == 0
    assert found.gpu_hours_lost.past == 0.0
    assert found.cost_of_loss.status == "no_rate"
