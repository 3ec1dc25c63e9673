"""The days of a window, one after the other, with the rate of each."""

from datetime import date, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from service.reports.priced_days import priced_days, unpriced
from service.reports.pricing import PricedWindow, Rate, price_days

START = date(2026, 12, 1)


def rate(name: str, first: int, after: int | None, center: str | None = None) -> Rate:
    """A rate valid from a day of the window on, counted from 0, to before another one."""
    return Rate(
        id=name,
        price=Decimal("2.105"),
        valid_from=START + timedelta(days=first),
        valid_until=None if after is None else START + timedelta(days=after),
        cost_center=center,
    )


def shown(rates: list[Rate], days: int) -> list[tuple[int, int, str | None]]:
    found = priced_days(rates, START, price_days(rates, START, days), "EUR")
    for part in found:
        priced = part.price_per_gpu_hour
        assert (priced is None) == (part.rate_id is None)
        assert priced is None or (priced.amount, priced.currency) == ("2.105", "EUR")
    return [((part.first_on - START).days, part.days, part.rate_id) for part in found]


def test_each_day_has_the_rate_of_the_day() -> None:
    assert shown([rate("a", -5, 10), rate("b", 12, None)], 30) == [
        (0, 10, "a"),
        (10, 2, None),
        (12, 18, "b"),
    ]


def test_the_cost_centers_own_rate_wins_while_it_lasts() -> None:
    rates = [rate("general", -100, None), rate("own", 3, 7, "research")]
    assert shown(rates, 10) == [(0, 3, "general"), (3, 4, "own"), (7, 3, "general")]


def test_an_edge_that_changes_nothing_cuts_nothing() -> None:
    rates = [rate("own", -100, None, "research"), rate("general", 3, 7)]
    assert shown(rates, 10) == [(0, 10, "own")]


def test_a_window_without_rates() -> None:
    assert shown([], 30) == [(0, 30, None)]
    assert [(part.first_on, part.days, part.rate_id) for part in unpriced(START, 7)] == [
        (START, 7, None)
    ]


@given(st.lists(st.integers(-5, 35), min_size=2, max_size=8, unique=True), st.integers(1, 30))
def test_the_days_of_each_rate_are_those_that_the_window_was_priced_with(
    edges: list[int], days: int
) -> None:
    edges.sort()
    rates = [
        rate(f"r{place}", first, after)
        for place, (first, after) in enumerate(zip(edges[::2], edges[1::2], strict=False))
    ]
    window: PricedWindow = price_days(rates, START, days)
    found = priced_days(rates, START, window, "EUR")
    assert sum(part.days for part in found) == days
    assert [part.first_on for part in found] == [
        START + timedelta(days=sum(part.days for part in found[:place]))
        for place in range(len(found))
    ]
    by_rate = {line.rate_id: line.days for line in window.lines}
    for name, number in by_rate.items():
        assert sum(part.days for part in found if part.rate_id == name) == number
    assert sum(part.days for part in found if part.rate_id is None) == window.unpriced_days
