"""What one rank does in one pass of the pipeline, in order: rows of whole numbers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]

KINDS = ("forward", "backward", "backward_input", "backward_weight", "forward_backward")
FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD_BACKWARD = range(5)

# columns of an order; the partner is the backward half of a forward_backward, else -1
KIND, CHUNK, MICROBATCH, PARTNER_CHUNK, PARTNER_MICROBATCH = range(5)
NUM_COLUMNS = 5


def operations(kind: ArrayLike, chunk: ArrayLike, microbatch: ArrayLike) -> Integers:
    """(operations, columns) without partners; the three are broadcast together."""
    kinds, chunks, microbatches = np.broadcast_arrays(kind, chunk, microbatch)
    rows = np.full((kinds.size, NUM_COLUMNS), -1, dtype=np.int64)
    rows[:, KIND] = kinds
    rows[:, CHUNK] = chunks
    rows[:, MICROBATCH] = microbatches
    return rows


def in_order_of(*parts: tuple[Integers, Integers]) -> Integers:
    """Operations of several parts sorted by the keys given with each part."""
    keys = np.concatenate([key for _, key in parts])
    merged: Integers = np.concatenate([rows for rows, _ in parts])[np.argsort(keys, kind="stable")]
    return merged
