"""Cells that are not there: counted, and said where they are many."""

from typing import Final

import numpy as np

from service.calibration.findings import Remark
from service.calibration.timings import FloatArray, IntArray

MANY: Final = 0.05
_MOST_OF_RANKS: Final = 0.5


def missing_remarks(cells: FloatArray, steps: IntArray) -> list[Remark]:
    """A remark where more than a few of the cells, (steps, ranks), are missing."""
    missing = ~np.isfinite(cells)
    num_missing = int(missing.sum())
    if num_missing <= MANY * cells.size:
        return []
    detail = (
        f"{num_missing} of {cells.size} cells are missing: what is fitted holds if that does not "
        "depend on how long they take"
    )
    few = missing.mean(axis=1) > _MOST_OF_RANKS
    if few.any():
        detail += (
            f"; in {int(few.sum())} of {len(steps)} steps fewer than half of the ranks were timed, "
            f"such as step {steps[np.argmax(few)]}: make sure that all are of one run"
        )
    return [Remark(code="cells_missing", detail=detail)]
