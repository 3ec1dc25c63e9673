"""A scenario and its axes, expanded to columns chunk by chunk; no object per point exists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.axes import Axis, axis_length
from service.model.axis_values import AxisValues, read_values
from service.model.columns import Columns, columns_of, widened
from service.model.fields import Scenario
from service.model.leaves import leaves
from service.model.paths import group_of, moves_the_barrier, moves_the_step
from service.model.problems import InvalidScenario, Problem
from service.model.rules import failures
from service.model.scenario import apply_overrides, decode_fields, full

LONG_AXIS = 100
"""More sizes than this on one axis are worth the panels of `sizes.slowest_of_sizes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """Axes that advance together: `length` steps, each held for `stride` points."""

    axes: tuple[AxisValues, ...]
    length: int
    stride: int

    @property
    def touched(self) -> frozenset[str]:
        """Columns that the dimension sets."""
        return frozenset(name for axis in self.axes for name in axis.columns)

    def codes(self, points: NDArray[np.int64]) -> NDArray[np.int64]:
        """(points,) which step each point is at."""
        codes: NDArray[np.int64] = points // self.stride % self.length
        return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Points in C order over the dimensions, 0-based."""

    base: Scenario
    dimensions: tuple[Dimension, ...]
    num_points: int
    warnings: tuple[Problem, ...]

    @property
    def axis_paths(self) -> tuple[str, ...]:
        """Paths of all axes, as listed."""
        return tuple(axis.path for part in self.dimensions for axis in part.axes)

    def columns(self, start: int, stop: int) -> Columns:
        """Columns of the points [start, stop)."""
        points = np.arange(start, stop, dtype=np.int64)
        base = dict(columns_of(self.base).values)
        _widen(base, self._num_groups())
        for part in self.dimensions:
            codes = part.codes(points)
            for axis in part.axes:
                _set_columns(base, axis, codes)
        return Columns(
            num_points=len(points),
            values=base,
            barrier_key=self._key(points, moves_the_barrier),
            step_key=self._key(points, moves_the_step),
            size_key=self._size_key(points),
        )

    def failures(self, start: int, stop: int) -> NDArray[np.int8]:
        """(stop - start,) the rule that each point breaks, as a position in rules.FAILURES."""
        return failures(self.columns(start, stop))

    def inputs_at(self, point: int) -> dict[str, Any]:
        """The values of the axes at one point, by path."""
        at = np.array([point], dtype=np.int64)
        return {
            axis.path: axis.value_at(int(part.codes(at)[0]))
            for part in self.dimensions
            for axis in part.axes
        }

    def point_scenario(self, point: int) -> Scenario:
        """The whole scenario of one point; rules across fields may be broken in it."""
        return decode_fields(apply_overrides(full(self.base), self.inputs_at(point)))

    def find(self, values: Mapping[str, Any]) -> int | None:
        """The point at which every axis has the given value, None when there is none."""
        if set(values) != set(self.axis_paths):
            return None
        point = 0
        for part in self.dimensions:
            codes = part.axes[0].positions_of(values[part.axes[0].path])
            for axis in part.axes[1:]:
                codes &= axis.positions_of(values[axis.path])
            if not codes:
                return None
            point += min(codes) * part.stride
        return point

    def _num_groups(self) -> int:
        widths = [axis.num_groups for part in self.dimensions for axis in part.axes]
        return max([len(self.base.slow_groups), *widths])

    def _key(
        self, points: NDArray[np.int64], matters: Callable[[str], bool]
    ) -> NDArray[np.int64] | None:
        """(points,) equal where the axes that matter are; None where all of them do."""
        relevant = [part for part in self.dimensions if any(map(matters, part.touched))]
        return None if len(relevant) == len(self.dimensions) else _mixed(relevant, points)

    def _size_key(self, points: NDArray[np.int64]) -> NDArray[np.int64] | None:
        long = [
            part
            for part in self.dimensions
            if part.touched == {"num_gpus"} and part.length > LONG_AXIS
        ]
        if not long:
            return None
        others = [
            part
            for part in self.dimensions
            if any(map(moves_the_barrier, part.touched)) and part not in long
        ]
        return _mixed(others, points)


def build_grid(base: Scenario, axes: Sequence[Axis], *, max_points: int) -> Grid:
    """Read the axes against the base scenario.

    Raises InvalidScenario with pointers that begin with `/axes`: paths that do not exist, lie
    under null, are nested or refused as axes, values out of their field's bounds, and a grid of
    more than `max_points` points (before duplicates are removed).
    """
    places = [
        (axis, f"/axes/{position}" + (f"/zip/{inner}" if group.zip else ""), position)
        for position, group in enumerate(axes)
        for inner, axis in enumerate(group.zip or [group])
    ]
    problems = _path_problems([(str(axis.path), pointer) for axis, pointer, _ in places])
    total = 1
    for group in axes:
        total *= axis_length(group.zip[0] if group.zip else group)
    if total > max_points:
        problems.append(
            Problem(
                pointer="/axes",
                code="too_many_points",
                detail=f"{total} points, but the limit is {max_points}",
            )
        )
    if problems:
        raise InvalidScenario(problems)
    warnings: list[Problem] = []
    dimensions: list[tuple[AxisValues, ...]] = [() for _ in axes]
    document = full(base)
    for axis, pointer, position in places:
        zipped = axes[position].zip is not None
        values, faults, notes = read_values(axis, document, pointer=pointer, zipped=zipped)
        problems.extend(faults)
        warnings.extend(notes)
        dimensions[position] = (*dimensions[position], values)
    if problems:
        raise InvalidScenario(problems)
    return _grid(base, dimensions, warnings)


def _grid(
    base: Scenario, dimensions: Sequence[tuple[AxisValues, ...]], warnings: Sequence[Problem]
) -> Grid:
    stride = 1
    parts: list[Dimension] = []
    for axes in reversed(dimensions):
        parts.append(Dimension(axes=axes, length=axes[0].length, stride=stride))
        stride *= axes[0].length
    return Grid(
        base=base,
        dimensions=tuple(reversed(parts)),
        num_points=stride,
        warnings=tuple(warnings),
    )


def _path_problems(paths: Sequence[tuple[str, str]]) -> list[Problem]:
    problems = []
    for position, (path, pointer) in enumerate(paths):
        for other, _ in paths[:position]:
            if path == other or path.startswith(f"{other}.") or other.startswith(f"{path}."):
                detail = (
                    f"{path!r} is an axis twice"
                    if path == other
                    else f"{path!r} and {other!r} are nested: one lies under the other"
                )
                problems.append(
                    Problem(pointer=f"{pointer}/path", code="nested_paths", detail=detail)
                )
    return problems


def _widen(values: dict[str, NDArray[Any]], num_groups: int) -> None:
    """Make room for `num_groups` slow groups."""
    for leaf in leaves().values():
        if leaf.in_list:
            values[leaf.path] = widened(values[leaf.path], num_groups, leaf)


def _set_columns(
    values: dict[str, NDArray[Any]], axis: AxisValues, codes: NDArray[np.int64]
) -> None:
    group = group_of(axis.path)
    for name, listed in axis.columns.items():
        if group is None and listed.ndim == 1:
            values[name] = listed[codes]
            continue
        # (points,) into its column of (points, groups), or whole slow_groups, (values, groups)
        now = values[name]
        column = np.empty((len(codes), now.shape[1]), dtype=now.dtype)
        column[:] = now if group is not None else leaves()[name].absent
        column[:, slice(listed.shape[1]) if group is None else group] = listed[codes]
        values[name] = column


def _mixed(parts: Sequence[Dimension], points: NDArray[np.int64]) -> NDArray[np.int64]:
    """(points,) one number for the steps of the given dimensions."""
    key = np.zeros(len(points), dtype=np.int64)
    for part in parts:
        key = key * part.length + part.codes(points)
    return key
