"""Single operations that vary: an operation of a stage takes as long as on its slowest GPU."""

import numpy as np
from scipy import special

from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.pipeline.plan import Plan
from service.model.pipeline.random_numbers import JITTER, LANE, Numbers
from service.model.recursion.score_factors import ScoreFactors
from service.model.slowest.cubics import cubic_pieces
from service.model.slowest.many_quantiles import FARTHEST_SCORE, PIECES_PER_SD

# Numbers at a time: memory.
_AT_ONCE = 1 << 19


class LargestFactors:
    """The largest of `size` factors of one law, from one normal score: by its own quantile.

    With q = 1 - Phi(z) the largest has the quantile with upper probability 1 - (1 - q)^(1/size),
    computed as -expm1(log Phi(z) / size).
    """

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._size = source, size
        self._cubics = None
        # A table of quantiles is no smooth function.
        if not isinstance(source.law, Table):
            self._cubics = cubic_pieces(
                lambda z: source.law.warp(self._exact(z)),
                -FARTHEST_SCORE,
                FARTHEST_SCORE,
                PIECES_PER_SD,
            )

    def of(self, scores: Floats) -> Floats:
        """Factors of scores of any shape."""
        if self._cubics is None:
            return self._exact(scores)
        place = (scores + FARTHEST_SCORE) * PIECES_PER_SD
        piece = np.clip(place.astype(np.intp), 0, self._cubics.shape[1] - 1)
        place -= piece
        v = self._cubics[3].take(piece)
        for coefficients in self._cubics[2::-1]:
            v *= place
            v += coefficients.take(piece)
        found: Floats = np.maximum(self._source.law.unwarp(v), 0)
        return found

    def _exact(self, scores: Floats) -> Floats:
        upper = -np.expm1(special.log_ndtr(scores) / self._size)
        return self._source.law.upper_quantile(upper[..., np.newaxis], self._source.shape)[..., 0]


class Jitter:
    """Of all operations of replicas, drawn for each step, lane and replica."""

    def __init__(self, source: Source, seed: int, plan: Plan) -> None:
        self._source = source
        self._stage = plan.stage
        self._numbers = Numbers(seed, JITTER)
        self._num_operations = plan.num_operations
        self._law = ScoreFactors(source)
        self._largest: dict[int, LargestFactors] = {}

    def of_one(self, step: int, lane: int, replica: int) -> Floats:
        """(operations, LANE) factors, one GPU a stage."""
        return self._written(self._scores(step, lane, replica))

    def of_largest(self, step: int, lane: int, replica: int, size: int) -> Floats:
        """(operations, LANE): the largest of `size` GPUs that are alike."""
        if size not in self._largest:
            self._largest[size] = LargestFactors(self._source, size)
        return self._largest[size].of(self._scores(step, lane, replica))

    def of_slowest(self, step: int, lane: int, replica: int, own: Floats) -> Floats:
        """(operations, LANE): the largest of own (stages, GPUs, LANE or 1) times jitter."""
        size = own.shape[1]
        generator = self._numbers.turn(step, lane, replica)
        found = np.empty((self._num_operations, LANE))
        rows = max(_AT_ONCE // (size * LANE), 1)
        for first in range(0, self._num_operations, rows):
            part = slice(first, min(first + rows, self._num_operations))
            scores = generator.standard_normal((part.stop - first, size, LANE))
            found[part] = (self._written(scores) * own[self._stage[part]]).max(axis=1)
        return found

    def _scores(self, step: int, lane: int, replica: int) -> Floats:
        generator = self._numbers.turn(step, lane, replica)
        return generator.standard_normal((self._num_operations, LANE))

    def _written(self, scores: Floats) -> Floats:
        factors = np.empty((*scores.shape[:-1], 1, LANE))
        self._law.write(scores, factors)
        return factors[..., 0, :]
