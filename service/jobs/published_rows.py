"""The columns of published rows and their fields, made from the blocks of a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.db.codec import Array
from service.db.copy_rows import CopyField, label_field, number_field
from service.db.engine import Row
from service.db.publications import PublishedColumn
from service.model.inputs import INPUT_LABELS, input_words
from service.model.paths import is_whole, leaf_type
from service.model.results import COLUMNS
from service.model.scenario import Scenario

LABELS = {**INPUT_LABELS, **{column.name: column.labels for column in COLUMNS if column.labels}}

FIXED_COLUMNS = (
    PublishedColumn(name="batch_id", kind="uuid", comment="Id of the batch."),
    PublishedColumn(name="team_id", kind="uuid", comment="Id of the team that owns it."),
    PublishedColumn(name="custom_id", kind="text", comment="Name of the item in its batch."),
    PublishedColumn(name="name", kind="text", comment="Name of the scenario."),
    PublishedColumn(
        name="profile", kind="text", comment="Cluster profile, slug@revision; null without one."
    ),
    PublishedColumn(name="point", kind="int64", comment="Number of the point in its batch."),
)


def published_columns(inputs: Sequence[str]) -> list[PublishedColumn]:
    """The fixed columns, the input columns of a batch, and all output columns."""
    return [
        *FIXED_COLUMNS,
        *(
            PublishedColumn(name=name, kind=_input_kind(name), comment=_input_comment(name))
            for name in inputs
        ),
        *(
            PublishedColumn(
                name=column.name,
                kind=column.kind,
                comment=f"{column.sentence} [{column.unit}]" if column.unit else column.sentence,
            )
            for column in COLUMNS
        ),
    ]


def row_fields(
    batch: Row[Any],
    items: Sequence[Row[Any]],
    columns: Sequence[PublishedColumn],
    table: Mapping[str, Array],
) -> list[CopyField]:
    """One field a column, for the rows of `table`: stored columns, `point` and `item`."""
    positions = table["item"].astype(np.int64)
    same = np.zeros(len(positions), dtype=np.int64)
    texts = {
        "batch_id": label_field(same, [batch.id.bytes]),
        "team_id": label_field(same, [batch.team_id.bytes]),
        "custom_id": label_field(positions, [item.custom_id.encode() for item in items]),
        "name": label_field(positions, [item.name.encode() for item in items]),
        "profile": label_field(positions, [_profile(item) for item in items]),
    }
    return [
        texts[column.name] if column.name in texts else _field(column, table[column.name])
        for column in columns
    ]


def _field(column: PublishedColumn, values: Array) -> CopyField:
    if column.kind == "float64":
        return number_field(values.astype(np.float64), ~np.isfinite(values))
    # Whole numbers that can be absent are stored as floats, and so is a column that the batch
    # does not have: NaN.
    nulls = np.isnan(values) if values.dtype == np.float64 else np.zeros(len(values), np.bool_)
    present = np.where(nulls, 0, values)
    if column.kind == "enum":
        labels = [label.encode() for label in LABELS[column.name]]
        return label_field(np.where(nulls, -1, present).astype(np.int64), labels)
    if column.kind == "text":
        return _word_field(input_words(column.name), present.astype(np.int64), nulls)
    kind = np.bool_ if column.kind == "bool" else np.int64
    return number_field(present.astype(kind), nulls)


def _word_field(words: Sequence[str], numbers: Array, nulls: Array) -> CopyField:
    """Whole numbers from 0 as text, and -1, -2, … as the words that they stand for."""
    found, codes = np.unique(numbers, return_inverse=True)
    texts = [str(number) if number >= 0 else words[-1 - number] for number in found.tolist()]
    return label_field(np.where(nulls, -1, codes), [text.encode() for text in texts])


def _profile(item: Row[Any]) -> bytes | None:
    if item.profile_slug is None:
        return None
    return f"{item.profile_slug}@{item.profile_revision}".encode()


def _input_kind(name: str) -> str:
    if name in INPUT_LABELS:
        return "enum"
    if input_words(name):
        return "text"
    return "int64" if name == "period_days" or is_whole(name) else "float64"


def _input_comment(name: str) -> str:
    annotation = leaf_type(name) or Scenario.__annotations__.get(name)
    for part in getattr(annotation, "__metadata__", ()):
        if part.description:
            return f"Input. {part.description}"
    return "Input at this path of the scenario."
