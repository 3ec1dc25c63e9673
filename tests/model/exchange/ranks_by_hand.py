"""All-reduces step by step, with rank after rank and message after message: the references."""

import math


def ring_ms(ranks: int, size_bytes: float, latency_ms: float, bytes_per_ms: float) -> float:
    """Every rank passes chunks to the next until each chunk has gone around twice but for one."""
    done = [0.0] * ranks
    for _ in range(2 * (ranks - 1)):
        took = latency_ms + size_bytes / ranks / bytes_per_ms
        done = [max(done[rank], done[rank - 1]) + took for rank in range(ranks)]
    return max(done)


def levels(count: int) -> int:
    """How often a number must be halved, rounding up, until 1 is left."""
    found = 0
    while count > 1:
        count, found = math.ceil(count / 2), found + 1
    return found


def tree_ms(ranks: int, size_bytes: float, latency_ms: float, bytes_per_ms: float) -> float:
    """Up the tree and down again: a hop a level; the bytes stream through twice."""
    if ranks == 1:
        return 0.0
    hops = 0.0
    for _ in range(levels(ranks)):
        hops += latency_ms
    for _ in range(levels(ranks)):
        hops += latency_ms
    return hops + size_bytes / bytes_per_ms + size_bytes / bytes_per_ms


def hierarchical_ms(
    of_node: int,
    nodes: int,
    size_bytes: float,
    within: tuple[float, float],
    between: tuple[float, float],
) -> float:
    """Reduce-scatter within nodes, all-reduce of a share between them, all-gather within."""
    total = ring_ms(of_node, size_bytes, *within)
    latency_ms, bytes_per_ms = between
    share = size_bytes / of_node
    moved = 0.0
    for _ in range(2 * (nodes - 1)):
        moved += share / nodes / bytes_per_ms
    return total + moved + min(2 * (nodes - 1), 2 * levels(nodes)) * latency_ms
