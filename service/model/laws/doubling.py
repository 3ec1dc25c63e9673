"""Means of many equal independent factors, by means of two means at a time.

A factor is held as a curve between log x and its normal score z, P(X > x) = Phi(-z), both ways. Of
two means A and B with weights a and b, and t = a x_A(s) + b x_B(s) for a score s,

    P(a A + b B > t) = Phi(-s)^2 + the integral over z < s of phi(z) [P(a A > t - b x_B(z))
                       + P(b B > t - a x_A(z))] dz,

likewise below t with z > s. All terms are positive and smooth: tails come out as exact, relatively,
as they went in, heavy ones as well, and the pieces are joined where neither factor has a corner.
From the mean of n steps to that of 2 n is one such step, so that 100 000 take 22.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from service.model.laws.law import SMALLEST_X, Floats, Law
from service.model.laws.piecewise import Pieces, nodes_of, through
from service.model.slowest.nodes import legendre

LOWEST, HIGHEST = -8.0, 12.5
"""Scores within which a law is held: F from 6e-16, survival down to 4e-36. Only survival above
1e-26 is exact: what would come from beyond the end is missing."""
_PANELS = 17
_SEARCH = 25
_PARTS, _NODES = 6, 12
_MARGIN = 0.05
# Instead of -1 and below, where a logarithm is taken.
_ALMOST_NOTHING = 2.0**-53 - 1
# Part of the other's width from which panels are short enough.
_NARROW = 0.4
# Given a sum above t, a part is below this score even less likely than 1e-12.
_OUTER = 7.0
# A law that begins somewhere bends much there.
_LOWER_PANELS, _UPPER_PANELS = 24, 16


class Curve(NamedTuple):
    """The law of a positive factor of mean 1.

    log_of    from the score to log x
    score_of  from log x to the score
    """

    log_of: Pieces
    score_of: Pieces

    def beyond_one(self, z: Floats) -> Floats:
        """What x is beyond 1 at a score."""
        return np.expm1(self.log_of.at(z))

    def score(self, beyond_one: Floats) -> Floats:
        """The score of an x, given x - 1."""
        return self.score_of.at(np.log1p(np.maximum(beyond_one, _ALMOST_NOTHING)))


def curve_of(law: Law, shape: Floats) -> Curve:
    """A law as it is; shape (parameters, 1)."""
    edges = np.linspace(LOWEST, HIGHEST, _PANELS + 1)
    x = law.at_score(nodes_of(edges)[:, np.newaxis], shape)[:, 0]
    return both_ways(through(edges, np.log(np.maximum(x, SMALLEST_X))))


def mean_of_steps(law: Law, shape: Floats, steps: int) -> Curve:
    """The mean of so many independent draws."""
    return mean_of_equals(curve_of(law, shape), steps)


def mean_of_equals(one: Curve, number: int) -> Curve:
    """The mean of so many independent factors of one law, by the binary digits of `number`."""
    doubled, found, num_found, num_doubled = one, None, 0, 1
    while True:
        if number & num_doubled:
            share = num_found / (num_found + num_doubled)
            found = doubled if found is None else mean_of_two(found, doubled, share)
            num_found += num_doubled
        if num_found == number and found is not None:
            return found
        doubled = mean_of_two(doubled, doubled, 0.5)
        num_doubled *= 2


def mean_of_two(first: Curve, second: Curve, share: float) -> Curve:
    """Of `share` times the first and the rest of the second."""
    coarse = np.linspace(LOWEST, HIGHEST, _SEARCH)
    _, score = _summed(first, second, share, coarse)
    # Where the sum's scores are those that are wanted.
    score = np.maximum.accumulate(score)
    ends = np.interp([LOWEST, HIGHEST], score, coarse)
    edges = np.linspace(ends[0] - _MARGIN, ends[1] + _MARGIN, _PANELS + 1)
    beyond_one, score = _summed(first, second, share, nodes_of(edges))
    log_by, score_by = through(edges, np.log1p(beyond_one)), through(edges, score)
    lowest, highest = np.clip([LOWEST, HIGHEST], score[0], score[-1]).tolist()
    wanted = np.linspace(lowest, highest, _PANELS + 1)
    at = score_by.inverse(nodes_of(wanted))
    return both_ways(_of_mean_one(through(wanted, log_by.at(at))))


def _summed(first: Curve, second: Curve, share: float, s: Floats) -> tuple[Floats, Floats]:
    """Places, less 1, and scores of the sum, for scores s of both parts, (rows,) each."""
    x = share * first.beyond_one(s) + (1 - share) * second.beyond_one(s)
    score = np.empty_like(s)
    for rows, sign in ((s > 0, 1.0), (s <= 0, -1.0)):
        at, t = s[rows], x[rows]
        beyond = special.ndtr(-sign * at) ** 2
        if first is second and share == 0.5:
            beyond += 2 * _beyond(first, second, share, at, t, sign)
        else:
            beyond += _beyond(first, second, share, at, t, sign)
            beyond += _beyond(second, first, 1 - share, at, t, sign)
        score[rows] = -sign * special.ndtri(np.minimum(beyond, 1.0))
    return x, score


def _beyond(one: Curve, other: Curve, share: float, s: Floats, t: Floats, sign: float) -> Floats:
    """(rows,): one is beyond what is left of t by the other, which is on this side of s."""
    outer = np.full_like(s, -_OUTER)
    if sign < 0:
        # Where one would be below its smallest value is no smooth end of F.
        end = (t - share * one.beyond_one(one.log_of.edges[:1])) / (1 - share)
        outer = np.minimum(other.score(end), _OUTER)
    # Beside a wide one, a narrow one is beyond what is left only close to s.
    ratio = share * _width(one) / ((1 - share) * _width(other))
    halvings = int(np.ceil(np.log2(max(_NARROW / ratio, 1.0))))
    z, weight = _nodes(outer, s, halvings)
    left = (t[:, np.newaxis] - (1 - share) * other.beyond_one(z)) / share
    tail = special.ndtr(-sign * one.score(left))
    found: Floats = (weight * tail).sum(axis=1)
    return found


def _width(curve: Curve) -> float:
    low, high = curve.beyond_one(np.array([-1.0, 1.0])).tolist()
    return float(high - low)


def _nodes(outer: Floats, s: Floats, halvings: int = 0) -> tuple[Floats, Floats]:
    """Scores between `outer` and s and their normal weights, (rows, nodes)."""
    parts, weights = _rule(halvings)
    width = (s - outer)[:, np.newaxis]
    z = outer[:, np.newaxis] + width * parts
    density = np.exp(-z * z / 2) * (np.abs(width) * weights / np.sqrt(2 * np.pi))
    return z, density


@lru_cache(maxsize=32)
def _rule(halvings: int) -> tuple[Floats, Floats]:
    """Nodes and weights on (0, 1) of equal panels, the last one halved so often towards 1."""
    rule = legendre(_NODES)
    edges = np.linspace(0, 1, _PARTS + 1)
    halved = 1 - 0.5 ** np.arange(1, halvings + 1) / _PARTS
    edges = np.concatenate([edges[:-1], halved, edges[-1:]])
    width = np.diff(edges)[:, np.newaxis]
    nodes = edges[:-1, np.newaxis] + width * rule.nodes
    return nodes.ravel(), (width * rule.weights).ravel()


def _of_mean_one(log_of: Pieces) -> Pieces:
    """Moved to mean 1: errors of the mean would grow, beside a spread that shrinks."""
    z, weight = _nodes(log_of.edges[:1], log_of.edges[-1:])
    beyond_one = (np.expm1(log_of.at(z)) * weight).sum() / weight.sum()
    powers = log_of.powers.copy()
    powers[0] -= np.log1p(beyond_one)
    return Pieces(log_of.edges, powers)


def from_scores(score_of: Pieces) -> Curve:
    """The curve of a law without bumps, from the score at log x."""
    lowest, highest = score_of.at(score_of.edges[[0, -1]])
    ends = np.linspace(max(lowest, LOWEST), min(highest, HIGHEST), _PANELS + 1)
    return both_ways(_of_mean_one(through(ends, score_of.inverse(nodes_of(ends)))))


def both_ways(log_of: Pieces) -> Curve:
    """The curve of a law, from log x at a score."""
    low, high = log_of.edges[0], log_of.edges[-1]
    lower = np.linspace(low, 0, _LOWER_PANELS, endpoint=False)
    edges = log_of.at(np.append(lower, np.linspace(0, high, _UPPER_PANELS + 1)))
    return Curve(log_of, through(edges, log_of.inverse(nodes_of(edges))))
