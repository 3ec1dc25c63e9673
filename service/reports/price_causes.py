"""Which rate moved the money: the price effect of a change, split by rate.

With s the share of a window's days that a rate prices, the mean price is the sum of price x s, so
a rate's effect is new hours x price x (new share - past share): exact, and all of them sum to the
price effect, new hours x (new mean price - past mean price). [own]

Where a rate was corrected in between, one side has the rate and the other its correction, each with
the cost of its days: what the correction moved is both together, and stands with the correction.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from msgspec import Struct

from service.reports.changes import change
from service.reports.cost_changes import CostChange, CostPair
from service.reports.loss_report import RateChange
from service.reports.money import Money, apportion, money
from service.reports.pricing import PricedWindow, summed_hours


class RateKey(Struct, frozen=True, kw_only=True):
    """What a rate prices, and which rate has corrected it."""

    gpu_type: str
    cost_center: str | None
    superseded_by: str | None = None


class _Found:
    """What is known of one rate so far."""

    def __init__(self, price: Decimal, currency: str) -> None:
        self.price = price
        self.currency = currency
        self.past_days = 0
        self.new_days = 0
        self.effect = Fraction(0)
        self.corrected_by: str | None = None


def rate_changes(
    pairs: Sequence[CostPair],
    currencies: tuple[str | None, str | None],
    cost: CostChange,
    keys: Mapping[str, RateKey],
) -> list[RateChange]:
    """The rates that price either side of the rows that `cost` is made of, biggest effect first.

    `currencies` are those of the past and of the new side: each rate keeps that of its side. The
    effects shown add up to the price effect shown; where that is null, as it is between two
    currencies, so are they. Nothing where money is withheld, or without a currency.
    """
    past_currency, currency = currencies
    if cost.status == "withheld" or currency is None:
        return []
    rates: dict[str, _Found] = {}
    for (past, new), parts in _by_windows(pairs).items():
        hours = summed_hours(parts)
        _count(rates, new, hours, len(parts), currency, is_new=True)
        if past_currency is not None:
            _count(rates, past, -hours, len(parts), past_currency, is_new=False)
    _hand_over(rates, keys)
    ordered = sorted(rates.items(), key=lambda rate: (-abs(rate[1].effect), rate[0]))
    return [
        RateChange(
            rate_id=rate_id,
            gpu_type=keys[rate_id].gpu_type if rate_id in keys else None,
            cost_center=keys[rate_id].cost_center if rate_id in keys else None,
            # A price may be finer than what is paid with.
            price_per_gpu_hour=Money(amount=format(found.price, "f"), currency=found.currency),
            past_days=found.past_days,
            new_days=found.new_days,
            effect=effect,
            corrected_by=found.corrected_by,
        )
        for (rate_id, found), effect in zip(
            ordered, _effects([found for _, found in ordered], cost), strict=True
        )
    ]


def _by_windows(
    pairs: Sequence[CostPair],
) -> dict[tuple[PricedWindow | None, PricedWindow | None], list[float]]:
    """The new hours of the rows by what prices them: most rows have the same windows."""
    found: dict[tuple[PricedWindow | None, PricedWindow | None], list[float]] = {}
    for pair in pairs:
        found.setdefault((pair.past_window, pair.new_window), []).append(_new_hours(pair))
    return found


def _new_hours(pair: CostPair) -> float:
    """As the price effect takes them: unchanged where they moved by less than 1e-8."""
    hours = change(pair.past_hours, pair.new_hours)
    if hours.past is None or hours.new is None:
        return 0.0
    return hours.past if hours.difference == 0 else hours.new


def _count(
    rates: dict[str, _Found],
    window: PricedWindow | None,
    hours: Fraction,
    rows: int,
    currency: str,
    *,
    is_new: bool,
) -> None:
    if window is None:
        return
    for line in window.lines:
        found = rates.setdefault(line.rate_id, _Found(line.price, currency))
        found.effect += hours * Fraction(line.price) * Fraction(line.days, window.period_days)
        if is_new:
            found.new_days += rows * line.days
        else:
            found.past_days += rows * line.days


def _hand_over(rates: Mapping[str, _Found], keys: Mapping[str, RateKey]) -> None:
    """Give the effects of corrected rates to the newest of their corrections that is here too."""
    for rate_id, found in rates.items():
        known = keys.get(rate_id)
        while known is not None and known.superseded_by is not None:
            if known.superseded_by in rates:
                found.corrected_by = known.superseded_by
            known = keys.get(known.superseded_by)
        if found.corrected_by is not None:
            rates[found.corrected_by].effect += found.effect
            found.effect = Fraction(0)


def _effects(found: Sequence[_Found], cost: CostChange) -> list[Money | None]:
    shown = cost.price_effect
    if shown is None:
        return [None for _ in found]
    exact = [rate.effect for rate in found]
    # A sum of many rounded rows may be some minor units off: the biggest effect hides them best.
    exact[0] += Fraction(shown.amount) - sum(exact)
    return [money(part, shown.currency) for part in apportion(exact, shown.currency)]
