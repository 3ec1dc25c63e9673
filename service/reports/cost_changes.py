"""A difference of money, split into what the GPU-hours did and what the price did.

volume effect = (new hours - past hours) x past price, price effect = new hours x (new price -
past price): exact, they sum to the difference of the costs.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from msgspec import Struct

from service.reports.changes import change, nullable, relatives
from service.reports.money import CostStatus, Money, apportion, money, rounded, total
from service.reports.pricing import PricedWindow, cost, cost_status, exact_hours, mean_price

ChangeStatus = Literal[
    "priced", "no_rate", "partly_priced", "withheld", "currencies_differ", "not_computed"
]


class CostPair(Struct, frozen=True, kw_only=True):
    """The GPU-hours of one row on both sides, with what prices them."""

    past_hours: float
    new_hours: float
    past_window: PricedWindow | None
    new_window: PricedWindow | None


class CostChange(Struct, frozen=True, kw_only=True):
    """Costs of both sides. The difference is that of the two amounts shown, and its parts add up.

    `status` says why the difference is null (`not_computed`: a point failed); `past_status` and
    `new_status` say why a side is.
    """

    past: Money | None
    new: Money | None
    difference: Money | None
    relative: float | None
    volume_effect: Money | None
    price_effect: Money | None
    status: ChangeStatus
    past_status: CostStatus
    new_status: CostStatus


def withheld_change() -> CostChange:
    """For readers who may not see money."""
    hidden = CostStatus.WITHHELD
    return _without_difference(None, None, "withheld", hidden, hidden)


def cost_change(
    pairs: Sequence[CostPair], past_currency: str | None, new_currency: str | None
) -> CostChange:
    """The change of the summed cost of the rows, rounded once; a single row is a sum of one.

    A side with a row that has no price has no sum. There is no currency conversion. Where the
    hours of a row changed by less than 1e-8 they count as unchanged, as everywhere in
    comparisons.
    """
    past_status = _status([pair.past_window for pair in pairs], past_currency)
    new_status = _status([pair.new_window for pair in pairs], new_currency)
    past = total(_cost(pair.past_hours, pair.past_window) for pair in pairs)
    new = total(_cost(pair.new_hours, pair.new_window) for pair in pairs)
    past_money = _money(past, past_currency, past_status)
    new_money = _money(new, new_currency, new_status)
    status = _common_status(past_status, new_status, past_currency == new_currency)
    effects = [_effects(pair) for pair in pairs]
    volume = total(volume for volume, _ in effects)
    price = total(price for _, price in effects)
    if past is None or volume is None or price is None or past_currency is None:
        status = "not_computed" if status == "priced" else status
        return _without_difference(past_money, new_money, status, past_status, new_status)
    if status != "priced":
        return _without_difference(past_money, new_money, status, past_status, new_status)
    shown = Fraction(rounded(past + volume + price, past_currency)) - Fraction(
        rounded(past, past_currency)
    )
    shown_volume, shown_price = apportion([volume, price], past_currency, shown_total=shown)
    relative = relatives(np.array([float(past)]), np.array([float(volume + price)]))
    return CostChange(
        past=past_money,
        new=new_money,
        difference=money(shown, past_currency),
        relative=nullable(relative[0].item()),
        volume_effect=money(shown_volume, past_currency),
        price_effect=money(shown_price, past_currency),
        status=status,
        past_status=past_status,
        new_status=new_status,
    )


def _effects(pair: CostPair) -> tuple[Fraction | None, Fraction | None]:
    """Exact volume effect and price effect of one row; None unless it is priced on both sides."""
    past_price, new_price = mean_price(pair.past_window), mean_price(pair.new_window)
    hours = change(pair.past_hours, pair.new_hours)
    if past_price is None or new_price is None or hours.past is None or hours.new is None:
        return None, None
    past_hours = exact_hours(hours.past)
    new_hours = past_hours if hours.difference == 0 else exact_hours(hours.new)
    return (new_hours - past_hours) * past_price, new_hours * (new_price - past_price)


def _status(windows: Sequence[PricedWindow | None], currency: str | None) -> CostStatus:
    """Of a sum: priced if every row is, no_rate if none has a rate, or else partly priced."""
    found = {cost_status(window) for window in windows}
    if currency is None or found <= {CostStatus.NO_RATE}:
        return CostStatus.NO_RATE
    return CostStatus.PRICED if found == {CostStatus.PRICED} else CostStatus.PARTLY_PRICED


def _common_status(past: CostStatus, new: CostStatus, same_currency: bool) -> ChangeStatus:  # noqa: FBT001 - private
    if CostStatus.NO_RATE in (past, new):
        return "no_rate"
    if CostStatus.PARTLY_PRICED in (past, new):
        return "partly_priced"
    return "priced" if same_currency else "currencies_differ"


def _cost(hours: float, window: PricedWindow | None) -> Fraction | None:
    return None if math.isnan(hours) else cost(hours, window)


def _money(amount: Fraction | None, currency: str | None, status: CostStatus) -> Money | None:
    if amount is None or currency is None or status is not CostStatus.PRICED:
        return None
    return money(amount, currency)


def _without_difference(
    past: Money | None,
    new: Money | None,
    status: ChangeStatus,
    past_status: CostStatus,
    new_status: CostStatus,
) -> CostChange:
    return CostChange(
        past=past,
        new=new,
        difference=None,
        relative=None,
        volume_effect=None,
        price_effect=None,
        status=status,
        past_status=past_status,
        new_status=new_status,
    )
