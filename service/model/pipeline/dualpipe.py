"""DualPipe and DualPipeV: forwards of one direction run together with backwards of the other."""

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
)
from service.model.pipeline.schedule import Schedule, each_rank
from service.model.pipeline.steps import numbered, step

_WEIGHT = step(BACKWARD_WEIGHT, 0)


def dualpipe_v_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """Direction 1 is the way back through the second chunks.

    Source: DeepSeek-AI 2024, arXiv 2412.19437, github.com/deepseek-ai/DualPipe; torch,
    ScheduleDualPipeV (2.13).
    """
    del chunks
    return numbered(_steps(rank, stages, microbatches))


def dualpipe_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """Half of the micro-batches, with the lower numbers, go from rank 0 on, half from the last.

    The two halves of the ranks mirror each other. Source: as of `dualpipe_v_order`.
    """
    del chunks
    half = microbatches // 2
    rows = numbered(_steps(min(rank, stages - 1 - rank), stages // 2, half))
    is_paired = rows[:, PARTNER_CHUNK] >= 0
    if rank >= stages // 2:
        rows[:, CHUNK] = 1 - rows[:, CHUNK]
        rows[is_paired, PARTNER_CHUNK] = 1 - rows[is_paired, PARTNER_CHUNK]
    rows[:, MICROBATCH] += half * rows[:, CHUNK]
    rows[:, PARTNER_MICROBATCH] += np.where(is_paired, half * rows[:, PARTNER_CHUNK], 0)
    return rows


def _steps(rank: int, ranks: int, microbatches: int) -> list[int]:
    """Eight phases; the turn is at the last of `ranks`, where the first pair is not joined."""
    hops = ranks - 1 - rank
    main = [step(FORWARD_BACKWARD, 0), step(FORWARD_BACKWARD, 1)]
    main *= microbatches - 2 * ranks + rank + 1
    if not hops:
        main[:1] = [step(FORWARD, 0), step(BACKWARD, 1)]
    last = [1, 0] * (rank + 1)
    return [
        *[step(FORWARD, 0)] * (2 * hops),
        *[step(FORWARD, 0), step(FORWARD, 1)] * (rank + 1),
        *[step(BACKWARD_INPUT, 1), _WEIGHT, step(FORWARD, 1)] * hops,
        *main,
        *[step(BACKWARD, 1), step(FORWARD_BACKWARD, 1)] * hops,
        *(step(BACKWARD, chunk) for chunk in last[: rank + 1]),
        *(step(BACKWARD_INPUT, chunk) for chunk in last[rank + 1 :]),
        *[_WEIGHT, step(BACKWARD_INPUT, 0)] * hops,
        *[_WEIGHT] * (rank + 1),
    ]


def _fits_both_ways(stages: int, microbatches: int) -> bool:
    """An even number of ranks, and of micro-batches at least twice as many."""
    is_even = stages % 2 == 0 and microbatches % 2 == 0
    return is_even and microbatches >= 2 * stages > 0


def _fits_v(stages: int, microbatches: int) -> bool:
    """As many micro-batches as there are parts."""
    return microbatches >= 2 * stages > 0


DUALPIPE = Schedule(
    name="dualpipe",
    order=each_rank(dualpipe_order),
    rule="dualpipe has one chunk per stage, an even number of stages and an even number of "
    "micro-batches, at least twice that of stages",
    splits_backward=True,
    layout="both_ways",
    fits=_fits_both_ways,
)
DUALPIPE_V = Schedule(
    name="dualpipev",
    order=each_rank(dualpipe_v_order),
    rule="dualpipev has two chunks per stage and at least twice as many micro-batches as stages",
    splits_backward=True,
    layout="v",
    min_chunks=2,
    max_chunks=2,
    fits=_fits_v,
)
