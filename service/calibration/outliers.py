"""Ranks that stand apart: first of all, and by medians, since a mean would follow them.

The median over steps of a rank's compute by its stage's median in the step, against the other
ranks of the stage: their median, and their median absolute deviation times 1.4826 as a standard
deviation. Of few ranks that deviation is itself a matter of luck, so the limit is higher: it is the
99 % point of the largest of so many normal ranks (simulated, 20 000 to 60 000 tables each).
"""

from typing import Literal, NamedTuple

import numpy as np

from service.calibration.changes import Change, changes_of
from service.calibration.intermittent import intermittent_of
from service.calibration.kinds import MIN_EFFECT, MIN_GAP, MIN_RANKS_FOR_MAD, kinds_apart
from service.calibration.observed import Observed, median_of, relative_to_stage, stage_groups
from service.calibration.timings import BoolArray, FloatArray

_LIMIT_RANKS = np.log([5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256, 1024, 4096])
_LIMITS = np.array([18.7, 11.0, 8.4, 6.9, 6.4, 5.6, 5.0, 4.75, 4.4, 4.3, 4.35, 4.5, 4.7])

Kind = Literal["slow", "fast", "changed"]


class Apart(NamedTuple):
    """A rank that stands apart, at its position; `change` says where in time, if only in part."""

    position: int
    kind: Kind
    ratio: float
    deviations: float
    change: Change | None


def limit_of(num_ranks: int) -> float:
    """Robust standard deviations that one of so many normal ranks passes in 1 % of tables."""
    return float(np.interp(np.log(num_ranks), _LIMIT_RANKS, _LIMITS))


def apart_of(observed: Observed) -> list[Apart]:
    """Ranks that stand apart from those of their stage, in the order of ranks.

    Stages are levelled one by one; how far ranks are apart is taken over all stages together, since
    that of few ranks is luck.
    """
    relative = relative_to_stage(observed.compute_ms, observed.stages)
    away = np.zeros(len(observed.ranks), dtype=np.bool_)
    changes: dict[int, Change] = {}
    for ranks in stage_groups(observed.stages, len(observed.ranks)):
        if len(ranks) == 1:
            continue
        part = relative[:, ranks]
        nodes = None if observed.nodes is None else observed.nodes[ranks]
        away[ranks], level = kinds_apart(median_of(part, axis=0), nodes)
        relative[:, ranks] = part / level
        changes |= {int(ranks[found.position]): found for found in changes_of(part / level)}
    middle = median_of(relative, axis=0)
    num_stages = 1 if observed.stages is None else len(np.unique(observed.stages))
    deviations, limit = _deviations(middle, ~away, num_stages)
    by_turns = {
        found.position: found for found in intermittent_of(relative, ~away & (deviations <= limit))
    }
    found = []
    for position in range(len(middle)):
        ratio, apart = float(middle[position]), float(deviations[position])
        change = changes.get(position)
        if change is not None and not _slow_throughout(change, relative[:, position]):
            found.append(Apart(position, "changed", change.ratio, change.deviations, change))
        elif away[position] or apart > limit:
            found.append(Apart(position, "slow" if ratio > 1 else "fast", ratio, apart, None))
        elif position in by_turns:
            change = by_turns[position]
            found.append(Apart(position, "changed", change.ratio, change.deviations, change))
    return found


def _slow_throughout(change: Change, series: FloatArray) -> bool:
    """Whether the steps outside of the change are as far from the others as what is named slow."""
    outside = np.concatenate([series[: change.first], series[change.last + 1 :]])
    known = outside[np.isfinite(outside)]
    return bool(len(known) and abs(float(np.median(known)) - 1) > 2 * MIN_EFFECT)


def _deviations(middle: FloatArray, alike: BoolArray, num_stages: int) -> tuple[FloatArray, float]:
    """Robust standard deviations from 1, and how many of them set a rank apart.

    The smallest deviation that is taken puts the limit at the minimum effect. Of fewer than five
    ranks none has a spread of its own: only a gap sets one apart.
    """
    num_alike = int(alike.sum())
    limit = limit_of(max(num_alike, MIN_RANKS_FOR_MAD))
    if num_stages > 1:
        # Each stage's own median takes some of the spread, and adds its error (simulated).
        limit *= 1 + 1.6 * num_stages / max(num_alike, 1)
    if num_alike < MIN_RANKS_FOR_MAD:
        return np.abs(middle - 1) * limit / MIN_GAP, np.inf
    spread = 1.4826 * float(median_of(np.abs(middle[alike] - 1), axis=0))
    return np.abs(middle - 1) / max(MIN_EFFECT / limit, spread), limit
