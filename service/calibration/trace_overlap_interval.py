"""Intervals of means and shares over steps, by resampling blocks of steps.

Steps depend on their neighbours, so whole blocks are drawn (circular block bootstrap; Politis and
Romano 1992; block length the cube root of the number of steps). The few steps of a profile make
percentiles too narrow, so the standard error is taken from the bootstrap and the reach from
Student's t with the number of blocks less two (a share is a ratio of two sums).
"""

import math

import numpy as np
from scipy import special

from service.calibration.findings import Estimate
from service.calibration.timings import FloatArray

_NUM_DRAWS = 999
_SEED = 10
METHOD = "step_block_bootstrap"
FEWEST_STEPS = 3
"""Two steps do not tell how much steps differ."""


def share_reach(part: FloatArray, whole: FloatArray, confidence: float) -> tuple[float, float]:
    """sum(part) / sum(whole) over steps, and how far its interval reaches to either side.

    Infinite for fewer than `FEWEST_STEPS`.
    """
    share = float(np.sum(part) / np.sum(whole))
    residual = (part - share * whole) / float(np.mean(whole))
    return share, _reach(residual, confidence)


def mean_estimate(values: FloatArray, confidence: float) -> Estimate:
    """Mean over steps of something that is not negative; open ends below `FEWEST_STEPS`."""
    mean, reach = float(np.mean(values)), _reach(values, confidence)
    if math.isinf(reach):
        return Estimate(value=mean, low=None, high=None, method=METHOD)
    return Estimate(value=mean, low=max(0.0, mean - reach), high=mean + reach, method=METHOD)


def standard_error(values: FloatArray) -> float:
    """Of the mean over steps; infinite for fewer than `FEWEST_STEPS`."""
    num_steps = len(values)
    if num_steps < FEWEST_STEPS:
        return math.inf
    length = _block_steps(num_steps)
    from_mean = values - np.mean(values)
    if not np.any(from_mean):
        return 0.0
    sums = np.convolve(
        np.concatenate([from_mean, from_mean[: length - 1]]), np.ones(length), "valid"
    )
    num_blocks = num_steps // length
    draws = np.random.default_rng(_SEED).integers(num_steps, size=(_NUM_DRAWS, num_blocks))
    means = np.sum(sums[draws], axis=1) / (num_blocks * length)
    # The blocks of a short row spread too little, by what their own mean takes away
    return float(np.std(means, ddof=1) * math.sqrt(num_blocks / (num_blocks - 1)))


def _block_steps(num_steps: int) -> int:
    return max(1, min(round(num_steps ** (1 / 3)) if num_steps >= 8 else 1, num_steps // 2))


def _reach(values: FloatArray, confidence: float) -> float:
    error = standard_error(values)
    if math.isinf(error):
        return error
    num_blocks = len(values) // _block_steps(len(values))
    # The ratio and the mean are both taken from the same few blocks
    dof = max(1, num_blocks - 2)
    return float(special.stdtrit(dof, (1 + confidence) / 2)) * error
