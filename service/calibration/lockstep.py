"""GPUs that move in lockstep: from the spread of a group to that of its GPUs.

With tensor parallelism the model draws every GPU's factor, and the group takes the largest. A rank
of the files that stands for T GPUs shows that largest, so its mean is above that of one GPU and its
spread below. For normal factors of cv s the largest of T has mean 1 + e s and standard deviation
d s, e and d being those of the largest of T standard normal numbers: a group's cv g is
d s / (1 + e s), hence s = g / (d - e g). The maximum over all GPUs is then that over the groups.
"""

import math
from typing import NamedTuple

import numpy as np

from service.model.distributions import Normal
from service.model.slowest.barrier import Groups, moments_of

_UNIT = 0.1


class OfGpu(NamedTuple):
    """The cv of one GPU, and the mean of the group by that of one GPU."""

    cv: float
    group_to_gpu: float


def largest_of(num_gpus: int) -> tuple[float, float]:
    """Mean and standard deviation of the largest of so many standard normal numbers."""
    if num_gpus == 1:
        return 0.0, 1.0
    groups = Groups(
        Normal, np.array([[float(num_gpus)]]), np.array([[1.0]]), np.array([[_UNIT], [0.0]])
    )
    mean, variance = moments_of(groups)
    return (float(mean[0]) - 1) / _UNIT, math.sqrt(float(variance[0])) / _UNIT


def of_gpu(group_cv: float, num_gpus: int) -> OfGpu | None:
    """What each of `num_gpus` GPUs varies by when their group varies by `group_cv`.

    None where no spread of GPUs makes groups differ so much (0.43 for 8 GPUs).
    """
    mean, deviation = largest_of(num_gpus)
    left = deviation - mean * group_cv
    if left <= 0.1:
        return None
    cv = group_cv / left
    return OfGpu(cv, 1 + mean * cv)
