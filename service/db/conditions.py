"""What a listing asks for: filters, order, place to go on after, and the batches it covers."""

import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.db.codec import Array, as_floats

Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "is_null"]
Floats = NDArray[np.float64]
COMPARISONS: dict[str, Callable[[Any, float], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
ITEM = "item"
# Where all batches are of one moment, or there is one only.
UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)
FAILURE = "failure"


class Filter(Struct, frozen=True, kw_only=True):
    """A condition on a stored or derived column; enum columns are compared by code.

    Null matches `is_null: true` and nothing else, as in SQL.
    """

    column: str
    operator: Operator
    value: float | bool


class Order(Struct, frozen=True, kw_only=True):
    """A column to sort by; null is last in both directions."""

    column: str
    descending: bool = False


class Derived(Struct, frozen=True, kw_only=True):
    """A column made while reading: `source` times the factor of the point's item.

    `factors` is indexed by item position; NaN makes the item's values null. With `digits` the
    values are rounded to so many decimals, as they are shown.
    """

    source: str
    factors: Floats
    digits: int | None = None


class BatchRef(Struct, frozen=True, kw_only=True):
    """A batch to list: all its items or those at the positions given, with derived columns.

    `constants` are columns that are not stored because all points have this value. Lists go from
    the newest batch to the oldest: by `created_at`, then id, both falling.
    """

    batch_id: UUID
    created_at: datetime = UNKNOWN
    items: tuple[int, ...] | None = None
    derived: dict[str, Derived] = {}
    constants: dict[str, float] = {}


class Cursor(Struct, frozen=True, kw_only=True):
    """The last row of a page: values of the order columns (None for null), batch and point.

    With the batch's moment, so that its place is known when the batch has been deleted since.
    """

    values: tuple[float | None, ...]
    batch_id: UUID
    point: int
    created_at: datetime = UNKNOWN


class PointRef(Struct, frozen=True, kw_only=True):
    """A found point; `cursor` continues after it."""

    batch_id: UUID
    point: int
    cursor: Cursor


ONLY_COMPUTED = Filter(column=FAILURE, operator="eq", value=0)


def with_computed(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    """The filters, and that the point was computed unless they speak of `failure` themselves."""
    if any(condition.column == FAILURE for condition in filters):
        return filters
    return (ONLY_COMPUTED, *filters)


def stored_names(ref: BatchRef, columns: set[str]) -> set[str]:
    """The stored columns that are needed to judge and sort by `columns` in this batch."""
    names = {FAILURE} if ref.items is None else {FAILURE, ITEM}
    for name in columns - ref.constants.keys():
        derived = ref.derived.get(name)
        names |= {name} if derived is None else {derived.source, ITEM}
    return names


def floats_of(ref: BatchRef, table: dict[str, Array], name: str) -> Floats:
    """The column as float64 with NaN for null; `table` holds the stored columns of a block."""
    if name in ref.constants:
        return np.full(len(table[FAILURE]), ref.constants[name])
    derived = ref.derived.get(name)
    if derived is None:
        return as_floats(table[name])
    with np.errstate(over="ignore"):
        product = as_floats(table[derived.source]) * derived.factors[table[ITEM].astype(np.int64)]
        if derived.digits is not None:
            product = np.round(product, derived.digits)
    return as_floats(product)


def matching(ref: BatchRef, table: dict[str, Array], filters: tuple[Filter, ...]) -> Array:
    """Which rows of a block belong to the batch's wanted items and match all filters."""
    mask = np.ones(len(table[FAILURE]), dtype=np.bool_)
    if ref.items is not None:
        mask &= np.isin(table[ITEM], ref.items)
    for condition in filters:
        if not mask.any():
            break
        mask &= _matches(floats_of(ref, table, condition.column), condition)
    return mask


def _matches(values: Floats, condition: Filter) -> Array:
    nulls = np.isnan(values)
    if condition.operator == "is_null":
        return nulls if condition.value else ~nulls
    matched: Array = COMPARISONS[condition.operator](values, float(condition.value)) & ~nulls
    return matched
