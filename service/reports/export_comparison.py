"""A comparison as columns of an exported file: keys, past, new, difference, relative, money."""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.model.results import COLUMNS
from service.reports.changes import differences, relatives
from service.reports.compare import COST, Order, costs_at, ordered_numbers, splits_at
from service.reports.cost_changes import CostChange
from service.reports.export_fields import Chunk, Field, Objects, input_field, objects
from service.reports.ideals import LostSplit
from service.reports.join import Floats, Ints, Joined, Labelled, Rows
from service.reports.money import Money
from service.reports.pricing import PricedWindow, mean_price

PARTS: Final = {
    "past": "In the baseline.",
    "new": "In the candidate.",
    "difference": "Candidate less baseline.",
    "relative": "The difference over the size of the past, as a fraction.",
}
EFFECTS: Final = {
    "volume_effect": "What the GPU-hours did to the cost.",
    "price_effect": "What the price did to the cost.",
}
_OUTPUTS: Final = {column.name: column for column in COLUMNS}
_SPLITS: Final = tuple(f"lost_split.{name}" for name in LostSplit.__struct_fields__)
_COST_TEXTS: Final[Mapping[str, Callable[[CostChange], str | None]]] = {
    "past.currency": lambda change: change.past.currency if change.past else None,
    "new.currency": lambda change: change.new.currency if change.new else None,
    "cost_status": lambda change: change.status,
    "past.cost_status": lambda change: change.past_status.value,
    "new.cost_status": lambda change: change.new_status.value,
}
Axis = Ints | Floats | Labelled


def comparison_fields(joined: Joined) -> list[Field]:
    """The columns of the file."""
    return [
        Field(name="name", kind="text", sentence="Name of the scenario."),
        Field(name="profile", kind="text", sentence="Slug of the cluster profile."),
        *(_axis_field(path, axis) for path, axis in joined.baseline.axes.items()),
        Field(name="past_point", kind="int64", sentence="Number of the point in the baseline."),
        Field(name="new_point", kind="int64", sentence="Number of the point in the candidate."),
        *(_part_field(part, column) for column in joined.columns for part in PARTS),
        Field(name="ideal_changed", kind="bool", sentence="Whether the ideal step moved."),
        *(
            Field(
                name=name,
                kind="float64",
                unit="GPU-hours",
                sentence="Share of the difference of the loss, where the ideal step moved.",
            )
            for name in _SPLITS
        ),
        *_cost_fields(),
    ]


def comparison_chunks(joined: Joined, order: Order | None, *, chunk_rows: int) -> Iterator[Chunk]:
    """The rows by `order`, or else in the order of the baseline."""
    rows = np.arange(joined.num_rows)
    if order is not None:
        numbers = ordered_numbers(joined, order)
        # NumPy sorts NaN last in both directions, and equal numbers stay as they are.
        rows = np.argsort(-numbers if order.descending else numbers, kind="stable")
    for start in range(0, len(rows), chunk_rows):
        yield _chunk(joined, rows[start : start + chunk_rows])


def _chunk(joined: Joined, rows: Rows) -> Chunk:
    side, points = joined.baseline, joined.past_rows[rows]
    owner = side.item[points]
    changed, parts = splits_at(joined, rows)
    chunk: dict[str, Any] = {
        "name": objects([item.name for item in side.items])[owner],
        "profile": objects([item.profile for item in side.items])[owner],
        "past_point": points,
        "new_point": joined.new_rows[rows],
        "ideal_changed": changed,
    }
    chunk |= {path: _axis_values(path, axis)[points] for path, axis in side.axes.items()}
    for column in joined.columns:
        past, new = joined.past(column, rows), joined.new(column, rows)
        difference = differences(past, new)
        found = (past, new, difference, relatives(past, difference))
        chunk |= {f"{part}.{column}": values for part, values in zip(PARTS, found, strict=True)}
    for name, values in zip(_SPLITS, parts, strict=True):
        chunk[name] = np.where(changed, values, np.nan)
    return chunk | _cost_columns(_cost_changes(joined, rows))


def _part_field(part: str, column: str) -> Field:
    output = _OUTPUTS[column]
    return Field(
        name=f"{part}.{column}",
        kind="float64",
        unit="" if part == "relative" else output.unit,
        sentence=f"{output.sentence} {PARTS[part]}",
    )


def _axis_field(path: str, axis: Axis) -> Field:
    """Numbers as such; structures and texts as text, structures in JSON."""
    field = input_field(path)
    return field if _is_numeric(field, axis) else Field(name=path, kind="text")


def _is_numeric(field: Field, axis: Axis) -> bool:
    if not isinstance(axis, Labelled):
        return True
    numbers = all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in axis.values
    )
    return numbers and field.kind != "enum"


def _axis_values(path: str, axis: Axis) -> NDArray[Any]:
    """(points,) the key's values."""
    if not isinstance(axis, Labelled):
        return axis
    if _is_numeric(input_field(path), axis):
        return np.array(axis.values, dtype=np.float64)[axis.codes]
    texts = [
        value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
        for value in axis.values
    ]
    return objects(texts)[axis.codes]


def _cost_fields() -> list[Field]:
    amounts = {part: PARTS[part] for part in ("past", "new", "difference")} | EFFECTS
    return [
        *(
            Field(name=f"{part}.{COST}", kind="decimal", unit="currency", sentence=sentence)
            for part, sentence in amounts.items()
        ),
        Field(name=f"relative.{COST}", kind="float64", sentence=PARTS["relative"]),
        *(Field(name=name, kind="text") for name in _COST_TEXTS),
    ]


def _cost_changes(joined: Joined, rows: Rows) -> list[CostChange]:
    """The change of the cost of each row; computed once where no side of two items has a price."""
    past, new = joined.baseline, joined.candidate
    free = np.array(
        [_is_free(side.currency, item.window) for side in (past, new) for item in side.items]
    )
    past_items, new_items = past.item[joined.past_rows[rows]], new.item[joined.new_rows[rows]]
    is_free = free[past_items] & free[len(past.items) + new_items]
    pairs = past_items * len(new.items) + new_items
    _, first, kind = np.unique(pairs[is_free], return_index=True, return_inverse=True)
    found: Objects = np.empty(len(rows), dtype=object)
    found[is_free] = objects(costs_at(joined, rows[is_free][first]))[kind]
    found[~is_free] = objects(costs_at(joined, rows[~is_free]))
    changes: list[CostChange] = found.tolist()
    return changes


def _is_free(currency: str | None, window: PricedWindow | None) -> bool:
    return currency is None or mean_price(window) is None


def _cost_columns(changes: list[CostChange]) -> dict[str, Any]:
    amounts = {
        f"{part}.{COST}": [_amount(getattr(change, part)) for change in changes]
        for part in ("past", "new", "difference", *EFFECTS)
    }
    relative = [np.nan if change.relative is None else change.relative for change in changes]
    return {
        **amounts,
        f"relative.{COST}": np.array(relative, dtype=np.float64),
        **{name: [told(change) for change in changes] for name, told in _COST_TEXTS.items()},
    }


def _amount(money: Money | None) -> Decimal | None:
    return None if money is None else Decimal(money.amount)
