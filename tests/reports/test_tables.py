from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from service.model.results import COLUMNS
from service.reports.compare import page
from service.reports.join import Labelled, Side, SideItem, join
from service.reports.money import Money
from service.reports.pricing import PricedWindow, RateLine
from service.reports.tables import (
    Heading,
    LossRow,
    comparison_table,
    loss_table,
    result_table,
    shown_value,
    text_table,
)

BY_NAME = {column.name: column for column in COLUMNS}


def test_words_stand_left_and_numbers_right() -> None:
    headings = [Heading("name", words=True), Heading("GPUs")]
    assert text_table(headings, [["a", "1 024"], ["longer", "8"]]).splitlines() == [
        "name     GPUs",
        "------  -----",
        "a       1 024",
        "longer      8",
    ]
    assert text_table(headings, []).splitlines() == ["name  GPUs", "----  ----"]


def loss_row(cost: Money | None = None) -> LossRow:
    return LossRow(
        profile="prod-h100",
        num_gpus=1024,
        variability="cv 5 %",
        efficiency_fraction=0.8937831,
        gpu_hours_lost=78311.4,
        cost_of_loss=cost,
    )


def test_loss_table_has_units_and_no_cost_without_a_rate() -> None:
    assert loss_table([loss_row()]).splitlines() == [
        "profile     GPUs  variability  efficiency [%]  lost in 30 days [GPU-hours]",
        "---------  -----  -----------  --------------  ---------------------------",
        "prod-h100  1 024  cv 5 %                89.38                       78 311",
    ]


def test_loss_table_shows_costs_where_there_are_any() -> None:
    rows = [loss_row(), loss_row(Money(amount="164453.94", currency="EUR"))]
    lines = loss_table(rows, period_days=7).splitlines()
    assert "lost in 7 days" in lines[0]
    assert lines[0].endswith("  cost of the loss")
    assert lines[2].endswith("78 311                 -")
    assert lines[3].endswith("78 311    164 453.94 EUR")


def side(lost: list[float], *, ideal_ms: float = 410.0, price: str | None = "1.00") -> Side:
    line = RateLine(rate_id="r", price=Decimal(price or "1"), days=30)
    return Side(
        items=(SideItem(name="slow", profile="prod", window=PricedWindow(lines=(line,))),),
        item=np.zeros(2, dtype=np.int64),
        axes={
            "num_gpus": np.array([1024, 2048]),
            "variability.transient": Labelled(
                codes=np.array([0, 1]), values=(None, {"kind": "normal", "cv": 0.05, "on": True})
            ),
        },
        values={
            "gpu_hours_lost": np.array(lost),
            "gpu_hours_available": np.array([737280.0, 1474560.0]),
            "ideal_step_ms": np.full(2, ideal_ms),
        },
        currency="EUR" if price else None,
    )


def test_comparison_table_shows_the_direction() -> None:
    past, new = side([176008.4, float("nan")], price=None), side([0.0, 5.0], price=None)
    lines = comparison_table(page(join(past, new), size=9).items).splitlines()
    assert lines[0].split("  ")[0] == "name"
    assert [part.strip() for part in lines[2].split("  ") if part.strip()] == [
        "slow",
        "prod",
        "1 024",
        "-",
        "176 008",
        "0",
        "-176 008",
        "-100.00",
    ]
    assert "kind normal, cv 0.05, on yes" in lines[3]
    assert lines[3].split()[-4:] == ["-", "5", "-", "-"]


def test_comparison_table_tells_volume_from_price() -> None:
    past, new = side([100.0, 10.0]), side([80.0, 10.0], price="1.50")
    lines = comparison_table(page(join(past, new), size=9).items).splitlines()
    assert lines[0].endswith("cost difference   by volume    by price")
    assert lines[2].endswith("+20.00 EUR  -20.00 EUR  +40.00 EUR")
    assert lines[3].endswith("+5.00 EUR    0.00 EUR   +5.00 EUR")


def test_a_moved_ideal_is_marked() -> None:
    moved = comparison_table(
        page(join(side([1.0, 2.0]), side([2.0, 2.0], ideal_ms=300)), size=9).items
    )
    assert moved.endswith("\n* the ideal step moved too")
    assert "+1 *" in moved


def test_a_table_of_no_rows_is_its_header() -> None:
    nothing = replace(side([1.0, 2.0]), items=(SideItem(name="other"),))
    assert page(join(nothing, side([1.0, 2.0])), size=9).items == []
    assert comparison_table([]).startswith("past, 30 days [GPU-hours]  new [GPU-hours]")
    assert loss_table([]).startswith("profile")


@pytest.mark.parametrize(
    ("name", "value", "shown", "unit"),
    [
        ("efficiency_fraction", 0.7612732095490715, "76.13", "%"),
        ("gpu_hours_lost", 176008.48806366057, "176 008", "GPU-hours"),
        ("gpu_hours_lost_per_day", 366.68, "366.7", "GPU-hours"),
        ("step_mean_ms", 538.5714285714287, "538.57", "ms"),
        ("step_mean_ms", None, "-", "ms"),
        ("method", "closed_form", "closed_form", ""),
        ("method", 12345, "12 345", ""),
        ("method", 1.23456789, "1.23457", ""),
        ("method", False, "no", ""),
    ],
)
def test_values_are_shown_by_their_unit(
    name: str, value: float | str | None, shown: str, unit: str
) -> None:
    assert shown_value(BY_NAME[name], value) == (shown, unit)


def test_result_table_has_what_was_computed_in_the_order_of_the_model() -> None:
    lines = result_table({"efficiency_fraction": 0.5, "step_mean_ms": 820.0}).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["step_mean_ms", "efficiency_fraction"]
    assert lines[2].split()[1:3] == ["820.00", "ms"]
