"""Rounds of free steps with exchanges in between, step by step; definitions in pattern.py."""

import numpy as np

from service.model.laws.law import Floats
from service.model.recursion.hidden_loads import hidden_loads
from service.model.recursion.highest import highest
from service.model.recursion.pattern import Rounds


class RoundSteps:
    """State: F of the last step, (ranks, points, replications); the end of the last exchange."""

    def __init__(self, pattern: Rounds, num_ranks: int, replications: int) -> None:
        points = len(pattern.load_ratio)
        self._finished = np.zeros((num_ranks, points, replications))
        self._interval = pattern.steps // pattern.fragments
        self._overlap = pattern.overlap_steps
        self._shares, self._costs, self._lag = _buckets(pattern)
        self._exchanged = np.zeros((points, replications))
        self._loads = hidden_loads(pattern.hidden_ratio, self._finished)
        self._step = 0
        self.front = np.zeros((points, replications))
        """When the last rank has ended the last step."""

    def start(self) -> None:
        """Turn to the next step, 1 first."""
        self._step += 1
        waits = (self._step - 1 - self._overlap) % self._interval == 0
        waits &= self._step > self._interval
        self._gate = np.where(waits[:, np.newaxis], self._exchanged, -np.inf)
        self._waits = bool(waits.any())
        self._due = np.flatnonzero(self._step % self._interval == 0)
        replications = self.front.shape[1]
        self._ready = np.full((len(self._shares), len(self._due), replications), -np.inf)
        self._is_first = True

    def go(self, ranks: slice, compute: Floats, load: Floats | None) -> None:
        """These ranks take their step of load + compute; compute (ranks, points, replications)."""
        finished = self._finished[ranks]
        if self._waits:
            np.maximum(finished, self._gate, out=finished)
        if self._loads is not None:
            self._loads.hold(ranks, finished)
        if load is not None:
            finished += load
        if len(self._due):
            begun, lasts = finished[:, self._due], compute[:, self._due]
            for ready, share in zip(self._ready, self._shares, strict=True):
                of_bucket = highest(begun + share[self._due, np.newaxis] * lasts)
                np.maximum(ready, of_bucket, out=ready)
        finished += compute
        front = highest(finished)
        self.front = front if self._is_first else np.maximum(self.front, front)
        self._is_first = False

    def end(self) -> None:
        """All ranks have taken it: the exchanges that are due get their ends."""
        if len(self._due):
            ended = self._exchanged[self._due]
            for ready, cost, lag in zip(self._ready, self._costs, self._lag, strict=True):
                ended = np.maximum(ready + lag[self._due, np.newaxis], ended)
                ended += cost[self._due, np.newaxis]
            self._exchanged[self._due] = ended


def _buckets(pattern: Rounds) -> tuple[Floats, Floats, Floats]:
    """(buckets, points) shares W, costs c and lags by contention; without buckets there is one."""
    if pattern.release_shares is None or pattern.bucket_ratios is None:
        cost = pattern.part_ratio[np.newaxis]
        return pattern.release_fraction[np.newaxis], cost, np.zeros_like(cost)
    cost = pattern.bucket_ratios
    lag = np.zeros_like(cost)
    if pattern.contention_fraction is not None:
        slowed = pattern.contention_fraction / (1 + pattern.contention_fraction)
        lag[1:] = slowed * np.cumsum(cost, axis=0)[:-1]
    return pattern.release_shares, cost, lag
