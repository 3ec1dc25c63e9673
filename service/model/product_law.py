"""The product of two factors that are both drawn for one GPU and step, at one point.

P(product > x) is the mean of the wider's over the narrower, kept as a table: the sampling of
clusters asks for it tens of thousands of times.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.model.cubics import cubic_pieces
from service.model.fleet import Source
from service.model.laws.law import Floats, rate_of
from service.model.nodes import legendre
from service.model.scores import log_at

_SMALLEST_RATE = 1e-300
_SMALLEST_SD = 1e-12
# Scores of the narrower one, and pieces of the table.
_NODES = 48
_LOWEST, _HIGHEST = -8.0, 8.5
_PIECES_PER_SD = 4
_MOST_PIECES = 4000
_FAR = 1e-25


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
    """The product of two factors at one point: a table of log rates against log x."""

    factors: tuple[Source, Source]
    lowest: float
    pieces_per_unit: float
    cubics: Floats

    def rate(self, x: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - the table knows it
        """-log P(product <= x)."""
        place = (np.log(np.maximum(x, 1e-300)) - self.lowest) * self.pieces_per_unit
        np.clip(place, 0, np.nextafter(self.cubics.shape[1], 0), out=place)
        piece = place.astype(np.intp)
        place -= piece
        value = self.cubics[3].take(piece)
        for coefficients in self.cubics[2::-1]:
            value *= place
            value += coefficients.take(piece)
        rate: Floats = np.exp(value, out=value)
        return rate

    def upper_quantile(self, q: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """An x that is exceeded with at most the probability q, about."""
        one, other = (s.law.upper_quantile(q / 2, s.shape) for s in self.factors)
        bound: Floats = one * other
        return bound

    def lower_quantile(self, log_p: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """An x that is undercut with at most the probability e^log_p, about."""
        one, other = (s.law.lower_quantile(log_p, s.shape) for s in self.factors)
        return np.maximum(one, _FAR) * np.maximum(other, _FAR)

    def at_score(self, z: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """About the x of that score: its logarithm's standard deviations."""
        one, other = (log_sd(s.law, s.shape) for s in self.factors)
        sd = float(np.hypot(one, other))
        return np.exp(sd * z)


def product_law(one: Source, other: Source) -> ProductLaw:
    """P(product > x) is the mean of the wider's over the narrower."""
    wide, narrow = sorted((one, other), key=lambda s: -log_sd(s.law, s.shape))
    rule = legendre(_NODES)
    score = _LOWEST + (_HIGHEST - _LOWEST) * rule.nodes
    weight = rule.weights * np.exp(-score * score / 2)
    factor = np.exp(log_at(narrow, score[:, np.newaxis]))
    weight = (weight / weight.sum())[:, np.newaxis]

    def log_rate(log_x: Floats) -> Floats:
        found = np.empty_like(log_x)
        for row, of_row in zip(found, log_x, strict=True):
            survival = -np.expm1(-wide.law.rate((np.exp(of_row) / factor)[..., None], wide.shape))
            row[:] = np.log(
                np.maximum(rate_of((weight * survival[..., 0]).sum(axis=0)), _SMALLEST_RATE)
            )
        return found

    sd = log_sd(wide.law, wide.shape)
    low = _bounds(wide, narrow, np.log(_FAR), upper=False)
    high = _bounds(wide, narrow, _FAR, upper=True)
    pieces = int(np.clip((high - low) / sd * _PIECES_PER_SD, 16, _MOST_PIECES))
    cubics = cubic_pieces(lambda u: log_rate(low + (high - low) * u), 0.0, 1.0, pieces)
    return ProductLaw(
        factors=(wide, narrow), lowest=low, pieces_per_unit=pieces / (high - low), cubics=cubics
    )


def _bounds(one: Source, other: Source, p: float, *, upper: bool) -> float:
    at = np.full(1, p)
    found = 0.0
    for source in (one, other):
        quantile = source.law.upper_quantile if upper else source.law.lower_quantile
        found += float(np.log(max(float(quantile(at, source.shape)[0]), 1e-3)))
    return found


def log_sd(law: StepLaw, shape: Floats) -> float:
    """About the standard deviation of the factor's logarithm, of the part within one sd."""
    low, high = law.at_score(np.array([[-1.0], [1.0]]), shape)[:, 0]
    return max(float(np.log(high / low)) / 2, _SMALLEST_SD)
