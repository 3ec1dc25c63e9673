"""Data that are loaded while the step before runs."""

import numpy as np

from service.model.laws.law import Floats


class HiddenLoads:
    """A step's data begin to load when the rank begins the step before."""

    def __init__(self, load: Floats, begun: Floats) -> None:
        self._load = load
        self._begun = begun

    def hold(self, ranks: slice, begin: Floats) -> None:
        """Put off the begins (ranks, points, replications), in place, until the data are there."""
        begun = self._begun[ranks]
        begun += self._load
        np.maximum(begin, begun, out=begin)
        begun[:] = begin


def hidden_loads(load: Floats | None, like: Floats) -> HiddenLoads | None:
    """Of (points,) loads; `like` (ranks, points, replications). None where nothing is hidden."""
    if load is None or not load.any():
        return None
    # The first step finds its data there.
    return HiddenLoads(load[:, np.newaxis], np.full_like(like, -np.inf))
