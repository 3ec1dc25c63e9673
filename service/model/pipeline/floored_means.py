"""Steps that take at least so long: their mean, from the mean without that and the noise."""

import numpy as np

from service.model.laws.law import Floats


class FlooredMeans:
    """Of steps with the same noise about their means in all clusters."""

    def __init__(self, floor: float, step: Floats) -> None:
        """`step` (rounds, draws) of each draw several, without the floor."""
        self._floor = floor
        # About their own average they vary less than about the mean.
        widening = (len(step) / (len(step) - 1)) ** 0.5
        self._noise = np.sort(((step - step.mean(axis=0)) * widening).ravel())
        self._sums_from = np.append(np.cumsum(self._noise[::-1])[::-1], 0.0)

    def of(self, mean: Floats) -> Floats:
        """E[max(mean + noise, floor)]; `mean` of any shape."""
        if np.isneginf(self._floor):
            return mean
        size = len(self._noise)
        first = np.searchsorted(self._noise, self._floor - mean)
        found: Floats = (
            first * self._floor + (size - first) * mean + self._sums_from[first]
        ) / size
        return found
