"""The random numbers of random clusters, by seed, class of units and row.

They do not depend on the sizes of the clusters, so that clusters of different sizes, or with and
without a remedy, are compared under the same luck.
"""

from functools import lru_cache

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
# Words of one row, above the largest number of draws.
_ROW_WORDS = 1 << 24
# Above so many numbers they are made again rather than kept.
_MANY = 1 << 21
_SCORES_PER_DRAW = 16
_MOST_SCORES = 1 << 18


def block_size(draws: int) -> int:
    """Clusters of one block; all blocks together are at least `draws`."""
    return -(-draws // NUM_BLOCKS)


def exponentials(seed: int, group: int, rows: int, draws: int, blocks: range) -> Floats:
    """(rows, clusters of these blocks) exponential numbers of mean 1."""
    if rows * draws > _MANY:
        return _exponentials(seed, group, rows, draws, blocks)
    size = block_size(draws)
    numbers = _all_exponentials(seed, group, rows, draws)
    return numbers[:, blocks.start * size : blocks.stop * size]


@lru_cache(maxsize=32)
def _all_exponentials(seed: int, group: int, rows: int, draws: int) -> Floats:
    return _exponentials(seed, group, rows, draws, range(NUM_BLOCKS))


def _exponentials(seed: int, group: int, rows: int, draws: int, blocks: range) -> Floats:
    size = block_size(draws)
    start, stop = blocks.start * size, blocks.stop * size
    numbers = np.empty((rows, stop - start))
    for row in range(rows):
        first = row * _ROW_WORDS
        numbers[row] = upper_uniforms(seed, SPACINGS + group, first + start, first + stop)
        if row < STRATIFIED_ROWS:
            order = upper_uniforms(seed, STRATA + group, first + start, first + stop)
            stratum = order.reshape(-1, size).argsort(axis=1).ravel()
            numbers[row] = (stratum + numbers[row]) / size
    np.log(numbers, out=numbers)
    return np.negative(numbers, out=numbers)


@lru_cache(maxsize=16)
def lattice_scores(seed: int, draws: int) -> Floats:
    """(clusters, scores) normal scores: for each cluster an even lattice, shifted at random."""
    clusters = NUM_BLOCKS * block_size(draws)
    num_scores = int(np.clip(_MOST_SCORES // clusters, 1, _SCORES_PER_DRAW))
    shift = (upper_uniforms(seed, LATTICE, 0, clusters).argsort() + 0.5) / clusters
    scores: Floats = special.ndtri((np.arange(num_scores) + shift[:, np.newaxis]) / num_scores)
    return scores
