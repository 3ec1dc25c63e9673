"""The random numbers of random clusters, by seed, class of units, row and cluster.

They do not depend on the sizes of the clusters, so that clusters of different sizes, or with and
without a remedy, are compared under the same luck; nor on how many clusters are worked out at once.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from service.model.laws.law import Floats
from service.model.uniforms import upper_uniforms

NUM_BLOCKS = 8
"""Independent parts of the draws; their scatter gives the standard errors."""
STRATIFIED_ROWS = 8
"""The first so many rows are Latin hypercubes within each block."""
# Numbers of the sources in the generator's key; TRANSIENT of draws.py is 1.
SPACINGS = 256
STRATA = 512
LATTICE = 768
PLACES = 1024
INSIDE = 1024
# Words of one row, above the largest number of draws.
_ROW_WORDS = 1 << 24
# Above so many numbers they are made again rather than kept.
_MANY = 1 << 21
# As many in all as make quantiles smooth.
_SCORES_PER_DRAW = 16
_SCORES = 1 << 11


class Clusters(NamedTuple):
    """Random clusters `start` to `stop` of `draws`, a multiple of the number of blocks."""

    seed: int
    draws: int
    start: int
    stop: int


def num_clusters(draws: int) -> int:
    """As many as whole blocks need."""
    return NUM_BLOCKS * -(-draws // NUM_BLOCKS)


def exponentials(clusters: Clusters, group: int, rows: int) -> Floats:
    """(rows, clusters) exponential numbers of mean 1, for a class of units."""
    if rows * clusters.draws > _MANY:
        return _exponentials(clusters, group, rows)
    numbers = _all_exponentials(clusters.seed, clusters.draws, group, rows)
    return numbers[:, clusters.start : clusters.stop]


@lru_cache(maxsize=32)
def _all_exponentials(seed: int, draws: int, group: int, rows: int) -> Floats:
    return _exponentials(Clusters(seed, draws, 0, draws), group, rows)


def _exponentials(clusters: Clusters, group: int, rows: int) -> Floats:
    numbers = inside_uniforms(clusters, SPACINGS + group, range(rows))
    for row in range(min(rows, STRATIFIED_ROWS)):
        stratum = _strata(clusters.seed, clusters.draws, group, row)
        numbers[row] += stratum[clusters.start : clusters.stop]
        numbers[row] /= clusters.draws // NUM_BLOCKS
    np.log(numbers, out=numbers)
    return np.negative(numbers, out=numbers)


@lru_cache(maxsize=STRATIFIED_ROWS)
def _strata(seed: int, draws: int, group: int, row: int) -> Floats:
    """(draws,) each block's random permutation of 0, 1, and so on."""
    first = row * _ROW_WORDS
    order = upper_uniforms(seed, STRATA + group, first, first + draws)
    return order.reshape(NUM_BLOCKS, -1).argsort(axis=1).ravel().astype(np.float64)


def inside_uniforms(clusters: Clusters, source: int, rows: range) -> Floats:
    """(rows, clusters) uniform numbers of a source."""
    numbers = np.empty((len(rows), clusters.stop - clusters.start))
    for row, of_row in zip(rows, numbers, strict=True):
        first = row * _ROW_WORDS
        of_row[:] = upper_uniforms(
            clusters.seed, source, first + clusters.start, first + clusters.stop
        )
    return numbers


@lru_cache(maxsize=16)
def lattice_scores(seed: int, draws: int) -> Floats:
    """(draws, scores) normal scores: for each cluster an even lattice, shifted at random."""
    num_scores = int(np.clip(_SCORES // draws, 1, _SCORES_PER_DRAW))
    shift = (upper_uniforms(seed, LATTICE, 0, draws).argsort() + 0.5) / draws
    scores: Floats = special.ndtri((np.arange(num_scores) + shift[:, np.newaxis]) / num_scores)
    return scores
