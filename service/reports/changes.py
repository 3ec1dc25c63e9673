"""Past, new, difference, relative: how two numbers of the same thing are set side by side."""

import math
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The same point computed by another path agrees within 1e-9; below this a change is none
# (design page "Decisions", 4).
NO_CHANGE_FRACTION = 1e-8


class Change(Struct, frozen=True, kw_only=True):
    """One number on both sides. `relative` is a fraction of the past's size; null where it is 0."""

    past: float | None
    new: float | None
    difference: float | None
    relative: float | None


def differences(past: Floats, new: Floats) -> Floats:
    """Candidate less baseline (any shape); exactly 0 where under 1e-8 of the larger of the two.

    NaN where either is, or where the difference is beyond float64.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        change = new - past
        largest = np.maximum(np.abs(past), np.abs(new))
        change = np.where(np.abs(change) < NO_CHANGE_FRACTION * largest, 0.0, change)
    return np.where(np.isfinite(change), change, np.nan)


def relatives(past: Floats, difference: Floats) -> Floats:
    """The difference over |past|: the sign says up or down also where the past is a gain (below 0).

    NaN where the past is 0 (any shape).
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        relative = difference / np.abs(past)
    return np.where(np.isfinite(relative), relative, np.nan)


def change(past: float, new: float) -> Change:
    """One pair of numbers, by the same rules; NaN in, null out."""
    # Without arrays, which take ten times as long for one number: totals ask for hundreds.
    difference = new - past
    if abs(difference) < NO_CHANGE_FRACTION * max(abs(past), abs(new)):
        difference = 0.0
    relative = difference / abs(past) if past else math.nan
    return Change(
        past=nullable(past),
        new=nullable(new),
        difference=difference if math.isfinite(difference) else None,
        relative=relative if math.isfinite(relative) and math.isfinite(difference) else None,
    )


def is_moved(past: float, new: float) -> bool:
    """Whether `change` calls the difference more than none; NaN is never moved."""
    return abs(new - past) >= NO_CHANGE_FRACTION * max(abs(past), abs(new)) and past != new


def change_of_sums(past: Iterable[float], new: Iterable[float]) -> Change:
    """The change of two sums, each correctly rounded, so that the order of rows does not matter."""
    return change(math.fsum(past), math.fsum(new))


def nullable(number: float) -> float | None:
    """The number, or None for NaN: what JSON can say."""
    return None if math.isnan(number) else number
