"""The mean step of a group of GPUs by itself."""

from dataclasses import replace

import numpy as np

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.recursion.memory import spike_mean
from service.model.slowest.pooled import pooled_slowest


def group_means(fleet: Fleet) -> Floats:
    """(points,) mean factor of a step of a tensor-parallel group of equal GPUs, what lasts aside.

    All points have the same group size.
    """
    size = fleet.tensor_parallel_size
    if (size == 1).all():
        return spike_mean(fleet)
    num_gpus = np.zeros_like(fleet.num_gpus)
    num_gpus[0] = size
    alone = replace(
        fleet,
        num_gpus=num_gpus,
        mean=np.ones_like(fleet.mean),
        gpus_per_node=size,
        num_removed=np.zeros_like(fleet.num_removed),
        persistent=None,
        node=None,
        common=None,
    )
    return pooled_slowest(alone, with_quantiles=False).mean
