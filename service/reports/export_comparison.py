"""A comparison as columns of an exported file: keys, past, new, difference, relative, money."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.model.results import COLUMNS
from service.reports.changes import differences, relatives
from service.reports.compare import Order, errors_at, ordered_numbers, splits_at
from service.reports.export_costs import cost_columns, cost_fields
from service.reports.export_fields import Chunk, Field, input_field, objects
from service.reports.ideals import LostSplit
from service.reports.join import Floats, Ints, Joined, Labelled, Rows

PARTS: Final = {
    "past": "In the baseline.",
    "new": "In the candidate.",
    "difference": "Candidate less baseline.",
    "relative": "The difference over the size of the past, as a fraction.",
}
ERROR: Final = "standard_error"
_OUTPUTS: Final = {column.name: column for column in COLUMNS}
_SPLITS: Final = tuple(f"lost_split.{name}" for name in LostSplit.__struct_fields__)
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
        *(_error_field(column) for column in joined.sampled_columns),
        Field(name="sampling", kind="text", sentence="exact, independent or common_seed."),
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
        *cost_fields(),
    ]


def comparison_chunks(
    joined: Joined, order: Order | None, *, chunk_rows: int, withhold: bool = False
) -> Iterator[Chunk]:
    """The rows by `order`, or else in the order of the baseline; `withhold` hides all money."""
    rows = np.arange(joined.num_rows)
    if order is not None:
        numbers = ordered_numbers(joined, order)
        # NumPy sorts NaN last in both directions, and equal numbers stay as they are.
        rows = np.argsort(-numbers if order.descending else numbers, kind="stable")
    for start in range(0, len(rows), chunk_rows):
        yield _chunk(joined, rows[start : start + chunk_rows], withhold=withhold)


def _chunk(joined: Joined, rows: Rows, *, withhold: bool) -> Chunk:
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
    differences_of = {}
    for column in joined.columns:
        past, new = joined.past(column, rows), joined.new(column, rows)
        difference = differences_of[column] = differences(past, new)
        found = (past, new, difference, relatives(past, difference))
        chunk |= {f"{part}.{column}": values for part, values in zip(PARTS, found, strict=True)}
    errors = errors_at(joined, rows, differences_of)
    for column, values in zip(joined.sampled_columns, errors.difference, strict=True):
        chunk[f"{ERROR}.{column}"] = values
    chunk["sampling"] = objects(errors.sampling)
    for name, values in zip(_SPLITS, parts, strict=True):
        chunk[name] = np.where(changed, values, np.nan)
    return chunk | cost_columns(joined, rows, withhold=withhold)


def _part_field(part: str, column: str) -> Field:
    output = _OUTPUTS[column]
    return Field(
        name=f"{part}.{column}",
        kind="float64",
        unit="" if part == "relative" else output.unit,
        sentence=f"{output.sentence} {PARTS[part]}",
    )


def _error_field(column: str) -> Field:
    return Field(
        name=f"{ERROR}.{column}",
        kind="float64",
        unit=_OUTPUTS[column].unit,
        sentence="Standard error of the difference by sampling; an upper bound with common_seed.",
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
