"""The spread over clusters from random clusters whose mean step is known (`cluster_means.py`)."""

from typing import NamedTuple

import numpy as np

from service.model.clusters.cluster_draws import NUM_BLOCKS, lattice_scores
from service.model.clusters.spread_types import SPREAD_PROBABILITIES
from service.model.laws.law import Floats


class Sampled(NamedTuple):
    """Of one point: as in `Spread`."""

    quantiles: Floats
    quantiles_se: Floats
    mean: float
    mean_se: float
    reciprocal_mean: float
    reciprocal_mean_se: float
    reciprocal_sd: float


def sampled(mean: Floats, sd: float, outside_ratio: float, seed: int) -> Sampled:
    """From the clusters' means (draws,), each smeared by a normal scatter of that sd.

    Errors are those of the blocks' own results, sd / sqrt(blocks).
    """
    scores = lattice_scores(seed, len(mean))
    values = mean[:, np.newaxis] + sd * scores
    of_block = values.reshape(NUM_BLOCKS, -1)
    reciprocal = 1 / (outside_ratio + of_block)
    by_block = np.sort(of_block, axis=1)
    block_means = np.stack([mean.reshape(NUM_BLOCKS, -1).mean(axis=1), reciprocal.mean(axis=1)])
    mean_of_all, reciprocal_mean = block_means.mean(axis=1).tolist()
    mean_se, reciprocal_mean_se = _error(block_means.T).tolist()
    reciprocal -= reciprocal_mean
    return Sampled(
        quantiles=quantiles_of(np.sort(by_block, axis=None)),
        quantiles_se=_error(quantiles_of(by_block)),
        mean=mean_of_all,
        mean_se=mean_se,
        reciprocal_mean=reciprocal_mean,
        reciprocal_mean_se=reciprocal_mean_se,
        reciprocal_sd=float(np.vdot(reciprocal, reciprocal) / reciprocal.size) ** 0.5,
    )


def quantiles_of(ordered: Floats) -> Floats:
    """(..., 3) of values sorted along the last axis, each in the middle of its share."""
    last = ordered.shape[-1] - 1
    place = np.minimum(np.maximum(SPREAD_PROBABILITIES * (last + 1) - 0.5, 0), last)
    left = np.minimum(place.astype(np.intp), last - 1)
    share = place - left
    found: Floats = ordered[..., left] * (1 - share) + ordered[..., left + 1] * share
    return found


def _error(of_block: Floats) -> Floats:
    """Standard error of the mean of the blocks, along the first axis."""
    error: Floats = of_block.std(axis=0, ddof=1) / NUM_BLOCKS**0.5
    return error
