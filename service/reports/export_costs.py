"""The money of a comparison as columns: what `cost_changes.cost_change` says of each row."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from service.reports.changes import differences, relatives
from service.reports.compare import COST, costs_at
from service.reports.cost_changes import CostChange, withheld_change
from service.reports.export_fields import Field, objects
from service.reports.ideals import LOST
from service.reports.join import Floats, Joined, Rows
from service.reports.money import CostStatus, Money, from_minor_units, minor_digits
from service.reports.pricing import mean_price
from service.reports.whole_costs import apportioned, rounded_ratio, shortest_digits

AMOUNTS: Final = {
    "past": "In the baseline.",
    "new": "In the candidate.",
    "difference": "Candidate less baseline.",
    "volume_effect": "What the GPU-hours did to the cost.",
    "price_effect": "What the price did to the cost.",
}
TEXTS: Final[Mapping[str, Callable[[CostChange], str | None]]] = {
    "past.currency": lambda change: change.past.currency if change.past else None,
    "new.currency": lambda change: change.new.currency if change.new else None,
    "cost_status": lambda change: change.status,
    "past.cost_status": lambda change: change.past_status.value,
    "new.cost_status": lambda change: change.new_status.value,
}
RELATIVE: Final = f"relative.{COST}"
Columns = dict[str, NDArray[Any]]


def cost_fields() -> list[Field]:
    """The columns."""
    return [
        *(
            Field(name=f"{part}.{COST}", kind="decimal", unit="currency", sentence=sentence)
            for part, sentence in AMOUNTS.items()
        ),
        Field(name=RELATIVE, kind="float64", sentence="The difference over the size of the past."),
        *(Field(name=name, kind="text") for name in TEXTS),
    ]


def cost_columns(joined: Joined, rows: Rows, *, withhold: bool = False) -> Columns:
    """The cost of the loss of each row on both sides, its change, and why it is null.

    `withhold` hides all money; the columns are the same.
    """
    columns: Columns = {
        field.name: np.full(len(rows), None, dtype=object) for field in cost_fields()
    }
    columns[RELATIVE] = np.full(len(rows), np.nan)
    if withhold:
        _put(columns, np.arange(len(rows)), withheld_change())
        return columns
    past, new = joined.past(LOST, rows), joined.new(LOST, rows)
    computed = np.isfinite(past) & np.isfinite(new)
    for places, prices in _places_by_prices(joined, rows):
        if prices.past is None and prices.new is None:
            # Without a price on either side the hours do not matter.
            (change,) = costs_at(joined, rows[places[:1]])
            _put(columns, places, change)
            continue
        slow = places
        if prices.past is not None and prices.new is not None and prices.currency is not None:
            fast, slow = places[computed[places]], places[~computed[places]]
            _put_priced(columns, fast, past[fast], new[fast], prices)
        for place, change in zip(slow.tolist(), costs_at(joined, rows[slow]), strict=True):
            _put(columns, place, change)
    return columns


class _Prices(NamedTuple):
    """Mean prices per GPU-hour of two items, None without; the currency if it is that of both."""

    past: Fraction | None
    new: Fraction | None
    currency: str | None


def _places_by_prices(joined: Joined, rows: Rows) -> Iterator[tuple[Rows, _Prices]]:
    """The places in `rows` of each pair of items, with their prices."""
    past, new = joined.baseline, joined.candidate
    pairs = past.item[joined.past_rows[rows]] * len(new.items) + new.item[joined.new_rows[rows]]
    grouped = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[grouped], prepend=-1))
    for places in np.split(grouped, starts)[1:]:
        past_item, new_item = divmod(int(pairs[places[0]]), len(new.items))
        yield (
            places,
            _Prices(
                past=mean_price(past.items[past_item].window) if past.currency else None,
                new=mean_price(new.items[new_item].window) if new.currency else None,
                currency=past.currency if past.currency == new.currency else None,
            ),
        )


def _put(columns: Columns, places: Rows | int, change: CostChange) -> None:
    for part in AMOUNTS:
        columns[f"{part}.{COST}"][places] = _amount(getattr(change, part))
    columns[RELATIVE][places] = np.nan if change.relative is None else change.relative
    for name, told in TEXTS.items():
        columns[name][places] = told(change)


def _amount(money: Money | None) -> Decimal | None:
    return None if money is None else Decimal(money.amount)


def _put_priced(columns: Columns, places: Rows, past: Floats, new: Floats, prices: _Prices) -> None:
    """Rows that are computed, and priced in one currency on both sides."""
    scale = _Scale.of(prices)
    unchanged = differences(past, new) == 0
    hours = zip(past.tolist(), new.tolist(), unchanged.tolist(), strict=True)
    units, exact = [], []
    for past_hours, new_hours, is_same in hours:
        shown, ends = scale.change(past_hours, new_hours, is_same=is_same)
        units.append([from_minor_units(amount, scale.digits) for amount in shown])
        exact.append(ends)
    for part, column in zip(AMOUNTS, zip(*units, strict=True), strict=False):
        columns[f"{part}.{COST}"][places] = objects(column)
    ends_of = np.array(exact, dtype=np.float64).reshape(len(exact), 2)
    columns[RELATIVE][places] = relatives(ends_of[:, 0], ends_of[:, 1])
    for name in TEXTS:
        is_currency = name.endswith(".currency")
        columns[name][places] = prices.currency if is_currency else CostStatus.PRICED.value


class _Scale(NamedTuple):
    """Both prices in minor units over one denominator, as whole numbers."""

    past_price: int
    new_price: int
    denominator: int
    digits: int

    @classmethod
    def of(cls, prices: _Prices) -> Self:
        """The scale of two prices that are there, in one currency."""
        past, new = Fraction(prices.past or 0), Fraction(prices.new or 0)
        digits = minor_digits(prices.currency or "")
        denominator = lcm(past.denominator, new.denominator)
        units = denominator * 10**digits
        return cls(int(past * units), int(new * units), denominator, digits)

    def change(
        self, past_hours: float, new_hours: float, *, is_same: bool
    ) -> tuple[list[int], tuple[float, float]]:
        """Minor units in the order of `AMOUNTS`; the unrounded past and difference of the cost."""
        past_digits, past_power = shortest_digits(past_hours)
        new_digits, new_power = shortest_digits(new_hours)
        power = min(past_power, new_power, 0)
        before = past_digits * 10 ** (past_power - power)
        after = before if is_same else new_digits * 10 ** (new_power - power)
        denominator = self.denominator * 10**-power
        past = rounded_ratio(before * self.past_price, denominator)
        new = rounded_ratio(after * self.new_price, denominator)
        effects = ((after - before) * self.past_price, after * (self.new_price - self.past_price))
        shown = [past, new, new - past, *apportioned(effects, denominator, new - past)]
        whole = denominator * 10**self.digits
        return shown, (before * self.past_price / whole, sum(effects) / whole)
