"""The values of one axis, checked against their field, and the columns that they set."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from service.model.axes import (
    PlainAxis,
    axis_numbers,
    given_form,
    whole_numbers,
    without_repeats,
)
from service.model.columns import Columns, columns_of
from service.model.decoding import problems_of
from service.model.fields import Scenario
from service.model.leaves import KIND, Leaf, can_be_null, is_struct, leaves, members
from service.model.paths import REFUSED, group_of, is_whole, leaf_of, touched
from service.model.problems import InvalidScenario, Problem
from service.model.scenario import apply_overrides, decode_fields, normalised

MAX_FAULTS = 100
# Each whole structure is decoded by itself, at some 0.1 ms.
MAX_STRUCTURES = 10_000
MAX_WHOLE = float(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisValues:
    """`length` values; `columns` hold (values,) or, for whole slow groups, (values, groups).

    `listed` are the values as JSON, None for an axis of numbers, whose one column holds them.
    """

    path: str
    length: int
    columns: Mapping[str, NDArray[Any]]
    listed: tuple[Any, ...] | None = None

    @property
    def num_groups(self) -> int:
        """Slow groups that the values may hold."""
        return max((part.shape[1] for part in self.columns.values() if part.ndim > 1), default=0)

    def value_at(self, position: int) -> Any:
        """The value as JSON."""
        if self.listed is not None:
            return self.listed[position]
        value = next(iter(self.columns.values()))[position].item()
        return int(value) if is_whole(self.path) else value

    def positions_of(self, value: Any) -> set[int]:
        """Where the value stands; empty when it is none of the axis."""
        if self.listed is not None:
            return {place for place, listed in enumerate(self.listed) if _same(listed, value)}
        if isinstance(value, bool) or not isinstance(value, int | float):
            return set()
        if not -MAX_WHOLE <= value <= MAX_WHOLE:
            return set()
        return set(np.flatnonzero(next(iter(self.columns.values())) == value).tolist())


Read = tuple[AxisValues, list[Problem], list[Problem]]


def read_values(axis: PlainAxis, document: dict[str, Any], *, pointer: str, zipped: bool) -> Read:
    """The values of the axis, what is wrong with them, and warnings.

    `document` is the whole base scenario; `zipped` keeps duplicates, since the axes of a group
    advance together.
    """
    path = str(axis.path)
    problem = _path_problem(path, document)
    if problem is not None:
        return _nothing(
            path, Problem(pointer=f"{pointer}/path", code=problem[0], detail=problem[1])
        )
    leaf = leaf_of(path)
    if leaf is not None and leaf.is_number and not _has_words(axis, leaf):
        return _numbers(axis, path, leaf.type, pointer=pointer, zipped=zipped)
    if axis.values is None:
        detail = f"{path!r} holds no number: list its values"
        return _nothing(path, Problem(pointer=pointer, code="not_numeric", detail=detail))
    if len(axis.values) > MAX_STRUCTURES:
        detail = (
            f"{len(axis.values)} whole structures on an axis, but {MAX_STRUCTURES} is the limit"
        )
        return _nothing(
            path, Problem(pointer=f"{pointer}/values", code="too_many_values", detail=detail)
        )
    return _structures(path, axis.values, document, pointer=pointer)


def _path_problem(path: str, document: dict[str, Any]) -> tuple[str, str] | None:
    if path.split(".", maxsplit=1)[0] in REFUSED:
        return "refused_axis", f"{path!r} cannot be an axis: it is one for the whole grid"
    columns = touched(path)
    if columns is None:
        return "unknown_path", f"{path!r} is no path of a scenario"
    group = group_of(path)
    num_groups = len(document["slow_groups"])
    if group is not None and group >= num_groups:
        return "unknown_path", f"{path!r}: the scenario has {num_groups} slow groups"
    return None if group is not None else _place_problem(path, document)


def _place_problem(path: str, document: dict[str, Any]) -> tuple[str, str] | None:
    """What a field cannot be set for: its document is null, a bare word, or of another kind."""
    parts = path.split(".")
    place: Any = document
    annotation: Any = Scenario
    for depth, part in enumerate(parts):
        where = ".".join(parts[:depth])
        if place is None:
            return "path_under_null", f"{path!r} lies under {where}, which is null"
        if not isinstance(place, dict):
            return "unknown_path", f"{path!r}: {where} is {place!r} here"
        kind = _kind_of(place, annotation)
        config = kind.__struct_config__
        if part == config.tag_field:
            return None
        if part not in _field_types(kind):
            return "unknown_path", f"{path!r}: {config.tag} has no {part}"
        place, annotation = place[part], _field_types(kind)[part]
    return None


def _kind_of(place: dict[str, Any], annotation: Any) -> type[msgspec.Struct]:
    """Which of the kinds that the annotation allows the document is of."""
    kinds: list[type[msgspec.Struct]] = [kind for kind in members(annotation) if is_struct(kind)]
    for kind in kinds:
        config = kind.__struct_config__
        if config.tag_field is not None and place[config.tag_field] == config.tag:
            return kind
    (plain,) = (kind for kind in kinds if kind.__struct_config__.tag_field is None)
    return plain


def _field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}


def _has_words(axis: PlainAxis, leaf: Leaf) -> bool:
    """Whether the axis lists words, or null, that the field allows beside numbers."""
    listed = axis.values or []
    may_be_null = can_be_null(leaf)
    return any(
        value in leaf.words if isinstance(value, str) else value is None and may_be_null
        for value in listed
    )


def _numbers(axis: PlainAxis, path: str, kind: Any, *, pointer: str, zipped: bool) -> Read:
    """An axis of plain numbers, without a Python object per value where they are generated."""
    whole = is_whole(path)
    faults = _number_faults(axis.values or [], f"{pointer}/values")
    if faults:
        return _nothing(path, *faults)
    numbers: NDArray[Any] = axis_numbers(axis)
    if whole:
        numbers = whole_numbers(np.clip(numbers, -MAX_WHOLE, MAX_WHOLE))
    faults = _bound_faults(axis, numbers, kind, pointer)
    if faults:
        return _nothing(path, *faults)
    kept = numbers if zipped else without_repeats(numbers)
    warnings = []
    if len(kept) < len(numbers):
        detail = f"{len(numbers) - len(kept)} of {len(numbers)} values of {path} were met before"
        warnings.append(Problem(pointer=pointer, code="duplicates_removed", detail=detail))
    column = (touched(path) or ())[0]
    typed = kept.astype(leaves()[column].dtype)
    return AxisValues(path=path, length=len(kept), columns={column: typed}), [], warnings


def _number_faults(values: list[Any], pointer: str) -> list[Problem]:
    try:
        numbers = np.array(msgspec.convert(values, list[float], strict=True))
    except msgspec.ValidationError:
        return list(islice(problems_of(values, list[float], pointer=pointer), MAX_FAULTS))
    return [
        Problem(
            pointer=f"{pointer}/{position}",
            code="not_finite",
            detail=f"{values[position]} is refused: an axis has finite numbers only",
        )
        for position in np.flatnonzero(~np.isfinite(numbers))[:MAX_FAULTS].tolist()
    ]


def _bound_faults(axis: PlainAxis, numbers: NDArray[Any], kind: Any, pointer: str) -> list[Problem]:
    """Values out of their field's bounds; the bounds are intervals, so the extremes decide."""
    extremes = [numbers.min().item(), numbers.max().item()]
    try:
        msgspec.convert(extremes, list[kind], strict=True)
    except msgspec.ValidationError:
        place = f"{pointer}/{given_form(axis)}"
        if axis.values is None:
            return [
                Problem(pointer=place, code=fault.code, detail=fault.detail)
                for fault in islice(problems_of(extremes, list[kind]), 1)
            ]
        faults = problems_of(numbers.tolist(), list[kind], pointer=place)
        return list(islice(faults, MAX_FAULTS))
    return []


def _structures(path: str, values: list[Any], document: dict[str, Any], *, pointer: str) -> Read:
    """An axis of whole values: each is put into the scenario and decoded there."""
    problems: list[Problem] = []
    rows = []
    of_kind = leaves()[path].labels if path in leaves() else ()
    above = path.removesuffix(f".{KIND}") if of_kind and path.endswith(f".{KIND}") else None
    for position, value in enumerate(values):
        place = f"{pointer}/values/{position}"
        changed = {path: value} if above is None else _of_another_kind(document, above, value)
        try:
            rows.append(columns_of(decode_fields(apply_overrides(document, changed))))
        except InvalidScenario as error:
            problems.extend(_moved(problem, path, place) for problem in error.problems)
    if problems:
        return _nothing(path, *problems[:MAX_FAULTS])
    group = group_of(path)
    columns: dict[str, NDArray[Any]] = {}
    names = touched(path) or ()
    if above is not None:
        names = (*names, *_moved_with_kind(above, columns_of(decode_fields(document)), rows))
    for name in names:
        parts = [row[name] for row in rows]
        if group is not None:
            parts = [part[:, group] for part in parts]
        columns[name] = _stacked(parts, leaves()[name].absent)
    return AxisValues(path=path, length=len(values), columns=columns, listed=tuple(values)), [], []


def _of_another_kind(document: dict[str, Any], above: str, kind: Any) -> dict[str, Any]:
    """The document at `above` as another kind: what it only has by default is that kind's own."""
    place: Any = normalised(decode_fields(document))
    for part in above.split("."):
        place = place.get(part, {})
    return {above: {**place, KIND: kind}}


def _moved_with_kind(above: str, base: Columns, rows: list[Columns]) -> tuple[str, ...]:
    """Leaves below `above` that some kind lacks, or has by a default of its own."""
    return tuple(
        name
        for name in leaves()
        if name.startswith(f"{above}.")
        and name != f"{above}.{KIND}"
        and any(not _same_column(row[name], base[name]) for row in rows)
    )


def _same_column(left: NDArray[Any], right: NDArray[Any]) -> bool:
    if left.dtype == object:
        return bool(left[0] == right[0])
    return bool(np.array_equal(left, right, equal_nan=True))


def _stacked(parts: list[NDArray[Any]], empty: float) -> NDArray[Any]:
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    widest = max(part.shape[1] for part in parts)
    stacked = np.full((len(parts), widest), empty, dtype=parts[0].dtype)
    for row, part in enumerate(parts):
        stacked[row, : part.shape[1]] = part[0]
    return stacked


def _moved(problem: Problem, path: str, place: str) -> Problem:
    """From a place in the scenario to the same place below the axis value."""
    inside = "".join(f"/{part}" for part in path.split("."))
    rest = problem.pointer.removeprefix(inside) if problem.pointer.startswith(inside) else ""
    return Problem(pointer=place + rest, code=problem.code, detail=problem.detail)


def _nothing(path: str, *problems: Problem) -> Read:
    return AxisValues(path=path, length=1, columns={}), list(problems), []


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
