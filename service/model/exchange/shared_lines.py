"""What a step takes on average over a factor that all GPUs share, given its slowest factor.

With the factor C of mean 1 a step takes h(C S), h a maximum of lines: of the first of them, and
(x - k)+ for every rise of slope at a knot k. Where S is known, of a cluster that stays as it is,
steps take E[h(C S)] on average, with E[(C s - k)+] = s E[C; C > k/s] - k P(C > k/s).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.exchange.lines import Lines, Rows
from service.model.laws.law import Floats

Scores = Callable[[Floats, Rows], Floats]


class SharedLines(NamedTuple):
    """E[h(C s)]: increasing, convex, and smooth where h has knots.

    lines        h
    score_at     from log factors (…, points) of the points `rows` to their scores under C's law
    rows         the points, of those that score_at knows
    score        (scores,) ascending, evenly spaced
    partial      (scores, points) E[C; score of C > score]
    density      (scores, points) of C at a score, times the normal density: minus the slope
    """

    lines: Lines
    score_at: Scores
    rows: NDArray[np.intp]
    score: Floats
    partial: Floats
    density: Floats

    @property
    def slope(self) -> Floats:
        """(lines, points) of h: far from its knots C does not matter."""
        return self.lines.slope

    @property
    def offset(self) -> Floats:
        """(lines, points) likewise."""
        return self.lines.offset

    @property
    def knots(self) -> Floats:
        """(lines - 1, points) around which it bends."""
        return self.lines.knots

    def value(self, s: Floats) -> Floats:
        """(…, points) at s, (…, points)."""
        found: Floats = self.slope[0] * s + self.offset[0]
        for rise, knot in self._rises():
            score = self._score(s, knot)
            excess = s * self._beyond(score) - knot * special.ndtr(-score)
            found = found + np.where(rise > 0, rise * np.maximum(excess, 0.0), 0.0)
        return found

    def slope_at(self, s: Floats) -> Floats:
        """(…, points) the slope at s, (…, points)."""
        found: Floats = np.broadcast_to(self.slope[0], s.shape).copy()
        for rise, knot in self._rises():
            found += np.where(rise > 0, rise * self._beyond(self._score(s, knot)), 0.0)
        return found

    def variance_at(self, s: Floats) -> Floats:
        """(points,) of h(C s), s (points,)."""
        normal = np.exp(-(self.score**2) / 2) / np.sqrt(2 * np.pi)
        weight = normal * (self.score[1] - self.score[0])
        step = self.lines.value(self.density / normal[:, np.newaxis] * s)
        mean = weight @ step
        found: Floats = weight @ (step - mean) ** 2
        return found

    def part(self, rows: Rows) -> "SharedLines":
        """Some of the points."""
        return SharedLines(
            self.lines.part(rows),
            self.score_at,
            self.rows[rows],
            self.score,
            self.partial[:, rows],
            self.density[:, rows],
        )

    def _rises(self) -> list[tuple[Floats, Floats]]:
        """At every knot the rise of slope, (points,) each."""
        knots = np.where(np.isfinite(self.knots), self.knots, 1.0)
        return list(zip(np.diff(self.slope, axis=0), knots, strict=True))

    def _score(self, s: Floats, knot: Floats) -> Floats:
        tiny = np.finfo(np.float64).tiny
        log_factor = np.log(np.maximum(knot, tiny) / np.maximum(s, tiny))
        return np.clip(self.score_at(log_factor, self.rows), self.score[0], self.score[-1])

    def _beyond(self, score: Floats) -> Floats:
        """E[C; score of C > score] by cubic Hermite interpolation."""
        width = self.score[1] - self.score[0]
        place = np.minimum((score - self.score[0]) / width, len(self.score) - 1.000001)
        left = place.astype(np.intp)
        u = place - left
        points = np.arange(self.partial.shape[1])
        low, high = self.partial[left, points], self.partial[left + 1, points]
        fall = self.density[left, points] * width, self.density[left + 1, points] * width
        v = 1 - u
        found: Floats = (
            low * v * v * (1 + 2 * u)
            + high * u * u * (1 + 2 * v)
            - fall[0] * u * v * v
            + fall[1] * u * u * v
        )
        return found


StepLines = Lines | SharedLines
