from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.cost_changes import (
    CostChange,
    CostPair,
    cost_change,
    cost_changes,
    withheld_change,
)
from service.reports.money import CostStatus, Money
from service.reports.pricing import PricedWindow, RateLine, mean_price, priced


def window(price: str | None, unpriced_days: int = 0) -> PricedWindow:
    if price is None:
        return PricedWindow(lines=(), unpriced_days=30)
    days = 30 - unpriced_days
    return PricedWindow(
        lines=(RateLine(rate_id="r", price=Decimal(price), days=days),), unpriced_days=unpriced_days
    )


def pair(past: float, new: float, past_price: str | None, new_price: str | None) -> CostPair:
    return CostPair(
        past_hours=past,
        new_hours=new,
        past_window=window(past_price),
        new_window=window(new_price),
    )


def euros(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def test_volume_and_price_are_told_apart() -> None:
    # 100 -> 80 hours, 2.00 -> 2.50 an hour: 20 hours fewer at the old price, 80 at 0.50 more
    assert cost_change([pair(100, 80, "2.00", "2.50")], "EUR", "EUR") == CostChange(
        past=euros("200.00"),
        new=euros("200.00"),
        difference=euros("0.00"),
        relative=0.0,
        volume_effect=euros("-40.00"),
        price_effect=euros("40.00"),
        status="priced",
        past_status=CostStatus.PRICED,
        new_status=CostStatus.PRICED,
    )


PRICES = st.decimals("0.0001", "9.9999", places=4).map(str)
HOURS = st.floats(-1e7, 1e7)


@given(rows=st.lists(st.tuples(HOURS, HOURS, PRICES, PRICES), min_size=1, max_size=5))
def test_effects_add_up_to_the_difference_of_what_is_shown(
    rows: list[tuple[float, float, str, str]],
) -> None:
    found = cost_change([pair(*row) for row in rows], "EUR", "EUR")
    shown = [
        Fraction(part.amount)
        for part in (found.past, found.new, found.difference, found.volume_effect)
        if part is not None
    ]
    assert found.price_effect is not None
    past, new, difference, volume = shown
    assert volume + Fraction(found.price_effect.amount) == difference
    assert new - past == difference
    past_sum = sum(Fraction(repr(row[0])) * Fraction(row[2]) for row in rows)
    assert abs(past - past_sum) <= Fraction(1, 200)


@given(
    groups=st.lists(
        st.lists(st.tuples(HOURS, HOURS, PRICES, PRICES), max_size=3), min_size=1, max_size=5
    )
)
def test_groups_add_up_in_every_column(
    groups: list[list[tuple[float, float, str, str]]],
) -> None:
    pairs = [[pair(*row) for row in group] for group in groups]
    whole, parts = cost_changes(pairs, "EUR", "EUR")
    if not any(groups):
        assert whole.status == "no_rate"
        return
    columns = ("past", "new", "difference", "volume_effect", "price_effect")
    for column in columns:
        amounts = [getattr(part, column) for part in parts if part.status == "priced"]
        assert sum(Fraction(amount.amount) for amount in amounts) == Fraction(
            getattr(whole, column).amount
        )
    for part, group in zip(parts, groups, strict=True):
        if not group:
            assert part.status == "no_rate"
            continue
        past, new, difference, volume, price = (
            Fraction(getattr(part, column).amount) for column in columns
        )
        assert new - past == difference == volume + price
        if all(row[2] == row[3] for row in group):
            assert price == 0


@pytest.mark.parametrize("with_others", [False, True])
def test_many_groups_are_rounded_once_together(*, with_others: bool) -> None:
    """Not as the sum of hundreds of roundings that all go the same way."""
    groups = [[pair(8.1 + number / 7_000, 10.3, "0.03", "0.0385")] for number in range(900)]
    if with_others:
        groups += [[pair(10.0, 10.0 + number / 900, "0.03", "0.03")] for number in range(900)]
        groups += [[pair(11.7, 11.7, "0.03", "0.0385")] for _ in range(900)]
    whole, parts = cost_changes(groups, "JPY", "JPY")
    exact_volume, exact_new = Fraction(0), []
    for (row,) in groups:
        past_price, new_price = mean_price(row.past_window), mean_price(row.new_window)
        assert past_price is not None
        assert new_price is not None
        past_hours, new_hours = Fraction(repr(row.past_hours)), Fraction(repr(row.new_hours))
        exact_volume += (new_hours - past_hours) * past_price
        exact_new.append(new_hours * new_price)
    assert whole.volume_effect is not None
    assert abs(int(whole.volume_effect.amount) - exact_volume) < 1
    for column in ("past", "new", "difference", "volume_effect", "price_effect"):
        amounts = [int(getattr(part, column).amount) for part in parts]
        assert sum(amounts) == int(getattr(whole, column).amount)
    for part, exact in zip(parts, exact_new, strict=True):
        assert part.new is not None
        assert abs(Fraction(part.new.amount) - exact) < 1
    nothing = Money(amount="0", currency="JPY")
    assert all(nothing in {part.volume_effect, part.price_effect} for part in parts[900:])


def test_groups_stand_for_themselves_where_one_has_no_price() -> None:
    whole, parts = cost_changes(
        [[pair(1, 2, "1.00", "1.00")], [pair(1, 2, None, "1.00")]], "EUR", "EUR"
    )
    assert whole.status == "partly_priced"
    assert [part.status for part in parts] == ["priced", "no_rate"]


@given(row=st.tuples(HOURS, st.floats(0.1, 2), PRICES, PRICES))
def test_shown_difference_is_that_of_the_shown_costs(row: tuple[float, float, str, str]) -> None:
    hours, factor, past_price, new_price = row
    new_hours = hours if abs(factor - 1) < 1e-6 else hours * factor
    found = cost_change([pair(hours, new_hours, past_price, new_price)], "EUR", "EUR")
    assert found.past == priced(hours, window(past_price), "EUR").cost
    assert found.new == priced(new_hours, window(new_price), "EUR").cost
    assert found.past is not None
    assert found.new is not None
    assert found.difference is not None
    assert Decimal(found.difference.amount) == Decimal(found.new.amount) - Decimal(
        found.past.amount
    )


@given(hours=st.floats(0, 1e7), price=PRICES, noise=st.floats(-9e-9, 9e-9))
def test_noise_in_the_hours_costs_nothing(hours: float, price: str, noise: float) -> None:
    found = cost_change([pair(hours, hours * (1 + noise), price, price)], "EUR", "EUR")
    zero = euros("0.00")
    assert (found.difference, found.volume_effect, found.price_effect) == (zero, zero, zero)


@given(hours=HOURS, prices=st.tuples(PRICES, PRICES))
def test_same_hours_have_no_volume_effect(hours: float, prices: tuple[str, str]) -> None:
    found = cost_change([pair(hours, hours, *prices)], "EUR", "EUR")
    assert found.volume_effect == euros("0.00")


@pytest.mark.parametrize(
    ("past_price", "new_price", "status"),
    [(None, "1.00", "no_rate"), ("1.00", None, "no_rate"), (None, None, "no_rate")],
)
def test_no_effect_is_told_without_a_price(
    past_price: str | None, new_price: str | None, status: str
) -> None:
    found = cost_change([pair(10, 20, past_price, new_price)], "EUR", "EUR")
    assert found.status == status
    assert found.past == (euros("10.00") if past_price else None)
    assert found.new == (euros("20.00") if new_price else None)
    assert [found.difference, found.volume_effect, found.price_effect] == [None] * 3
    assert found.relative is None


def test_a_sum_with_a_hole_is_partly_priced() -> None:
    rows = [pair(10, 20, "1.00", "1.00"), pair(10, 20, None, "1.00")]
    found = cost_change(rows, "EUR", "EUR")
    assert (found.status, found.past, found.new) == ("partly_priced", None, euros("40.00"))
    days = CostPair(past_hours=1, new_hours=1, past_window=window("1", 1), new_window=window("1"))
    assert cost_change([days], "EUR", "EUR").past_status is CostStatus.PARTLY_PRICED


def test_currencies_are_not_converted() -> None:
    found = cost_change([pair(10, 20, "1.00", "1.00")], "EUR", "USD")
    assert found.status == "currencies_differ"
    assert found.past == euros("10.00")
    assert found.new == Money(amount="20.00", currency="USD")
    assert found.difference is None


def test_without_a_currency_there_is_no_money() -> None:
    found = cost_change([pair(10, 20, "1.00", "1.00")], None, "EUR")
    assert (found.status, found.past, found.new) == ("no_rate", None, euros("20.00"))
    assert cost_change([pair(10, 20, "1", "1")], "EUR", None).status == "no_rate"
    assert cost_change([], "EUR", "EUR").status == "no_rate"


def test_a_failed_point_has_no_cost() -> None:
    found = cost_change([pair(float("nan"), 20, "1.00", "1.00")], "EUR", "EUR")
    assert (found.status, found.past, found.new) == ("not_computed", None, euros("20.00"))


def test_from_nothing_there_is_no_relative_change() -> None:
    found = cost_change([pair(0, 20, "1.00", "1.00")], "EUR", "EUR")
    assert found.difference == euros("20.00")
    assert found.relative is None


def test_withheld_money_shows_nothing() -> None:
    found = withheld_change()
    assert found.status == "withheld"
    assert found.past_status is found.new_status is CostStatus.WITHHELD
    assert found.past is found.new is found.difference is None
