"""Join the points of two batches on (name, profile slug, values on the axes of both).

Everything is a column: `(points,)` on each side, `(rows,)` once joined. Design page
"Decisions", 10.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.reports.pricing import PricedWindow
from service.reports.sampling import ERROR_COLUMNS, ERROR_OF

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """An axis over whole values (null, objects, texts): `codes` (points,) point into `values`."""

    codes: Ints
    values: tuple[object, ...]


class SideItem(Struct, frozen=True, kw_only=True):
    """An item of a batch: what names it, its headline row (or none) and what prices its window.

    `seed` is that of its sampled columns, None where it is not known.
    """

    name: str
    profile: str | None = None
    headline: int | None = None
    window: PricedWindow | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """The points of one batch, in the batch's order; row n of every column is point n.

    item    (points,) which of `items` the point belongs to
    axes    by path, (points,): int64, float64 (NaN is null) or Labelled; both sides of a join
            have the paths of both batches, read from each resolved scenario
    values  by column name, (points,): what is compared; NaN where a point failed
    """

    items: tuple[SideItem, ...]
    item: Ints
    axes: Mapping[str, Ints | Floats | Labelled]
    values: Mapping[str, Floats]
    currency: str | None = None

    def key_at(self, row: int) -> dict[str, object]:
        """The join key of one point, as it is shown and named in errors."""
        item = self.items[self.item[row]]
        return {"name": item.name, "profile": item.profile} | {
            path: _value_at(axis, row) for path, axis in self.axes.items()
        }


class DuplicateKeyError(ValueError):
    """A key that two points of one side share, so that nobody could say which one is meant."""

    def __init__(self, side: str, key: dict[str, object], points: tuple[int, int]) -> None:
        shown = msgspec.json.encode(key).decode()
        super().__init__(
            f"points {points[0]} and {points[1]} of the {side} have the same key {shown}; "
            "give the items different names"
        )
        self.side = side
        self.key = key
        self.points = points


@dataclass(frozen=True, kw_only=True, eq=False)
class Joined:
    """Row k pairs point `past_rows[k]` with point `new_rows[k]`; in the order of the baseline."""

    baseline: Side
    candidate: Side
    past_rows: Ints
    new_rows: Ints
    only_in_baseline: int
    only_in_candidate: int

    @property
    def num_rows(self) -> int:
        """Number of keys found on both sides."""
        return len(self.past_rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of either side that are compared, in the order of the candidate."""
        names = dict.fromkeys((*self.candidate.values, *self.baseline.values))
        return tuple(name for name in names if name not in ERROR_COLUMNS)

    @property
    def sampled_columns(self) -> tuple[str, ...]:
        """Those of the columns whose standard errors either side has."""
        names = {*self.candidate.values, *self.baseline.values}
        return tuple(name for name in self.columns if ERROR_OF.get(name) in names)

    def same_seed(self, rows: Rows) -> NDArray[np.bool_]:
        """(rows,) whether both sides draw from the same seed."""
        past, new = (
            np.array([_seed(item, unknown) for item in side.items])[side.item[points[rows]]]
            for side, points, unknown in (
                (self.baseline, self.past_rows, -1),
                (self.candidate, self.new_rows, -2),
            )
        )
        same: NDArray[np.bool_] = past == new
        return same

    def past(self, column: str, rows: Rows | None = None) -> Floats:
        """Of the baseline, at `rows` of the join or all; NaN if its model had no such column."""
        return _taken(self.baseline, column, self.past_rows, rows)

    def new(self, column: str, rows: Rows | None = None) -> Floats:
        """Of the candidate, at `rows` of the join or all; NaN if its model had no such column."""
        return _taken(self.candidate, column, self.new_rows, rows)


def join(baseline: Side, candidate: Side) -> Joined:
    """Pair the points of both sides that have the same key.

    Raises DuplicateKeyError for a key met twice on one side, ValueError for sides that do not
    have the same axis paths.
    """
    if set(baseline.axes) != set(candidate.axes):
        missing = sorted(set(baseline.axes) ^ set(candidate.axes))
        raise ValueError(f"only one side has the axes {', '.join(missing)}")
    past_keys, new_keys, size = _key_codes(baseline, candidate)
    _point_of("baseline", baseline, past_keys, size)
    new_of = _point_of("candidate", candidate, new_keys, size)
    found = new_of[past_keys]
    past_rows = np.flatnonzero(found >= 0)
    return Joined(
        baseline=baseline,
        candidate=candidate,
        past_rows=past_rows,
        new_rows=found[past_rows],
        only_in_baseline=len(past_keys) - len(past_rows),
        only_in_candidate=len(new_keys) - len(past_rows),
    )


def _key_codes(baseline: Side, candidate: Side) -> tuple[Ints, Ints, int]:
    """One integer per point of each side, equal where the keys are equal; and how many there are.

    Mixed radix over the key columns. Where there would be many more codes than points, those met
    so far are renumbered from 0: a table of all codes is never much larger than the columns.
    """
    codes, size = _item_codes(baseline, candidate)
    for path, axis in baseline.axes.items():
        more, radix = _axis_codes(axis, candidate.axes[path])
        codes = codes * radix + more
        size *= radix
        if size > 2 * len(codes):
            found, codes = np.unique(codes, return_inverse=True)
            size = len(found)
    return codes[: len(baseline.item)], codes[len(baseline.item) :], size


def _seed(item: SideItem, unknown: int) -> int:
    return unknown if item.seed is None else item.seed


def _item_codes(baseline: Side, candidate: Side) -> tuple[Ints, int]:
    """Codes of (name, profile), baseline's points first; and how many there are."""
    numbers: dict[tuple[str, str | None], int] = {}
    parts = []
    for side in (baseline, candidate):
        keys = [(item.name, item.profile) for item in side.items]
        of_items = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
        parts.append(of_items[side.item])
    return np.concatenate(parts), len(numbers)


def _axis_codes(past: Ints | Floats | Labelled, new: Ints | Floats | Labelled) -> tuple[Ints, int]:
    """Codes of one axis, baseline's points first; and how many there are."""
    if not isinstance(past, Labelled) and not isinstance(new, Labelled):
        found, codes = np.unique(np.concatenate([past, new]), return_inverse=True)
        return codes.astype(np.int64), len(found)
    numbers: dict[bytes, int] = {}
    parts = []
    for axis in (past, new):
        labelled = axis if isinstance(axis, Labelled) else _labelled(axis)
        texts = [canonical_text(value) for value in labelled.values]
        of_values = np.array(
            [numbers.setdefault(text, len(numbers)) for text in texts], dtype=np.int64
        )
        parts.append(of_values[labelled.codes])
    return np.concatenate(parts), len(numbers)


def _labelled(axis: Ints | Floats) -> Labelled:
    """Numbers as labels, where the other side's axis is one of whole values."""
    found, codes = np.unique(axis, return_inverse=True)
    return Labelled(
        codes=codes.astype(np.int64),
        values=tuple(None if number != number else number for number in found.tolist()),  # noqa: PLR0124 - NaN
    )


def canonical_text(value: object) -> bytes:
    """JSON with sorted names in which 1 and 1.0 are the same number."""
    return msgspec.json.encode(_as_floats(value), order="sorted")


def _as_floats(value: object) -> object:
    match value:
        case bool():
            return value
        case int():
            return float(value)
        case dict():
            return {name: _as_floats(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_as_floats(inner) for inner in value]
    return value


def _point_of(name: str, side: Side, codes: Ints, size: int) -> Ints:
    """(size,) the point that has each code, -1 where none has.

    Raises DuplicateKeyError for a code that two points have.
    """
    points = np.arange(len(codes), dtype=np.int64)
    point_of = np.full(size, -1, dtype=np.int64)
    # Of two points with one code the later stays, and the earlier does not find itself.
    point_of[codes] = points
    doubled = np.flatnonzero(point_of[codes] != points)
    if len(doubled):
        first = int(doubled[0])
        (again,) = np.nonzero(codes == codes[first])
        raise DuplicateKeyError(name, side.key_at(first), (first, int(again[1])))
    return point_of


def _value_at(axis: Ints | Floats | Labelled, row: int) -> object:
    if isinstance(axis, Labelled):
        return axis.values[axis.codes[row]]
    number: float = axis[row].item()
    return None if np.isnan(number) else number


def _taken(side: Side, column: str, points: Ints, rows: Rows | None) -> Floats:
    chosen = points if rows is None else points[rows]
    if column not in side.values:
        return np.full(len(chosen), np.nan)
    return side.values[column][chosen].astype(np.float64)
