"""The columns of an exported file, and their values as they stand in JSON."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal, get_args

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from service.model.fields import Scenario
from service.model.inputs import INPUT_LABELS, input_words
from service.model.paths import is_whole, leaf_type
from service.model.results import COLUMNS

FieldKind = Literal["float64", "int64", "bool", "enum", "number_or_word", "text", "decimal", "date"]
Cell = float | int | bool | str | None
# A column of a chunk: an array, or for texts, decimals and dates a sequence
ChunkColumn = NDArray[Any] | Sequence[str | Decimal | date | None]
Chunk = Mapping[str, ChunkColumn]
Objects = NDArray[np.object_]

_UNITS = {
    "ms": "ms",
    "s": "s",
    "hours": "hours",
    "days": "days",
    "gpus": "GPUs",
    "count": "GPUs",
    "steps": "steps",
}


class Field(Struct, frozen=True, kw_only=True):
    """A column of the file: its name (the unit is its last word) and how its chunks are read.

    float64 (NaN is null), int64 and bool (also as floats, NaN is null); enum: codes into `labels`,
    below 0 or NaN is null; number_or_word: whole numbers from 0, NaN is null, and -1, -2, … for
    `labels` (files of typed columns hold text); text: str or None; decimal: Decimal or None; date:
    date or None.
    `unit` and `sentence` say what the numbers are; formats that can, keep them in the file.
    """

    name: str
    kind: FieldKind
    labels: tuple[str, ...] = ()
    unit: str = ""
    sentence: str = ""


def output_fields() -> tuple[Field, ...]:
    """The model's output columns, in their order."""
    return tuple(
        Field(
            name=column.name,
            kind=column.kind,
            labels=column.labels,
            unit=column.unit,
            sentence=column.sentence,
        )
        for column in COLUMNS
    )


# What stands beside the GPU-hours where money may be seen
COST_FIELDS = (
    Field(
        name="cost_of_loss",
        kind="decimal",
        unit="currency",
        sentence="What the GPU-hours lost cost, rounded once to the currency's minor unit.",
    ),
    Field(name="currency", kind="text", sentence="ISO 4217 code of the cost."),
    Field(name="cost_status", kind="text", sentence="Why the cost is there or null."),
)


def input_field(path: str) -> Field:
    """The field of a stored input column, named by its path in the scenario."""
    if path in INPUT_LABELS:
        return Field(name=path, kind="enum", labels=INPUT_LABELS[path])
    words = input_words(path)
    kind = Scenario.__annotations__.get(path) or leaf_type(path)
    said = [part.description for part in get_args(kind) if isinstance(part, Meta)]
    whole: FieldKind = "number_or_word" if words else "int64"
    return Field(
        name=path,
        kind=whole if path == "period_days" or is_whole(path) else "float64",
        labels=words,
        unit=_UNITS.get(path.replace(".", "_").rsplit("_", maxsplit=1)[-1], ""),
        sentence=next((text for text in said if text), ""),
    )


def objects(values: Sequence[Any]) -> Objects:
    """The values as an array, each as it is."""
    column: Objects = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def cells(field: Field, column: ChunkColumn) -> list[Cell]:
    """The values of a chunk's column as they stand in JSON.

    Raises ValueError for an infinity and for an enum code without a label: neither may leave.
    """
    if field.kind == "float64":
        return _floats(finite(field, column))
    if field.kind == "enum":
        return _labels(field, codes(field, column))
    if field.kind == "number_or_word":
        numbers = _whole_numbers(np.asarray(column), int)
        return [_word(field, number) for number in numbers]
    if field.kind == "decimal":
        return [None if amount is None else format(amount, "f") for amount in column]
    if field.kind in {"text", "date"}:
        return [None if text is None else str(text) for text in column]
    return _whole_numbers(np.asarray(column), bool if field.kind == "bool" else int)


def finite(field: Field, column: ChunkColumn) -> NDArray[np.float64]:
    """The floats of a column, NaN for null; raises ValueError for an infinity."""
    floats = np.asarray(column, dtype=np.float64)
    if np.isinf(floats).any():
        raise ValueError(f"{field.name} holds an infinity, which no format can say")
    return floats


def codes(field: Field, column: ChunkColumn) -> NDArray[np.int64]:
    """The codes of an enum's column, below 0 for null; raises ValueError for one without label."""
    values = np.asarray(column)
    # A batch of an older model does not have the column: NaN.
    found = (np.nan_to_num(values, nan=-1.0) if values.dtype.kind == "f" else values).astype(
        np.int64
    )
    if (found >= len(field.labels)).any():
        raise ValueError(
            f"{field.name} holds the code {found.max()}, but has {len(field.labels)} labels"
        )
    return found


def _whole_numbers(column: NDArray[Any], made: type[int]) -> list[Cell]:
    """Whole numbers or switches; a column with nulls holds them as floats, NaN for null."""
    if column.dtype.kind != "f":
        numbers: list[Cell] = column.tolist()
        return numbers
    return [None if math.isnan(number) else made(number) for number in column.tolist()]


def _floats(column: NDArray[np.float64]) -> list[Cell]:
    numbers: list[float] = column.tolist()
    if not np.isnan(column).any():
        return list(numbers)
    return [None if math.isnan(number) else number for number in numbers]


def _word(field: Field, number: Cell) -> Cell:
    if isinstance(number, int) and number < 0:
        return field.labels[-1 - number]
    return number


def _labels(field: Field, found: NDArray[np.int64]) -> list[Cell]:
    return [None if code < 0 else field.labels[code] for code in found.tolist()]
