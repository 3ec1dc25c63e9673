"""ZB-V: two chunks a rank that run down the ranks and back, weight gradients in the gaps."""

from service.model.pipeline.operations import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    MICROBATCH,
    Integers,
)
from service.model.pipeline.schedule import Schedule, each_rank
from service.model.pipeline.steps import numbered, step


def zbv_order(rank: int, stages: int, microbatches: int, chunks: int) -> Integers:
    """The order for at least 2P - 1 micro-batches, without those that are not there.

    Source: Qi et al. 2023, arXiv 2401.10241, section 6; torch, ScheduleZBVZeroBubble (2.13).
    """
    del chunks
    number = max(2 * stages - 1, microbatches)
    rows = numbered(_steps(rank, stages, number))
    return rows[rows[:, MICROBATCH] < microbatches]


def _steps(rank: int, stages: int, number: int) -> list[int]:
    """Warm-up, steady phase, its end without forwards of chunk 0, cool-down."""
    forward, gradient, weight = (
        [step(kind, chunk) for chunk in (0, 1)]
        for kind in (FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
    )
    hops = stages - 1 - rank
    back = [gradient[0], weight[0]]
    turn = [forward[1], gradient[1], weight[1]]
    return [
        *[forward[0]] * (2 * hops + 1),
        *[forward[1], forward[0]] * rank,
        *turn * (hops + 1),
        *[forward[0], *back, *turn] * (number - 2 * stages + rank + 1),
        *[*back, *turn] * hops,
        *[gradient[0], gradient[1]] * rank,
        *back * (hops + 1),
        *[weight[1]] * rank,
        *[weight[0]] * rank,
    ]


ZBV = Schedule(
    name="zbv",
    order=each_rank(zbv_order),
    rule="zbv has two chunks per stage",
    splits_backward=True,
    layout="v",
    min_chunks=2,
    max_chunks=2,
)
