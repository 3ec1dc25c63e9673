"""The inputs that results are filtered, sorted, exported and published by, named by their paths.

A batch stores the leaves that its axes set or in which it differs from a scenario that leaves them
out; every other leaf has one value in all of its points, its default, or none.
"""

import math
from collections.abc import Iterable

from service.model.inputs import ALWAYS, is_stored
from service.model.leaves import Leaf, leaves
from service.model.paths import group_of, leaf_of

# Documents that have no kind, and a leaf that each of them always has.
_PRESENT = {
    "variability.spikes": "variability.spikes.probability",
    "variability.episodes": "variability.episodes.severity",
    "failures": "failures.detection_s",
}


def is_stored_input(name: str) -> bool:
    """Whether a batch may store an input column of this name."""
    leaf = leaf_of(name) if group_of(name) is not None else _INPUTS.get(name)
    return leaf is not None and leaf.in_list == (group_of(name) is not None)


def column_of(path: str, *, is_null: bool = False) -> str:
    """The column that tells a path apart: of a document its kind; else the path itself.

    Whether a document without a kind is there (`is_null`) is told by a leaf that it always has.
    """
    if f"{path}.kind" in _INPUTS:
        return f"{path}.kind"
    return _PRESENT.get(path, path) if is_null else path


def defaults_beside(stored: Iterable[str]) -> dict[str, float]:
    """What all points have in the leaves that are not stored and have a default, as if stored.

    Whole numbers and codes of labels are floats here.
    """
    known = set(stored)
    return {path: value for path, value in _DEFAULTS.items() if path not in known}


def _default(leaf: Leaf) -> float:
    """The default as a stored column has it: of labels their code from 0; NaN where there is none.

    A word in the place of a number is none.
    """
    if leaf.labels:
        return float(leaf.absent - 1) if leaf.absent > 0 else math.nan
    return math.nan if leaf.words or leaf.absent is None else float(leaf.absent)


_INPUTS = {path: leaf for path, leaf in leaves().items() if is_stored(leaf)}
_DEFAULTS = {
    path: value
    for path, leaf in _INPUTS.items()
    if path not in ALWAYS and not math.isnan(value := _default(leaf))
}
