"""Random clusters: the ranks in slowness of their slowest units.

The j-th slowest of n units has -log U_(j) = E_1 / n + … + E_j / (n - j + 1) with independent
exponential E (Rényi, 1953), U the distribution function of the slowness at that unit's: exact for
every n. Sums over a cluster's units of functions of the rank are wanted, for many functions: so
the ranks are put on an even grid of log(-log U) by cubic interpolation, and the sum over units
becomes a product with one matrix for all functions.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.cluster_draws import NUM_BLOCKS, exponentials
from service.model.laws.law import Floats

MAX_EXPLICIT = 40
"""Classes of up to so many units are drawn whole."""
NUM_TOP = 16
"""Of larger ones, about so many units (a binomial number) are drawn."""
# Distance of the grid in normal scores of the slowness, at most.
GRID_SD = 0.08
_STENCIL = 4
_MAX_GRID = 1200
# The number drawn exceeds its mean by more than so many standard deviations in one of 1e5 clusters.
_SPARE_SD = 4.5
# A unit with U = e^-30 is as good as none, and has a finite score.
_LARGEST_RANK = 30.0


class Clusters(NamedTuple):
    """Which random clusters: the seed, how many in all, and which blocks of them."""

    seed: int
    draws: int
    blocks: range = range(NUM_BLOCKS)


class Ranks(NamedTuple):
    """The slowest units of one class in the random clusters.

    grid     (places,) values of log(-log U), ascending
    matrix   (clusters, places + 1) weights of a function's values on the grid in the sum over the
             drawn units; in the last column how many units were not drawn
    slowest  (2,) log(-log U) of the slowest unit of all, and of the cluster whose slowest is the
             fastest; infinite if that one has none drawn
    limit    units with -log U above it were not drawn; infinite if all were
    """

    grid: Floats
    matrix: Floats
    slowest: Floats
    limit: float


def ranks_of(clusters: Clusters, group: int, num_units: float, halvings: int) -> Ranks:
    """The ranks on a grid that is finer by 2^halvings than the score of the slowness asks for."""
    limit, rows = _limit(num_units)
    numbers = exponentials(clusters.seed, group, rows, clusters.draws, clusters.blocks)
    rank = _sums(numbers, num_units)
    num_clusters = rank.shape[1]
    drawn = np.flatnonzero(rank < limit)
    log_rank = np.log(rank.ravel()[drawn])
    cluster = drawn % num_clusters
    grid = _grid(log_rank, halvings)
    matrix = _interpolation(grid, log_rank, cluster, num_clusters)
    matrix[:, -1] = num_units - np.bincount(cluster, minlength=num_clusters)
    last = rank[0].max()
    slowest = np.array([rank[0].min(), last if last < limit else np.inf])
    return Ranks(grid, matrix, np.log(slowest), limit)


# Points that differ in other things than the number of units share them.
kept_ranks = lru_cache(maxsize=48)(ranks_of)


def _limit(num_units: float) -> tuple[float, int]:
    """Of -log U, and the number of rows that stay below it."""
    if num_units <= MAX_EXPLICIT:
        return np.inf, int(np.ceil(num_units))
    rows = int(NUM_TOP + _SPARE_SD * NUM_TOP**0.5 + 2)
    return float(-np.log1p(-NUM_TOP / num_units)), min(rows, int(num_units))


def _sums(exponentials: Floats, num_units: float) -> Floats:
    """(rows, clusters) -log U, the slowest unit first."""
    rank = exponentials / (num_units - np.arange(len(exponentials)))[:, np.newaxis]
    # Row by row: NumPy's cumsum along the first axis takes several times as long.
    for row in range(1, len(rank)):
        rank[row] += rank[row - 1]
    return np.minimum(rank, _LARGEST_RANK, out=rank)


def _grid(log_rank: Floats, halvings: int) -> Floats:
    low, high = float(log_rank.min()), float(log_rank.max())
    step = GRID_SD / score_slope(high) * 0.5**halvings
    num = int(np.clip((high - low) / step, 1, _MAX_GRID)) + _STENCIL - 1
    return np.linspace(low, max(high, low + 1e-6), num)


def score_slope(log_rank: float) -> float:
    """How fast the normal score of U falls with log(-log U)."""
    rank = np.exp(log_rank)
    score = special.ndtri(-np.expm1(-rank))
    return float(rank * np.exp(score * score / 2 - rank) * np.sqrt(2 * np.pi))


def _interpolation(
    grid: Floats, log_rank: Floats, cluster: NDArray[np.intp], num_clusters: int
) -> Floats:
    """(clusters, places + 1) the drawn units' weights; the last column stays empty."""
    width = len(grid) + 1
    place = (log_rank - grid[0]) / (grid[1] - grid[0])
    first = np.clip(place.astype(np.intp) - 1, 0, len(grid) - _STENCIL)
    place -= first
    cell = cluster * width + first
    matrix = np.zeros(num_clusters * width)
    for offset, weight in enumerate(_lagrange(place)):
        matrix += np.bincount(cell + offset, weight, len(matrix))
    return matrix.reshape(num_clusters, width)


def _lagrange(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Weights of the values at 0, 1, 2, 3 in the cubic's value at x."""
    a, b, c = x - 1, x - 2, x - 3
    bc, xa = b * c, x * a
    return a * bc / -6, x * bc / 2, xa * c / -2, xa * b / 6
