"""Export the results of a filtered list as columns, chunk by chunk, from one snapshot."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from uuid import UUID

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from service.db.engine import Connection, Row
from service.db.results import BatchRef, iterate_columns
from service.errors import MalformedError
from service.jobs.actors import Actor
from service.jobs.result_queries import ResultFilters
from service.jobs.results import Selection, select
from service.model.inputs import INPUT_LABELS
from service.model.paths import is_whole
from service.model.results import COLUMNS
from service.reports.export_fields import Chunk, Field
from service.reports.pricing import cost_status, costs

TEXT_FIELDS = ("batch_id", "custom_id", "name", "profile")


class ExportQuery(ResultFilters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to export, and in which format."""

    format: Annotated[Literal["csv", "jsonl"], Meta(description="csv, or jsonl: JSON Lines.")] = (
        "csv"
    )


def export(
    connection: Connection, actor: Actor, query: ExportQuery
) -> tuple[list[Field], Iterator[Chunk]]:
    """The fields of the file and its chunks, in the order of batches and points.

    Raises what `results.select` raises, before the first chunk.
    """
    if query.order_by:
        raise MalformedError("an export is in the order of batches and points: leave order_by out")
    selection = select(connection, actor, query)
    inputs = tuple(
        dict.fromkeys(name for ref in selection.refs for name in _inputs(selection, ref))
    )
    return _fields(inputs), _chunks(connection, selection, inputs)


def _inputs(selection: Selection, ref: BatchRef) -> list[str]:
    return list(selection.batches[ref.batch_id].columns)


def _fields(inputs: tuple[str, ...]) -> list[Field]:
    return [
        *(Field(name=name, kind="text") for name in TEXT_FIELDS),
        Field(name="point", kind="int64"),
        Field(name="start_on", kind="text"),
        *(_input_field(name) for name in inputs),
        *(Field(name=column.name, kind=column.kind, labels=column.labels) for column in COLUMNS),
        Field(name="cost_of_loss", kind="decimal"),
        Field(name="currency", kind="text"),
        Field(name="cost_status", kind="text"),
    ]


def _input_field(name: str) -> Field:
    if name in INPUT_LABELS:
        return Field(name=name, kind="enum", labels=INPUT_LABELS[name])
    whole = name == "period_days" or is_whole(name)
    return Field(name=name, kind="int64" if whole else "float64")


def _chunks(
    connection: Connection, selection: Selection, inputs: tuple[str, ...]
) -> Iterator[Chunk]:
    outputs = tuple(column.name for column in COLUMNS)
    for ref in selection.refs:
        items = selection.items[ref.batch_id]
        names = ("point", "item", *inputs, *outputs)
        for table in iterate_columns(connection, ref, names, selection.filters):
            positions = table["item"].astype(np.int64)
            yield {
                **table,
                **_texts(ref.batch_id, items, positions),
                **_money(selection, items, positions, table["gpu_hours_lost"]),
            }


def _texts(
    batch_id: UUID, items: list[Row[Any]], positions: NDArray[np.int64]
) -> dict[str, list[str | None]]:
    rows = [items[position] for position in positions.tolist()]
    return {
        "batch_id": [str(batch_id)] * len(rows),
        "custom_id": [row.custom_id for row in rows],
        "name": [row.name for row in rows],
        "profile": [
            f"{row.profile_slug}@{row.profile_revision}" if row.profile_slug else None
            for row in rows
        ],
        "start_on": [row.start_on.isoformat() for row in rows],
    }


def _money(
    selection: Selection,
    items: list[Row[Any]],
    positions: NDArray[np.int64],
    gpu_hours_lost: NDArray[np.float64],
) -> dict[str, list[Any]]:
    amounts: list[Any] = [None] * len(positions)
    currencies: list[str | None] = [None] * len(positions)
    statuses: list[str] = [""] * len(positions)
    for position in np.unique(positions).tolist():
        rows = np.flatnonzero(positions == position).tolist()
        price = selection.item_price(items[position])
        window = price.window if price and price.currency else None
        found: list[Any] = [None] * len(rows)
        if price is not None and price.currency is not None:
            found = costs(gpu_hours_lost[rows], window, price.currency)
        for row, amount in zip(rows, found, strict=True):
            amounts[row] = amount
            currencies[row] = price.currency if price and amount is not None else None
            statuses[row] = cost_status(window).value
    return {"cost_of_loss": amounts, "currency": currencies, "cost_status": statuses}
