"""The factors of single steps, for points of one structure and all their replications."""

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.score_factors import ScoreFactors
from service.model.recursion.scores import (
    BLOCK_STEPS,
    COMMON,
    LANE,
    REPLICA,
    SPIKES,
    TRANSIENT,
    draw_scores,
    draw_uniforms,
)

_NUMBERS = {"transient": TRANSIENT, "replica": REPLICA, "common": COMMON, "spikes": SPIKES}


class StepFactors:
    """Transient, spikes, replica and common of ranks, step after step from the first on.

    All points have the same autocorrelation and tensor-parallel size.
    """

    def __init__(self, fleet: Fleet, seed: int, num_lanes: int, num_ranks: int) -> None:
        self._fleet, self._seed = fleet, seed
        self._group_size = int(fleet.tensor_parallel_size[0])
        self._autocorrelation = float(fleet.autocorrelation[0])
        self._before: Floats | None = None
        self._laws = {
            name: ScoreFactors(source)
            for name, source in (
                ("transient", fleet.transient),
                ("replica", fleet.replica),
                ("common", fleet.common),
            )
            if source is not None
        }
        groups = num_ranks // self._group_size
        drawn_for = {"transient": num_ranks, "spikes": num_ranks, "replica": groups, "common": 1}
        self._scores = {
            name: np.empty((number, BLOCK_STEPS, num_lanes * LANE))
            for name, number in drawn_for.items()
            if getattr(fleet, name) is not None
        }
        if fleet.spikes is not None:
            self._probability = fleet.spikes.probability[:, np.newaxis]
            self._beyond = fleet.spikes.slowdown[:, np.newaxis] - 1

    def draw(self, block: int) -> None:
        """Turn to block 0, 1, 2, … of BLOCK_STEPS steps, one after the other."""
        for name, scores in self._scores.items():
            draw = draw_uniforms if name == "spikes" else draw_scores
            draw(self._seed, _NUMBERS[name], block, scores)
        if self._autocorrelation > 0 and "transient" in self._scores:
            self._correlate(self._scores["transient"])

    def write(self, ranks: slice, steps: slice, to: Floats) -> None:
        """Factors (steps, ranks, points, replications) of the block, in place; whole groups."""
        if "transient" in self._laws:
            self._laws["transient"].write(self._of("transient", ranks, steps), to)
        else:
            to[:] = 1.0
        if "spikes" in self._scores:
            uniforms = self._of("spikes", ranks, steps)
            to *= 1 + (uniforms[..., np.newaxis, :] < self._probability) * self._beyond
        size = self._group_size
        by_group = to.reshape(len(to), -1, size, *to.shape[2:])
        if "replica" in self._laws:
            groups = slice(ranks.start // size, ranks.stop // size)
            by_group *= self._shared("replica", groups, steps)
        if "common" in self._laws:
            by_group *= self._shared("common", slice(0, 1), steps)

    def _of(self, name: str, ranks: slice, steps: slice) -> Floats:
        """(steps, ranks, replications) scores."""
        return self._scores[name][ranks, steps].swapaxes(0, 1)

    def _shared(self, name: str, groups: slice, steps: slice) -> Floats:
        """(steps, groups, 1, points, replications) factors."""
        scores = self._of(name, groups, steps)
        shape = (*scores.shape[:2], self._fleet.num_points, scores.shape[2])
        shared = np.empty(shape)
        self._laws[name].write(scores, shared)
        return shared[:, :, np.newaxis]

    def _correlate(self, scores: Floats) -> None:
        """z(k) = phi z(k-1) + sqrt(1 - phi^2) e(k), in place; stationary from the first step on."""
        phi = self._autocorrelation
        rest = (1 - phi * phi) ** 0.5
        before = self._before
        for inside in range(BLOCK_STEPS):
            now = scores[:, inside]
            if before is not None:
                now *= rest
                now += phi * before
            before = now
        self._before = scores[:, -1].copy()
