"""Blocks of GPUs of mixed classes: which compositions there are, and how many of each to expect.

GPUs of every class fall on random places. The distribution function of the slowest is the mean
over placements of a product over blocks; it is replaced by the product with the expected number of
blocks of each composition in the exponents (model page, "Slow GPUs in blocks": error measured
there). Exact when at most one GPU of the fleet is of another class, or all are of one.
"""

from itertools import combinations
from math import comb, lgamma

import numpy as np

from service.model.laws.law import Floats


def num_compositions(num_classes: int, block_size: int) -> int:
    """How many ways there are to form a block of GPUs of these classes."""
    return comb(block_size + num_classes - 1, num_classes - 1)


def compositions_of(num_classes: int, block_size: int) -> Floats:
    """(compositions, classes) GPUs of each class, every way to sum up to `block_size`."""
    places = block_size + num_classes - 1
    choices = list(combinations(range(places), num_classes - 1))
    bars = np.array(choices, dtype=np.float64).reshape(len(choices), num_classes - 1)
    edges = np.concatenate(
        [np.full((len(bars), 1), -1.0), bars, np.full((len(bars), 1), float(places))], axis=1
    )
    return np.diff(edges, axis=1) - 1


def probabilities(compositions: Floats, num_gpus: Floats) -> Floats:
    """(compositions, *points) that a random block has each composition (hypergeometric).

    `num_gpus` (classes, *points) are those of the whole; they may be fractional: then these are
    the polynomials through the values at the integers, and still sum up to 1.
    """
    total = num_gpus.sum(axis=0)
    if len(num_gpus) == 1:
        return np.ones((1, *total.shape))
    block_size = int(compositions[0].sum())
    spread = (slice(None), *(np.newaxis,) * total.ndim)
    # Factor by factor, class after class, each over one of the total's: no power overflows.
    found: Floats = _multinomials(compositions, block_size)[spread] * np.ones(total.shape)
    drawn = np.zeros(len(compositions))
    for of_class, available in zip(compositions.T, num_gpus, strict=True):
        for number in range(block_size):
            taken = number < of_class
            factor = (available - number) / np.maximum(total - drawn[spread], 1.0)
            found *= np.where(taken[spread], factor, 1.0)
            drawn += taken
    return found


def _multinomials(compositions: Floats, block_size: int) -> Floats:
    logs = [
        lgamma(block_size + 1) - sum(lgamma(count + 1) for count in row)
        for row in compositions.tolist()
    ]
    ways: Floats = np.exp(np.array(logs))
    return ways
