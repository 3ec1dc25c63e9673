"""ZB1P and its interleaved form: weight gradients wait until they can fill a bubble."""

from functools import partial

import numpy as np

from service.model.pipeline.one_forward_one_backward import (
    TURN,
    fits_rounds,
    num_warmup,
    taken_in_turn,
)
from service.model.pipeline.operations import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Integers,
    in_order_of,
)
from service.model.pipeline.schedule import Schedule, each_rank


def zero_bubble_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """Forward and input gradient in turn; weight gradients follow `rank` turns later.

    Source: Qi et al. 2023, arXiv 2401.10241; torch, ScheduleInterleavedZeroBubble (2.13). With one
    chunk this is ZB-H1 of the paper, made by hand.
    """
    forwards = taken_in_turn(FORWARD, stages, microbatches, chunks)
    backwards = partial(
        taken_in_turn,
        stages=stages,
        microbatches=microbatches,
        chunks=chunks,
        last_chunk_first=True,
    )
    warmup = num_warmup(rank, stages, microbatches, chunks, per_hop=1)
    k = np.arange(microbatches * chunks)
    return in_order_of(
        (forwards, TURN * (k - warmup)),
        (backwards(BACKWARD_INPUT), TURN * k + 1),
        (backwards(BACKWARD_WEIGHT), TURN * (k + rank) + 2),
    )


ZB1P = Schedule(
    name="zb1p",
    order=each_rank(zero_bubble_order),
    rule="zb1p has one chunk per stage",
    splits_backward=True,
)
INTERLEAVED_ZB1P = Schedule(
    name="interleaved_zb1p",
    order=each_rank(zero_bubble_order),
    rule="interleaved_zb1p needs at least two chunks per stage and a number of micro-batches that "
    "max(1, microbatches // stages) divides",
    splits_backward=True,
    min_chunks=2,
    max_chunks=None,
    fits=fits_rounds,
)
