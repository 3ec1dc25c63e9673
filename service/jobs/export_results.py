"""Results as columns, chunk by chunk: in the order of batches and points, or sorted."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.db.engine import Connection, Row
from service.db.results import iterate_columns
from service.db.sorted_rows import SortedPlaces, TooManyRowsError, fetch_places, sorted_places
from service.errors import InvalidError
from service.jobs.actors import Actor
from service.jobs.export_extracts import CHUNK_ROWS, Extract, exported_batch
from service.jobs.result_queries import ResultFilters
from service.jobs.results import OUTPUTS, Selection, select
from service.reports.export_fields import (
    COST_FIELDS,
    Chunk,
    Field,
    Objects,
    input_field,
    objects,
    output_fields,
)
from service.reports.money import CostStatus
from service.reports.pricing import cost_status, costs

MAX_SORTED_ROWS: Final = 1_000_000
PLACE_FIELDS: Final = (
    Field(name="batch_id", kind="text", sentence="Id of the batch."),
    Field(name="custom_id", kind="text", sentence="The item's id in its batch."),
    Field(name="name", kind="text", sentence="Name of the scenario."),
    Field(name="profile", kind="text", sentence="slug@revision of the cluster profile."),
    Field(name="point", kind="int64", sentence="Number of the point in its batch, from 0."),
    Field(name="start_on", kind="date", sentence="First day of the loss window."),
)


def extract_results(connection: Connection, actor: Actor, query: ResultFilters) -> Extract:
    """The rows of a filtered list.

    Raises what `results.select` raises, and `InvalidError` for more rows than are sorted; both
    before the first chunk.
    """
    selection = select(connection, actor, query)
    chosen = [selection.batches[ref.batch_id] for ref in selection.refs]
    inputs = tuple(dict.fromkeys(name for batch in chosen for name in batch.columns))
    if selection.order:
        places = _sorted(connection, selection)
        chunks = _chunks_at(connection, selection, places, inputs)
    else:
        chunks = _chunks(connection, selection, inputs)
    return Extract(
        fields=[*PLACE_FIELDS, *map(input_field, inputs), *output_fields(), *COST_FIELDS],
        chunks=chunks,
        batches=[exported_batch(batch, selection.prices.get(batch.id)) for batch in chosen],
    )


def _sorted(connection: Connection, selection: Selection) -> SortedPlaces:
    try:
        return sorted_places(
            connection,
            selection.refs,
            selection.filters,
            selection.order,
            limit=MAX_SORTED_ROWS,
        )
    except TooManyRowsError:
        raise InvalidError(
            f"more than {MAX_SORTED_ROWS} rows match, but an export is sorted only up to so many: "
            "leave order_by out, or narrow the filters",
            problem="too-many-rows",
        ) from None


def _chunks(connection: Connection, selection: Selection, inputs: Sequence[str]) -> Iterator[Chunk]:
    names = ("point", "item", *inputs, *OUTPUTS)
    for ref in selection.refs:
        items = selection.items[ref.batch_id]
        for table in iterate_columns(connection, ref, names, selection.filters):
            yield _chunk(selection, table, items, table["item"].astype(np.int64))


def _chunks_at(
    connection: Connection, selection: Selection, places: SortedPlaces, inputs: Sequence[str]
) -> Iterator[Chunk]:
    names = ("item", *inputs, *OUTPUTS)
    for start in range(0, len(places.point), CHUNK_ROWS):
        part = SortedPlaces(
            batch=places.batch[start : start + CHUNK_ROWS],
            point=places.point[start : start + CHUNK_ROWS],
        )
        table = fetch_places(connection, selection.refs, part, names)
        pairs = np.stack([part.batch, table["item"].astype(np.int64)])
        found, owner = np.unique(pairs, axis=1, return_inverse=True)
        items = [
            selection.items[selection.refs[batch].batch_id][item]
            for batch, item in found.T.tolist()
        ]
        yield _chunk(selection, {**table, "point": part.point}, items, owner)


def _chunk(
    selection: Selection,
    table: dict[str, NDArray[Any]],
    items: Sequence[Row[Any]],
    owner: NDArray[np.intp],
) -> Chunk:
    """The table with the texts and the money of its rows; row n is of item `items[owner[n]]`."""
    texts = {
        "batch_id": [str(item.batch_id) for item in items],
        "custom_id": [item.custom_id for item in items],
        "name": [item.name for item in items],
        "profile": [
            f"{item.profile_slug}@{item.profile_revision}" if item.profile_slug else None
            for item in items
        ],
        "start_on": [item.start_on for item in items],
    }
    spread = {name: objects(values)[owner] for name, values in texts.items()}
    return {**table, **spread, **_money(selection, items, owner, table["gpu_hours_lost"])}


def _money(
    selection: Selection,
    items: Sequence[Row[Any]],
    owner: NDArray[np.intp],
    gpu_hours_lost: NDArray[np.float64],
) -> dict[str, Objects]:
    amounts: Objects = np.full(len(owner), None, dtype=object)
    currencies: Objects = np.full(len(owner), None, dtype=object)
    statuses: Objects = np.full(len(owner), None, dtype=object)
    if selection.withheld:
        statuses[:] = CostStatus.WITHHELD.value
        return {"cost_of_loss": amounts, "currency": currencies, "cost_status": statuses}
    for number, rows in _rows_by_owner(owner):
        price = selection.item_price(items[number])
        window = price.window if price and price.currency else None
        statuses[rows] = cost_status(window).value
        if price is not None and price.currency is not None:
            found = costs(gpu_hours_lost[rows], window, price.currency)
            amounts[rows] = objects(found)
            currencies[rows] = objects(
                [None if amount is None else price.currency for amount in found]
            )
    return {"cost_of_loss": amounts, "currency": currencies, "cost_status": statuses}


def _rows_by_owner(owner: NDArray[np.intp]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    grouped = np.argsort(owner, kind="stable")
    starts = np.flatnonzero(np.diff(owner[grouped], prepend=-1))
    for rows in np.split(grouped, starts)[1:]:
        yield int(owner[rows[0]]), rows
