"""Times that no cluster has beside the others: another unit, or a number that means "no value".

A rank that takes fifty times as long as the others is timed in another unit, or not at all. One
step may well take that long on all ranks (compilation): `steps_apart.py` leaves it out. So many
that it would not may not, and neither may several by a factor of a thousand.
"""

import math

import numpy as np

from service.calibration.observed import Observed, median_of
from service.calibration.refusals import refused
from service.calibration.steps_apart import MAX_LATER_SHARE, MAX_SHARE
from service.calibration.timings import BoolArray, FloatArray

MAX_RATIO = 50.0
MAX_CELL_RATIO = 500.0
"""Of a single cell: a rank may hang for some steps' time, but not for hundreds."""

MAX_SAME_RATIO = 10.0
MIN_SAME = 3

UNIT = 1000.0
UNIT_WIDTH = 0.1
"""Medians of what was timed in another unit differ by 1000 and by what ranks and steps vary by."""

MAX_NAMED = 8


def check_magnitudes(observed: Observed) -> None:
    """Raises TimingsRefusedError, which names ranks, steps or the cell and the factor."""
    cells = observed.compute_ms
    of_ranks = median_of(cells, axis=0)
    odd, ratio = _odd_ones(of_ranks)
    if odd.any():
        raise refused(
            "implausible_units",
            f"{_named('rank', observed.ranks[odd])} took {ratio:.4g} times as long as the others "
            f"(median {np.median(of_ranks[odd]):.6g} ms against "
            f"{np.median(of_ranks[~odd]):.6g} ms); {_rule(ratio)}",
        )
    of_steps = _lower_median(cells / of_ranks)
    odd, ratio = _odd_ones(of_steps)
    count, later = int(odd.sum()), int((odd & ~np.logical_and.accumulate(odd)).sum())
    many = count > MAX_SHARE * len(odd) or later > MAX_LATER_SHARE * len(odd)
    if many or (count > 1 and _is_unit(ratio)):
        raise refused(
            "implausible_units",
            f"{_named('step', observed.steps[odd])} took {ratio:.4g} times as long as the others "
            f"on all ranks; {_rule(ratio)}",
        )
    _check_cells(observed, cells / of_ranks / of_steps[:, np.newaxis])


def _check_cells(observed: Observed, relative: FloatArray) -> None:
    known = np.isfinite(relative)
    _check_same(observed, known & (relative > MAX_SAME_RATIO))
    far = known & ((relative > MAX_CELL_RATIO) | (relative < 1 / MAX_CELL_RATIO))
    count = int(far.sum())
    if count == 0:
        return
    row, column = np.argwhere(far)[0].tolist()
    raise refused(
        "sentinel_value",
        f"{count} of {int(known.sum())} compute times are over {MAX_CELL_RATIO:g} times what their "
        f"rank and step take, or under 1/{MAX_CELL_RATIO:g}, such as "
        f"{observed.compute_ms[row, column]:.6g} ms of rank {observed.ranks[column]} at step "
        f"{observed.steps[row]} ({relative[row, column]:.4g} times): another unit, or a number "
        'that means "no value"; leave out the row of a rank that was not timed',
    )


def _check_same(observed: Observed, slow: BoolArray) -> None:
    """Times are measured: that several slow ones are equal to the last digit is no chance."""
    values, counts = np.unique(observed.compute_ms[slow], return_counts=True)
    if not len(values) or counts.max() < MIN_SAME:
        return
    value = values[counts.argmax()]
    rows, columns = np.nonzero(slow & (observed.compute_ms == value))
    raise refused(
        "sentinel_value",
        f"{len(rows)} compute times are exactly {value:.10g} ms, over {MAX_SAME_RATIO:g} times "
        f"what their rank and step take, such as that of rank {observed.ranks[columns[0]]} at step "
        f'{observed.steps[rows[0]]}: a number that means "no value"; leave out the row of a rank '
        "that was not timed",
    )


def _odd_ones(values: FloatArray) -> tuple[BoolArray, float]:
    """The fewer ones beyond a gap of 50, and their median by that of the others.

    Of equally many, those that took longer.
    """
    order = np.argsort(values, kind="stable")
    logs = np.log(values[order])
    cuts = np.flatnonzero(np.diff(logs) >= np.log(MAX_RATIO)) + 1
    odd = np.zeros(len(values), dtype=np.bool_)
    if not len(cuts):
        return odd, 1.0
    usual = max(np.split(order, cuts), key=len)
    odd[:] = True
    odd[usual] = False
    return odd, float(np.median(values[odd]) / np.median(values[~odd]))


def _lower_median(cells: FloatArray) -> FloatArray:
    """(steps,) of two in the middle the smaller: the mean of two units is neither."""
    ordered = np.sort(cells, axis=1)  # NaN last
    middle = (np.isfinite(cells).sum(axis=1) - 1) // 2
    found: FloatArray = ordered[np.arange(len(cells)), middle]
    return found


def _is_unit(ratio: float) -> bool:
    return abs(abs(math.log(ratio)) - math.log(UNIT)) < UNIT_WIDTH


def _rule(ratio: float) -> str:
    if _is_unit(ratio):
        return "that is the factor of a unit: microseconds or seconds among milliseconds"
    return (
        f"more than {MAX_RATIO:g} times is no slow GPU but another unit, or a number that means "
        '"no value"; leave out what was not timed'
    )


def _named(kind: str, numbers: np.ndarray) -> str:
    listed = ", ".join(str(number) for number in numbers[:MAX_NAMED].tolist())
    if len(numbers) > MAX_NAMED:
        listed += f", … ({len(numbers)} in all)"
    return f"{kind}{'s' if len(numbers) > 1 else ''} {listed}"
