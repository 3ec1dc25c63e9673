"""The money columns against the cost change of each single row."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.compare import costs_at
from service.reports.export_costs import AMOUNTS, RELATIVE, cost_columns, cost_fields
from service.reports.join import Joined, Side, SideItem, join
from service.reports.pricing import PricedWindow, RateLine

NAN = float("nan")
HOURS = (
    st.floats(-1e9, 1e9)
    | st.sampled_from([0.0, -0.0, 0.005, 0.015, 1e-30, 1e22, NAN])
    | st.integers(-1000, 1000).map(lambda cents: cents / 200)
)
WINDOWS = st.sampled_from(
    [
        None,
        PricedWindow(lines=(), unpriced_days=30),
        PricedWindow(lines=(RateLine(rate_id="a", price=Decimal("2.00"), days=30),)),
        PricedWindow(
            lines=(RateLine(rate_id="a", price=Decimal("2.00"), days=29),), unpriced_days=1
        ),
        PricedWindow(
            lines=(
                RateLine(rate_id="a", price=Decimal("2.10"), days=7),
                RateLine(rate_id="b", price=Decimal("1.000000000001"), days=23),
            )
        ),
    ]
)
CURRENCIES = st.sampled_from(["EUR", "EUR", "JPY", "KWD", None])


def side(lost: list[float], windows: list[PricedWindow | None], currency: str | None) -> Side:
    """Points fall on the items in turn."""
    return Side(
        items=tuple(
            SideItem(name=str(place), window=window) for place, window in enumerate(windows)
        ),
        item=np.arange(len(lost), dtype=np.int64) % len(windows),
        axes={"num_gpus": np.arange(len(lost), dtype=np.int64)},
        values={"gpu_hours_lost": np.array(lost, dtype=np.float64)},
        currency=currency,
    )


def assert_as_single_rows(joined: Joined) -> None:
    rows = np.arange(joined.num_rows)
    columns = cost_columns(joined, rows)
    assert list(columns) == [field.name for field in cost_fields()]
    for row, change in enumerate(costs_at(joined, rows)):
        found: dict[str, Any] = {name: column[row] for name, column in columns.items()}
        for part in AMOUNTS:
            expected = getattr(change, part)
            amount = found[f"{part}.cost_of_loss"]
            assert (None if amount is None else format(amount, "f")) == (
                None if expected is None else expected.amount
            ), part
        assert found["past.currency"] == (change.past and change.past.currency)
        assert found["new.currency"] == (change.new and change.new.currency)
        assert found["cost_status"] == change.status
        assert found["past.cost_status"] == change.past_status
        assert found["new.cost_status"] == change.new_status
        relative = found[RELATIVE]
        assert (None if np.isnan(relative) else relative) == change.relative


@given(
    pairs=st.lists(st.tuples(HOURS, HOURS), max_size=8),
    past_windows=st.lists(WINDOWS, min_size=1, max_size=3),
    new_windows=st.lists(WINDOWS, min_size=1, max_size=3),
    currencies=st.tuples(CURRENCIES, CURRENCIES),
)
def test_each_row_is_its_cost_change(
    pairs: list[tuple[float, float]],
    past_windows: list[PricedWindow | None],
    new_windows: list[PricedWindow | None],
    currencies: tuple[str | None, str | None],
) -> None:
    num_items = min(len(past_windows), len(new_windows))
    past = side([past for past, _ in pairs], past_windows[:num_items], currencies[0])
    new = side([new for _, new in pairs], new_windows[:num_items], currencies[1])
    joined = join(past, new)
    assert joined.num_rows == len(pairs)
    assert_as_single_rows(joined)


@pytest.mark.parametrize("new_hours", [100.0, 100.0000000001, 100.01])
def test_hours_that_hardly_moved_did_not_move(new_hours: float) -> None:
    window = PricedWindow(lines=(RateLine(rate_id="a", price=Decimal("2.00"), days=30),))
    joined = join(side([100.0], [window], "EUR"), side([new_hours], [window], "EUR"))
    assert_as_single_rows(joined)
    moved = cost_columns(joined, np.array([0]))["difference.cost_of_loss"][0]
    assert moved == (Decimal("0.02") if new_hours == 100.01 else 0)


def test_withheld_costs_have_the_same_columns_and_no_amount() -> None:
    window = PricedWindow(lines=(RateLine(rate_id="a", price=Decimal("2.00"), days=30),))
    joined = join(side([100.0, 7.0], [window], "EUR"), side([90.0, 7.0], [window], "EUR"))
    shown = cost_columns(joined, np.array([0, 1]))
    hidden = cost_columns(joined, np.array([0, 1]), withhold=True)
    assert list(hidden) == list(shown) == [field.name for field in cost_fields()]
    assert all(list(hidden[f"{part}.cost_of_loss"]) == [None, None] for part in AMOUNTS)
    assert np.isnan(hidden[RELATIVE].astype(np.float64)).all()
    for name in ("cost_status", "past.cost_status", "new.cost_status"):
        assert list(hidden[name]) == ["withheld", "withheld"]
