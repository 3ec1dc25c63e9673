"""How much work the simulation of pipelines is, before anything is drawn or compiled."""

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.known_parts import known_parts
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.replica_states import is_exact, num_states
from service.model.pipeline.simulate import num_lanes_of

MAX_WHOLE_GPUS = 1 << 20
"""Of larger clusters the draws are not held whole, as standing by and random places need it."""
_OF_A_NUMBER = 8
"""A random number takes as long as so many operations."""


def operations_needed(fleet: Fleet, draws: NDArray[np.int64]) -> Floats:
    """(points,) operations that one run of `simulate_pipelines` evaluates at most.

    A random number counts as several; bounds spare most replicas where there are many
    micro-batches. Infinite where a cluster would not fit into memory.
    """
    found = np.empty(fleet.num_points)
    for point, cluster in enumerate(clusters_of(fleet)):
        found[point] = operations_of(cluster, LANE * num_lanes_of(int(draws[point])))
    return found


def operations_of(cluster: OneCluster, draws: int) -> float:
    """Likewise of one point, of a number of draws."""
    if is_exact(cluster):
        return float(num_states(cluster)) * cluster.num_operations
    needs_all = cluster.num_removed > 0 or bool(cluster.random_groups)
    if needs_all and cluster.num_held > MAX_WHOLE_GPUS:
        return np.inf
    return operations_drawn(cluster, draws) + operations_known(cluster, draws)


def operations_known(cluster: OneCluster, draws: int) -> float:
    """Of what is known of a cluster, to be drawn beside it."""
    return sum(
        operations_drawn(part, draws) + float(num_states(part)) * part.num_operations
        for part in known_parts(cluster)
    )


def operations_drawn(cluster: OneCluster, draws: int) -> float:
    """Of so many rounds alone."""
    shape, fleet = cluster.shape, cluster.fleet
    per_step = (fleet.transient, fleet.spikes, fleet.replica, fleet.common)
    lasting = (fleet.persistent, fleet.node, fleet.episodes, cluster.random_groups or None)
    steps = float(draws) * int(shape.round_steps[0])
    of_replicas = steps * cluster.num_replicas * cluster.num_operations
    numbers = steps * cluster.num_working * sum(source is not None for source in per_step)
    numbers += float(draws) * cluster.num_held * sum(source is not None for source in lasting)
    if shape.jitter is not None:
        # Of GPUs that may differ, each has its own.
        alone = (*per_step[:2], *lasting, cluster.slow_groups or None)
        is_alike = all(source is None for source in alone)
        numbers += of_replicas * (1 if is_alike else cluster.tensor_size)
    return of_replicas + _OF_A_NUMBER * numbers
