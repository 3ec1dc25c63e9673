"""1F1B and its interleaved form: after a warm-up, forwards and backwards take turns."""

from functools import partial

import numpy as np

from service.model.pipeline.operations import (
    BACKWARD,
    FORWARD,
    Integers,
    in_order_of,
    operations,
)
from service.model.pipeline.schedule import Schedule, each_rank

# keys of one turn: its forward, its backward, its weight gradient
TURN = 3


def microbatches_per_round(stages: int, microbatches: int) -> int:
    """Q = M / R with R = max(1, M // P) rounds."""
    return microbatches // max(1, microbatches // stages)


def fits_rounds(stages: int, microbatches: int) -> bool:
    """Rounds must be equal: M mod max(1, M // P) = 0."""
    whole = stages >= 1 and microbatches >= 1
    return whole and microbatches % max(1, microbatches // stages) == 0


def taken_in_turn(
    kind: int, stages: int, microbatches: int, chunks: int, *, last_chunk_first: bool = False
) -> Integers:
    """Every chunk of one round of micro-batches, then the next round.

    The k-th is chunk (k mod qV) // q, micro-batch (k // qV) q + k mod q.
    """
    per_round = microbatches_per_round(stages, microbatches) if chunks > 1 else microbatches
    k = np.arange(microbatches * chunks)
    chunk = k % (per_round * chunks) // per_round
    if last_chunk_first:
        chunk = chunks - 1 - chunk
    return operations(kind, chunk, k // (per_round * chunks) * per_round + k % per_round)


def num_warmup(rank: int, stages: int, microbatches: int, chunks: int, *, per_hop: int) -> int:
    """Forwards before the first turn: min(MV, per_hop (P-1-r) + (V-1) q)."""
    ahead = (chunks - 1) * microbatches_per_round(stages, microbatches)
    return min(microbatches * chunks, per_hop * (stages - 1 - rank) + ahead)


def one_forward_one_backward_order(
    rank: int, stages: int, microbatches: int, chunks: int, *, per_hop: int
) -> Integers:
    """Warm-up, then forward and backward in turn, then the backwards that are left.

    Source: Narayanan et al. 2021, arXiv 2104.04473; torch, Schedule1F1B and
    ScheduleInterleaved1F1B (2.13).
    """
    forwards = taken_in_turn(FORWARD, stages, microbatches, chunks)
    backwards = taken_in_turn(BACKWARD, stages, microbatches, chunks, last_chunk_first=True)
    warmup = num_warmup(rank, stages, microbatches, chunks, per_hop=per_hop)
    k = np.arange(microbatches * chunks)
    return in_order_of((forwards, TURN * (k - warmup)), (backwards, TURN * k + 1))


ONE_FORWARD_ONE_BACKWARD = Schedule(
    name="1f1b",
    order=each_rank(partial(one_forward_one_backward_order, per_hop=1)),
    rule="1f1b has one chunk per stage",
)
INTERLEAVED = Schedule(
    name="interleaved_1f1b",
    order=each_rank(partial(one_forward_one_backward_order, per_hop=2)),
    rule="interleaved_1f1b needs at least two chunks per stage and a number of micro-batches that "
    "max(1, microbatches // stages) divides",
    min_chunks=2,
    max_chunks=None,
    fits=fits_rounds,
)
