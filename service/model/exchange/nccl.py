"""Latencies of NCCL's ring and tree all-reduce as its own tuner reckons them.

Source: NCCL, src/graph/tuning.cc at commit 5067397 (2026), in microseconds. Taken: base and hop
latencies of the three protocols, the network overhead of rings (1 us, Intel hosts), the flush
that the Simple protocol pays once more, tree latency for rings of one GPU a node, and what each
protocol leaves of the bandwidth. Left out: caps per channel and GPU generation, the correction of
trees at middle sizes, the plateau of rings, NVLS and CollNet. The tuner takes the whole part of
log2.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.exchange.links import INTRA_LINK, LINK, MS_PER_US, link_of
from service.model.exchange.message_times import MessageTimes, log2_down
from service.model.exchange.messages import message_bytes, num_ranks, ranks_per_node

SIMPLE, LL, LL128 = 1, 2, 3
"""Codes of communication.protocol."""

RING_ONLY, TREE_ONLY = 2, 3
"""Codes of communication.algorithm, beside auto."""

# By the code of the protocol (absent, simple, ll, ll128), microseconds.
_RING_BASE = np.array([np.nan, 8.4, 6.6, 14.0])
_TREE_BASE = np.array([np.nan, 8.4, 6.8, 14.0])
_RING_NET = np.array([np.nan, 14.0, 2.7, 4.0])
_TREE_NET = np.array([np.nan, 14.0, 5.0, 8.5])
# By the codes of the connection within nodes (absent, nvlink, pci) and of the protocol.
_NOWHERE = [np.nan] * 4
_RING_INTRA = np.array([_NOWHERE, [np.nan, 3.4, 0.6, 1.9], [np.nan, 5.7, 1.0, 2.5]])
_TREE_INTRA = np.array([_NOWHERE, [np.nan, 4.0, 0.6, 1.25], [np.nan, 4.0, 1.0, 1.9]])
# What each step of a ring over several nodes costs the host: three times so under Simple.
_NET_OVERHEAD = np.array([np.nan, 3.0, 1.0, 1.0])
_NUM_FLUSHES = np.array([np.nan, 2.0, 1.0, 1.0])
# What a protocol's flags leave of the bandwidth; a tree's last factor depends on the nodes.
_RING_SHARE = np.array([np.nan, 1.0, 0.5, 0.92])
_TREE_SHARE = 0.92
_TREE_LL_SHARE = 1 / 3.8
_TREE_LL128_SHARES = 7 / 9, 120 / 128


class _Cluster(NamedTuple):
    """(points,) of ranks, ranks of a node, nodes, and the codes of protocol and connection."""

    ranks: Floats
    of_node: Floats
    nodes: Floats
    protocol: NDArray[np.int64]
    connection: NDArray[np.int64]


def nccl_ring(columns: Columns) -> MessageTimes:
    """(points,) ring: base + (2(n-1) - 2(M-1)) max(intra, overhead) + 2(M-1) inter us; M nodes.

    Bandwidth: 2(n-1)/n S/B with B the slower of intra_link and of a node's network links, one
    for each GPU, together.
    """
    here = _cluster(columns)
    intra = _RING_INTRA[here.connection, here.protocol]
    overhead = np.where(here.nodes > 1, _NET_OVERHEAD[here.protocol], 0.0)
    # One GPU a node: nothing hides the latency of the network.
    net = np.where(here.of_node == 1, _TREE_NET[here.protocol], _RING_NET[here.protocol])
    inter = net + _nic_us(columns, here)
    hops_between = 2 * (here.nodes - 1)
    hops_within = 2 * (here.ranks - 1) - hops_between
    latency = _RING_BASE[here.protocol]
    latency = latency + hops_within * np.maximum(intra, overhead) + hops_between * inter
    bandwidth = 2 * (here.ranks - 1) / here.ranks * message_bytes(columns)
    return _of_many(here, latency, bandwidth / (_bus(columns, here) * _RING_SHARE[here.protocol]))


def nccl_tree(columns: Columns) -> MessageTimes:
    """(points,) tree: base + 2((g-1) intra + log2(M) inter) us; 2 S / (B share)."""
    here = _cluster(columns)
    intra = _TREE_INTRA[here.connection, here.protocol]
    inter = _TREE_NET[here.protocol] + _nic_us(columns, here)
    latency = _TREE_BASE[here.protocol]
    latency = latency + 2 * ((here.of_node - 1) * intra + log2_down(here.nodes) * inter)
    one_node, more = _TREE_LL128_SHARES
    share = _TREE_SHARE * np.select(
        [here.protocol == LL, here.protocol == LL128],
        [_TREE_LL_SHARE, np.where(here.nodes == 1, one_node, more)],
        1.0,
    )
    return _of_many(here, latency, 2 * message_bytes(columns) / (_bus(columns, here) * share))


def _cluster(columns: Columns) -> _Cluster:
    ranks, of_node = num_ranks(columns), ranks_per_node(columns)
    return _Cluster(
        ranks,
        of_node,
        ranks / of_node,
        columns["communication.protocol"],
        columns["communication.intra_connection"],
    )


def _nic_us(columns: Columns, here: _Cluster) -> Floats:
    """(points,) link.latency_us where it is given: the network card's own; Simple flushes twice.

    A preset's latency is that of a whole hop, which the tuner's own constants already are.
    """
    latency = np.nan_to_num(columns[f"{LINK}.latency_us"], nan=0.0)
    flushed: Floats = latency * _NUM_FLUSHES[here.protocol]
    return flushed


def _bus(columns: Columns, here: _Cluster) -> Floats:
    """(points,) bytes per ms that pass each GPU: within nodes, and all network links of a node."""
    within = link_of(columns, INTRA_LINK).bytes_per_ms
    between = link_of(columns, LINK).bytes_per_ms * here.of_node
    return np.where(here.nodes > 1, np.minimum(within, between), within)


def _of_many(here: _Cluster, latency_us: Floats, bandwidth_ms: Floats) -> MessageTimes:
    """(points,) the times, 0 for a single rank."""
    alone = here.ranks == 1
    return MessageTimes(
        np.where(alone, 0.0, latency_us * MS_PER_US), np.where(alone, 0.0, bandwidth_ms)
    )
