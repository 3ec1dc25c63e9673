"""A GPU's own factor of a step, where it is narrow beside the one that its group shares.

The slowest GPU of a group is then at the group's factor times the largest of its GPUs' own, which
scatters by even less: its mean stands for it. That is right to the square of the ratio of both.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.product_law import log_sds
from service.model.fleet import Fleet
from service.model.slowest.barrier import Groups, slowest_of

_NARROW = 0.06


def without_narrow_steps(fleet: Fleet) -> Iterator[tuple[NDArray[np.intp], Fleet]]:
    """Rows of points, and these points; of some the GPUs' own factor of a step is gone."""
    transient, replica = fleet.transient, fleet.replica
    alone = fleet.persistent is None and fleet.spikes is None
    if transient is None or replica is None or not alone:
        yield np.arange(fleet.num_points), fleet
        return
    ratio = log_sds(transient.law, transient.shape) / log_sds(replica.law, replica.shape)
    is_narrow = (fleet.tensor_parallel_size > 1) & (ratio < _NARROW)
    wide, narrow = np.flatnonzero(~is_narrow), np.flatnonzero(is_narrow)
    if len(wide):
        yield wide, fleet.part(wide)
    if len(narrow):
        of_rows, own = fleet.part(narrow), transient.part(narrow)
        size = of_rows.tensor_parallel_size[np.newaxis].astype(np.float64)
        largest = slowest_of(Groups(own.law, size, np.ones_like(size), own.shape)).mean
        yield narrow, replace(of_rows, transient=None, mean=of_rows.mean * largest)
