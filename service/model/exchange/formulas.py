"""Formulas of the collectives. Design page "The model", section 5.

n ranks, S bytes, B bytes per ms of one rank in one direction, a ms of latency from one rank to
the next. A single rank exchanges nothing and waits for nothing.
Bandwidth parts are those of nccl-tests' doc/PERFORMANCE.md; latency parts count the steps.
"""

import numpy as np

from service.model.columns import Columns, Floats
from service.model.exchange.links import INTRA_LINK, LINK, link_of
from service.model.exchange.message_times import MessageTimes, log2_up
from service.model.exchange.messages import message_bytes, num_ranks, ranks_per_node


def ring(columns: Columns) -> MessageTimes:
    """(points,) 2(n-1) a + 2(n-1)/n S/B."""
    ranks, link = num_ranks(columns), link_of(columns, LINK)
    steps = 2 * (ranks - 1)
    size = message_bytes(columns)
    return MessageTimes(steps * link.latency_ms, steps / ranks * size / link.bytes_per_ms)


def tree(columns: Columns) -> MessageTimes:
    """(points,) double binary tree: 2 log2(n) a + 2 S/(B efficiency)."""
    ranks, link = num_ranks(columns), link_of(columns, LINK)
    reached = link.bytes_per_ms * columns["communication.tree_efficiency_fraction"]
    bandwidth = 2 * message_bytes(columns) / reached
    return MessageTimes(2 * log2_up(ranks) * link.latency_ms, np.where(ranks == 1, 0.0, bandwidth))


def hierarchical(columns: Columns) -> MessageTimes:
    """(points,) rings within nodes, then between them with one network link for each GPU.

    2(g-1)/g S/B_intra + 2(M-1)/M (S/g)/B + 2(g-1) a_intra + min(2(M-1), 2 log2 M) a, with g
    ranks a node and M nodes.
    """
    of_node = ranks_per_node(columns)
    nodes = num_ranks(columns) / of_node
    within, between = link_of(columns, INTRA_LINK), link_of(columns, LINK)
    size = message_bytes(columns)
    steps = 2 * np.minimum(nodes - 1, log2_up(nodes))
    latency = 2 * (of_node - 1) * within.latency_ms + steps * between.latency_ms
    inside = 2 * (of_node - 1) / of_node * size / within.bytes_per_ms
    outside = 2 * (nodes - 1) / nodes * (size / of_node) / between.bytes_per_ms
    return MessageTimes(latency, inside + outside)


def transfer(columns: Columns) -> MessageTimes:
    """(points,) one message to one place: a + S/B."""
    alone, link = num_ranks(columns) == 1, link_of(columns, LINK)
    bandwidth: Floats = message_bytes(columns) / link.bytes_per_ms
    return MessageTimes(np.where(alone, 0.0, link.latency_ms), np.where(alone, 0.0, bandwidth))
