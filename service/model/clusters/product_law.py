"""The product of two factors that are both drawn for one GPU and step, at one point.

Kept as a table: the sampling of clusters asks for it tens of thousands of times.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.model.laws.empirical import Table
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.rank_law import RankLaw
from service.model.slowest.rank_law import product_law as tabulated

_SMALLEST = 1e-25
_SMALLEST_SD = 1e-12
_NO_LOGARITHM = 1e-6
_PLACES = 600


class StepLaw(Protocol):
    """What the sampling of clusters needs of a law; see `laws/law.py`."""

    def rate(self, x: Floats, shape: Floats, /) -> Floats:
        """-log P(X <= x)."""

    def upper_quantile(self, q: Floats, shape: Floats, /) -> Floats:
        """The x with P(X > x) = q."""

    def lower_quantile(self, log_p: Floats, shape: Floats, /) -> Floats:
        """The x with log P(X <= x) = `log_p`."""

    def at_score(self, z: Floats, shape: Floats, /) -> Floats:
        """The x with P(X <= x) = Phi(z)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductLaw:
    """The product of two factors at one point, by the table of `rank_law.py`."""

    factors: tuple[Source, Source]
    ranks: RankLaw
    places: Floats
    log_survival: Floats

    def rate(self, x: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - the table knows it
        """-log P(product <= x); x is (..., 1)."""
        return rate_of(self.ranks.survivals(np.log(np.maximum(x, _SMALLEST)))[0])

    def upper_quantile(self, q: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - see `rate`
        """The x with P(product > x) = q, to some 1e-3 standard deviations."""
        return np.exp(np.interp(np.log(q), self.log_survival[::-1], self.places[::-1]))

    def lower_quantile(self, log_p: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - see `rate`
        """An x that is undercut with at most the probability e^log_p, about."""
        one, other = (s.law.lower_quantile(log_p, s.shape) for s in self.factors)
        return np.maximum(one, _SMALLEST) * np.maximum(other, _SMALLEST)

    def at_score(self, z: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - see `rate`
        """About the x of that score: its logarithm's standard deviations."""
        one, other = (log_sd(s.law, s.shape) for s in self.factors)
        return np.exp(float(np.hypot(one, other)) * z)


def product_law(one: Source, other: Source) -> ProductLaw:
    """Of two factors at one point."""
    ranks = tabulated((one, other))
    ends = ranks.ends[:, 0]
    places = np.linspace(ends[0], ends[1], _PLACES)
    log_survival = np.log(ranks.survivals(places[:, np.newaxis])[0, :, 0])
    return ProductLaw(factors=(one, other), ranks=ranks, places=places, log_survival=log_survival)


def log_sd(law: StepLaw, shape: Floats) -> float:
    """About the standard deviation of the factor's logarithm at one point."""
    return float(log_sds(law, shape)[0])


def log_sds(law: StepLaw, shape: Floats) -> Floats:
    """(points,) the same, of the part within one sd.

    Of a table that begins at 0 it is that of a lognormal factor of the same cv.
    """
    if isinstance(law, Table) and law.knots[0] < _NO_LOGARITHM:
        return np.full(shape.shape[1], np.sqrt(np.log1p(law.cv * law.cv)))
    low, high = np.maximum(law.at_score(np.array([[-1.0], [1.0]]), shape), _SMALLEST)
    spread: Floats = np.maximum(np.log(high / low) / 2, _SMALLEST_SD)
    return spread
