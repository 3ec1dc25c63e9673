"""What is exchanged, and among how many. Design page "The model", section 5."""

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Columns, Floats
from service.model.stage_sizes import num_replicas, replica_gpus


def message_bytes(columns: Columns) -> Floats:
    """(points,) S, the bytes that each GPU exchanges, after compression; NaN where none is given.

    message_bytes, or parameters x bytes_per_parameter / (stages x tensor_parallel_size): each GPU
    of a replica holds, and exchanges, its share of the model.
    """
    small: Floats = uncompressed_bytes(columns) / columns["communication.compression_ratio"]
    return small


def uncompressed_bytes(columns: Columns) -> Floats:
    """(points,) the bytes before compression; NaN where none is given."""
    given = columns["communication.message_bytes"]
    parameters = columns["communication.parameters"]
    of_model = parameters * columns["communication.bytes_per_parameter"]
    size: Floats = np.where(np.isnan(given), of_model / replica_gpus(columns), given)
    return size


def num_ranks(columns: Columns) -> Floats:
    """(points,) n, the data-parallel ranks: whole replicas among the GPUs that take part."""
    return num_replicas(columns)


def ranks_per_node(columns: Columns) -> Floats:
    """(points,) g, the data-parallel ranks of a node: all of them where they share one."""
    of_node = np.maximum(columns["gpus_per_node"] // replica_gpus(columns), 1.0)
    shared: Floats = np.minimum(of_node, num_ranks(columns))
    return shared


def fills_nodes(columns: Columns) -> NDArray[np.bool_]:
    """(points,) whether the ranks fill whole nodes, so that n/g is a number of nodes."""
    whole: NDArray[np.bool_] = num_ranks(columns) % ranks_per_node(columns) == 0
    return whole


def smallest_share(columns: Columns) -> Floats:
    """(points,) the smallest part of the message that travels by itself, as a share of it.

    Equal buckets: 1/K. Buckets of bucket_bytes: the rest in the last. Listed ones: the smallest.
    Fragments of an exchange of local steps: 1/P.
    """
    smallest = np.ones(columns.num_points)
    for path in ("overlap.num_buckets", "synchronization.fragments"):
        if not columns.lacks(path):
            smallest = np.fmin(smallest, 1 / columns[path])
    if not columns.lacks("overlap.bucket_bytes"):
        smallest = np.fmin(smallest, _rest_share(columns))
    if not columns.lacks("overlap.bucket_shares"):
        smallest = np.fmin(smallest, _least_listed(columns))
    return smallest


def _rest_share(columns: Columns) -> Floats:
    """(points,) share of the last bucket, the one that is not full; NaN without bucket_bytes."""
    num_full = uncompressed_bytes(columns) / columns["overlap.bucket_bytes"]
    rest = num_full - np.ceil(num_full) + 1
    # A message of no bytes is one bucket.
    return np.where(num_full > 1, rest / np.fmax(num_full, 1.0), 1.0)


def _least_listed(columns: Columns) -> Floats:
    """(points,) the smallest of the listed shares over their sum; NaN where none are listed."""
    lists = columns["overlap.bucket_shares"].tolist()
    # The points of a grid share few lists.
    least = {
        id(shares): np.nan if shares is None else min(shares) / sum(shares)
        for shares in {id(shares): shares for shares in lists}.values()
    }
    return np.array([least[id(shares)] for shares in lists])
