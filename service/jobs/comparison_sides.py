"""A stored batch as one side of a comparison: its key columns and the columns compared.

Key columns are read from each resolved scenario (design page "Decisions", 10): a path that is an
axis in one batch may be a constant, or a part of another axis, in the other.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.db.blocks import constant_columns
from service.db.engine import Connection, Row
from service.db.results import BatchRef, iterate_columns
from service.jobs.chunks import grid_of
from service.jobs.prices import BatchPrices
from service.model.axis_values import AxisValues
from service.model.grid import Dimension, Grid
from service.model.paths import is_whole
from service.model.scenario import apply_overrides, full
from service.reports.join import Labelled, Side, SideItem

Ints = NDArray[np.int64]
AxisColumn = NDArray[Any] | Labelled


def grids_of(items: Sequence[Row[Any]]) -> list[Grid]:
    """The grids of the items, in order."""
    return [
        grid_of(msgspec.json.encode(item.scenario), msgspec.json.encode(item.axes))
        for item in items
    ]


def axis_paths_of(grids: Sequence[Grid]) -> list[str]:
    """Paths of the axes of all items, each once, in order."""
    return list(dict.fromkeys(path for grid in grids for path in grid.axis_paths))


def read_side(
    connection: Connection,
    batch: Row[Any],
    items: Sequence[Row[Any]],
    prices: BatchPrices | None,
    *,
    grids: Sequence[Grid],
    paths: Sequence[str],
    columns: Sequence[str],
) -> Side:
    """The side of one batch; points that are not stored have NaN in every column.

    `items` are heads, `grids` those of the items where `paths` are to be read.
    """
    return Side(
        items=tuple(_side_item(item, prices) for item in items),
        item=np.repeat(np.arange(len(items), dtype=np.int64), [item.num_points for item in items]),
        axes={path: _joined([axis_column(grid, path) for grid in grids]) for path in paths},
        values=_values(connection, batch, columns),
        currency=prices.currency if prices is not None else None,
    )


def axis_column(grid: Grid, path: str) -> AxisColumn:
    """(points,) the value at `path` of every point of the grid."""
    points = np.arange(grid.num_points, dtype=np.int64)
    for part in grid.dimensions:
        for axis in part.axes:
            if axis.path == path:
                return _own_axis(axis, part.codes(points))
    related = [
        (part, axis)
        for part in grid.dimensions
        for axis in part.axes
        if axis.path.startswith(f"{path}.") or path.startswith(f"{axis.path}.")
    ]
    return _derived(grid, path, related, points)


def _own_axis(axis: AxisValues, codes: Ints) -> AxisColumn:
    if axis.listed is not None:
        return Labelled(codes=codes, values=axis.listed)
    numbers: NDArray[Any] = next(iter(axis.columns.values()))[codes]
    # Columns of whole numbers that may be absent are floats; on an axis none is.
    return numbers.astype(np.int64) if is_whole(axis.path) else numbers


def _derived(
    grid: Grid, path: str, related: Sequence[tuple[Dimension, AxisValues]], points: Ints
) -> AxisColumn:
    """The value at a path that other axes set in part, or that is the same everywhere."""
    document = full(grid.base)
    if not related:
        value = value_at(document, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.full(len(points), value)
        return Labelled(codes=np.zeros(len(points), dtype=np.int64), values=(value,))
    codes = np.zeros(len(points), dtype=np.int64)
    for part, axis in related:
        codes = codes * axis.length + part.codes(points)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    values = tuple(
        value_at(
            apply_overrides(
                document,
                {
                    axis.path: axis.value_at(int(part.codes(points[row : row + 1])[0]))
                    for part, axis in related
                },
            ),
            path,
        )
        for row in first.tolist()
    )
    return Labelled(codes=inverse.astype(np.int64), values=values)


def value_at(document: Any, path: str) -> Any:
    """The value at a path; null where it lies under null or nothing stands there."""
    place = document
    for part in path.split("."):
        if isinstance(place, dict):
            place = place.get(part)
        elif isinstance(place, list | tuple) and part.isdecimal() and int(part) < len(place):
            place = place[int(part)]
        else:
            return None
    return place


def _joined(parts: Sequence[AxisColumn]) -> AxisColumn:
    """The columns of all items one after the other."""
    numbers = [part for part in parts if not isinstance(part, Labelled)]
    if len(numbers) == len(parts):
        return np.concatenate(numbers)
    codes, values = [], list[object]()
    for part in parts:
        labelled = part if isinstance(part, Labelled) else _labelled(part)
        codes.append(labelled.codes + len(values))
        values.extend(labelled.values)
    return Labelled(codes=np.concatenate(codes), values=tuple(values))


def _labelled(numbers: NDArray[Any]) -> Labelled:
    found, codes = np.unique(numbers, return_inverse=True)
    return Labelled(codes=codes.astype(np.int64), values=tuple(found.tolist()))


def _side_item(item: Row[Any], prices: BatchPrices | None) -> SideItem:
    price = prices.by_item.get(item.id) if prices is not None else None
    return SideItem(
        name=item.name,
        profile=item.profile_slug,
        headline=item.headline_point,
        window=price.window if price is not None else None,
        seed=int(item.seed),
    )


def _values(
    connection: Connection, batch: Row[Any], columns: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Filled a few blocks at a time: whole columns and a copy of them took much more memory.

    A column that is the same everywhere, as that of a cause which no point has, takes none.
    """
    size: int = batch.points_total
    same = constant_columns(connection, batch.id, columns, size)
    values = {name: np.broadcast_to(np.float64(value), (size,)) for name, value in same.items()}
    varying = [name for name in columns if name not in same]
    values |= {name: np.full(size, np.nan) for name in varying}
    ref = BatchRef(batch_id=batch.id)
    for table in iterate_columns(connection, ref, ("point", *varying)):
        points = table["point"].astype(np.int64)
        for name in varying:
            values[name][points] = table[name]
    return values
