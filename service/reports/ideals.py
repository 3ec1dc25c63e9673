"""What of a changed loss comes from the clock, and what from the yardstick.

The loss is measured against the ideal step. With I the ideal step, X the mean step's excess over
it and A the GPU-hours available, `gpu_hours_lost = A X / (I + X)`. A shorter ideal with the same
excess therefore loses more, although nobody waits longer. The parts are counterfactuals, one
after the other: first A changes, then X, then I; they sum to the difference. [own]
"""

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.reports.changes import differences, nullable

Floats = NDArray[np.float64]

LOST, AVAILABLE, IDEAL, NOT_USEFUL = (
    "gpu_hours_lost",
    "gpu_hours_available",
    "ideal_step_ms",
    "gpu_hours_not_useful",
)


class LostSplit(Struct, frozen=True, kw_only=True):
    """The difference of `gpu_hours_lost`, split; beside it that of `gpu_hours_not_useful`.

    The latter does not depend on the ideal step, and so says whether waste really moved.
    """

    gpu_hours_available: float | None
    gpu_hours_excess: float | None
    gpu_hours_ideal: float | None
    gpu_hours_not_useful: float | None


def ideal_changed(past_ideal_ms: Floats, new_ideal_ms: Floats) -> NDArray[np.bool_]:
    """(rows,) whether the ideal step moved; not where either is unknown."""
    moved = differences(past_ideal_ms, new_ideal_ms)
    changed: NDArray[np.bool_] = np.nan_to_num(moved, nan=0.0) != 0
    return changed


def lost_splits(past: dict[str, Floats], new: dict[str, Floats]) -> Floats:
    """(4, rows): the parts in the order of LostSplit's fields, NaN where they are unknown.

    `past` and `new` hold (rows,) columns LOST, AVAILABLE, IDEAL and NOT_USEFUL.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        past_fraction = past[LOST] / past[AVAILABLE]
        new_fraction = new[LOST] / new[AVAILABLE]
        # the excess that the new fraction stands for: X = I f / (1 - f)
        new_excess_ms = new[IDEAL] * new_fraction / (1 - new_fraction)
        between = new_excess_ms / (past[IDEAL] + new_excess_ms)
        parts = np.stack(
            [
                (new[AVAILABLE] - past[AVAILABLE]) * past_fraction,
                new[AVAILABLE] * (between - past_fraction),
                new[AVAILABLE] * (new_fraction - between),
                differences(past[NOT_USEFUL], new[NOT_USEFUL]),
            ]
        )
    return np.where(np.isfinite(parts), parts, np.nan)


def lost_split(parts: Floats) -> LostSplit:
    """One document from (4, rows) parts: their sums over the rows."""
    available, excess, ideal, not_useful = (nullable(math.fsum(row)) for row in parts.tolist())
    return LostSplit(
        gpu_hours_available=available,
        gpu_hours_excess=excess,
        gpu_hours_ideal=ideal,
        gpu_hours_not_useful=not_useful,
    )
