"""Whole-number money against fractions, written here as the rules are said."""

import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from service.reports.money import apportion, rounded
from service.reports.pricing import exact_hours
from service.reports.whole_costs import apportioned, rounded_ratio, shortest_digits

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(-(10**12), 10**12)
DENOMINATORS = st.integers(1, 10**4)


@given(number=FINITE)
def test_shortest_digits_are_those_that_everybody_reads(number: float) -> None:
    mantissa, power = shortest_digits(number)
    assert mantissa * Fraction(10) ** power == exact_hours(number)


def test_digits_of_plain_and_scientific_numbers() -> None:
    assert shortest_digits(176008.48806366057) == (17600848806366057, -11)
    assert shortest_digits(1e22) == (1, 22)
    assert shortest_digits(-1.5e-7) == (-15, -8)
    assert shortest_digits(-0.0) == (0, -1)


@given(numerator=WHOLE, denominator=DENOMINATORS)
def test_ratios_are_rounded_like_money(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    assert rounded_ratio(numerator, denominator) == round(exact)
    assert rounded(exact / 100, "EUR") * 100 == round(exact)


def by_fractions(exact: list[Fraction], total: int) -> list[int]:
    """Each part from its floor; what is left goes to those that are furthest below."""
    units = [math.floor(part) for part in exact]
    carriers = [place for place, part in enumerate(exact) if part] or list(range(len(exact)))
    furthest = sorted(carriers, key=lambda place: units[place] - exact[place])
    left = total - sum(units)
    for turn in range(left):
        units[furthest[turn % len(furthest)]] += 1
    if left < 0:
        units[furthest[-1]] += left
    return units


def test_halves_go_to_the_even_side() -> None:
    assert [rounded_ratio(number, 2) for number in (-5, -3, -1, 1, 3, 5)] == [-2, -2, 0, 0, 2, 2]


@given(
    parts=st.lists(WHOLE, min_size=2, max_size=4),
    denominator=DENOMINATORS,
    shift=st.integers(-1, 1),
)
def test_parts_add_up_as_in_money(parts: list[int], denominator: int, shift: int) -> None:
    exact = [Fraction(part, denominator) for part in parts]
    total = round(sum(exact)) + shift
    shown = apportion([part / 100 for part in exact], "EUR", shown_total=Fraction(total) / 100)
    found = apportioned(parts, denominator, total)
    assert sum(found) == total
    assert found == by_fractions(exact, total)
    assert [Decimal(units) / 100 for units in found] == shown


@given(parts=st.lists(st.fractions(-(10**6), 10**6, max_denominator=10**4), max_size=4))
def test_parts_of_unlike_denominators_add_up(parts: list[Fraction]) -> None:
    total = round(sum(parts, Fraction(0)) * 100)
    expected = by_fractions([part * 100 for part in parts], total) if parts else []
    assert [int(amount * 100) for amount in apportion(parts, "EUR")] == expected


def test_a_part_of_nothing_stays_nothing_if_another_can_carry_the_rest() -> None:
    assert apportioned([0, 7], 10, 2) == [0, 2]
    assert apportioned([0, 0], 10, 1) == [1, 0]
    assert apportioned([5, 5], 10, -1) == [0, -1]
