"""The slowest of a fleet by dense quadrature on scipy.stats: no code of the service in it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tests.model.reference import Factor

Floats = NDArray[np.float64]
Survival = Callable[[Floats], Floats]
SCORES = (-8.3, 9.7)


def panels(num_panels: int, num_nodes: int, low: float, high: float) -> tuple[Floats, Floats]:
    """Composite Gauss-Legendre."""
    roots, weights = np.polynomial.legendre.leggauss(num_nodes)
    edges = np.linspace(low, high, num_panels + 1)
    half = np.diff(edges)[:, np.newaxis] / 2
    nodes = (edges[:-1] + edges[1:])[:, np.newaxis] / 2 + half * roots
    return nodes.ravel(), (half * weights).ravel()


@dataclass(frozen=True, kw_only=True)
class Reference:
    """N GPUs of one class; factors as (family, cv), `blocks` as (factor, parts in a block)."""

    num_gpus: float
    own: Sequence[tuple[str, float]]
    blocks: Sequence[tuple[tuple[str, float], int]] = ()
    spikes: tuple[float, float] | None = None
    outer: tuple[int, int] = (24, 14)
    times: tuple[int, int] = (30, 14)

    def rate(self, t: Floats) -> Floats:
        """-log P(slowest <= t)."""
        survival, size = self._spiked(self._product()), 1
        for factor, parts in self.blocks:
            survival, size = self._shared(factor, survival, parts), size * parts
        return -self.num_gpus / size * np.log1p(-np.minimum(survival(t), 1 - 1e-16))

    def mean(self, low: float, high: float) -> float:
        """low + the integral of P(slowest > t) in log t, between ends where it is 1 and 0."""
        v, weights = panels(*self.times, np.log(low), np.log(high))
        above = -np.expm1(-self.rate(np.exp(v)))
        assert above[0] > 1 - 1e-9
        assert above[-1] < 1e-13
        return low + float(weights @ (above * np.exp(v)))

    def _product(self) -> Survival:
        first, *others = self.own
        survival: Survival = Factor(*first).law.sf
        for factor in others:
            survival = self._shared(factor, survival, 1)
        return survival

    def _spiked(self, survival: Survival) -> Survival:
        if self.spikes is None:
            return survival
        probability, slowdown = self.spikes
        return lambda t: (1 - probability) * survival(t) + probability * survival(t / slowdown)

    def _shared(self, factor: tuple[str, float], inner: Survival, parts: int) -> Survival:
        law = Factor(*factor).law
        scores, weights = panels(*self.outer, *SCORES)
        upper, lower = law.isf(stats.norm.sf(scores)), law.ppf(stats.norm.cdf(scores))
        values = np.maximum(np.where(scores > 0, upper, lower), 1e-300)
        weights = weights * stats.norm.pdf(scores)

        def survival(t: Floats) -> Floats:
            total = np.zeros_like(t)
            for value, weight in zip(values, weights, strict=True):
                part = np.minimum(inner(t / value), 1 - 1e-16)
                total += weight * -np.expm1(parts * np.log1p(-part))
            return total

        return survival
