"""The input columns that are stored beside the outputs, named by their paths."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.columns import COUNT, PLACEMENT, Columns
from service.model.leaves import ABSENT, Leaf, leaves
from service.model.paths import group_of, leaf_of, touched

INPUT_LABELS = {leaf.path: leaf.labels for leaf in leaves().values() if leaf.labels}
"""Input columns that hold no numbers: stored as the position of their label, -1 for null."""


def input_words(name: str) -> tuple[str, ...]:
    """Words that the column holds beside numbers from 0, as -1, -2, ...; mostly none.

    The only word of a field is stored as null.
    """
    leaf = leaf_of(name)
    return leaf.words if leaf is not None and len(leaf.words) > 1 else ()


ALWAYS = (
    "num_gpus",
    "load_ms",
    "compute_ms",
    "communication.allreduce_ms",
    "variability.transient.kind",
    "variability.transient.cv",
    "period_days",
)
"""Stored for every batch; other leaves where a scenario has them."""

NEVER = ("seed", "draws")

InputColumn = NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int8]


def input_names(columns: Columns, axis_paths: Sequence[str]) -> tuple[str, ...]:
    """Names of the leaves that points with these axes store.

    `columns` hold at least one of the points. Every leaf that the axes set, or in which the point
    differs from a scenario that leaves it out.
    """
    set_by_axes = {name for path in axis_paths for name in touched(path) or ()}
    found = []
    for path, leaf in leaves().items():
        if not is_stored(leaf):
            continue
        value = columns[path][0]
        if path in ALWAYS or path in set_by_axes or _is_there(leaf, value):
            found.append(path)
    for group in range(columns[COUNT].shape[1]):
        found.extend(f"slow_groups.{group}.{name}" for name in ("count", "speed_fraction"))
        if PLACEMENT in set_by_axes or columns[PLACEMENT][0, group] != leaves()[PLACEMENT].absent:
            found.append(f"slow_groups.{group}.placement")
    return tuple(found)


def is_stored(leaf: Leaf) -> bool:
    """Whether a batch may have a column of the leaf, which is in no list."""
    has_numbers = leaf.dtype != "object" or leaf.is_number_or_list
    return has_numbers and not leaf.in_list and leaf.path not in NEVER


def _is_there(leaf: Leaf, value: Any) -> bool:
    if leaf.is_number_or_list:
        return isinstance(value, int | float)
    return bool(value != leaf.absent and not (leaf.dtype == "float64" and np.isnan(value)))


def input_column(columns: Columns, name: str) -> InputColumn:
    """A leaf as a column (points,); NaN, or -1 where the column has labels, where a point has none.

    A placement of slow GPUs is the number of their stage, -1 if it is random, -2 if the worst. Of a
    number, or a list of them, only the number is stored: NaN for a list.

    Raises KeyError for a name that is no stored input.
    """
    group = group_of(name)
    if group is not None:
        return _of_group(columns, name, group)
    leaf = leaves()[name]
    values = columns[name]
    if leaf.labels:
        return (values - 1).astype(np.int8)
    if leaf.is_number_or_list:
        numbers = [value if isinstance(value, int | float) else np.nan for value in values]
        return np.array(numbers, dtype=np.float64)
    # A word in the place of a number is stored as 0, which is none of the field's numbers.
    return np.where(values == 0, np.nan, values) if leaf.words else values


def _of_group(columns: Columns, name: str, group: int) -> InputColumn:
    leaf = leaf_of(name)
    counts = columns[COUNT]
    if leaf is None:
        raise KeyError(name)
    if group >= counts.shape[1]:
        return np.full(columns.num_points, np.nan)
    return np.where(counts[:, group] > ABSENT, columns[leaf.path][:, group], np.nan)
