"""Axes of a grid: how they are written, and the values that they stand for.

Design page "Decisions", 7: C order as listed, stops inclusive; on whole-number fields values are
rounded half-even and duplicates removed with a warning.
"""

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


Form = list[Any] | Range | Logspace | PowersOfTwo


class PlainAxis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A path and one way to give its values."""

    path: Annotated[str, Meta(min_length=1, max_length=100)] | None = None
    values: list[Any] | None = None
    range: Range | None = None
    logspace: Logspace | None = None
    powers_of_two: PowersOfTwo | None = None


class Axis(PlainAxis, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One axis; or a group of plain axes that advance together."""

    zip: Annotated[list[PlainAxis], Meta(min_length=1, max_length=MAX_AXES)] | None = None


def decode_axes(value: object) -> tuple[Axis, ...]:
    """Decode the axes strictly; raises InvalidScenario with pointers that begin with `/axes`."""
    problems: list[Problem] = []
    try:
        axes = msgspec.convert(value, tuple[Axis, ...], strict=True)
    except msgspec.ValidationError:
        raise InvalidScenario(problems_of(value, tuple[Axis, ...], pointer="/axes")) from None
    if len(axes) > MAX_AXES:
        detail = f"{len(axes)} axes, but {MAX_AXES} is the limit"
        problems.append(Problem(pointer="/axes", code="too_many_axes", detail=detail))
    for position, axis in enumerate(axes):
        problems.extend(_shape_problems(axis, f"/axes/{position}"))
    if problems:
        raise InvalidScenario(problems)
    return axes


def given_form(axis: PlainAxis) -> str:
    """The name of the field that gives the axis its values."""
    return next(form for form in FORMS if getattr(axis, form) is not None)


def axis_length(axis: PlainAxis) -> int:
    """How many values the axis stands for, before duplicates are removed."""
    form = getattr(axis, given_form(axis))
    if isinstance(form, Range):
        # The tolerance keeps a stop that is reached but for round-off.
        steps = (form.stop - form.start) / form.step * (1 + 1e-12) + 1e-9
        return math.floor(min(steps, MAX_LENGTH)) + 1
    if isinstance(form, Logspace):
        return form.num
    if isinstance(form, PowersOfTwo):
        return math.floor(math.log2(form.stop) - math.log2(form.start) + 1e-9) + 1
    return len(form)


def axis_numbers(axis: PlainAxis) -> NDArray[np.float64]:
    """The numbers of the axis (values,); listed ones must be numbers."""
    form = getattr(axis, given_form(axis))
    if isinstance(form, Range):
        numbers = form.start + form.step * np.arange(axis_length(axis))
        # The last step may pass the stop by round-off, and with it the bound of a field.
        return numbers.clip(min(form.start, form.stop), max(form.start, form.stop))
    if isinstance(form, Logspace):
        return np.geomspace(form.start, form.stop, form.num)
    if isinstance(form, PowersOfTwo):
        return np.ldexp(form.start, np.arange(axis_length(axis)))
    return np.array(form, dtype=np.float64)


def whole_numbers(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rounded half-even (values,)."""
    return np.rint(numbers).astype(np.int64)


def without_repeats(numbers: NDArray[Any]) -> NDArray[Any]:
    """The numbers without those met before, in the order they are first met."""
    _, first = np.unique(numbers, return_index=True)
    return numbers if len(first) == len(numbers) else numbers[np.sort(first)]


def _shape_problems(axis: PlainAxis, pointer: str) -> list[Problem]:
    if isinstance(axis, Axis) and axis.zip is not None:
        return _zip_problems(axis, axis.zip, pointer)
    given = [form for form in FORMS if getattr(axis, form) is not None]
    problems = []
    if axis.path is None:
        problems.append(
            Problem(pointer=f"{pointer}/path", code="missing_field", detail="path is missing")
        )
    if len(given) != 1:
        said = " and ".join(given) or "none"
        detail = f"an axis has exactly one of {', '.join(FORMS)}; this one has {said}"
        problems.append(Problem(pointer=pointer, code="one_form", detail=detail))
    elif problem := _form_problem(getattr(axis, given[0])):
        problems.append(
            Problem(pointer=f"{pointer}/{given[0]}", code=problem[0], detail=problem[1])
        )
    return problems


def _zip_problems(axis: Axis, parts: Sequence[PlainAxis], pointer: str) -> list[Problem]:
    if any(getattr(axis, name) is not None for name in ("path", *FORMS)):
        detail = "a zip stands alone in its axis, the paths are inside it"
        return [Problem(pointer=f"{pointer}/zip", code="zip_shape", detail=detail)]
    problems = [
        problem
        for position, part in enumerate(parts)
        for problem in _shape_problems(part, f"{pointer}/zip/{position}")
    ]
    if not problems and len({axis_length(part) for part in parts}) > 1:
        counts = ", ".join(str(axis_length(part)) for part in parts)
        detail = f"axes that advance together have equally many values; these have {counts}"
        problems.append(Problem(pointer=f"{pointer}/zip", code="zip_lengths", detail=detail))
    return problems


def _form_problem(form: Form) -> tuple[str, str] | None:
    if isinstance(form, list):
        return None if form else ("empty_axis", "values is empty: an axis has at least one value")
    if not all(math.isfinite(number) for number in msgspec.structs.astuple(form)):
        return "not_finite", "an axis has finite numbers only"
    if isinstance(form, Range):
        if form.step == 0:
            return "empty_axis", "step is 0: the range has no end"
        ahead = form.stop >= form.start if form.step > 0 else form.stop <= form.start
    else:
        # Logarithmic spacing goes either way.
        ahead = isinstance(form, Logspace) or form.stop >= form.start
    if ahead:
        return None
    return "empty_axis", f"from {form.start:g} to {form.stop:g} there is no value"
