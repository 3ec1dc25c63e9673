"""Bounded staleness, step by step: F_i(k) = max(F_i(k-1), max_j F_j(k-1-s) + d) + X_i(k)."""

import numpy as np

from service.model.laws.law import Floats
from service.model.recursion.hidden_loads import hidden_loads
from service.model.recursion.highest import highest
from service.model.recursion.pattern import Staleness


class StaleSteps:
    """State: F of the last step, (ranks, points, replications), and its last s + 1 maxima."""

    def __init__(self, pattern: Staleness, num_ranks: int, replications: int) -> None:
        points = len(pattern.load_ratio)
        self._finished = np.zeros((num_ranks, points, replications))
        self._staleness = pattern.staleness
        self._delay = pattern.delay_ratio[:, np.newaxis]
        self._points = np.arange(points)
        self._maxima = np.zeros((int(pattern.staleness.max()) + 1, points, replications))
        self._gate = np.zeros((points, replications))
        self._loads = hidden_loads(pattern.hidden_ratio, self._finished)
        self._step = 0
        self._alike = bool((pattern.staleness == pattern.staleness[0]).all())
        self.front = np.zeros((points, replications))
        """When the last rank has ended the last step."""

    def start(self) -> None:
        """Turn to the next step, 1 first."""
        self._step += 1
        # What was done before the first step was done at 0.
        if self._alike:
            gate = self._maxima[self._step % len(self._maxima)]
        else:
            place = (self._step - 1 - self._staleness) % len(self._maxima)
            gate = self._maxima[place, self._points]
        self._gate = gate + self._delay
        self._is_first = True

    def go(self, ranks: slice, compute: Floats, load: Floats | None) -> None:
        """These ranks take their step of load + compute; compute (ranks, points, replications)."""
        finished = self._finished[ranks]
        np.maximum(finished, self._gate, out=finished)
        if self._loads is not None:
            self._loads.hold(ranks, finished)
        finished += compute
        if load is not None:
            finished += load
        front = highest(finished)
        self.front = front if self._is_first else np.maximum(self.front, front)
        self._is_first = False

    def end(self) -> None:
        """All ranks have taken it."""
        self._maxima[self._step % len(self._maxima)] = self.front
