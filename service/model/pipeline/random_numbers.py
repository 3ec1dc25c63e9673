"""The random numbers of simulated pipelines: by seed, source, draw, step and rank alone.

Philox under the key (seed, source), its counter set by step of the round, lane of draws and block
of ranks (of single operations: the replica); the numbers of a counter run over ranks first. So a
rank keeps its numbers when a cluster grows, and all points, schedules and counterfactuals of a seed
share them.
"""

from typing import Any

import numpy as np

from service.model.laws.law import Floats

LANE = 8
"""Draws that are made together."""
BLOCK_RANKS = 256

# Numbers of the sources in the generator's key; recursion/scores.py ends at 2055.
TRANSIENT, REPLICA, COMMON, SPIKES, PERSISTENT, NODE, PLACES, EPISODES, JITTER = range(2056, 2065)

_BUFFER_WORDS = 4


class Numbers:
    """One source's, of one seed."""

    def __init__(self, seed: int, source: int) -> None:
        self._bits = np.random.Philox(key=np.array([seed, source], dtype=np.uint64))
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state

    def scores(self, lanes: range, ranks: range, step: int = 0) -> Floats:
        """(ranks, lanes x LANE) normal scores."""
        return self._by_blocks(lanes, ranks, step, self._generator.standard_normal)

    def uniforms(self, lanes: range, ranks: range, step: int = 0) -> Floats:
        """(ranks, lanes x LANE) uniform numbers."""
        return self._by_blocks(lanes, ranks, step, self._generator.random)

    def turn(self, step: int, lane: int, block: int) -> np.random.Generator:
        """The generator, at the first number of this counter."""
        # The first word of the counter counts the numbers drawn. To set it takes a tenth of the
        # time of a new generator.
        self._state["state"]["counter"][:] = 0, step, lane, block
        self._state["buffer_pos"] = _BUFFER_WORDS
        self._bits.state = self._state
        return self._generator

    def _by_blocks(self, lanes: range, ranks: range, step: int, draw: Any) -> Floats:
        found = np.empty((len(ranks), len(lanes), LANE))
        for place, lane in enumerate(lanes):
            for first in range(ranks.start - ranks.start % BLOCK_RANKS, ranks.stop, BLOCK_RANKS):
                self.turn(step, lane, first // BLOCK_RANKS)
                stop = min(first + BLOCK_RANKS, ranks.stop)
                numbers = draw((stop - first, LANE))
                start = max(first, ranks.start)
                rows = slice(start - ranks.start, stop - ranks.start)
                found[rows, place] = numbers[start - first :]
        return found.reshape(len(ranks), len(lanes) * LANE)
