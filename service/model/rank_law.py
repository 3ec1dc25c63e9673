"""The distribution of one GPU's factor: the product of all that is drawn for it alone.

The product is tabulated once for every point, as log(-log P(log of the product <= v)). A class of
GPUs is the same table, shifted by the logarithm of its mean; a spike is a further shift with its
probability: P(X spike > t) = (1 - p) S(t) + p S(t / slowdown).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from service.model.fleet import Source, Spikes
from service.model.laws.law import Floats, rate_of
from service.model.laws.lognormal import LogNormal
from service.model.mixing import Kinds, log_mixed_rates
from service.model.panels import Panels, interpolated, nodes_of
from service.model.scores import HIGHEST, LOWEST, highest_of, log_sd, path

SMALLEST_CV = 1e-12
"""Of the factor that stands for none at all."""
# Panels as long as one score, those of the body and those of the upper tail.
_BODY, _TAIL = 14, 5
_BODY_ENDS_AT = 6.0


class RankLaw(NamedTuple):
    """Ranks of several classes: `table` of one of mean 1, `log_mean` (classes, points)."""

    table: Panels
    log_mean: Floats
    spikes: Spikes | None

    def rates(self, v: Floats) -> Floats:
        """(classes, *v.shape): -log P(log of a GPU's factor <= v)."""
        found = np.empty((len(self.log_mean), *v.shape))
        for rate, log_mean in zip(found, self.log_mean, strict=True):
            rate[...] = self._rate(v - log_mean)
        return found

    def _rate(self, v: Floats) -> Floats:
        rate = np.exp(self.table.values(v)[0])
        if self.spikes is None:
            return rate
        probability = self.spikes.probability
        spiked = np.exp(self.table.values(v - np.log(self.spikes.slowdown))[0])
        survival = (1 - probability) * -np.expm1(-rate) - probability * np.expm1(-spiked)
        return rate_of(survival)

    def shifts(self) -> Floats:
        """(shifts, points) where copies of the table lie."""
        if self.spikes is None:
            return self.log_mean
        return np.concatenate([self.log_mean, self.log_mean + np.log(self.spikes.slowdown)])

    def kinds(self) -> Kinds:
        """The classes, for what is built of them."""
        ends = self.table.edges[[0, -1]]
        return Kinds(self.rates, shifted(ends, self.shifts()))


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


def product_table(sources: Sequence[Source]) -> Panels:
    """Log of the rate of the product of the factors."""
    factors = merged(sources)
    first = factors[0]
    edges = edges_of(factors[:1])
    rate = first.law.rate(np.exp(nodes_of(edges)), first.shape)
    table = interpolated(edges, np.log(np.maximum(rate, np.finfo(np.float64).tiny))[np.newaxis])
    for number, outer in enumerate(factors[1:], start=2):
        nothing = np.zeros((1, edges.shape[1]))
        inner = RankLaw(table, nothing, None).kinds()
        edges = edges_of(factors[:number])
        rates = log_mixed_rates(outer, inner, np.ones((1, 1)), nodes_of(edges))
        table = interpolated(edges, rates)
    return table


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
