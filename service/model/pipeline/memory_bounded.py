"""ZB-H1 and ZB-H2: the greedy order of the zero bubble paper under a bound on memory.

Qi et al. 2023, arXiv 2401.10241, appendix, and sail-sg/zero-bubble-pipeline-parallelism, zb.py,
with equal times of forward, input gradient and weight gradient, no time between ranks, and half of
the memory of a forward freed by each gradient. ZB-H1 may hold P forwards, ZB-H2 2P. Of the variants
that are tried there, at these times the first is never beaten.
"""

import numpy as np

from service.model.pipeline.operations import (
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Integers,
    operations,
)
from service.model.pipeline.schedule import Schedule
from service.model.pipeline.zero_bubble import ZB1P

# in halves of what a forward keeps
_MEMORY = {FORWARD: 2, BACKWARD_INPUT: -1, BACKWARD_WEIGHT: -1}


class _Ranks:
    """Ranks that have done some of their operations, each of which takes one unit of time."""

    def __init__(self, stages: int, microbatches: int, most_memory: int) -> None:
        self.stages = stages
        self.microbatches = microbatches
        self.most_memory = most_memory
        self.kinds: list[list[int]] = [[] for _ in range(stages)]
        self.ends: dict[int, list[list[int]]] = {
            kind: [[] for _ in range(stages)] for kind in _MEMORY
        }
        self.clock = [0] * stages
        self.memory = [0] * stages
        self.idle = [0] * stages
        self.most_idle = 0

    def done(self, kind: int, rank: int) -> int:
        """Operations of this kind."""
        return len(self.ends[kind][rank])

    def arrival(self, kind: int, rank: int) -> int:
        """When the input of the next operation of this kind comes from the other rank."""
        source = rank - 1 if kind == FORWARD else rank + 1
        if kind == BACKWARD_WEIGHT or not 0 <= source < self.stages:
            return 0
        return self.ends[kind][source][self.done(kind, rank)]

    def do(self, kind: int, rank: int) -> None:
        """The next operation of this kind."""
        start = max(self.clock[rank], self.arrival(kind, rank))
        if self.kinds[rank]:
            self.idle[rank] += start - self.clock[rank]
            self.most_idle = max(self.most_idle, self.idle[rank])
        self.clock[rank] = start + 1
        self.memory[rank] += _MEMORY[kind]
        self.ends[kind][rank].append(start + 1)
        self.kinds[rank].append(kind)

    def num_pending(self, rank: int) -> int:
        """Weight gradients that could be computed."""
        return self.done(BACKWARD_INPUT, rank) - self.done(BACKWARD_WEIGHT, rank)

    def fill_until(self, time: int, rank: int) -> None:
        """Weight gradients that end by then."""
        for _ in range(min(self.num_pending(rank), time - self.clock[rank])):
            self.do(BACKWARD_WEIGHT, rank)

    def excess_memory(self, rank: int) -> int:
        """Weight gradients that have to come before one more forward."""
        return max(0, self.memory[rank] + _MEMORY[FORWARD] - self.most_memory)

    def wants_forward(self, rank: int) -> bool:
        """Whether a forward comes before the next input gradient.

        Not if the next rank is two forwards behind and would be done with one forward and one
        gradient too early for it, unless this rank has been idle longest.
        """
        if self.done(FORWARD, rank) == self.microbatches:
            return False
        behind = rank + 1
        if behind == self.stages or self.done(FORWARD, rank) < self.done(FORWARD, behind) + 2:
            return True
        slack = self.clock[behind] + 2 - self.clock[rank]
        first = min(self.excess_memory(rank), self.num_pending(rank))
        return slack > first or slack > max(0, self.most_idle - self.idle[rank])


def memory_bounded_order(
    stages: int, microbatches: int, most_microbatches: int
) -> tuple[Integers, ...]:
    """For each rank; no rank keeps more than `most_microbatches` forwards."""
    ranks = _Ranks(stages, microbatches, _MEMORY[FORWARD] * most_microbatches)
    for rank, number in enumerate(_num_first(stages, microbatches, most_microbatches)):
        for _ in range(number):
            ranks.do(FORWARD, rank)
    for rank in reversed(range(stages)):
        ranks.do(BACKWARD_INPUT, rank)
    for _ in range(1, microbatches):
        _forwards(ranks)
        _input_gradients(ranks)
    for rank in range(stages):
        for _ in range(ranks.num_pending(rank)):
            ranks.do(BACKWARD_WEIGHT, rank)
    return tuple(_numbered(kinds) for kinds in ranks.kinds)


def _num_first(stages: int, microbatches: int, most_microbatches: int) -> list[int]:
    """Forwards of each rank before its first input gradient."""
    found: list[int] = []
    for rank in range(stages):
        number = min(microbatches, most_microbatches, 1 + 2 * (stages - 1 - rank))
        if found and number < microbatches:
            number = max(1, min(number, found[-1] - 1))
        found.append(number)
    return found


def _forwards(ranks: _Ranks) -> None:
    """At most one of each rank, and none if the ranks after it have none."""
    wanted = [ranks.wants_forward(rank) for rank in range(ranks.stages)]
    first = ranks.stages
    while first and wanted[first - 1]:
        first -= 1
    for rank in range(first, ranks.stages):
        for _ in range(ranks.excess_memory(rank)):
            ranks.do(BACKWARD_WEIGHT, rank)
        ranks.fill_until(ranks.arrival(FORWARD, rank), rank)
        ranks.do(FORWARD, rank)


def _input_gradients(ranks: _Ranks) -> None:
    """One of each rank, the last rank first."""
    for rank in reversed(range(ranks.stages)):
        ranks.fill_until(ranks.arrival(BACKWARD_INPUT, rank), rank)
        if rank == 0 and ranks.done(FORWARD, rank) == ranks.microbatches:
            for _ in range(ranks.num_pending(rank)):
                ranks.do(BACKWARD_WEIGHT, rank)
        ranks.do(BACKWARD_INPUT, rank)


def _numbered(kinds: list[int]) -> Integers:
    """The k-th operation of a kind is that of micro-batch k."""
    kind = np.array(kinds)
    microbatch = np.empty_like(kind)
    for one in _MEMORY:
        microbatch[kind == one] = np.arange((kind == one).sum())
    return operations(kind, 0, microbatch)


def zb_h1_order(stages: int, microbatches: int, chunks: int) -> tuple[Integers, ...]:
    """With more micro-batches than ranks the greedy order is that of ZB1P."""
    if microbatches > stages:
        return ZB1P.order(stages, microbatches, chunks)
    return memory_bounded_order(stages, microbatches, stages)


def zb_h2_order(stages: int, microbatches: int, chunks: int) -> tuple[Integers, ...]:
    """Twice the memory."""
    del chunks
    return memory_bounded_order(stages, microbatches, 2 * stages)


ZB_H1 = Schedule(
    name="zb_h1", order=zb_h1_order, rule="zb_h1 has one chunk per stage", splits_backward=True
)
ZB_H2 = Schedule(
    name="zb_h2", order=zb_h2_order, rule="zb_h2 has one chunk per stage", splits_backward=True
)
