"""Scenarios as equal-length columns: the currency from the expansion of a grid to the file."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.model.fields import Scenario
from service.model.leaves import KIND, Leaf, label_code, leaves, word_code

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Found = TypeVar("Found")
COUNT = "slow_groups.count"
SPEED = "slow_groups.speed_fraction"
PLACEMENT = "slow_groups.placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Inputs of `num_points` scenarios, a column for every leaf of `leaves.leaves()`.

    values       by the leaf's path: (points,), or (1,) where all points agree; of slow groups
                 (points, groups) or (1, groups), 0 GPUs at speed 1 where a point has fewer
    barrier_key  (points,) equal for points whose slowest factor is the same; None: all differ
    step_key     (points,) equal for points whose steps are the same; None: all differ
    size_key     (points,) equal for points that differ in nothing but num_gpus as far as the
                 slowest factor goes; None where no long axis of sizes exists
    kept         what functions of these columns found, see `kept_with_columns`
    """

    num_points: int
    values: Mapping[str, NDArray[Any]]
    barrier_key: Ints | None = None
    step_key: Ints | None = None
    size_key: Ints | None = None
    kept: dict[str, Any] = dataclasses.field(
        init=False, default_factory=dict, repr=False, compare=False
    )

    def __getitem__(self, path: str) -> NDArray[Any]:
        """(points,) or (points, groups) values of a leaf; not to be written to."""
        values = self.values[path]
        if len(values) == self.num_points:
            return values
        return np.broadcast_to(values, (self.num_points, *values.shape[1:]))

    def lacks(self, path: str) -> bool:
        """Whether no point has the leaf: quick to tell, though not of every such column."""
        return self.values[path] is _absent()[path]

    @property
    def num_nominal(self) -> Ints:
        """(points,) GPUs at nominal speed, spares included; negative where a rule is broken."""
        nominal: Ints = self["num_gpus"] + self["num_spare_gpus"]
        # Few groups: a sum over the short axis would take ten times longer.
        for count in self[COUNT].T:
            nominal -= count
        return nominal

    def part(self, rows: slice | NDArray[np.intp]) -> "Columns":
        """Some of the points."""
        num_points = len(np.empty(self.num_points, dtype=np.bool_)[rows])
        values = {
            path: column if len(column) == 1 else column[rows]
            for path, column in self.values.items()
        }
        keys: dict[str, Any] = {
            name: None if (key := getattr(self, name)) is None else key[rows]
            for name in ("barrier_key", "step_key", "size_key")
        }
        part = replace(self, num_points=num_points, values=values, **keys)
        for name in _KEPT_BY_POINT & self.kept.keys():
            part.kept[name] = type(self.kept[name])(*(column[rows] for column in self.kept[name]))
        return part


_KEPT_BY_POINT: set[str] = set()
"""Names of kept functions that find (points,) each: parts of the columns need not ask again."""


def kept_by_point(function: Callable[[Columns], Found]) -> Callable[[Columns], Found]:
    """As `kept_with_columns`, of a function that finds a named tuple of (points,) columns."""
    _KEPT_BY_POINT.add(_name_of(function))
    return kept_with_columns(function)


def _name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def kept_with_columns(function: Callable[[Columns], Found]) -> Callable[[Columns], Found]:
    """A function of columns that is asked for more than once; nobody writes to what it found."""
    name = _name_of(function)

    @wraps(function)
    def kept(columns: Columns) -> Found:
        if name not in columns.kept:
            columns.kept[name] = function(columns)
        found: Found = columns.kept[name]
        return found

    return kept


def columns_of(scenario: Scenario) -> Columns:
    """Columns of one point."""
    known = leaves()
    values = dict(_absent())
    for path, value in _leaf_values(scenario, ""):
        values[path] = _column(known[path], value)
    return Columns(num_points=1, values=values)


@lru_cache(maxsize=1)
def _absent() -> dict[str, NDArray[Any]]:
    """The columns of a scenario that has no leaf at all."""
    return {path: _column(leaf, [] if leaf.in_list else None) for path, leaf in leaves().items()}


def _column(leaf: Leaf, value: Any) -> NDArray[Any]:
    """One value, or the list of one point, as a column of one point."""
    if leaf.in_list:
        return np.array([[coded(leaf, part) for part in value]], dtype=leaf.dtype)
    if leaf.dtype != "object":
        return np.array([coded(leaf, value)], dtype=leaf.dtype)
    column = np.empty(1, dtype=object)
    column[0] = value
    return column


def coded(leaf: Leaf, value: Any) -> Any:
    """The value of a field as its column holds it."""
    if leaf.labels:
        return label_code(leaf.labels, value) or leaf.absent
    if value is None:
        return leaf.absent
    return word_code(leaf.words, value) if isinstance(value, str) else value


def _leaf_values(struct: Struct, above: str) -> Iterator[tuple[str, Any]]:
    """The values that differ from their fields' defaults, by path; of a list all its values."""
    for field in _fields(type(struct), above):
        value = getattr(struct, field.name)
        if value is field.default or value == field.default:
            continue
        if field.is_label:
            yield f"{field.path}.{KIND}", value
        if isinstance(value, Struct):
            yield from _leaf_values(value, f"{field.path}.")
        elif field.is_list:
            gathered: dict[str, list[Any]] = {}
            for part in value:
                kind: type[Struct] = type(part)
                for inner in _fields(kind, f"{field.path}."):
                    gathered.setdefault(inner.path, []).append(getattr(part, inner.name))
            yield from gathered.items()
        else:
            yield field.path, value


class _Field(NamedTuple):
    """A field of a document at a place: a leaf itself, a document, a list, or a kind of one."""

    name: str
    path: str
    default: Any
    is_label: bool
    is_list: bool


@lru_cache(maxsize=256)
def _fields(kind: type[Struct], above: str) -> tuple[_Field, ...]:
    """The fields of a document; each has a leaf at or below it."""
    found = []
    for field in msgspec.structs.fields(kind):
        path = f"{above}{field.encode_name}"
        # A default below an optional document is not what its absence stands for.
        default = field.default if _is_absent(path, field.default) else msgspec.UNSET
        is_list = any(
            leaf.in_list and leaf.path.startswith(f"{path}.") for leaf in leaves().values()
        )
        found.append(_Field(field.name, path, default, f"{path}.{KIND}" in leaves(), is_list))
    return tuple(found)


def _is_absent(path: str, default: Any) -> bool:
    """Whether a field with this value leaves its columns as they are without it."""
    leaf = leaves().get(path)
    if default is msgspec.NODEFAULT:
        return False
    if isinstance(default, Struct):
        parts = ((field, getattr(default, field.name)) for field in msgspec.structs.fields(default))
        # Of a document that is there by default, a switch that is off tells nothing.
        return all(
            part is False or _is_absent(f"{path}.{field.encode_name}", part)
            for field, part in parts
        )
    if leaf is None:
        return default is None or isinstance(default, tuple | str)
    return bool(default is None or coded(leaf, default) == leaf.absent)


def joined(parts: Sequence[Columns]) -> Columns:
    """The points of all parts, in their order."""
    num_groups = max((part.values[COUNT].shape[1] for part in parts), default=0)
    values = {}
    for path, leaf in leaves().items():
        columns = [part[path] for part in parts]
        if leaf.in_list:
            columns = [widened(column, num_groups, leaf) for column in columns]
        values[path] = np.concatenate(columns)
    return Columns(num_points=sum(part.num_points for part in parts), values=values)


def widened(column: NDArray[Any], num_groups: int, leaf: Leaf) -> NDArray[Any]:
    """A list's column (points, …) with room for `num_groups`, absent ones at the end."""
    wide = np.full((len(column), num_groups), leaf.absent, dtype=leaf.dtype)
    wide[:, : column.shape[1]] = column
    return wide
