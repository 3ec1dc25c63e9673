"""Pages of a comparison: rows of past, new, difference and relative in any order of them.

Rows stay columns until the page is cut; only the rows shown become documents.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from service.reports.changes import Change, differences, nullable, relatives
from service.reports.cost_changes import CostChange, CostPair, cost_change, withheld_change
from service.reports.ideals import (
    AVAILABLE,
    IDEAL,
    LOST,
    NOT_USEFUL,
    LostSplit,
    ideal_changed,
    lost_split,
    lost_splits,
)
from service.reports.join import Floats, Ints, Joined, Rows, Side
from service.reports.loss_report import RateChange, VolumeCause
from service.reports.pricing import mean_price
from service.reports.sampling import (
    ERROR_OF,
    Sampling,
    SamplingField,
    StandardError,
    difference_errors,
    error_rows,
    samplings,
)

# `magnitude`: of the difference, whatever its sign
Part = Literal["past", "new", "difference", "magnitude", "relative"]
# A float stand-in that rows can be ordered by; shown costs are decimals
COST = "cost_of_loss"


class Order(Struct, frozen=True, kw_only=True):
    """By which number the rows are ordered; null numbers come last in both directions."""

    part: Part
    column: str
    descending: bool = False


class Cursor(Struct, frozen=True, kw_only=True):
    """The last row of a page: its number under the order (null is NaN) and its place in the join.

    No offset: the next page begins after this row. A page token must also bind the order and
    both batches.
    """

    value: float | None
    row: int


class RowCauses(Struct, frozen=True, kw_only=True):
    """Why a row moved: what moved the GPU-hours, and which rate the money."""

    gpu_hours_lost_per_30_days: Change
    volume: Annotated[list[VolumeCause], Meta(description="They sum to the difference on 30 days.")]
    rates: Annotated[
        list[RateChange], Meta(description="Their effects add up to the price effect.")
    ]


class ComparisonRow(Struct, frozen=True, kw_only=True):
    """One joined point. Numbers are null where a point failed or a model had no such column."""

    key: Annotated[
        dict[str, Any], Meta(description="Name, profile slug, and the value on every axis of both.")
    ]
    past: dict[str, float | None]
    new: dict[str, float | None]
    difference: dict[str, float | None]
    relative: dict[str, float | None]
    standard_error: Annotated[
        dict[str, StandardError],
        Meta(description="Of the columns that can be sampled; of their differences too."),
    ]
    sampling: SamplingField
    ideal_changed: bool
    lost_split: LostSplit | None
    cost_of_loss: CostChange
    past_point: int
    new_point: int
    causes: Annotated[
        RowCauses | None, Meta(description="With `causes=true`, unless a side failed.")
    ] = None


class ComparisonPage(Struct, frozen=True, kw_only=True):
    """The rows of a page and where the next one begins, null on the last page."""

    items: list[ComparisonRow]
    next_cursor: Cursor | None


def parse_order(text: str, columns: Sequence[str], *, with_cost: bool = False) -> Order:
    """`difference.gpu_hours_lost`, with `-` before it for descending.

    `with_cost` allows `cost_of_loss` as a column: only for readers who may see money. Raises
    ValueError that says what would be accepted.
    """
    part, _, column = text.removeprefix("-").partition(".")
    if part not in get_args(Part):
        raise ValueError(
            f"{text!r} orders by {part!r}, but rows are ordered by one of past, new, difference, "
            "magnitude, relative, followed by a point and a column"
        )
    allowed = (*columns, COST) if with_cost else tuple(columns)
    if column not in allowed:
        raise ValueError(f"{text!r} orders by {column!r}, which is none of {', '.join(allowed)}")
    return Order(part=cast("Part", part), column=column, descending=text.startswith("-"))


def page(
    joined: Joined,
    *,
    size: int,
    order: Order | None = None,
    after: Cursor | None = None,
    withhold: bool = False,
) -> ComparisonPage:
    """The next `size` rows after `after`, by `order` or else in the order of the baseline.

    Equal numbers keep the order of the baseline, so that no row is skipped or met twice.
    `withhold` hides all money. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError(f"size is {size}, but a page has at least 1 row")
    numbers = np.zeros(joined.num_rows) if order is None else ordered_numbers(joined, order)
    descending = order is not None and order.descending
    left = _rows_after(numbers, after, descending=descending)
    ranked = left[np.argsort(_signed(numbers[left], descending=descending), kind="stable")]
    shown = ranked[:size]
    last = int(shown[-1]) if len(ranked) > size else None
    return ComparisonPage(
        items=_documents(joined, shown, withhold=withhold),
        next_cursor=None
        if last is None
        else Cursor(value=nullable(numbers[last].item()), row=last),
    )


def ordered_numbers(joined: Joined, order: Order) -> Floats:
    """(rows,) the numbers that the order looks at."""
    if order.column == COST:
        past = _cost_order(joined.baseline, joined.past_rows)
        new = _cost_order(joined.candidate, joined.new_rows)
        same_currency = joined.baseline.currency == joined.candidate.currency
        if not same_currency and order.part not in {"past", "new"}:
            return np.full(joined.num_rows, np.nan)
    else:
        past, new = joined.past(order.column), joined.new(order.column)
    if order.part == "past":
        return past
    if order.part == "new":
        return new
    difference = differences(past, new)
    if order.part == "relative":
        return relatives(past, difference)
    return np.abs(difference) if order.part == "magnitude" else difference


def _cost_order(side: Side, rows: Ints) -> Floats:
    prices = [mean_price(item.window) if side.currency else None for item in side.items]
    floats: Floats = np.array([np.nan if price is None else float(price) for price in prices])
    of_rows: Floats = floats[side.item[rows]]
    return side.values[LOST][rows] * of_rows


def _signed(numbers: Floats, *, descending: bool) -> Floats:
    """Ascending in what is returned is the order asked for; NaN is sorted last by NumPy."""
    return -numbers if descending else numbers


def _rows_after(numbers: Floats, after: Cursor | None, *, descending: bool) -> Rows:
    """Rows that come after the cursor, by (number, row) with NaN last, in the join's order."""
    rows = np.arange(len(numbers))
    if after is None:
        return rows
    later = rows > after.row
    missing = np.isnan(numbers)
    if after.value is None:
        return np.flatnonzero(missing & later)
    beyond = numbers < after.value if descending else numbers > after.value
    return np.flatnonzero(beyond | missing | ((numbers == after.value) & later))


def _documents(joined: Joined, rows: Rows, *, withhold: bool) -> list[ComparisonRow]:
    past = {column: joined.past(column, rows) for column in joined.columns}
    new = {column: joined.new(column, rows) for column in joined.columns}
    difference = {column: differences(past[column], new[column]) for column in past}
    relative = {column: relatives(past[column], difference[column]) for column in past}
    tables = [_rows_of(table, len(rows)) for table in (past, new, difference, relative)]
    found = errors_at(joined, rows, difference)
    errors = {
        column: error_rows(found.past[at], found.new[at], found.difference[at])
        for at, column in enumerate(joined.sampled_columns)
    }
    changed, parts = splits_at(joined, rows)
    costs = [withheld_change()] * len(rows) if withhold else costs_at(joined, rows)
    return [
        ComparisonRow(
            key=joined.baseline.key_at(past_point),
            past=tables[0][place],
            new=tables[1][place],
            difference=tables[2][place],
            relative=tables[3][place],
            standard_error={column: of_rows[place] for column, of_rows in errors.items()},
            sampling=found.sampling[place],
            ideal_changed=bool(changed[place]),
            lost_split=lost_split(parts[:, place : place + 1]) if changed[place] else None,
            cost_of_loss=costs[place],
            past_point=past_point,
            new_point=new_point,
        )
        for place, (past_point, new_point) in enumerate(
            zip(joined.past_rows[rows].tolist(), joined.new_rows[rows].tolist(), strict=True)
        )
    ]


class Errors(NamedTuple):
    """Standard errors of a few rows, (columns, rows) each, by `Joined.sampled_columns`."""

    past: Floats
    new: Floats
    difference: Floats
    sampling: list[Sampling]


def errors_at(joined: Joined, rows: Rows, difference: Mapping[str, Floats]) -> Errors:
    """The standard errors at the rows; `difference` has those of the sampled columns."""
    columns, same = joined.sampled_columns, joined.same_seed(rows)
    past, new, both = np.full((3, len(columns), len(rows)), np.nan)
    for at, column in enumerate(columns):
        past[at] = joined.past(ERROR_OF[column], rows)
        new[at] = joined.new(ERROR_OF[column], rows)
        both[at] = difference_errors(past[at], new[at], difference[column], same)
    return Errors(past, new, both, samplings(past, new, same))


def splits_at(joined: Joined, rows: Rows) -> tuple[NDArray[np.bool_], Floats]:
    """(rows,) whether the ideal changed, and the (4, rows) parts of the loss's difference."""
    names = (LOST, AVAILABLE, IDEAL, NOT_USEFUL)
    past = {name: joined.past(name, rows) for name in names}
    new = {name: joined.new(name, rows) for name in names}
    return ideal_changed(past[IDEAL], new[IDEAL]), lost_splits(past, new)


def pairs_at(joined: Joined, rows: Rows) -> list[CostPair]:
    """The GPU-hours lost and the windows of a few rows."""
    past_items = joined.baseline.item[joined.past_rows[rows]].tolist()
    new_items = joined.candidate.item[joined.new_rows[rows]].tolist()
    past_hours, new_hours = joined.past(LOST, rows).tolist(), joined.new(LOST, rows).tolist()
    return [
        CostPair(
            past_hours=past_hours[place],
            new_hours=new_hours[place],
            past_window=joined.baseline.items[past_items[place]].window,
            new_window=joined.candidate.items[new_items[place]].window,
        )
        for place in range(len(rows))
    ]


def costs_at(joined: Joined, rows: Rows) -> list[CostChange]:
    """The change of the cost of each of a few rows."""
    past_currency, new_currency = joined.baseline.currency, joined.candidate.currency
    return [cost_change([pair], past_currency, new_currency) for pair in pairs_at(joined, rows)]


def _rows_of(columns: dict[str, Floats], num_rows: int) -> list[dict[str, float | None]]:
    lists = {
        # NaN is the number that is not itself: a call for each would take as long as all else.
        name: [None if number != number else number for number in column.tolist()]  # noqa: PLR0124 - NaN
        for name, column in columns.items()
    }
    return [{name: column[row] for name, column in lists.items()} for row in range(num_rows)]
