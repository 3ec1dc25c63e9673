"""A schedule of the pipeline: which sizes it takes, where chunks live, what each rank does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np

from service.model.pipeline.operations import Integers

Layout = Literal["loop", "v", "both_ways"]


class Sizes(NamedTuple):
    """P, M and V of a pipeline."""

    stages: int
    microbatches: int
    chunks: int

    def said(self, between: str = ", ") -> str:
        """As in a sentence."""
        parts = zip(self, ("stage", "micro-batch", "chunk"), strict=True)
        return between.join(counted(number, noun) for number, noun in parts)


def counted(number: int, noun: str) -> str:
    """A count and what is counted: 1 micro-batch, 2 micro-batches."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{ending}"


def each_rank(
    rank_order: Callable[[int, int, int, int], Integers],
) -> Callable[[int, int, int], tuple[Integers, ...]]:
    """The order of all ranks from that of one, given (rank, stages, microbatches, chunks)."""

    def order(stages: int, microbatches: int, chunks: int) -> tuple[Integers, ...]:
        return tuple(rank_order(rank, stages, microbatches, chunks) for rank in range(stages))

    return order


def any_sizes(stages: int, microbatches: int) -> bool:
    """Of a schedule that takes every number of stages and micro-batches."""
    return stages >= 1 and microbatches >= 1


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One published schedule.

    `order(stages, microbatches, chunks)` are the operations of every rank in order, one
    (operations, columns) array for each.
    `layout` says where the parts of the model are: "loop": part g on rank g mod P; "v": the second
    chunks come back, part 2P-1-r on rank r; "both_ways": chunk 0 of rank r is part r and chunk 1 is
    part P-1-r of a second copy, for the other half of the micro-batches.
    """

    name: str
    order: Callable[[int, int, int], tuple[Integers, ...]]
    rule: str
    splits_backward: bool = False
    layout: Layout = "loop"
    min_chunks: int = 1
    max_chunks: int | None = 1
    fits: Callable[[int, int], bool] = any_sizes

    def is_valid(self, stages: int, microbatches: int, chunks: int) -> bool:
        """Whether the published implementation, or its natural extension, takes these sizes."""
        return chunks == self._nearest_chunks(chunks) and self.fits(stages, microbatches)

    def nearest(self, stages: int, microbatches: int, chunks: int) -> tuple[Sizes, ...]:
        """Valid sizes around those given, fewer micro-batches first; themselves if valid.

        The number of stages is kept where any number of micro-batches fits it.
        """
        near = self._nearest_chunks(chunks)
        found: list[Sizes] = []
        for size in (stages,) if self._fits_stages(stages) else (stages - 1, stages + 1):
            found.extend(Sizes(size, number, near) for number in self._around(size, microbatches))
        return tuple(found)

    def part_of(self, rank: Integers, chunk: Integers, stages: int) -> Integers:
        """The part of the model that a chunk is, from 0 on; (operations,)."""
        if self.layout == "loop":
            return chunk * stages + rank
        last = 2 * stages - 1 if self.layout == "v" else stages - 1
        return np.where(chunk == 0, rank, last - rank)

    def num_parts(self, stages: int, chunks: int) -> int:
        """Parts that a micro-batch goes through."""
        return stages if self.layout == "both_ways" else stages * chunks

    def _nearest_chunks(self, chunks: int) -> int:
        """Valid V."""
        most = max(chunks, self.min_chunks) if self.max_chunks is None else self.max_chunks
        return min(max(chunks, self.min_chunks), most)

    def _fits_stages(self, stages: int) -> bool:
        """Whether any number of micro-batches fits; 2P does if one does (naive: 1)."""
        return self.fits(stages, 2 * stages) or self.fits(stages, 1)

    def _around(self, stages: int, microbatches: int) -> Iterator[int]:
        """The nearest valid M >= 1 below and above, or M itself."""
        if stages < 1:
            return
        if self.fits(stages, microbatches):
            yield microbatches
            return
        # With R = M // P rounds a multiple of R, or of P, is near; an even number nearer.
        steps = 2 + min(stages, microbatches // stages)
        below = chain(range(microbatches - 1, max(0, microbatches - 1 - steps), -1), (1,))
        above = chain(range(microbatches + 1, microbatches + 1 + steps), (2 * stages,))
        for numbers in (below, above):
            found = next((number for number in numbers if self.fits(stages, number)), None)
            if found is not None:
                yield found
