"""Changes of money in currencies with 0, 2 and 3 decimals, against every day added up by hand."""

import math
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import NamedTuple

import pytest

from service.reports.cost_changes import CostPair, cost_change, cost_changes
from service.reports.money import Money
from service.reports.price_causes import rate_changes
from service.reports.pricing import Rate, price_days

START_ON = date(2026, 1, 1)
DIGITS = {"JPY": 0, "EUR": 2, "KWD": 3}
PRICES = ("2.10", "0.333333333333", "1", "2.105", "0.01")


class Row(NamedTuple):
    """GPU-hours of both sides, and what a day costs by its rate; None: no rate has the day."""

    past_hours: Fraction
    new_hours: Fraction
    past: list[Rate | None]
    new: list[Rate | None]


def some_rates(random: Random, name: str) -> list[Rate]:
    """One after the other, the last one open or not; sometimes days between have none."""
    found, begins_on = [], START_ON - timedelta(days=random.randint(0, 20))
    for place in range(random.randint(1, 3)):
        until = begins_on + timedelta(days=random.randint(3, 40))
        is_open = random.random() < 0.6
        found.append(
            Rate(
                id=f"{name}{place}",
                price=Decimal(random.choice(PRICES)),
                valid_from=begins_on,
                valid_until=None if is_open else until,
            )
        )
        if is_open:
            break
        begins_on = until + timedelta(days=random.choice([0, 0, 4]))
    return found


def some_hours(random: Random) -> float:
    """Losses, gains, nothing, and what no binary fraction is."""
    return random.choice([0.0, 0.1, 1 / 3, -1e3 * random.random(), 1e6 * random.random()])


def rate_on(rates: list[Rate], day: date) -> Rate | None:
    for rate in rates:
        if rate.valid_from <= day and (rate.valid_until is None or day < rate.valid_until):
            return rate
    return None


def a_row(random: Random, past: list[Rate], new: list[Rate]) -> tuple[CostPair, Row]:
    days, later = random.choice([1, 7, 30, 31]), random.randint(0, 2)
    before = some_hours(random)
    after = random.choice([before, before * (1 + 1e-10), some_hours(random)])
    new_on = START_ON + timedelta(days=later)
    pair = CostPair(
        past_hours=before,
        new_hours=after,
        past_window=price_days(past, START_ON, days),
        new_window=price_days(new, new_on, days),
    )
    # Below 1e-8 hours have not changed.
    counted = after if abs(after - before) >= 1e-8 * max(abs(before), abs(after)) else before
    return pair, Row(
        Fraction(repr(before)),
        Fraction(repr(counted)),
        [rate_on(past, START_ON + timedelta(days=day)) for day in range(days)],
        [rate_on(new, new_on + timedelta(days=day)) for day in range(days)],
    )


def paid(hours: Fraction, days: list[Rate | None]) -> Fraction:
    return sum((hours / len(days) * Fraction(rate.price) for rate in days if rate), Fraction(0))


def half_even(amount: Fraction, currency: str) -> Fraction:
    units = amount * 10 ** DIGITS[currency]
    whole = math.floor(units)
    rest = units - whole
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    return Fraction(whole + up, 10 ** DIGITS[currency])


def of(amount: Money | None, currency: str) -> Fraction:
    """The amount, which has exactly the decimals of its currency."""
    assert amount is not None
    assert amount.currency == currency
    assert len(amount.amount.partition(".")[2]) == DIGITS[currency]
    return Fraction(amount.amount)


@pytest.mark.parametrize("currency", DIGITS)
@pytest.mark.parametrize("seed", range(40))
def test_parts_are_those_of_the_days_and_add_up_to_what_is_shown(currency: str, seed: int) -> None:
    random = Random(f"{currency}{seed}")
    past_rates = some_rates(random, "a")
    new_rates = random.choice([past_rates, some_rates(random, "b")])
    both = [a_row(random, past_rates, new_rates) for _ in range(random.randint(1, 4))]
    pairs, rows = [pair for pair, _ in both], [row for _, row in both]
    found = cost_change(pairs, currency, currency)
    effects = rate_changes(pairs, (currency, currency), found, {})
    if any(None in row.past or None in row.new for row in rows):
        assert (found.difference, found.volume_effect, found.relative) == (None, None, None)
        assert {rate.effect for rate in effects} <= {None}
        return
    past = sum((paid(row.past_hours, row.past) for row in rows), Fraction(0))
    volume = sum((paid(row.new_hours - row.past_hours, row.past) for row in rows), Fraction(0))
    new = sum((paid(row.new_hours, row.new) for row in rows), Fraction(0))
    shown_past, shown_new = of(found.past, currency), of(found.new, currency)
    assert (shown_past, shown_new) == (half_even(past, currency), half_even(new, currency))
    assert of(found.difference, currency) == shown_new - shown_past
    parts = of(found.volume_effect, currency), of(found.price_effect, currency)
    assert sum(parts) == shown_new - shown_past
    assert abs(parts[0] - volume) <= Fraction(2, 10 ** DIGITS[currency])
    assert found.relative == (pytest.approx(float((new - past) / abs(past))) if past else None)
    assert sum(of(rate.effect, currency) for rate in effects) == parts[1]
    of_rates = dict.fromkeys((rate.rate_id for rate in effects), Fraction(0))
    for row in rows:
        for days, hours in ((row.new, row.new_hours), (row.past, -row.new_hours)):
            for rate in filter(None, days):
                of_rates[rate.id] += hours / len(days) * Fraction(rate.price)
    for rate_effect in effects:
        off = of(rate_effect.effect, currency) - of_rates[rate_effect.rate_id]
        assert abs(off) <= Fraction(len(effects) + 2, 10 ** DIGITS[currency])
    whole, groups = cost_changes([[pair] for pair in pairs], currency, currency)
    for column in ("past", "new", "difference", "volume_effect", "price_effect"):
        amounts = [of(getattr(group, column), currency) for group in groups]
        assert sum(amounts) == of(getattr(whole, column), currency)
