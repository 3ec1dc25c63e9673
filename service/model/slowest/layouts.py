"""Fleets by the size of what shares a factor, and by whether a step waits for all."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.model.fleet import Fleet
from service.model.laws.source import Source


class Layout(NamedTuple):
    """Points of a fleet with the same classes, and nodes and tensor-parallel groups of one size.

    rows        of the fleet
    node_size   GPUs that share the node's factor; 1 where none does
    last_size   GPUs of a last, smaller node; 0 where all are whole
    group_size  GPUs that share the replica's factor; 1 where none does
    backup      whether steps end without some GPUs
    """

    rows: NDArray[np.intp]
    node_size: int
    last_size: float
    group_size: int
    backup: bool


def layouts_of(fleet: Fleet) -> list[Layout]:
    """A partition of the points."""
    ones = np.ones(fleet.num_points)
    node_size = ones if fleet.node is None else fleet.gpus_per_node * ones
    group_size = ones if fleet.replica is None else fleet.tensor_parallel_size * ones
    last_size = fleet.num_gpus.sum(axis=0) % node_size
    backup = fleet.num_backup > 0
    own = np.stack([node_size, last_size * (node_size > 1), group_size, backup])
    keys = np.concatenate([own, fleet.num_gpus > 0])
    if (keys == keys[:, :1]).all():
        # Sorting columns is what a fifth of a plain evaluation would go to.
        distinct, of_point = keys[:, :1], np.zeros(fleet.num_points, dtype=np.intp)
    else:
        distinct, of_point = np.unique(keys, axis=1, return_inverse=True)
    return [
        Layout(np.flatnonzero(of_point.ravel() == number), int(node), last, int(group), bool(late))
        for number, (node, last, group, late) in enumerate(distinct[: len(own)].T.tolist())
    ]


def sources_of_one(fleet: Fleet, layout: Layout) -> list[Source]:
    """The factors drawn for a single GPU: a node or a group of one GPU is that GPU."""
    node = fleet.node if layout.node_size == 1 else None
    replica = fleet.replica if layout.group_size == 1 else None
    sources = (fleet.persistent, fleet.transient, node, replica)
    return [source for source in sources if source is not None]


def sources_of_blocks(fleet: Fleet, layout: Layout) -> list[tuple[Source, int]]:
    """The factors that several GPUs share, with the number of GPUs; the inner ones first."""
    shared = [(fleet.replica, layout.group_size), (fleet.node, layout.node_size)]
    return [(source, size) for source, size in shared if source is not None and size > 1]
