"""A difference of money, split into what the GPU-hours did and what the price did.

volume effect = (new hours - past hours) x past price, price effect = new hours x (new price -
past price): exact, they sum to the difference of the costs.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NamedTuple

from msgspec import Struct

from service.reports.changes import is_moved
from service.reports.money import CostStatus, Money, apportion, money, rounded, total
from service.reports.pricing import PricedWindow, cost, cost_status, mean_price, summed_hours

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
    return _change(pairs, _exact(pairs), past_currency, new_currency)


def _change(
    pairs: Sequence[CostPair],
    exact: "_Exact | None",
    past_currency: str | None,
    new_currency: str | None,
) -> CostChange:
    past_status = _status([pair.past_window for pair in pairs], past_currency)
    new_status = _status([pair.new_window for pair in pairs], new_currency)
    status = _common_status(past_status, new_status, past_currency == new_currency)
    if past_currency is None or exact is None or status != "priced":
        past = total(_cost(pair.past_hours, pair.past_window) for pair in pairs)
        new = total(_cost(pair.new_hours, pair.new_window) for pair in pairs)
        return _without_difference(
            _money(past, past_currency, past_status),
            _money(new, new_currency, new_status),
            "not_computed" if status == "priced" else status,
            past_status,
            new_status,
        )
    shown_past = Fraction(rounded(exact.past, past_currency))
    shown_new = Fraction(rounded(exact.past + exact.difference, past_currency))
    effects = apportion(
        [exact.volume, exact.price], past_currency, shown_total=shown_new - shown_past
    )
    return _priced_change(exact, past_currency, shown_past, *effects)


def cost_changes(
    groups: Sequence[Sequence[CostPair]], past_currency: str | None, new_currency: str | None
) -> tuple[CostChange, list[CostChange]]:
    """The change over all groups, and of each group so that the groups add up to it.

    What the groups cost now and both effects are apportioned to the whole's, which are rounded
    once: sums of what was rounded would be off by the more, the more groups there are. In each
    group the difference is the sum of the effects, and the past is new - difference. Where the
    whole has no price, each group stands for itself.
    """
    exacts = [_exact(group) for group in groups]
    everything = [pair for group in groups for pair in group]
    whole = _change(everything, _added(exacts), past_currency, new_currency)
    parts = [
        _change(group, exact, past_currency, new_currency)
        for group, exact in zip(groups, exacts, strict=True)
    ]
    known = [
        (place, exact) for place, exact in enumerate(exacts) if groups[place] and exact is not None
    ]
    if past_currency is None or whole.past is None or whole.difference is None:
        return whole, parts
    pasts, volumes, prices = _columns([exact for _, exact in known], whole, past_currency)
    for (place, exact), past, volume, price in zip(known, pasts, volumes, prices, strict=True):
        parts[place] = _priced_change(exact, past_currency, past, volume, price)
    return whole, parts


def _columns(
    exacts: Sequence["_Exact"], whole: CostChange, currency: str
) -> tuple[list[Fraction], list[Decimal], list[Decimal]]:
    """The past, the volume effect and the price effect of each, which add up to the whole's.

    Effects are rounded up first where what it costs now was: so the past, which is what they
    leave of it, is seldom a minor unit off.
    """
    behind = [Fraction(0)] * len(exacts)
    shown: list[list[Decimal]] = []
    for sign, column, amount in (
        (-1, [exact.past + exact.difference for exact in exacts], whole.new),
        (1, [exact.volume for exact in exacts], whole.volume_effect),
        (1, [exact.price for exact in exacts], whole.price_effect),
    ):
        total_shown = Decimal(amount.amount if amount is not None else 0)
        parts = apportion(column, currency, shown_total=total_shown, behind=behind)
        behind = [
            before + sign * (exact - Fraction(part))
            for before, exact, part in zip(behind, column, parts, strict=True)
        ]
        shown.append(parts)
    _, volume, price = shown
    past = [
        Fraction(now) - Fraction(by_hours) - Fraction(by_price)
        for now, by_hours, by_price in zip(*shown, strict=True)
    ]
    return past, volume, price


class _Exact(Struct, frozen=True):
    """Unrounded sums of rows that are priced on both sides."""

    past: Fraction
    volume: Fraction
    price: Fraction

    @property
    def difference(self) -> Fraction:
        return self.volume + self.price


def _exact(pairs: Sequence[CostPair]) -> _Exact | None:
    """The sums, or None unless every row is computed and priced on both sides.

    Rows of equal prices are added up before they are multiplied: most have the same.
    """
    groups: dict[tuple[Fraction, Fraction], _Hours] = {}
    for pair in pairs:
        past_price, new_price = mean_price(pair.past_window), mean_price(pair.new_window)
        past, new = pair.past_hours, pair.new_hours
        if past_price is None or new_price is None or math.isnan(past) or math.isnan(new):
            return None
        group = groups.setdefault((past_price, new_price), _Hours([], []))
        group.past.append(past)
        group.new.append(new if is_moved(past, new) else past)
    return _added([_effects(*prices, group) for prices, group in groups.items()])


def _added(parts: Sequence[_Exact | None]) -> _Exact | None:
    """The sum; None where a part is."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if len(known) == 1:
        return known[0]
    return _Exact(
        sum((part.past for part in known), Fraction(0)),
        sum((part.volume for part in known), Fraction(0)),
        sum((part.price for part in known), Fraction(0)),
    )


class _Hours(NamedTuple):
    past: list[float]
    new: list[float]


def _effects(past_price: Fraction, new_price: Fraction, group: _Hours) -> _Exact:
    past_hours, new_hours = summed_hours(group.past), summed_hours(group.new)
    is_same_price = past_price == new_price
    return _Exact(
        past_hours * past_price,
        (new_hours - past_hours) * past_price,
        Fraction(0) if is_same_price else new_hours * (new_price - past_price),
    )


def _priced_change(
    exact: _Exact, currency: str, past: Fraction | Decimal, volume: Decimal, price: Decimal
) -> CostChange:
    """The document of exact sums whose past and effects are shown as given."""
    difference = Fraction(volume) + Fraction(price)
    past_cost, moved = float(exact.past), float(exact.difference)
    relative = moved / abs(past_cost) if past_cost else math.nan
    return CostChange(
        past=money(past, currency),
        new=money(Fraction(past) + difference, currency),
        difference=money(difference, currency),
        relative=relative if math.isfinite(relative) else None,
        volume_effect=money(volume, currency),
        price_effect=money(price, currency),
        status="priced",
        past_status=CostStatus.PRICED,
        new_status=CostStatus.PRICED,
    )


def _status(windows: Sequence[PricedWindow | None], currency: str | None) -> CostStatus:
    """Of a sum: priced if every row is, no_rate if none has a rate, or else partly priced."""
    # Of hundreds of rows most have the same window.
    found = {cost_status(window) for window in set(windows)}
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
