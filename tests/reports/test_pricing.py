from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.reports.money import CostStatus, Money
from service.reports.pricing import (
    Cost,
    PricedWindow,
    Rate,
    RateLine,
    cost,
    cost_order,
    cost_status,
    costs,
    exact_hours,
    mean_price,
    price_days,
    priced,
    summed_cost,
    summed_hours,
)

DAY = date(2026, 12, 1)


def rate(name: str, price: str, begin: int, end: int | None, center: str | None = None) -> Rate:
    """Validity in days from DAY."""
    return Rate(
        id=name,
        price=Decimal(price),
        valid_from=DAY + timedelta(days=begin),
        valid_until=None if end is None else DAY + timedelta(days=end),
        cost_center=center,
    )


def window(price: str, days: int, unpriced_days: int = 0) -> PricedWindow:
    line = RateLine(rate_id="r", price=Decimal(price), days=days)
    return PricedWindow(lines=(line,), unpriced_days=unpriced_days)


def days_one_by_one(
    rates: list[Rate], start_on: date, period_days: int
) -> tuple[dict[str, int], int]:
    """The definition, read literally: each day asks for its rate."""
    counted: dict[str, int] = {}
    unpriced = 0
    for number in range(period_days):
        day = start_on + timedelta(days=number)
        valid = [
            r for r in rates if r.valid_from <= day and (not r.valid_until or day < r.valid_until)
        ]
        valid = [r for r in valid if r.cost_center] or valid
        if valid:
            counted[valid[0].id] = counted.get(valid[0].id, 0) + 1
        else:
            unpriced += 1
    return counted, unpriced


@st.composite
def rate_books(draw: st.DrawFn) -> list[Rate]:
    """Rates of a cost center and without one, each kind free of overlaps, perhaps with gaps."""
    book = []
    for center in (None, "research"):
        edges = sorted(draw(st.sets(st.integers(-40, 60), max_size=8)))
        for number, (begin, end) in enumerate(pairwise(edges)):
            if draw(st.booleans()):
                book.append(rate(f"{center}-{number}", "1.5", begin, end, center))
        if draw(st.booleans()):
            last = edges[-1] if edges else -40
            book.append(rate(f"{center}-open", "2", last, None, center))
    return draw(st.permutations(book))


@given(book=rate_books(), start=st.integers(-50, 50), period_days=st.integers(1, 60))
def test_days_are_those_of_a_loop_over_days(book: list[Rate], start: int, period_days: int) -> None:
    start_on = DAY + timedelta(days=start)
    found = price_days(book, start_on, period_days)
    counted, unpriced = days_one_by_one(book, start_on, period_days)
    # the order too: a dictionary keeps the order of first days
    assert [(line.rate_id, line.days) for line in found.lines] == list(counted.items())
    assert found.unpriced_days == unpriced
    assert found.period_days == period_days


def test_a_new_price_begins_on_its_first_day() -> None:
    found = price_days([rate("new", "2.10", 10, None), rate("old", "2.00", -99, 10)], DAY, 30)
    assert found.lines == (
        RateLine(rate_id="old", price=Decimal("2.00"), days=10),
        RateLine(rate_id="new", price=Decimal("2.10"), days=20),
    )


def test_a_rate_of_the_cost_center_interrupts_the_general_one() -> None:
    found = price_days([rate("all", "2", -9, None), rate("mine", "1", 5, 8, "research")], DAY, 30)
    assert [(line.rate_id, line.days) for line in found.lines] == [("all", 27), ("mine", 3)]


def test_overlapping_rates_are_named_with_the_day() -> None:
    with pytest.raises(ValueError, match="rates a and b are both valid on 2026-12-04"):
        price_days([rate("a", "1", 0, 5), rate("b", "1", 3, 9)], DAY, 30)


def test_validity_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="rate a is valid until 2026-12-01, which is not after"):
        price_days([rate("a", "1", 0, 0)], DAY, 30)


def test_a_window_has_a_day_and_ends_within_the_calendar() -> None:
    with pytest.raises(ValueError, match="period_days is 0"):
        price_days([], DAY, 0)
    with pytest.raises(ValueError, match="end after the last date"):
        price_days([], date(9999, 12, 30), 5)
    open_end = price_days([rate("a", "1", 0, None)], date(9999, 12, 1), 30)
    assert open_end.unpriced_days == 0


def test_status_says_why_there_is_no_cost() -> None:
    assert cost_status(None) is CostStatus.NO_RATE
    assert cost_status(PricedWindow(lines=(), unpriced_days=30)) is CostStatus.NO_RATE
    assert cost_status(window("1", 29, unpriced_days=1)) is CostStatus.PARTLY_PRICED
    assert cost_status(window("1", 30)) is CostStatus.PRICED


def test_cost_of_the_example_in_the_api_page() -> None:
    found = priced(176008.48806366057, window("2.10", 30), "EUR")
    assert found == Cost(
        cost=Money(amount="369617.82", currency="EUR"), cost_status=CostStatus.PRICED
    )


def test_cost_is_summed_over_days_and_rounded_once() -> None:
    lines = tuple(
        RateLine(rate_id=str(n), price=price, days=10)
        for n, price in enumerate((Decimal("1.01"), Decimal("1.02"), Decimal("1.03")))
    )
    # 0.1 GPU-hours on 30 days: 10/30 x 0.1 x (1.01 + 1.02 + 1.03) = 0.102
    assert cost(0.1, PricedWindow(lines=lines)) == Fraction(102, 1000)


@pytest.mark.parametrize(
    ("gap", "currency", "status"),
    [(0, None, "no_rate"), (1, "EUR", "partly_priced"), (1, None, "no_rate")],
)
def test_no_extrapolation_over_days_without_a_rate(
    gap: int, currency: str | None, status: str
) -> None:
    found = priced(1.0, window("1", 30 - gap, unpriced_days=gap), currency)
    assert found == Cost(cost=None, cost_status=CostStatus(status))


def test_without_a_window_there_is_no_cost() -> None:
    assert cost(1.0, None) is None
    assert mean_price(PricedWindow(lines=(), unpriced_days=30)) is None


@given(hours=st.floats(allow_nan=False, allow_infinity=False))
def test_hours_are_their_shortest_digits(hours: float) -> None:
    assert exact_hours(hours) == Fraction(Decimal(repr(hours)))


@pytest.mark.parametrize("hours", [float("nan"), float("inf")])
def test_hours_that_are_no_number_have_no_cost(hours: float) -> None:
    with pytest.raises(ValueError, match="a finite number is needed"):
        exact_hours(hours)
    with pytest.raises(ValueError, match="a finite number is needed"):
        summed_hours([1.0, hours])


@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["1.00", "2.105"])
        ),
        max_size=12,
    ),
    has_unpriced=st.booleans(),
)
def test_summed_costs_are_the_sum_of_the_costs(
    rows: list[tuple[float, str]], *, has_unpriced: bool
) -> None:
    priced_rows: list[tuple[float, PricedWindow | None]] = [
        (hours, PricedWindow(lines=(RateLine(rate_id="a", price=Decimal(price), days=30),)))
        for hours, price in rows
    ]
    assert summed_cost(priced_rows) == sum(
        (exact_hours(hours) * Fraction(price) for hours, price in rows), Fraction(0)
    )
    if has_unpriced:
        assert summed_cost([*priced_rows, (1.0, None)]) is None


@given(
    hours=st.lists(st.floats(-1e12, 1e12) | st.just(float("nan")), max_size=20),
    days=st.integers(1, 40),
)
def test_many_costs_are_the_single_costs(hours: list[float], days: int) -> None:
    here = window("2.105", days)
    shown = [
        None if amount is None else Money(amount=str(amount), currency="EUR")
        for amount in costs(np.array(hours), here, "EUR")
    ]
    assert shown == [None if np.isnan(h) else priced(h, here, "EUR").cost for h in hours]


def test_many_costs_without_a_rate_are_all_null() -> None:
    assert costs(np.array([1.0, 2.0]), window("1", 1, unpriced_days=1), "EUR") == [None, None]
    assert np.isnan(cost_order(np.array([1.0]), None)).all()


def test_order_of_costs_is_that_of_the_amounts() -> None:
    hours = np.array([3.0, -1.0, np.nan, 2.0])
    np.testing.assert_array_equal(cost_order(hours, window("2.5", 7)), hours * 2.5)


@pytest.mark.parametrize(
    ("hours", "price", "expected"),
    [
        # Exactly half a cent goes to the even one, on both sides of zero.
        (0.125, "1", "0.12"),
        (0.375, "1", "0.38"),
        (-0.125, "1", "-0.12"),
        (-0.375, "1", "-0.38"),
        (0.1, "0.05", "0.00"),
        (1e22, "1", "10000000000000000000000.00"),
        (1.5e300, "2", "3" + "0" * 300 + ".00"),
        (5e-324, "1", "0.00"),
        (-0.0, "1", "0.00"),
        (1e-05, "1000", "0.01"),
    ],
)
def test_many_costs_are_exact(hours: float, price: str, expected: str) -> None:
    (amount,) = costs(np.array([hours]), window(price, 1), "EUR")
    assert amount is not None
    assert format(amount, "f") == expected


@given(hours=st.floats(allow_nan=False, allow_infinity=False), days=st.integers(1, 6))
def test_any_many_costs_are_the_single_costs(hours: float, days: int) -> None:
    prices = (("2.10", days), ("1.000000000001", 7 - days))
    lines = (RateLine(rate_id=text, price=Decimal(text), days=number) for text, number in prices)
    here = PricedWindow(lines=tuple(lines))
    (amount,) = costs(np.array([hours]), here, "EUR")
    single = priced(hours, here, "EUR").cost
    assert single is not None
    assert amount is not None
    assert format(amount, "f") == single.amount
