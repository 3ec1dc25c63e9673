"""From normal scores to factors, for one source at many points."""

import numpy as np

from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import Normal
from service.model.laws.source import Source
from service.model.slowest.cubics import cubic_pieces
from service.model.slowest.many_quantiles import FARTHEST_SCORE, PIECES_PER_SD
from service.model.slowest.scores import log_sd

# A normal factor of a smaller cv is positive for every score that is ever drawn.
_SURELY_POSITIVE = 0.11


class ScoreFactors:
    """Writes factors (…, points, replications) of scores (…, replications)."""

    def __init__(self, source: Source) -> None:
        self._law, self._shape = source.law, source.shape
        self._cubics = None
        column = source.shape[0][:, np.newaxis]
        if self._law is Normal:
            self._sd = column
            self._may_be_negative = bool((column > _SURELY_POSITIVE).any())
        elif self._law is LogNormal:
            self._sd = log_sd(source)[:, np.newaxis]
        elif not isinstance(self._law, Table):
            self._cubics = self._tables()

    def write(self, scores: Floats, to: Floats) -> None:
        """The factors, in place."""
        scores = scores[..., np.newaxis, :]
        if self._law is Normal:
            np.multiply(scores, self._sd, out=to)
            to += 1
            if self._may_be_negative:
                np.maximum(to, 0, out=to)
        elif self._law is LogNormal:
            np.multiply(scores, self._sd, out=to)
            to -= self._sd * self._sd / 2
            np.exp(to, out=to)
        elif self._cubics is None:
            spread = np.broadcast_to(scores, to.shape).swapaxes(-1, -2)
            to[:] = self._law.at_score(spread, self._shape).swapaxes(-1, -2)
        else:
            self._write_cubics(scores, self._cubics, to)

    def _tables(self) -> Floats:
        """(4, points * pieces) of the law's own variable, one point after the other."""
        tables = []
        for point in range(self._shape.shape[1]):
            shape = self._shape[:, [point]]
            tables.append(
                cubic_pieces(
                    lambda z, shape=shape: self._law.warp(
                        self._law.at_score(z[..., np.newaxis], shape)
                    )[..., 0],  # type: ignore[misc]
                    -FARTHEST_SCORE,
                    FARTHEST_SCORE,
                    PIECES_PER_SD,
                )
            )
        return np.concatenate(tables, axis=1)

    def _write_cubics(self, scores: Floats, cubics: Floats, to: Floats) -> None:
        num_points = to.shape[-2]
        num_pieces = cubics.shape[1] // num_points
        place = (scores + FARTHEST_SCORE) * PIECES_PER_SD
        first = np.clip(place.astype(np.intp), 0, num_pieces - 1)
        place -= first
        piece = first + num_pieces * np.arange(num_points)[:, np.newaxis]
        cubics[3].take(piece, out=to, mode="clip")
        for coefficients in cubics[2::-1]:
            to *= place
            to += coefficients.take(piece)
        to[:] = self._law.unwarp(to)
