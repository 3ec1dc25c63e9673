"""The spread over clusters of the window's mean slowest factor.

What is drawn once for a cluster sets clusters apart; what is drawn each step averages out over a
window of millions of steps. Definitions: design page "The model", section 3.
"""

import numpy as np
from numpy.typing import NDArray

from service.model.cluster_spread import cluster_spread
from service.model.fleet import Fleet
from service.model.lasting_spread import lasting_spread
from service.model.laws.law import Floats
from service.model.spread_types import Spread, empty_spread, put
from service.model.steady_spread import steady_spread

__all__ = ["Spread", "spread_of"]


def spread_of(
    fleet: Fleet,
    *,
    seed: NDArray[np.int64],
    draws: NDArray[np.int64],
    num_steps: Floats,
    window_hours: Floats,
) -> Spread:
    """The spread at every point.

    seed, draws   (points,) of the random clusters, where there is no way without
    num_steps     (points,) in the window: the noise of the steps is averaged over them
    window_hours  (points,) the episodes' is averaged over it

    NaN where it is not covered: backup workers beside persistent or node factors, and evicted GPUs
    beside node factors.
    """
    lasting = fleet.persistent is not None or fleet.node is not None
    if not lasting:
        return steady_spread(fleet, num_steps)
    per_step = (fleet.transient, fleet.replica, fleet.spikes)
    found = empty_spread(fleet.num_points)
    covered = np.flatnonzero(_covered(fleet))
    part = fleet.part(covered)
    if all(source is None for source in per_step):
        put(found, covered, lasting_spread(part))
        return found
    of_covered = {"seed": seed[covered], "draws": draws[covered], "num_steps": num_steps[covered]}
    put(found, covered, cluster_spread(part, **of_covered))
    return found


def _covered(fleet: Fleet) -> NDArray[np.bool_]:
    return (fleet.num_backup == 0) & (fleet.num_removed == 0)
