"""The slowest GPU where the law is a table of quantiles: `barrier.slowest_of` for those.

The distribution function of every kind is a straight line between the places m_g x_j, and no fixed
rule over all of them is accurate. Between neighbouring places the integrand is a smooth product of
powers of straight lines, so Gauss's rule on each piece is; `Table.halved` has the pieces. Points
that share the kinds' means share them. One kind has a closed form, with which the tests compare:
`.github/decisions/0011-a-rule-for-every-family.md`.
"""

from typing import NamedTuple

import numpy as np

from service.model.laws.empirical import Table
from service.model.laws.law import OUTSIDE, Floats, rate_of
from service.model.slowest.nodes import legendre

# Nodes of a piece by the part of P(X > x) that it spans at most.
_RULES = ((0.001, 2), (0.05, 4), (1.0, 10))
# Points and nodes at a time: 128 KiB.
_CHUNK_POINTS = 32
_CHUNK_NODES = 512
_CONVERGED = 1e-15


class _Pieces(NamedTuple):
    """Where the maximum may lie: ends (pieces,), P(X > x) of each kind there, (kinds, pieces)."""

    left: Floats
    right: Floats
    above_left: Floats
    above_right: Floats


def slowest_of_table(
    table: Table, num_gpus: Floats, mean: Floats, targets: Floats
) -> tuple[Floats, Floats]:
    """Mean (points,) and the places where the rate of all GPUs is each of `targets`, (points, ...).

    `num_gpus` and `mean` are (kinds, points).
    """
    present = np.where(num_gpus > 0, mean, 0.0)
    distinct, member = np.unique(present, axis=1, return_inverse=True)
    expected = np.empty(num_gpus.shape[1])
    places = np.empty((num_gpus.shape[1], len(targets)))
    order = np.argsort(member.ravel(), kind="stable")
    bounds = np.searchsorted(member.ravel()[order], np.arange(distinct.shape[1] + 1))
    for column, start, stop in zip(distinct.T, bounds[:-1], bounds[1:], strict=True):
        rows = order[start:stop]
        kinds = np.flatnonzero(column)
        counts = num_gpus[np.ix_(kinds, rows)].T
        pieces = _pieces(table, counts, column[kinds])
        for first in range(0, len(rows), _CHUNK_POINTS):
            some = rows[first : first + _CHUNK_POINTS]
            part = counts[first : first + _CHUNK_POINTS]
            expected[some] = pieces.right[-1] - _integral(pieces, part)
            places[some] = _places(pieces, part, targets)
    return expected, places


def _pieces(table: Table, counts: Floats, mean: Floats) -> _Pieces:
    lows = mean * table.lower_quantile(np.log(OUTSIDE) / np.maximum(counts, 1), mean)
    low = lows.max(axis=1).min()
    ends = np.unique(np.append(np.maximum(np.multiply.outer(mean, table.halved), low), low))
    left, right = ends[:-1], ends[1:]
    if len(left) == 0:
        left = right = ends
    # From within, since a place times and again by a kind's mean may fall on the other side of a
    # jump.
    quarter = (right - left) / 4
    near = _above(table, left + quarter, mean)
    far = _above(table, right - quarter, mean)
    step = (near - far) / 2
    return _Pieces(left, right, np.clip(near + step, 0, 1), np.clip(far - step, 0, 1))


def _above(table: Table, x: Floats, mean: Floats) -> Floats:
    """P(X > x) of each kind, (kinds, pieces)."""
    rate = table.rate(x / mean[:, np.newaxis], mean)
    above: Floats = -np.expm1(-rate)
    return above


def _integral(pieces: _Pieces, counts: Floats) -> Floats:
    """(points,) of the maximum's distribution function over all pieces."""
    total = np.zeros(len(counts))
    lost = pieces.above_left - pieces.above_right
    spanned = (lost / np.maximum(pieces.above_left, np.finfo(np.float64).tiny)).max(axis=0)
    smallest = -1.0
    for largest, num_nodes in _RULES:
        rows = np.flatnonzero((spanned > smallest) & (spanned <= largest))
        smallest = largest
        nodes, weights = legendre(num_nodes)
        step = max(_CHUNK_NODES // num_nodes, 1)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            above = (
                pieces.above_left[:, np.newaxis, some]
                - nodes[:, np.newaxis] * lost[:, np.newaxis, some]
            )
            rate = counts @ rate_of(above).reshape(len(above), -1)
            width = (pieces.right - pieces.left)[some]
            np.negative(rate, out=rate)
            total += np.exp(rate, out=rate) @ np.multiply.outer(weights, width).ravel()
    return total


def _places(pieces: _Pieces, counts: Floats, targets: Floats) -> Floats:
    """(points, targets) where the rate of all GPUs has fallen to the target."""
    at_right = counts @ rate_of(pieces.above_right)
    piece = np.stack([(at_right > target).sum(axis=1) for target in targets], axis=1)
    piece = np.minimum(piece, len(pieces.left) - 1)
    left, right = pieces.above_left[:, piece], pieces.above_right[:, piece]
    weights = counts.T[:, :, np.newaxis]
    place = np.zeros(piece.shape)
    # The rate is a falling convex function of the place: Newton's steps approach from the left,
    # none backwards; a dozen lead from the smallest numbers to the target.
    far = True
    while far:
        above = left + (right - left) * place
        rate = (weights * rate_of(above)).sum(axis=0)
        slope = (weights * (left - right) / np.maximum(1 - above, 2.0**-53)).sum(axis=0)
        excess = np.maximum(rate - targets, 0)
        moved = np.minimum(place + excess / np.maximum(slope, np.finfo(np.float64).tiny), 1)
        far = bool((moved - place).max() > _CONVERGED)
        place = moved
    start, end = pieces.left[piece], pieces.right[piece]
    found: Floats = start + place * (end - start)
    return found
