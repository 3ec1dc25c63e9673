"""The factors of single steps, for points of one structure and all their replications."""

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.score_factors import ScoreFactors
from service.model.recursion.scores import (
    BLOCK_STEPS,
    COMMON,
    REPLICA,
    SPIKES,
    TRANSIENT,
    step_scores,
    step_uniforms,
)


class StepFactors:
    """Transient, spikes, replica and common of ranks, step after step from the first on.

    All points have the same autocorrelation and tensor-parallel size.
    """

    def __init__(self, fleet: Fleet, seed: int, num_lanes: int, num_ranks: int) -> None:
        self._fleet, self._seed = fleet, seed
        self._num_lanes, self._num_ranks = num_lanes, num_ranks
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
        self._scores: dict[str, Floats] = {}
        self._shared: dict[str, Floats] = {}
        if fleet.spikes is not None:
            self._probability = fleet.spikes.probability[:, np.newaxis]
            self._beyond = fleet.spikes.slowdown[:, np.newaxis] - 1

    def start(self, step: int) -> None:
        """Turn to step 0, 1, 2, …, one after the other."""
        block, self._inside = divmod(step, BLOCK_STEPS)
        if self._inside == 0:
            self._draw(block)
        for name, number in (
            ("replica", self._num_ranks // self._group_size),
            ("common", 1),
        ):
            if name in self._laws:
                scores = self._scores[name][:, self._inside]
                shared = np.empty((number, self._fleet.num_points, scores.shape[1]))
                self._laws[name].write(scores, shared)
                self._shared[name] = shared

    def write(self, ranks: slice, to: Floats) -> None:
        """Factors (ranks, points, replications) of this step, in place; whole groups only."""
        if "transient" in self._laws:
            self._laws["transient"].write(self._scores["transient"][ranks, self._inside], to)
        else:
            to[:] = 1.0
        if "spikes" in self._scores:
            hit = self._scores["spikes"][ranks, self._inside][:, np.newaxis] < self._probability
            to *= 1 + hit * self._beyond
        if "replica" in self._laws:
            size = self._group_size
            groups = slice(ranks.start // size, ranks.stop // size)
            by_group = to.reshape(-1, size, *to.shape[1:])
            by_group *= self._shared["replica"][groups, np.newaxis]
        if "common" in self._laws:
            to *= self._shared["common"]

    def _draw(self, block: int) -> None:
        if "transient" in self._laws:
            self._scores["transient"] = self._correlated(
                self._drawn(TRANSIENT, block, self._num_ranks)
            )
        if "replica" in self._laws:
            groups = self._num_ranks // self._group_size
            self._scores["replica"] = self._drawn(REPLICA, block, groups)
        if "common" in self._laws:
            self._scores["common"] = self._drawn(COMMON, block, 1)
        if self._fleet.spikes is not None:
            self._scores["spikes"] = step_uniforms(
                self._seed, SPIKES, block, self._num_lanes, self._num_ranks
            )

    def _drawn(self, source: int, block: int, number: int) -> Floats:
        return step_scores(self._seed, source, block, self._num_lanes, number)

    def _correlated(self, scores: Floats) -> Floats:
        """z(k) = phi z(k-1) + sqrt(1 - phi^2) e(k), stationary from the first step on."""
        phi = self._autocorrelation
        if phi == 0:
            return scores
        rest = (1 - phi * phi) ** 0.5
        for inside in range(BLOCK_STEPS):
            if self._before is not None:
                scores[:, inside] *= rest
                scores[:, inside] += phi * self._before
            self._before = scores[:, inside]
        return scores
