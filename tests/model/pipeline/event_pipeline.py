"""A pipeline as events, from the definition: no code of the service in it.

Every rank goes through its list. It starts the next operation when it is free and the input has
arrived, and when the operation ends, its output is at the next or previous part of the model, after
the time from rank to rank if that part is on another rank.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

FORWARD, BACKWARD, INPUT, WEIGHT, BOTH = range(5)


class Operation(NamedTuple):
    """A row of an order: kind, chunk, micro-batch and, of a joined pair, those of its backward."""

    kind: int
    chunk: int
    microbatch: int
    back_chunk: int
    back_microbatch: int


class Layout(NamedTuple):
    """Where the parts of the model are: part of (rank, chunk), and how many there are."""

    part: Callable[[int, int], int]
    number: int


def layout_of(kind: str, stages: int, chunks: int) -> Layout:
    if kind == "loop":
        return Layout(lambda rank, chunk: chunk * stages + rank, stages * chunks)
    if kind == "v":
        return Layout(lambda rank, chunk: rank if not chunk else 2 * stages - 1 - rank, 2 * stages)
    return Layout(lambda rank, chunk: stages - 1 - rank if chunk else rank, stages)


Token = tuple[str, int, int, int]
"""Forward or backward, rank, part, micro-batch."""


class Pipeline:
    """What every operation of every rank needs and gives."""

    def __init__(self, orders: Sequence[Sequence[Operation]], layout: Layout) -> None:
        self.orders = orders
        self.layout = layout
        self.home: dict[tuple[int, int], int] = {}
        for rank, order in enumerate(orders):
            for operation in order:
                if operation.kind in {FORWARD, BOTH}:
                    part = layout.part(rank, operation.chunk)
                    self.home[part, operation.microbatch] = rank
        self.needed = [
            [self._needs(rank, operation) for operation in order]
            for rank, order in enumerate(orders)
        ]
        self.given = [
            [self._gives(rank, operation) for operation in order]
            for rank, order in enumerate(orders)
        ]

    def _needs(self, rank: int, operation: Operation) -> list[Token]:
        part = self.layout.part(rank, operation.chunk)
        needed: list[Token] = []
        if operation.kind in {FORWARD, BOTH} and part > 0:
            needed.append(("forward", rank, part, operation.microbatch))
        if operation.kind in {BACKWARD, INPUT}:
            needed.append(("backward", rank, part, operation.microbatch))
        if operation.kind == BOTH:
            back = self.layout.part(rank, operation.back_chunk)
            needed.append(("backward", rank, back, operation.back_microbatch))
        if operation.kind == WEIGHT:
            needed.append(("weight", rank, part, operation.microbatch))
        return needed

    def _gives(self, rank: int, operation: Operation) -> list[Token]:
        part = self.layout.part(rank, operation.chunk)
        given: list[Token] = []
        if operation.kind in {FORWARD, BOTH}:
            given.append(self._after_forward(rank, part, operation.microbatch))
        if operation.kind in {BACKWARD, INPUT}:
            given += self._after_backward(rank, part, operation.microbatch)
        if operation.kind == BOTH:
            back = self.layout.part(rank, operation.back_chunk)
            given += self._after_backward(rank, back, operation.back_microbatch)
        return given

    def _after_forward(self, rank: int, part: int, microbatch: int) -> Token:
        """The last part turns round."""
        if part == self.layout.number - 1:
            return ("backward", rank, part, microbatch)
        return ("forward", self.home[part + 1, microbatch], part + 1, microbatch)

    def _after_backward(self, rank: int, part: int, microbatch: int) -> list[Token]:
        given: list[Token] = [("weight", rank, part, microbatch)]
        if part > 0:
            given.append(("backward", self.home[part - 1, microbatch], part - 1, microbatch))
        return given

    def run(self, times: Sequence[Sequence[float]], p2p: float) -> list[list[tuple[float, float]]]:
        """Starts and ends for each rank; fewer than its operations if ranks wait for ever."""
        here: set[Token] = set()
        spans: list[list[tuple[float, float]]] = [[] for _ in self.orders]
        free = [True] * len(self.orders)
        number = count()
        events: list[tuple[float, int, int, Token | None]] = [
            (0.0, next(number), rank, None) for rank in range(len(self.orders))
        ]
        while events:
            now, _, rank, token = heappop(events)
            if token is not None:
                here.add(token)
            elif spans[rank]:
                free[rank] = True
                for given in self.given[rank][len(spans[rank]) - 1]:
                    if given[1] == rank:
                        here.add(given)
                    else:
                        heappush(events, (now + p2p, next(number), given[1], given))
            position = len(spans[rank])
            if not free[rank] or position == len(self.orders[rank]):
                continue
            if here.issuperset(self.needed[rank][position]):
                end = now + times[rank][position]
                spans[rank].append((now, end))
                free[rank] = False
                heappush(events, (end, next(number), rank, None))
        return spans


def nominal_ms(
    rank: int,
    operation: Operation,
    layout: str,
    chunks: int,
    stage_ms: Mapping[str, Sequence[float]],
    weight_fraction: float,
) -> float:
    """Of a rank's own stage; with both ways, of the stage of the copy that the chunk belongs to."""
    mirrored = len(stage_ms["forward"]) - 1 - rank

    def stage(chunk: int) -> int:
        return mirrored if layout == "both_ways" and chunk == 1 else rank

    forward = stage_ms["forward"][stage(operation.chunk)]
    backward = stage_ms["backward"][stage(operation.chunk)]
    if operation.kind == BOTH:
        return (forward + stage_ms["backward"][stage(operation.back_chunk)]) / chunks
    share = {
        FORWARD: forward,
        BACKWARD: backward,
        INPUT: (1 - weight_fraction) * backward,
        WEIGHT: weight_fraction * backward,
    }
    return share[operation.kind] / chunks
