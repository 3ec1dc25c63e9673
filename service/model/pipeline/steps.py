"""Orders written as steps of two chunks, whose micro-batches are counted afterwards."""

from collections.abc import Sequence

import numpy as np

from service.model.pipeline.operations import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    CHUNK,
    FORWARD,
    FORWARD_BACKWARD,
    MICROBATCH,
    PARTNER_CHUNK,
    PARTNER_MICROBATCH,
    Integers,
    operations,
)


def step(kind: int, chunk: int) -> int:
    """An operation of the next micro-batch of chunk 0 or 1, as one number.

    A forward_backward goes forward in `chunk` and back in the other one. A weight gradient belongs
    to the oldest input gradient that has none yet, of whatever chunk.
    """
    return 2 * kind + chunk


def numbered(steps: Sequence[int]) -> Integers:
    """(operations, columns) of the steps of a rank."""
    kind, chunk = np.divmod(np.array(steps), 2)
    rows = operations(kind, chunk, -1)
    is_pair = kind == FORWARD_BACKWARD
    forward = (kind == FORWARD) | is_pair
    backward = (kind == BACKWARD) | (kind == BACKWARD_INPUT)
    rows[is_pair, PARTNER_CHUNK] = 1 - chunk[is_pair]
    for number in (0, 1):
        there = forward & (chunk == number)
        rows[there, MICROBATCH] = np.arange(there.sum())
        alone = backward & (chunk == number)
        paired = is_pair & (chunk != number)
        count = np.cumsum(alone | paired) - 1
        rows[alone, MICROBATCH] = count[alone]
        rows[paired, PARTNER_MICROBATCH] = count[paired]
    rows[kind == BACKWARD_WEIGHT, CHUNK] = chunk[kind == BACKWARD_INPUT]
    rows[kind == BACKWARD_WEIGHT, MICROBATCH] = rows[kind == BACKWARD_INPUT, MICROBATCH]
    return rows
