"""A factor shared by a block of ranks: the distribution of the slowest of the block.

P(A B > t) = E[S(t / A)], S(u) = P(B > u) = 1 - exp(-rate of the block), is integrated over A's
normal score z between the scores where S leaves 0 and reaches 1; above the latter what is left is
a normal tail. So one rule holds whether A is narrow or wide beside B (a rule over all of z fails
when B is the narrower one), and survival is a sum of positive terms: exact in the upper tail.
A table of quantiles has no smooth score: it is a sum over its pieces (`atoms.py`).
Source: model page, section 3; `numerics.md` section 5.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.laws.empirical import Table
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.atoms import atoms_of
from service.model.slowest.falling_root import bracket_of_root
from service.model.slowest.nodes import legendre
from service.model.slowest.scores import LogFactor, score_at

# Rate at which a block exceeds but for one case in 1e16, and how close to meet its place.
_SURELY, _ENDS_TO = 36.7, 2e-3
_NODES_OF_PANEL = 28
# More segments than these are covered by panels of their own.
_FEW_SEGMENTS, _PANELS = 2, 4
# Part of the panels for where survival changes; the rest is for the normal density between.
_CHANGING = 0.8
_TILE = 1 << 14
_TINY = float(np.finfo(np.float64).tiny)


class Kinds(NamedTuple):
    """Kinds of ranks or of blocks of ranks.

    survivals  from v, (..., points), to P(log of the kind's slowest factor > v), (kinds, ...,
               points), exact in the upper tail
    breaks     (breaks, points) ascending: survival is smooth between neighbours; below the first
               every kind exceeds v, above the last none does
    changing   (breaks - 1, points) whether survival changes between neighbours
    panels     of a rule over all of them, where survival has corners; 0 where it has none
    """

    survivals: Callable[[Floats], Floats]
    breaks: Floats
    changing: NDArray[np.bool_]
    panels: int = 0


def from_lowest(kinds: Kinds, parts: float) -> Kinds:
    """The same kinds, their first break raised to where a block of so many parts surely exceeds.

    In a large block the lower half of a part's distribution does not matter, and nodes there
    would be wasted.
    """
    breaks = kinds.breaks
    target = np.log(_SURELY / parts)

    def excess(v: Floats) -> Floats:
        rate: Floats = rate_of(kinds.survivals(v).min(axis=0))
        from_target: Floats = np.log(np.maximum(rate, _TINY)) - target
        return from_target

    lowest, _ = bracket_of_root(excess, breaks[:1], breaks[-1:], _ENDS_TO)
    return kinds._replace(breaks=np.maximum(breaks, lowest))


def mixed_one(outer: Source, inner: Kinds, v: Floats) -> Floats:
    """P(A B > e^v) for the first of the inner kinds, v.shape; v is (rows, points)."""
    found = np.empty(v.shape)
    rule = _rule_of(outer, inner)
    for tile in _tiles(rule.num_nodes, v):
        tail, logs, weights = rule.at(v[tile])
        survival = inner.survivals(v[tile] - logs)[0]
        survival *= weights
        survival.sum(axis=0, out=found[tile])
        found[tile] += tail
    return found


def mixed_blocks(outer: Source, inner: Kinds, sizes: Floats, v: Floats) -> Floats:
    """P(block > e^v) of blocks that share a factor, (blocks, *v.shape); v is (rows, points).

    `sizes` (blocks, kinds) tells how many of the inner kinds form each block.
    """
    found = np.empty((len(sizes), *v.shape))
    rule = _rule_of(outer, inner)
    for tile in _tiles(rule.num_nodes, v):
        tail, logs, weights = rule.at(v[tile])
        rates = rate_of(inner.survivals(v[tile] - logs))
        if len(sizes) * rates[0].size <= _TILE:
            # Few values: what takes time is the calls.
            found[:, tile] = tail + _means_exceeding(rates, sizes, weights)
            continue
        for block, of_kind in enumerate(sizes):
            found[block, tile] = tail + _mean_exceeding(rates, of_kind, weights)
    return found


def _means_exceeding(rates: Floats, sizes: Floats, weights: Floats) -> Floats:
    """`_mean_exceeding` of all blocks, (blocks, rows, points)."""
    total = np.einsum("bk,knrp->bnrp", -sizes, rates)
    np.expm1(total, out=total)
    total *= weights
    means: Floats = -total.sum(axis=1)
    return means


def _mean_exceeding(rates: Floats, numbers: Floats, weights: Floats) -> Floats:
    """1 - exp(-the rates of so many parts), summed with the weights of the nodes."""
    total = np.zeros_like(weights)
    for kind in np.flatnonzero(numbers):
        total -= numbers[kind] * rates[kind]
    np.expm1(total, out=total)
    total *= weights
    mean: Floats = -total.sum(axis=0)
    return mean


class _Rule(NamedTuple):
    """From v (rows, points) to a tail, the factor's logarithms and weights (nodes, rows, points).

    In the tail, (rows, points) or 0, every block exceeds v.
    """

    num_nodes: int
    at: Callable[[Floats], tuple[Floats | float, Floats, Floats]]


def _rule_of(outer: Source, inner: Kinds) -> _Rule:
    if isinstance(outer.law, Table):
        return _pieces(outer.law)
    factor = LogFactor(outer)

    def at(v: Floats) -> tuple[Floats, Floats, Floats]:
        tail, scores, weights = _rule(outer, inner, v)
        return tail, factor.at(scores), weights

    return _Rule(_NODES_OF_PANEL * (_even_panels(inner) or len(inner.changing)), at)


def _even_panels(inner: Kinds) -> int:
    """How many panels of a rule over all segments; 0 where each segment is one."""
    return inner.panels or (_PANELS if len(inner.changing) > _FEW_SEGMENTS else 0)


def _pieces(table: Table) -> _Rule:
    atoms = atoms_of([table])
    logs, weight = (values[:, np.newaxis, np.newaxis] for values in (atoms.log_x, atoms.weight))

    def at(v: Floats) -> tuple[float, Floats, Floats]:
        return 0.0, logs, np.broadcast_to(weight, (len(weight), *v.shape))

    return _Rule(len(weight), at)


def _tiles(num_nodes: int, v: Floats) -> Iterator[slice]:
    """Rows of v whose nodes stay in the cache together."""
    rows = max(_TILE // (num_nodes * v.shape[1]), 1)
    for start in range(0, len(v), rows):
        yield slice(start, start + rows)


def _rule(outer: Source, inner: Kinds, v: Floats) -> tuple[Floats, Floats, Floats]:
    """The normal tail where every block exceeds v, scores and weights (nodes, *v.shape)."""
    ends = score_at(outer, v - inner.breaks[:, np.newaxis])
    panels = _even_panels(inner)
    if panels:
        ends = _even(ends, inner.changing, panels)
    nodes, weights = (values[:, np.newaxis, np.newaxis] for values in legendre(_NODES_OF_PANEL))
    width = (ends[:-1] - ends[1:])[:, np.newaxis]
    scores = ends[1:, np.newaxis] + width * nodes
    density = np.exp(-0.5 * scores * scores)
    density *= width * (weights / np.sqrt(2 * np.pi))
    return special.ndtr(-ends[0]), scores.reshape(-1, *v.shape), density.reshape(-1, *v.shape)


def _even(ends: Floats, changing: NDArray[np.bool_], panels: int) -> Floats:
    """Ends of panels that hold equal parts of where survival changes; (ends, rows, points).

    Many copies of a law overlap, or lie beyond all scores: a panel for each would be wasted.
    """
    lengths = ends[:-1] - ends[1:]
    parts = np.zeros_like(lengths)
    for part, where in ((_CHANGING, changing), (1 - _CHANGING, ~changing)):
        chosen = lengths * where[:, np.newaxis]
        parts += part * chosen / np.maximum(chosen.sum(axis=0), _TINY)
    before = np.cumsum(parts, axis=0) - parts
    whole = before[-1] + parts[-1]
    even = np.empty((panels + 1, *ends.shape[1:]))
    for number in range(panels + 1):
        passed = (number / panels * whole - before) / np.maximum(parts, _TINY)
        even[number] = ends[0] - (np.clip(passed, 0, 1) * lengths).sum(axis=0)
    even[-1] = ends[-1]
    return even
