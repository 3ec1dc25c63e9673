"""Which rate prices which day of a loss window, and what the GPU-hours of the window cost.

Source: design page "The model", section 9: day by day with the rate valid that day, half-open
validity, never an extrapolation.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.reports.money import CostStatus, Money, from_minor_units, minor_digits, money
from service.reports.whole_costs import rounded_ratio, shortest_digits

# Sums of shortest digits of float64 have some 650 digits at most: no sum is rounded.
_EXACT = Context(prec=1_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


class Rate(Struct, frozen=True, kw_only=True):
    """A dated price per GPU-hour, valid on the days of `[valid_from, valid_until)`."""

    id: str
    price: Decimal
    valid_from: date
    valid_until: date | None = None
    cost_center: str | None = None


class RateLine(Struct, frozen=True, kw_only=True):
    """A rate and the number of days of the window that it prices."""

    rate_id: str
    price: Decimal
    days: int


class PricedWindow(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The whole window: its days by rate, in the order of each rate's first day."""

    lines: tuple[RateLine, ...]
    unpriced_days: int = 0

    @property
    def period_days(self) -> int:
        """Days of the window, priced or not."""
        return self.unpriced_days + sum(line.days for line in self.lines)


class Cost(Struct, frozen=True, kw_only=True):
    """A cost as it is shown: null with the reason, or rounded money."""

    cost: Money | None
    cost_status: CostStatus


def price_days(rates: Sequence[Rate], start_on: date, period_days: int) -> PricedWindow:
    """Price the days of `[start_on, start_on + period_days)`.

    `rates` are the rates of one GPU type and currency: those of the item's cost center and those
    without one; on a day that both price, the cost center's wins. Raises ValueError for a window
    without days or beyond the calendar, for a validity that ends before it begins, and where two
    rates of one kind price the same day.
    """
    if period_days < 1:
        raise ValueError(f"period_days is {period_days}, but a window has at least 1 day")
    try:
        end_on = start_on + timedelta(days=period_days)
    except OverflowError:
        raise ValueError(
            f"{period_days} days from {start_on} end after the last date {date.max}"
        ) from None
    days: dict[str, RateLine] = {}
    unpriced = 0
    for first, after, winner in _segments(rates, start_on, end_on):
        length = (after - first).days
        if winner is None:
            unpriced += length
            continue
        counted = days[winner.id].days if winner.id in days else 0
        days[winner.id] = RateLine(rate_id=winner.id, price=winner.price, days=counted + length)
    return PricedWindow(lines=tuple(days.values()), unpriced_days=unpriced)


def _segments(
    rates: Sequence[Rate], start_on: date, end_on: date
) -> Iterator[tuple[date, date, Rate | None]]:
    """Cut the window at every begin and end of a validity; each segment has one winner or none."""
    spans = [(rate, *_validity(rate)) for rate in rates]
    edges = {start_on, end_on}
    edges.update(day for _, *span in spans for day in span if start_on < day < end_on)
    ordered = sorted(edges)
    for first, after in pairwise(ordered):
        valid = [rate for rate, begin, end in spans if begin <= first and end >= after]
        yield first, after, _winner(valid, first)


def _validity(rate: Rate) -> tuple[date, date]:
    """First day, and the day after the last; date.max stands for an open end."""
    until = date.max if rate.valid_until is None else rate.valid_until
    if until <= rate.valid_from:
        raise ValueError(
            f"rate {rate.id} is valid until {until}, which is not after {rate.valid_from}"
        )
    return rate.valid_from, until


def _winner(valid: Sequence[Rate], day: date) -> Rate | None:
    """The one rate of the cost center, or else the one without a cost center, or none."""
    exact = [rate for rate in valid if rate.cost_center is not None]
    chosen = exact or list(valid)
    if len(chosen) > 1:
        names = " and ".join(rate.id for rate in chosen)
        raise ValueError(f"rates {names} are both valid on {day}")
    return chosen[0] if chosen else None


def cost_status(window: PricedWindow | None) -> CostStatus:
    """`no_rate`: no day has a rate, or no currency was asked for; `partly_priced`: some days."""
    if window is None or not window.lines:
        return CostStatus.NO_RATE
    return CostStatus.PARTLY_PRICED if window.unpriced_days else CostStatus.PRICED


@lru_cache(maxsize=1024)
def mean_price(window: PricedWindow | None) -> Fraction | None:
    """Exact mean price per GPU-hour over the days of the window; None where a day has no rate."""
    if window is None or cost_status(window) is not CostStatus.PRICED:
        return None
    paid = sum((Fraction(line.price) * line.days for line in window.lines), Fraction(0))
    return paid / window.period_days


def exact_hours(gpu_hours: float) -> Fraction:
    """The stored GPU-hours as the decimal number that everybody reads: its shortest digits.

    So the cost of 0.1 GPU-hours is a tenth of the price, not 0.1000000000000000055 of it.
    Raises ValueError for NaN and infinities.
    """
    if not np.isfinite(gpu_hours):
        raise ValueError(f"{gpu_hours} GPU-hours have no cost: a finite number is needed")
    return Fraction(Decimal(repr(float(gpu_hours))))


def cost(gpu_hours: float, window: PricedWindow | None) -> Fraction | None:
    """What the window's GPU-hours cost, exact and not yet rounded; None where a day has no rate.

    The GPU-hours fall evenly on the days, so each day costs hours / period_days x its price.
    Round with `money.rounded` or `money.money` at the outermost sum that is shown. GPU-hours may
    be negative (a gain).
    """
    price = mean_price(window)
    return None if price is None else exact_hours(gpu_hours) * price


def summed_hours(parts: Iterable[float]) -> Fraction:
    """The exact sum of `exact_hours`, without a fraction for each: for hundreds of rows.

    Raises ValueError for NaN and infinities.
    """
    total = Decimal(0)
    for gpu_hours in parts:
        if not math.isfinite(gpu_hours):
            raise ValueError(f"{gpu_hours} GPU-hours have no cost: a finite number is needed")
        total = _EXACT.add(total, Decimal(repr(float(gpu_hours))))
    return Fraction(total)


def summed_cost(rows: Iterable[tuple[float, PricedWindow | None]]) -> Fraction | None:
    """The sum of `cost` of all rows, exact; None where a row has no price."""
    by_price: dict[Fraction, list[float]] = {}
    for gpu_hours, window in rows:
        price = mean_price(window)
        if price is None:
            return None
        by_price.setdefault(price, []).append(gpu_hours)
    return sum((summed_hours(hours) * price for price, hours in by_price.items()), Fraction(0))


def priced(gpu_hours: float, window: PricedWindow | None, currency: str | None) -> Cost:
    """The cost of one shown row, rounded, with its status."""
    amount = None if currency is None else cost(gpu_hours, window)
    if currency is None or amount is None:
        return Cost(cost=None, cost_status=cost_status(None if currency is None else window))
    return Cost(cost=money(amount, currency), cost_status=CostStatus.PRICED)


def costs(
    gpu_hours: Iterable[float] | NDArray[np.float64], window: PricedWindow | None, currency: str
) -> list[Decimal | None]:
    """Rounded costs of many rows of one window, for an export chunk: None for failed rows (NaN)."""
    price = mean_price(window)
    if price is None:
        return [None for _ in gpu_hours]
    digits = minor_digits(currency)
    # What `rounded(exact_hours(hours) * price)` is, without 25 s for a million rows.
    units = price * 10**digits
    return [
        from_minor_units(_rounded_product(hours, units), digits) if math.isfinite(hours) else None
        for hours in np.asarray(gpu_hours, dtype=np.float64).tolist()
    ]


def _rounded_product(hours: float, units: Fraction) -> int:
    digits, power = shortest_digits(hours)
    numerator, denominator = digits * units.numerator, units.denominator
    if power < 0:
        return rounded_ratio(numerator, denominator * 10**-power)
    return rounded_ratio(numerator * 10**power, denominator)


def cost_order(gpu_hours: NDArray[np.float64], window: PricedWindow | None) -> NDArray[np.float64]:
    """Float stand-in for the cost of every row (points,), to sort and filter by; never shown.

    NaN where there is no cost.
    """
    price = mean_price(window)
    return gpu_hours * (np.nan if price is None else float(price))
