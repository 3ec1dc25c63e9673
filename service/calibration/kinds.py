"""Kinds of ranks (or steps): those between which a wide gap lies."""

import numpy as np

from service.calibration.observed import median_of
from service.calibration.timings import BoolArray, FloatArray, IntArray

MIN_EFFECT = 0.03
"""Ranks within 3 % of each other are of one kind, however equal the others are."""

MIN_GAP = 0.10
"""Kinds are taken apart when 10 % lie between them: nearer ones may be nodes, or luck."""

GAP_TO_WIDTH = 8.0
"""And a gap is at least this many times the standard deviation on its tighter side."""

MIN_RANKS_FOR_MAD = 5
MIN_RANKS_OF_KIND = 3
MIN_SHARE_OF_NOMINAL = 0.25
"""Of the ranks, for a kind that is faster than the largest one to say what a rank can do."""


def kinds_apart(middle: FloatArray, nodes: IntArray | None = None) -> tuple[BoolArray, float]:
    """Ranks of other kinds than the nominal one, and the level of that.

    Needed where the median cannot tell: among fewer than five ranks, and where about half of the
    ranks are of another kind. Nominal is the fastest kind that holds a quarter of the ranks, and at
    least three; of fewer than five ranks, or where none does, the largest (of equal ones the
    fastest). Where kinds are whole `nodes`, (ranks,), they may be the spread between nodes.
    """
    fine = kinds_of(middle)
    kinds = _joined(middle, fine, of_nodes=nodes is not None and are_whole(fine, nodes))
    nominal = max(kinds, key=len)
    if len(middle) >= MIN_RANKS_FOR_MAD:
        enough = max(MIN_RANKS_OF_KIND, MIN_SHARE_OF_NOMINAL * len(middle))
        nominal = next((kind for kind in kinds if len(kind) >= enough), nominal)
    away = np.ones(len(middle), dtype=np.bool_)
    away[nominal] = False
    return away, float(median_of(middle[nominal], axis=0))


def kinds_of(middle: FloatArray) -> list[IntArray]:
    """Positions of the ranks of each kind, the fastest first; those of one kind may be near."""
    order = np.argsort(middle, kind="stable")
    logs = np.log(middle[order])
    gaps = np.diff(logs)
    is_fleet = len(middle) >= MIN_RANKS_FOR_MAD
    cuts: list[int] = []
    for position in np.flatnonzero(gaps >= np.log1p(MIN_EFFECT)).tolist():
        start, gap = cuts[-1] if cuts else 0, gaps[position]
        is_wide = gap >= np.log1p(MIN_GAP)
        # Fewer than a handful of ranks are near each other by luck.
        enough = max(3 if is_wide else 5, len(logs) // 4)
        width = _width(logs[start : position + 1], logs[position + 1 :], enough)
        if (is_wide and not is_fleet) or (is_fleet and gap >= GAP_TO_WIDTH * width):
            cuts.append(position + 1)
    return [np.asarray(kind, dtype=np.int64) for kind in np.split(order, cuts)]


def are_whole(kinds: list[IntArray], nodes: IntArray) -> bool:
    """Whether all ranks of each node are of one kind."""
    all_of_them = np.unique(nodes[np.concatenate(kinds)])
    return sum(len(np.unique(nodes[kind])) for kind in kinds) == len(all_of_them)


def _joined(middle: FloatArray, kinds: list[IntArray], *, of_nodes: bool) -> list[IntArray]:
    """Kinds that are nearer than what takes them apart are one: by their medians, or nodes by gaps.

    Neighbours of the same distance are nearer than the medians, by what the ranks vary by.
    """
    logs = [np.log(middle[kind]) for kind in kinds]
    joined = [kinds[0]]
    for before, after, kind in zip(logs, logs[1:], kinds[1:], strict=False):
        gap = after.min() - before.max() if of_nodes else np.median(after) - np.median(before)
        if gap < np.log1p(MIN_GAP):
            joined[-1] = np.concatenate([joined[-1], kind])
        else:
            joined.append(kind)
    return joined


def _width(left: FloatArray, right: FloatArray, enough: int) -> float:
    """Standard deviation of the tighter side of a gap; of two or three ranks it would be luck."""
    sides = (left, right)
    return min((float(side.std(ddof=1)) for side in sides if len(side) >= enough), default=np.inf)
