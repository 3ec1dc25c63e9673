"""Sources of variability that are next to nothing beside others, left out.

Of a factor that varies by less than a millionth, differences of probabilities are round-off; what
it does to a step is less than any result is told to. Where it is all there is it is left in.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.source import Source

_NOTHING = 1e-6
_FACTORS = ("persistent", "node", "transient", "replica")
_RANDOM = (*_FACTORS, "common", "spikes", "episodes")


def without_trifles(fleet: Fleet) -> Iterator[tuple[NDArray[np.intp], Fleet]]:
    """Rows of the points from which the same sources are left out, and these points."""
    yield from _without(fleet, _trifling(fleet))


def without_trifling_episodes(fleet: Fleet) -> Iterator[tuple[NDArray[np.intp], Fleet]]:
    """The same, of episodes alone: they take the longest by far."""
    trifling = _trifling(fleet)
    yield from _without(fleet, {name: trifling[name] for name in trifling if name == "episodes"})


def _trifling(fleet: Fleet) -> dict[str, NDArray[np.bool_]]:
    """(points,) whether a source is a trifle, of those that the fleet has."""
    trifling = {
        name: cv_of(source) < _NOTHING
        for name in _FACTORS
        if (source := getattr(fleet, name)) is not None
    }
    if fleet.spikes is not None:
        trifling["spikes"] = fleet.spikes.slowdown - 1 < _NOTHING
    if fleet.episodes is not None:
        trifling["episodes"] = fleet.episodes.severity - 1 < _NOTHING
    if fleet.spikes is not None and fleet.replica is not None:
        # Spikes as the only own factor in a group's step are not covered.
        trifling.pop("transient", None)
    is_alone = sum(getattr(fleet, name) is not None for name in _RANDOM) == 1
    beside = (fleet.num_removed > 0) | (not is_alone)
    return {name: is_trifle & beside for name, is_trifle in trifling.items()}


def _without(
    fleet: Fleet, trifling: dict[str, NDArray[np.bool_]]
) -> Iterator[tuple[NDArray[np.intp], Fleet]]:
    code = np.zeros(fleet.num_points, dtype=np.int64)
    for bit, is_trifle in enumerate(trifling.values()):
        code |= is_trifle.astype(np.int64) << bit
    for value in np.unique(code).tolist():
        rows = np.flatnonzero(code == value)
        gone: dict[str, Any] = {name: None for bit, name in enumerate(trifling) if value >> bit & 1}
        yield rows, replace(fleet.part(rows), **gone)


def cv_of(source: Source) -> Floats:
    """(points,) the coefficient of variation."""
    if isinstance(source.law, Table):
        return np.full(source.shape.shape[1], source.law.cv)
    known: Floats = source.shape[0]
    return known
