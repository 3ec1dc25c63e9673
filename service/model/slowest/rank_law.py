"""The distribution of one GPU's factor: the product of all that is drawn for it alone.

The product is tabulated once for every point, as log P(log of the product > v); with a table of
quantiles among the factors it is a sum over that table's pieces. A class of GPUs is the same law,
shifted by the logarithm of its mean; a spike is a further shift with its probability:
P(X spike > t) = (1 - p) S(t) + p S(t / slowdown).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from service.model.fleet import Spikes
from service.model.laws.empirical import Table
from service.model.laws.law import Floats
from service.model.laws.lognormal import LogNormal
from service.model.laws.source import Source
from service.model.slowest.atoms import atoms_of, survival_of
from service.model.slowest.mixing import Kinds, mixed_one
from service.model.slowest.panels import Panels, finer, interpolated, nodes_of
from service.model.slowest.scores import HIGHEST, LOWEST, highest_of, log_sd, path

SMALLEST_CV = 1e-12
"""Of the factor that stands for none at all."""
# Panels as long as one score, those of the body and those of the upper tail.
_BODY, _TAIL = 14, 5
_BODY_ENDS_AT = 6.0
_MIDDLE = 3.0
# Where a table's corners remain, panels are cut further.
_PARTS_WITH_PIECES = 4
_PANELS = 8
# Values at a time of a sum over pieces.
_TILE = 1 << 14


class RankLaw(NamedTuple):
    """Ranks of several classes.

    plain     from v to P(log of the factor > v) of one of mean 1, elementwise
    ends      (2, points) places that it surely exceeds, and does not
    middle    (points,) a place in the upper half of its distribution
    log_mean  (classes, points)
    panels    of a rule over the law, where it has a table's corners; else 0
    """

    plain: Callable[[Floats], Floats]
    ends: Floats
    middle: Floats
    log_mean: Floats
    spikes: Spikes | None
    panels: int = 0

    def survivals(self, v: Floats) -> Floats:
        """(classes, *v.shape): P(log of a GPU's factor > v)."""
        if v.size * len(self.log_mean) <= _TILE:
            # Few values: what takes time is the calls.
            shifts = self.log_mean.reshape(len(self.log_mean), *(1,) * (v.ndim - 1), v.shape[-1])
            return self._survival(v - shifts)
        return np.stack([self._survival(v - log_mean) for log_mean in self.log_mean])

    def _survival(self, v: Floats) -> Floats:
        if self.spikes is None:
            return self.plain(v)
        probability = self.spikes.probability
        spiked = v - np.log(self.spikes.slowdown)
        if v.size <= _TILE:
            survival, spiked = self.plain(np.stack([v, spiked]))
        else:
            survival, spiked = self.plain(v), self.plain(spiked)
        mixed: Floats = (1 - probability) * survival + probability * spiked
        return mixed

    def shifts(self) -> Floats:
        """(shifts, points) where copies of the table lie."""
        if self.spikes is None:
            return self.log_mean
        return np.concatenate([self.log_mean, self.log_mean + np.log(self.spikes.slowdown)])

    def kinds(self) -> Kinds:
        """The classes, for what is built of them."""
        first, last = self.ends
        ends = np.stack([first, self.middle, last])
        return copies_of(ends, self.shifts(), self.survivals)._replace(panels=self.panels)


def middle_of(sources: Sequence[Source]) -> Floats:
    """(points,) a place in the upper half of the product's distribution."""
    return path(sources, np.full(sources[0].shape.shape[1], _MIDDLE))


def copies_of(ends: Floats, shifts: Floats, survivals: Callable[[Floats], Floats]) -> Kinds:
    """Kinds that lie where copies of a law do; ends (first, middle, last; points) of the law."""
    breaks = shifted(ends, shifts)
    middle = (breaks[:-1] + breaks[1:]) / 2
    within = (middle[np.newaxis] >= (ends[0] + shifts)[:, np.newaxis]) & (
        middle[np.newaxis] <= (ends[-1] + shifts)[:, np.newaxis]
    )
    return Kinds(survivals, breaks, within.any(axis=0))


def shifted(edges: Floats, shifts: Floats) -> Floats:
    """All copies of the edges (edges, points) by the shifts (shifts, points), ascending."""
    copies = edges + shifts[:, np.newaxis]
    return np.sort(copies.reshape(-1, edges.shape[1]), axis=0)


def edges_of(sources: Sequence[Source]) -> Floats:
    """(panels + 1, points) of the product of the factors: even in score, and an even tail."""
    num_points = sources[0].shape.shape[1]
    scores = np.linspace(LOWEST, _BODY_ENDS_AT, _BODY + 1)[:, np.newaxis]
    body = path(sources, np.repeat(scores, num_points, axis=1))
    tail = np.linspace(0, 1, _TAIL + 1)[1:, np.newaxis]
    upper = body[-1] + (highest_of(sources, HIGHEST) - body[-1]) * tail
    return np.maximum.accumulate(np.concatenate([body, upper]), axis=0)


def product_law(sources: Sequence[Source]) -> RankLaw:
    """The product of the factors, one class of mean 1, from a table on panels."""
    factors = merged(sources)
    tables = [factor.law for factor in factors if isinstance(factor.law, Table)]
    if not tables:
        return _smooth(factors)
    if len(tables) == len(factors) > 1:
        # Bounded: no polynomial follows the logarithm where survival ends.
        edges = edges_of(factors)
        return RankLaw(lambda v: survival_of(tables, v), *_where(factors, edges), None, _PANELS)
    if len(factors) == 1:
        return summed_law(sources)
    edges = finer(edges_of(factors), _PARTS_WITH_PIECES)
    survival = summed_law(sources).plain(nodes_of(edges))
    return _law(factors, edges, survival)._replace(panels=_PANELS)


def summed_law(sources: Sequence[Source]) -> RankLaw:
    """Likewise, but with tables of quantiles among the factors summed over their pieces.

    Whichever source holds a table: it is what is summed over, and the smooth rest is the inner law.
    """
    factors = merged(sources)
    tables = [factor for factor in factors if isinstance(factor.law, Table)]
    if not tables:
        return _smooth(factors)
    smooth = [factor for factor in factors if not isinstance(factor.law, Table)]
    first, *rest = tables
    if smooth:
        inner, rest = _smooth(smooth).plain, tables
    else:
        inner = _plain_of(first)
    plain = _summed(inner, [factor.law for factor in rest if isinstance(factor.law, Table)])
    return RankLaw(plain, *_where(factors, edges_of(factors)), None, _PANELS)


def _plain_of(source: Source) -> Callable[[Floats], Floats]:
    def plain(v: Floats) -> Floats:
        survival: Floats = -np.expm1(-source.law.rate(np.exp(v), source.shape))
        return survival

    return plain


def _summed(inner: Callable[[Floats], Floats], tables: list[Table]) -> Callable[[Floats], Floats]:
    """The survival of the inner law times the tables."""
    if not tables:
        return inner
    atoms = atoms_of(tables)

    def plain(v: Floats) -> Floats:
        flat = v.reshape(-1, v.shape[-1])
        found = np.empty(flat.shape)
        rows = max(_TILE // (len(atoms.weight) * flat.shape[1]), 1)
        for start in range(0, len(flat), rows):
            tile = slice(start, start + rows)
            survival = inner(flat[tile] - atoms.log_x[:, np.newaxis, np.newaxis])
            found[tile] = np.tensordot(atoms.weight, survival, axes=1)
        return found.reshape(v.shape)

    return plain


def _smooth(factors: Sequence[Source]) -> RankLaw:
    """Every factor with a smooth score, one after the other."""
    edges = edges_of(factors[:1])
    law = _law(factors[:1], edges, _plain_of(factors[0])(nodes_of(edges)))
    for number, outer in enumerate(factors[1:], start=2):
        edges = edges_of(factors[:number])
        survival = mixed_one(outer, law.kinds(), nodes_of(edges))
        law = _law(factors[:number], edges, survival)
    return law


def _law(factors: Sequence[Source], edges: Floats, survival: Floats) -> RankLaw:
    """From survival at the nodes of the edges."""
    table = _table(edges, survival)

    def plain(v: Floats) -> Floats:
        log_survival = table.values(v)[0]
        found: Floats = np.exp(log_survival, out=log_survival)
        return found

    return RankLaw(plain, *_where(factors, edges), None)


def _where(factors: Sequence[Source], edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Ends, middle, and the logarithm of the mean of the only class."""
    return edges[[0, -1]], middle_of(factors), np.zeros((1, edges.shape[1]))


def _table(edges: Floats, survival: Floats) -> Panels:
    """Of log survival: smooth where a law begins and where its tail falls."""
    kept_finite = np.clip(survival, np.finfo(np.float64).tiny, 1)
    return interpolated(edges, np.log(kept_finite)[np.newaxis])


def merged(sources: Sequence[Source]) -> list[Source]:
    """Lognormals multiply exactly: the variances of their logarithms add up."""
    lognormals = [source for source in sources if source.law is LogNormal]
    others = [source for source in sources if source.law is not LogNormal]
    if lognormals:
        variance = sum(log_sd(source) ** 2 for source in lognormals)
        others.append(
            Source(law=LogNormal, shape=np.sqrt(np.expm1(np.asarray(variance)))[np.newaxis])
        )
    return others


def no_source(num_points: int) -> Source:
    """Stands for a factor that does not vary."""
    return Source(law=LogNormal, shape=np.full((1, num_points), SMALLEST_CV))
