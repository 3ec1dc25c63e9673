"""Maxima of lines in S, the slowest factor of a step: what a step with overlap takes.

Whatever hides behind whatever, a step ends with the longest of several chains of compute and
communication; compute grows with S and communication does not, so every chain is a line in S of
slope 0 or more, and the step is their maximum: convex and piecewise linear.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats

Rows = slice | NDArray[np.intp]

# A line is kept if it exceeds its neighbours by more than so much of their value. Of a thousand
# lines that all lie so close, leaving out one after the other costs less than 1e-10.
_ROUND_OFF = 1e-15


class Lines(NamedTuple):
    """At every point the maximum of a few lines over S >= 0, in the unit of the offsets.

    slope, offset   (lines, points) the lines that are the maximum somewhere, in ascending slope;
                    a point with fewer repeats its last
    """

    slope: Floats
    offset: Floats

    @property
    def knots(self) -> Floats:
        """(lines - 1, points) the S where the next line takes over, ascending; inf if none does."""
        steeper = np.diff(self.slope, axis=0)
        there = steeper > 0
        knots = np.full(steeper.shape, np.inf)
        np.divide(-np.diff(self.offset, axis=0), steeper, out=knots, where=there)
        # Lines that all meet in one place differ there by round-off only.
        return np.maximum.accumulate(np.maximum(knots, 0.0), axis=0)

    def value(self, s: Floats) -> Floats:
        """(…, points) the maximum at s, (…, points)."""
        highest: Floats = self.slope[0] * s + self.offset[0]
        for slope, offset in zip(self.slope[1:], self.offset[1:], strict=True):
            np.maximum(highest, slope * s + offset, out=highest)
        return highest

    def slope_at(self, s: Floats) -> Floats:
        """(…, points) the slope at s, (…, points); at a knot that of the line beyond it."""
        slope = np.broadcast_to(self.slope[0], s.shape).copy()
        for knot, beyond in zip(self.knots, self.slope[1:], strict=True):
            np.copyto(slope, beyond, where=s >= knot)
        return slope

    def part(self, rows: Rows) -> "Lines":
        """Some of the points."""
        return Lines(self.slope[:, rows], self.offset[:, rows])


def envelope(slope: Floats, offset: Floats) -> Lines:
    """The lines of (lines, points) that are the maximum somewhere on S >= 0; slopes >= 0.

    In ascending slope, a line is on the envelope of those so far unless its successor meets its
    predecessor above it (Andrew's monotone chain, one line of all points after the other).
    """
    order = np.lexsort((offset, slope), axis=0)
    slopes = np.take_along_axis(slope, order, axis=0)
    offsets = np.take_along_axis(offset, order, axis=0)
    kept = Lines(np.empty_like(slopes), np.empty_like(offsets))
    num_points = slopes.shape[1]
    size = np.zeros(num_points, dtype=np.intp)
    points = np.arange(num_points)
    for steeper, higher in zip(slopes, offsets, strict=True):
        left = points[size > 0]
        while len(left):
            left = left[_is_below(kept, size[left], left, Lines(steeper, higher))]
            size[left] -= 1
            left = left[size[left] > 0]
        kept.slope[size, points] = steeper
        kept.offset[size, points] = higher
        size += 1
    return _padded(kept, size)


def _is_below(kept: Lines, size: NDArray[np.intp], points: Rows, new: Lines) -> NDArray[np.bool_]:
    """Whether the last line kept at `points` lies nowhere above its predecessor and the new one.

    The first of all has no predecessor: at S = 0 the new line must be above it.
    """
    middle = kept.slope[size - 1, points], kept.offset[size - 1, points]
    alone = size == 1
    before = np.where(alone, 0, size - 2)
    first = kept.slope[before, points], kept.offset[before, points]
    slope, offset = new.slope[points], new.offset[points]
    steeper = np.where(alone, 1.0, slope - first[0])
    meet = np.where(alone, 0.0, (first[1] - offset) / steeper)
    highest = np.where(alone, offset, first[0] * meet + first[1])
    excess = middle[0] * meet + middle[1] - highest
    below: NDArray[np.bool_] = excess <= _ROUND_OFF * np.abs(highest)
    return below


def _padded(kept: Lines, size: NDArray[np.intp]) -> Lines:
    lines = np.arange(size.max(initial=1))[:, np.newaxis]
    taken = np.minimum(lines, size - 1)
    return Lines(
        np.take_along_axis(kept.slope, taken, axis=0),
        np.take_along_axis(kept.offset, taken, axis=0),
    )


def highest(parts: Sequence[Lines]) -> Lines:
    """The maximum of several at the same points."""
    return envelope(
        np.concatenate([part.slope for part in parts]),
        np.concatenate([part.offset for part in parts]),
    )


def summed(first: Lines, second: Lines) -> Lines:
    """The sum of two maxima at the same points: the maximum of the sums of their lines."""
    num_points = first.slope.shape[1]
    slope = first.slope[:, np.newaxis] + second.slope
    offset = first.offset[:, np.newaxis] + second.offset
    return envelope(slope.reshape(-1, num_points), offset.reshape(-1, num_points))


def joined(parts: Sequence[Lines]) -> Lines:
    """The points of all parts, in their order."""
    num_lines = max(len(part.slope) for part in parts)
    widths = [np.minimum(np.arange(num_lines), len(part.slope) - 1) for part in parts]
    return Lines(
        np.concatenate(
            [part.slope[lines] for part, lines in zip(parts, widths, strict=True)], axis=1
        ),
        np.concatenate(
            [part.offset[lines] for part, lines in zip(parts, widths, strict=True)], axis=1
        ),
    )


def scaled(lines: Lines, factor: Floats, shift: Floats) -> Lines:
    """The lines of factor x maximum + shift, (points,) each; factor >= 0."""
    return Lines(lines.slope * factor, lines.offset * factor + shift)
