"""Whole steps that stand apart: compilation, warm-up, checkpoints, a last batch cut short.

One of them is enough to drown what steps usually vary by, and the product of it with what ranks
differ by the rest as well. They are told by robust deviations and by a gap: the step nearest to
the others is at least twice as far from them as the farthest of the others, which the largest
draws of one law, however long its tail, hardly ever are.
"""

from typing import NamedTuple

import numpy as np

from service.calibration.findings import LeftOut, Remark
from service.calibration.observed import Observed, median_of
from service.calibration.outliers import limit_of
from service.calibration.timings import BoolArray, FloatArray, IntArray

MIN_EFFECT = 1.2
BEYOND_NORMAL = 1.5
"""Robust deviations beyond those that one of so many normal steps passes in 1 % of tables."""

NEXT_SHARE = 0.5
"""How far the farthest usual step may be, of the distance of the nearest one that stands apart."""

MAX_SHARE = 1 / 3
MAX_LATER_SHARE = 0.1
"""What begins a run may be a third of what was recorded. Later ones are time of the job: above a
tenth of the steps they are a kind of step of their own, and stay."""

MANY_SHARE = 0.75
"""So many ranks must show it; a step that is long on fewer of them is left to spikes."""

MAX_NAMED = 12
MIN_PERIODS = 3
REASON = "whole step that stands apart from the others (compilation, warm-up, checkpoint)"


class StepsApart(NamedTuple):
    """Which rows stand apart, and how often as long as the usual each step took, (steps,)."""

    rows: BoolArray
    ratios: FloatArray


def steps_apart(observed: Observed) -> StepsApart:
    """Longer than all others on three quarters of the ranks, or shorter."""
    by_rank = observed.compute_ms / median_of(observed.compute_ms, axis=0)
    ordered = np.sort(by_rank, axis=1)  # NaN last
    last = np.isfinite(by_rank).sum(axis=1) - 1
    low = np.floor((1 - MANY_SHARE) * last).astype(np.int64)
    logs = np.log(ordered[np.arange(len(ordered))[:, np.newaxis], np.stack([low, last - low], 1)])
    rows = _far(logs[:, 0]) | _far(-logs[:, 1])
    middle = np.log(median_of(by_rank, axis=1))
    ratios = np.exp(middle - np.median(middle))
    first = np.logical_and.accumulate(rows)
    later = rows & ~first
    if later.sum() > MAX_LATER_SHARE * len(rows):
        # A first step that is like later ones of its kind is one of them.
        rows = first & (ratios > MIN_EFFECT * ratios[later].max())
    return StepsApart(rows, ratios)


def _far(logs: FloatArray) -> BoolArray:
    """(steps,) those above, beyond the last gap that counts."""
    away = logs - np.median(logs)
    spread = 1.4826 * float(np.median(np.abs(away)))
    limit = max(float(np.log(MIN_EFFECT)), (limit_of(len(away)) + BEYOND_NORMAL) * spread)
    order = np.argsort(-away, kind="stable")
    ordered, most = away[order], int(MAX_SHARE * len(away))
    beyond, following = ordered[:most], ordered[1 : most + 1]
    cuts = np.flatnonzero((beyond > limit) & (following <= NEXT_SHARE * beyond))
    far = np.zeros(len(away), dtype=np.bool_)
    if len(cuts):
        far[order[: cuts[-1] + 1]] = True
    return far


def left_out_of(steps: IntArray, apart: StepsApart) -> tuple[LeftOut, Remark]:
    """What is reported of rows that stand apart, of steps (steps,)."""
    numbers = steps[apart.rows]
    ratios = apart.ratios[apart.rows]
    times, total = f"{ratios.min():.3g}", apart.ratios.sum()
    if len(numbers) > 1:
        times += f" to {ratios.max():.3g}"
    return LeftOut(reason=REASON, count=len(numbers)), Remark(
        code="steps_apart",
        detail=f"{_which(apart.rows, numbers)} took {times} times as long as the usual step on all "
        f"ranks alike: left out of everything that was fitted, {ratios.sum() / total:.1%} of the "
        "time that was recorded. Neither the proposal nor the mean step has them; what belongs to "
        "the job, such as checkpoints, is said by hand",
    )


def _which(rows: BoolArray, numbers: IntArray) -> str:
    """Named, and told whether they are the first ones or come at equal distances."""
    count = len(numbers)
    listed = ", ".join(str(number) for number in numbers[:MAX_NAMED])
    if count > MAX_NAMED:
        listed += ", …"
    named = f"{count} steps ({listed})" if count > 1 else f"step {listed}"
    distances = np.unique(np.diff(numbers))
    if bool(rows[:count].all()):
        # Those that end a warm-up are the first; all the others are usual.
        return f"{named}, the first of the run (compilation, warm-up),"
    if count >= MIN_PERIODS and len(distances) == 1 and distances[0] > 1:
        return f"{named}, periodic: every {distances[0]} steps (a checkpoint, an evaluation),"
    return named
