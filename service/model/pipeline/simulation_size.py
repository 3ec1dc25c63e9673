"""How much work the simulation of pipelines is, before anything is drawn or compiled."""

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.pipeline.cluster_parts import lasting_part
from service.model.pipeline.fixed_places import num_worst_placements
from service.model.pipeline.known_parts import known_parts
from service.model.pipeline.one_cluster import OneCluster, clusters_of
from service.model.pipeline.random_numbers import LANE
from service.model.pipeline.replica_makespans import MAKESPANS
from service.model.pipeline.replica_states import is_exact, num_states
from service.model.pipeline.shape import WORST
from service.model.pipeline.simulate import num_lanes_of

MAX_WHOLE_GPUS = 1 << 20
"""Of larger clusters the draws are not held whole, as standing by and random places need it."""
_OF_A_NUMBER = 8
"""A random number takes as long as so many operations."""
_OF_A_PLACEMENT = 0.25
"""An operation of a placement that is tried takes so much of others: thousands go together."""


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


def replica_operations(fleet: Fleet, draws: NDArray[np.int64]) -> Floats:
    """(points,) of `replica_makespans`: as it is, and twice without what varies from step to step.

    Fewer replicas are worked through than there are, but GPUs are drawn as for all.
    """
    found = np.empty(fleet.num_points)
    for point, cluster in enumerate(clusters_of(fleet)):
        number = LANE * num_lanes_of(int(draws[point]))
        found[point] = sum(_of_some(part, number) for part in _passes(cluster))
    return found


def placement_operations(fleet: Fleet) -> Floats:
    """(points,) to find the worst places of slow GPUs, with handing on and without."""
    return np.array([_of_placements(cluster) for cluster in clusters_of(fleet)])


def _of_placements(cluster: OneCluster) -> float:
    groups = [group for group in cluster.slow_groups if group.placement == WORST]
    if not groups:
        return 0.0
    count = np.array([[float(group.number)] for group in groups])
    factor = np.array([[group.factor] for group in groups])
    ways = num_worst_placements(cluster.stages, count, factor)[0]
    times = 2 if cluster.shape.p2p[0] > 0 else 1
    return float(_OF_A_PLACEMENT * times * ways * cluster.num_operations)


def _passes(cluster: OneCluster) -> tuple[OneCluster, ...]:
    steady = lasting_part(cluster)
    return cluster, steady, steady


def _of_some(cluster: OneCluster, draws: int) -> float:
    """Of a cluster's replicas as many as `replica_makespans` looks at."""
    if is_exact(cluster):
        return float(num_states(cluster)) * cluster.num_operations
    steps = draws * int(cluster.shape.round_steps[0])
    number = max(-(-MAKESPANS // steps), -(-cluster.num_replicas * LANE // draws))
    share = min(number / cluster.num_replicas, 1.0)
    return operations_drawn(cluster, draws, share) + operations_known(cluster, draws)


def operations_drawn(cluster: OneCluster, draws: int, share: float = 1.0) -> float:
    """Of so many rounds alone; of a share of the replicas only, though GPUs are drawn for all."""
    shape, fleet = cluster.shape, cluster.fleet
    per_step = (fleet.transient, fleet.spikes, fleet.replica, fleet.common)
    lasting = (fleet.persistent, fleet.node, fleet.episodes, cluster.random_groups or None)
    steps = float(draws) * int(shape.round_steps[0])
    of_replicas = share * steps * cluster.num_replicas * cluster.num_operations
    numbers = steps * cluster.num_working * sum(source is not None for source in per_step)
    numbers += float(draws) * cluster.num_held * sum(source is not None for source in lasting)
    if shape.jitter is not None:
        # Of GPUs that may differ, each has its own.
        alone = (*per_step[:2], *lasting, cluster.slow_groups or None)
        is_alike = all(source is None for source in alone)
        numbers += of_replicas * (1 if is_alike else cluster.tensor_size)
    return of_replicas + _OF_A_NUMBER * numbers
