"""A factor shared by a block of ranks: the distribution of the slowest of the block.

P(A B > t) = E[S(t / A)], S(u) = P(B > u) = 1 - exp(-rate of the block), is integrated over A's
normal score z between the scores where S leaves 0 and reaches 1; above the latter what is left is
a normal tail. So one rule holds whether A is narrow or wide beside B (a rule over all of z fails
when B is the narrower one), and survival is a sum of positive terms: exact in the upper tail.
Source: model page, section 3; `numerics.md` section 5.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from service.model.falling_root import falling_root
from service.model.fleet import Source
from service.model.laws.law import Floats, rate_of
from service.model.nodes import Rule, legendre
from service.model.scores import LogFactor, score_at

# Rate at which a block exceeds but for one case in 1e16, and how close to meet its place.
_SURELY, _ENDS_TO = 36.7, 2e-3
_TINY = float(np.finfo(np.float64).tiny)


class Kinds(NamedTuple):
    """Kinds of ranks or of blocks of ranks.

    rates   from v, (..., points), to -log P(log of the kind's slowest factor <= v),
            (kinds, ..., points)
    breaks  (breaks, points) ascending: the rates are smooth between neighbours; below the first
            every kind exceeds v, above the last none does
    """

    rates: Callable[[Floats], Floats]
    breaks: Floats


def from_lowest(kinds: Kinds, parts: float) -> Kinds:
    """The same kinds, their first break raised to where a block of so many parts surely exceeds.

    In a large block the lower half of a part's distribution does not matter, and nodes there
    would be wasted.
    """
    breaks = kinds.breaks
    target = np.log(_SURELY / parts)

    def excess(v: Floats) -> Floats:
        return np.log(np.maximum(kinds.rates(v).min(axis=0), _TINY)) - target

    left, right = breaks[0], breaks[-1]
    lowest = falling_root(excess, left, right, relative=_ENDS_TO)
    return kinds._replace(breaks=np.maximum(breaks, lowest))


def log_mixed_rates(outer: Source, inner: Kinds, sizes: Floats, v: Floats) -> Floats:
    """Log of the rates of blocks that share a factor, (blocks, *v.shape); v is (..., points).

    `sizes` (blocks, kinds) tells how many of the inner kinds form each block.
    """
    tail, scores, weights = _rule(outer, inner.breaks, v)
    rates = inner.rates(v - LogFactor(outer).at(scores))
    found = np.empty((len(sizes), *v.shape))
    for block, of_kind in enumerate(sizes):
        total = np.zeros_like(scores)
        for kind in np.flatnonzero(of_kind):
            total += of_kind[kind] * rates[kind]
        np.negative(total, out=total)
        survival = -np.expm1(total, out=total)
        survival *= weights
        found[block] = survival.sum(axis=0)
        found[block] += tail
    return np.log(np.maximum(rate_of(found), _TINY))


def _rule(outer: Source, breaks: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
    """The normal tail where every block exceeds v, scores and weights (nodes, *v.shape)."""
    spread = (slice(None), *(np.newaxis,) * (v.ndim - 1))
    ends = score_at(outer, v - breaks[spread])
    rule = _panel_rule(len(breaks) - 1)
    tail = special.ndtr(-ends[0])
    width = ends[:-1] - ends[1:]
    shape = (len(width), len(rule.nodes), *(1,) * v.ndim)
    scores = ends[1:, np.newaxis] + width[:, np.newaxis] * rule.nodes.reshape(1, *shape[1:])
    density = np.exp(-0.5 * scores * scores) / np.sqrt(2 * np.pi)
    density *= width[:, np.newaxis] * rule.weights.reshape(1, *shape[1:])
    return tail, scores.reshape(-1, *v.shape), density.reshape(-1, *v.shape)


def _panel_rule(num_panels: int) -> Rule:
    """Nodes for each panel: more of them where there is only one."""
    return legendre(64 if num_panels == 1 else 40)
