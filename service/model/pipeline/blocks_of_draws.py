"""How many draws and replicas are worked on at a time: memory."""

from collections.abc import Iterator

from service.model.pipeline.one_cluster import OneCluster
from service.model.pipeline.random_numbers import LANE

_AT_ONCE = 1 << 19
"""Numbers of one kind: 4 MB."""


def blocks_of_lanes(cluster: OneCluster, num_lanes: int) -> Iterator[range]:
    """All lanes, some at a time."""
    size = max(_AT_ONCE // (LANE * _numbers_of_replica(cluster) * cluster.num_replicas), 1)
    for first in range(0, num_lanes, size):
        yield range(first, min(first + size, num_lanes))


def blocks_of_replicas(cluster: OneCluster, lanes: range) -> Iterator[range]:
    """All replicas, some at a time."""
    size = max(_AT_ONCE // (LANE * _numbers_of_replica(cluster) * len(lanes)), 1)
    for first in range(0, cluster.num_replicas, size):
        yield range(first, min(first + size, cluster.num_replicas))


def _numbers_of_replica(cluster: OneCluster) -> int:
    """For each draw: of its GPUs in a step, or of its stages in all steps of a round."""
    steps = int(cluster.shape.round_steps[0])
    return cluster.stages * max(cluster.tensor_size, steps)
