"""Whether a column of durations can be durations, row by row, and what they are in ms."""

from typing import Final

import numpy as np

from service.calibration.refusals import RefusalCode
from service.calibration.timings import BoolArray, FloatArray

# Of no duration in any unit: what programs write for "no value". 2**63-1 and DCGM's blank,
# 9223372036854775794, are among them.
_SENTINEL: Final = 1e15
# Loading may be hidden and a rank alone does not communicate; nobody computes in no time.
_MAY_BE_ZERO: Final = frozenset({"load", "communication"})


class BadRowError(ValueError):
    """A row, counted from 0 in its file, that cannot be used; its reader says on which line."""

    def __init__(self, row: int, code: RefusalCode, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.code: RefusalCode = code
        self.reason = reason


def check_durations(
    values: FloatArray, blank: BoolArray | None, *, name: str, phase: str, first_row: int
) -> None:
    """Refuse what is no duration: NaN, infinite, negative, no time at all, a sentinel.

    `values` (rows,) as they stand in the file, `blank` where it has none. Only a phase beside
    compute may have none. Raises BadRowError with the first one.
    """
    may_be_zero = phase in _MAY_BE_ZERO
    good = (values < _SENTINEL) & ((values >= 0) if may_be_zero else (values > 0))
    if blank is not None and phase != "compute":
        good |= blank
    if good.all():
        return
    place = int(np.argmin(good))
    is_blank = blank is not None and bool(blank[place])
    code, reason = _fault(float(values[place]), is_blank=is_blank, name=name)
    raise BadRowError(first_row + place, code, reason)


def _fault(value: float, *, is_blank: bool, name: str) -> tuple[RefusalCode, str]:
    if is_blank:
        return "bad_value", f"{name} has no value; leave the row out if the rank was not timed"
    if np.isnan(value):
        return "bad_value", f"{name} is NaN, which is no duration"
    if value == -1 or value >= _SENTINEL:
        return "sentinel_value", (
            f"{name} is {value:g}, which programs write for no value; leave the row out"
        )
    if value < 0:
        return "bad_value", f"{name} is {value:g}, but a duration is not negative"
    return "bad_value", f"{name} is 0, but nobody computes, or makes a step, in no time"


def to_ms(values: FloatArray, unit: str) -> FloatArray:
    """The values in ms."""
    if unit == "s":
        return values * 1e3
    # Divided by, not multiplied with a thousandth, which is no binary number.
    return values / 1e3 if unit == "us" else values
