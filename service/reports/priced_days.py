"""The days of a window, one after the other, with the rate that prices each."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import pairwise

from msgspec import structs

from service.reports.loss_report import PricedDays
from service.reports.money import Money
from service.reports.pricing import PricedWindow, Rate, price_days


def priced_days(
    rates: Sequence[Rate], start_on: date, window: PricedWindow, currency: str
) -> list[PricedDays]:
    """The days of the window, first day first; consecutive days of one rate are one entry.

    `rates` are those that the window was priced with: only their validities are read, so that
    rates recorded since do not matter.
    """
    end_on = start_on + timedelta(days=window.period_days)
    edges = {start_on, end_on}
    for rate in rates:
        edges |= {
            day
            for day in (rate.valid_from, rate.valid_until)
            if day is not None and start_on < day < end_on
        }
    found: list[PricedDays] = []
    for begin, after in pairwise(sorted(edges)):
        days = (after - begin).days
        lines = price_days(rates, begin, days).lines
        rate_id = lines[0].rate_id if lines else None
        if found and found[-1].rate_id == rate_id:
            found[-1] = structs.replace(found[-1], days=found[-1].days + days)
            continue
        price = Money(amount=format(lines[0].price, "f"), currency=currency) if lines else None
        found.append(
            PricedDays(first_on=begin, days=days, rate_id=rate_id, price_per_gpu_hour=price)
        )
    return found


def unpriced(start_on: date, days: int) -> list[PricedDays]:
    """A window that no rate prices."""
    return [PricedDays(first_on=start_on, days=days, rate_id=None, price_per_gpu_hour=None)]
