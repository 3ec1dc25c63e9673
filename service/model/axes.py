"""Axes of a grid: how they are written, and the values that they stand for.

Design page "Decisions", 7: C order as listed, stops inclusive; on whole-number fields values are
rounded half-even and duplicates removed with a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from service.model.decoding import problems_of
from service.model.problems import InvalidScenario, Problem

MAX_AXES = 16
# Far above any limit of points, and still a whole number of ordinary size.
MAX_LENGTH = 1e12
FORMS = ("values", "range", "logspace", "powers_of_two")


class Range(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """start, start + step, … up to and including stop."""

    start: float
    stop: float
    step: float


class Logspace(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`num` values evenly spaced on a logarithmic scale, both ends included."""

    start: Annotated[float, Meta(gt=0)]
    stop: Annotated[float, Meta(gt=0)]
    num: Annotated[int, Meta(ge=1, le=10**12)]


class PowersOfTwo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """start, 2 start, 4 start, … up to and including stop."""

    start: Annotated[float, Meta(gt=0)]
    stop: Annotated[float, Meta(gt=0)]


class Axis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One axis: a path and one way to give its values; or a group of axes that advance together."""

    path: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    values: list[Any] | None = None
    range: Range | None = None
    logspace: Logspace | None = None
    powers_of_two: PowersOfTwo | None = None
    zip: Annotated[list[Axis], Meta(min_length=1, max_length=MAX_AXES)] | None = None


def decode_axes(value: object) -> tuple[Axis, ...]:
    """Decode the axes strictly; raises InvalidScenario with pointers that begin with `/axes`."""
    problems: list[Problem] = []
    try:
        axes = msgspec.convert(value, tuple[Axis, ...], strict=True)
    except msgspec.ValidationError:
        raise InvalidScenario(problems_of(value, list[Axis], pointer="/axes")) from None
    if len(axes) > MAX_AXES:
        detail = f"{len(axes)} axes, but {MAX_AXES} is the limit"
        problems.append(Problem(pointer="/axes", code="too_many_axes", detail=detail))
    for position, axis in enumerate(axes):
        problems.extend(_shape_problems(axis, f"/axes/{position}", nested=False))
    if problems:
        raise InvalidScenario(problems)
    return axes


def axis_length(axis: Axis) -> int:
    """How many values the axis stands for, before duplicates are removed."""
    if axis.values is not None:
        return len(axis.values)
    if axis.range is not None:
        part = axis.range
        # The tolerance keeps a stop that is reached but for round-off.
        steps = (part.stop - part.start) / part.step * (1 + 1e-12) + 1e-9
        return math.floor(min(steps, MAX_LENGTH)) + 1
    if axis.logspace is not None:
        return axis.logspace.num
    if axis.powers_of_two is None:
        raise ValueError("an axis without values has no length")
    part_ = axis.powers_of_two
    return math.floor(math.log2(part_.stop / part_.start) + 1e-9) + 1


def axis_numbers(axis: Axis) -> NDArray[np.float64]:
    """The numbers of a generated axis (values,)."""
    if axis.range is not None:
        numbers = axis.range.start + axis.range.step * np.arange(axis_length(axis))
    elif axis.logspace is not None:
        numbers = np.geomspace(axis.logspace.start, axis.logspace.stop, axis.logspace.num)
    elif axis.powers_of_two is not None:
        numbers = axis.powers_of_two.start * 2.0 ** np.arange(axis_length(axis))
    else:
        raise ValueError("listed values are not generated")
    return numbers.astype(np.float64)


def whole_numbers(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rounded half-even (values,)."""
    return np.rint(numbers).astype(np.int64)


def without_repeats(numbers: NDArray[Any]) -> NDArray[Any]:
    """The numbers without those met before, in the order they are first met."""
    _, first = np.unique(numbers, return_index=True)
    return numbers if len(first) == len(numbers) else numbers[np.sort(first)]


def _shape_problems(axis: Axis, pointer: str, *, nested: bool) -> Sequence[Problem]:
    if axis.zip is not None:
        return _zip_problems(axis, pointer, nested=nested)
    given = [form for form in FORMS if getattr(axis, form) is not None]
    if axis.path is None:
        return [Problem(pointer=f"{pointer}/path", code="missing_field", detail="path is missing")]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        return [
            Problem(
                pointer=pointer,
                code="one_form",
                detail=f"an axis has exactly one of {', '.join(FORMS)}; this one has {said}",
            )
        ]
    problem = _length_problem(axis)
    if problem is None:
        return []
    return [Problem(pointer=f"{pointer}/{given[0]}", code=problem[0], detail=problem[1])]


def _zip_problems(axis: Axis, pointer: str, *, nested: bool) -> list[Problem]:
    if nested or axis.path is not None or any(getattr(axis, form) is not None for form in FORMS):
        detail = "a zip holds plain axes, and stands alone in its axis"
        return [Problem(pointer=f"{pointer}/zip", code="zip_shape", detail=detail)]
    parts = axis.zip or []
    problems = [
        problem
        for position, part in enumerate(parts)
        for problem in _shape_problems(part, f"{pointer}/zip/{position}", nested=True)
    ]
    if not problems and len({axis_length(part) for part in parts}) > 1:
        counts = ", ".join(str(axis_length(part)) for part in parts)
        detail = f"axes that advance together have equally many values; these have {counts}"
        problems.append(Problem(pointer=f"{pointer}/zip", code="zip_lengths", detail=detail))
    return problems


def _length_problem(axis: Axis) -> tuple[str, str] | None:
    if axis.values is not None and not axis.values:
        return "empty_axis", "values is empty: an axis has at least one value"
    part = axis.range or axis.powers_of_two
    if axis.range is not None and axis.range.step == 0:
        return "empty_axis", "step is 0: the range has no end"
    if isinstance(part, Range | PowersOfTwo):
        span = part.stop - part.start
        step = part.step if isinstance(part, Range) else 1.0
        if span / step < 0:
            return "empty_axis", f"from {part.start:g} to {part.stop:g} there is no value"
    if any(
        not math.isfinite(number)
        for form in (axis.range, axis.logspace, axis.powers_of_two)
        if form is not None
        for number in msgspec.structs.astuple(form)
    ):
        return "not_finite", "an axis has finite numbers only"
    return None
