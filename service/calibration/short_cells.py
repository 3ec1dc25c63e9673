"""Single cells far below all others: a number cut short, or a step that was not computed.

Nobody computes three times as fast for one step. Such a cell is left out; there are spikes above
only, which a job waits for.
"""

import math

import numpy as np
from msgspec.structs import replace

from service.calibration.checks import Checked
from service.calibration.findings import LeftOut, Remark
from service.calibration.observed import Observed, median_of
from service.calibration.spikes import BEYOND_NORMAL, MAX_SHARE, largest_usual
from service.calibration.timings import BoolArray, Timings

MIN_RATIO = 3.0
MAX_NAMED = 5


def short_cells(observed: Observed) -> BoolArray:
    """(steps, ranks) under a third of what the rank and the step take, and beyond any tail."""
    by_rank = observed.compute_ms / median_of(observed.compute_ms, axis=0)
    logs = -np.log(by_rank / median_of(by_rank, axis=1)[:, np.newaxis])
    known = np.isfinite(logs)
    spread = 1.4826 * float(np.median(np.abs(logs[known])))
    limit = max(math.log(MIN_RATIO), largest_usual(logs[known]) + BEYOND_NORMAL * spread)
    below: BoolArray = known & (logs > limit)
    if below.sum() > max(MAX_SHARE * known.sum(), 1):
        # No rarity: something else is wrong, or ranks are of several kinds.
        below[:] = False
    return below


def without_short_cells(timings: Timings, usable: Checked) -> tuple[Timings, Checked]:
    """Missing cells in their place; the same timings where there are none."""
    below = short_cells(usable.observed)
    if not below.any():
        return timings, usable
    one, remark = _left_out(usable.observed, below)
    kept = np.where(below, np.nan, usable.observed.compute_ms)
    cells = timings.compute_ms.copy()
    cells[np.ix_(usable.kept_steps, usable.kept_ranks)] = kept
    return replace(timings, compute_ms=cells), usable._replace(
        observed=replace(usable.observed, compute_ms=kept),
        left_out=[*usable.left_out, one],
        warnings=[*usable.warnings, remark],
    )


def _left_out(observed: Observed, below: BoolArray) -> tuple[LeftOut, Remark]:
    """What is reported of them."""
    rows, columns = np.nonzero(below)
    named = "; ".join(
        f"{observed.compute_ms[row, column]:.6g} ms of rank {observed.ranks[column]} at step "
        f"{observed.steps[row]}"
        for row, column in zip(rows[:MAX_NAMED], columns[:MAX_NAMED], strict=True)
    )
    if len(rows) > MAX_NAMED:
        named += "; …"
    return LeftOut(
        reason=f"cell under 1/{MIN_RATIO:g} of what its rank and step take", count=len(rows)
    ), Remark(
        code="short_cells",
        detail=f"{len(rows)} compute times are under 1/{MIN_RATIO:g} of what their rank and step "
        f"take ({named}): a number that was cut short, or no compute; left out",
    )
