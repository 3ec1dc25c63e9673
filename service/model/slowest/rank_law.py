"""The distribution of one GPU's factor: the product of all that is drawn for it alone.

The product is tabulated once for every point, as log P(log of the product > v). A class of
GPUs is the same table, shifted by the logarithm of its mean; a spike is a further shift with its
probability: P(X spike > t) = (1 - p) S(t) + p S(t / slowdown).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from service.model.fleet import Source, Spikes
from service.model.laws.law import Floats
from service.model.laws.lognormal import LogNormal
from service.model.slowest.mixing import Kinds, mixed_one
from service.model.slowest.panels import Panels, interpolated, nodes_of
from service.model.slowest.scores import HIGHEST, LOWEST, highest_of, log_sd, path

SMALLEST_CV = 1e-12
"""Of the factor that stands for none at all."""
# Panels as long as one score, those of the body and those of the upper tail.
_BODY, _TAIL = 14, 5
_BODY_ENDS_AT = 6.0
_MIDDLE = 3.0


class RankLaw(NamedTuple):
    """Ranks of several classes.

    table     log P(log of the factor > v) of one of mean 1
    middle    (points,) a place in the upper half of its distribution
    log_mean  (classes, points)
    """

    table: Panels
    middle: Floats
    log_mean: Floats
    spikes: Spikes | None

    def survivals(self, v: Floats) -> Floats:
        """(classes, *v.shape): P(log of a GPU's factor > v)."""
        return np.stack([self._survival(v - log_mean) for log_mean in self.log_mean])

    def _survival(self, v: Floats) -> Floats:
        survival = self._plain(v)
        if self.spikes is None:
            return survival
        probability = self.spikes.probability
        spiked = self._plain(v - np.log(self.spikes.slowdown))
        mixed: Floats = (1 - probability) * survival + probability * spiked
        return mixed

    def _plain(self, v: Floats) -> Floats:
        log_survival = self.table.values(v)[0]
        survival: Floats = np.exp(log_survival, out=log_survival)
        return survival

    def shifts(self) -> Floats:
        """(shifts, points) where copies of the table lie."""
        if self.spikes is None:
            return self.log_mean
        return np.concatenate([self.log_mean, self.log_mean + np.log(self.spikes.slowdown)])

    def kinds(self) -> Kinds:
        """The classes, for what is built of them."""
        first, last = self.table.edges[0], self.table.edges[-1]
        return copies_of(np.stack([first, self.middle, last]), self.shifts(), self.survivals)


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
    """The product of the factors, one class of mean 1."""
    factors = merged(sources)
    nothing = np.zeros((1, factors[0].shape.shape[1]))
    edges = edges_of(factors[:1])
    rate = factors[0].law.rate(np.exp(nodes_of(edges)), factors[0].shape)
    law = RankLaw(_table(edges, -np.expm1(-rate)), middle_of(factors[:1]), nothing, None)
    for number, outer in enumerate(factors[1:], start=2):
        edges = edges_of(factors[:number])
        survival = mixed_one(outer, law.kinds(), nodes_of(edges))
        law = RankLaw(_table(edges, survival), middle_of(factors[:number]), nothing, None)
    return law


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
