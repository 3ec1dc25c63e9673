"""GPUs that share a factor: tensor-parallel groups within nodes, nodes within the fleet.

P(block <= t) = E_A[Π over its parts P(part <= t / A)], for every composition of a block. The last
node may be smaller. Each level is tabulated on panels that know where the copies of its law lie.
Source: model page, section 3 (128 nodes x 8 GPUs, .04 x .03: 1.163968).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.slowest.compositions import compositions_of, probabilities
from service.model.slowest.mixing import Kinds, from_lowest, mixed_blocks
from service.model.slowest.panels import finer, interpolated, nodes_of
from service.model.slowest.rank_law import copies_of, edges_of, middle_of, shifted

# Where two copies of a law meet, the logarithm of survival has a bend: shorter panels there; more
# copies cut each other's panels already.
_PARTS_OF_PANEL = {2: 3, 3: 2}


_Rows = tuple[tuple[float, ...], ...]


class Blocks(NamedTuple):
    """Blocks of every composition.

    compositions  (blocks, classes) GPUs of each class
    kinds         the distribution of each block's slowest GPU
    """

    compositions: Floats
    kinds: Kinds


class Copies(NamedTuple):
    """Where the law of a block lies: the factors in it, (shifts, points) of its copies."""

    sources: Sequence[Source]
    shifts: Floats

    def edges(self) -> Floats:
        """Panels for a table of the law."""
        return shifted(edges_of(self.sources), self.shifts)

    def kinds(self, survivals: Callable[[Floats], Floats]) -> Kinds:
        """Kinds of blocks that lie there."""
        first, last = edges_of(self.sources)[[0, -1]]
        ends = np.stack([first, middle_of(self.sources), last])
        return copies_of(ends, self.shifts, survivals)


def sharing(outer: Source, parts: Blocks, compositions: Floats, copies: Copies) -> Blocks:
    """Blocks of these compositions, each of whole parts, that share one more factor."""
    sizes = _parts_of_blocks(_rows(parts.compositions), _rows(compositions))
    # The commonest part of a block is at least an even share of it.
    inner = from_lowest(parts.kinds, float(sizes.sum(axis=1).min()) / len(parts.compositions[0]))

    def survivals(v: Floats) -> Floats:
        return mixed_blocks(outer, inner, sizes, v)

    return Blocks(compositions, copies.kinds(survivals))


@lru_cache
def _parts_of_blocks(parts: _Rows, blocks: _Rows) -> Floats:
    """(blocks, parts) how many parts of each composition to expect in each block."""
    of_parts = np.array(parts)
    part_size = of_parts[0].sum()
    found = np.array(
        [row.sum() / part_size * probabilities(of_parts, row) for row in np.array(blocks)]
    )
    found.flags.writeable = False
    return found


def _rows(compositions: Floats) -> _Rows:
    return tuple(map(tuple, compositions.tolist()))


def tabulated(blocks: Blocks, copies: Copies) -> Blocks:
    """The same blocks, looked up in a table: for those that are asked for often."""
    edges = finer(copies.edges(), _PARTS_OF_PANEL.get(len(copies.shifts), 1))
    survival = blocks.kinds.survivals(nodes_of(edges))
    table = interpolated(edges, np.log(np.clip(survival, np.finfo(np.float64).tiny, 1)))
    return Blocks(blocks.compositions, copies.kinds(lambda v: np.exp(table.values(v))))


def node_compositions(num_classes: int, node_size: int, last_size: float) -> Floats:
    """(blocks, classes) of whole nodes, then of the last one where it is smaller.

    A fractional last node (between two sizes of a fleet) stands for both neighbours.
    """
    low = int(np.floor(last_size))
    smaller = [size for size in (low, low + 1) if 0 < size < node_size and last_size > size - 1]
    sizes = [node_size, *(size for size in smaller if last_size < size + 1)]
    return np.concatenate([compositions_of(num_classes, size) for size in sizes])


def expected_blocks(compositions: Floats, num_gpus: Floats, block_size: int) -> Floats:
    """(blocks, *points): how many blocks of each composition to expect.

    num_gpus (classes, *points) fill whole blocks of `block_size` and what is left one smaller one.
    """
    total = num_gpus.sum(axis=0)
    whole = np.floor(total / block_size + 1e-9)
    left = np.maximum(total - whole * block_size, 0)
    found = np.empty((len(compositions), *total.shape))
    of_size = compositions.sum(axis=1)
    for size in np.unique(of_size).tolist():
        number = np.maximum(1 - np.abs(left - size), 0)
        if size == block_size:
            number += whole
        rows = of_size == size
        found[rows] = number * probabilities(compositions[rows], num_gpus)
    return found
