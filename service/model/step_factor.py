"""The factor of one GPU's step that is drawn anew each step, for one point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from service.model.cubics import cubic_pieces
from service.model.fleet import Source
from service.model.laws.law import Floats, Law, rate_of
from service.model.laws.lognormal import LogNormal
from service.model.nodes import legendre
from service.model.rank_law import merged
from service.model.scores import log_at

LARGEST_RATE = 36.7
"""Of what hardly ever happens; finite, so that 0 GPUs times it is 0."""
_SMALLEST_RATE = 1e-300
_SMALLEST_SD = 1e-12
# The product of two factors: scores of the narrower one, and pieces of the table.
_PRODUCT_NODES = 48
_LOWEST, _HIGHEST = -8.0, 8.5
_PIECES_PER_SD = 4
_MOST_PIECES = 4000
_FAR = 1e-25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFactor:
    """The law of one GPU's factor in one step: of mean 1, and now and then a spike."""

    law: Law
    shape: Floats
    spike_probability: float = 0.0
    spike_slowdown: float = 1.0

    def rate(self, x: Floats) -> Floats:
        """-log P(factor <= x), 0 to 36.8; any shape."""
        rate = self._steady_rate(x)
        if self.spike_probability == 0:
            return rate
        spiked = self._steady_rate(x / self.spike_slowdown)
        survival = (self.spike_probability - 1) * np.expm1(-rate)
        survival -= self.spike_probability * np.expm1(-spiked)
        return rate_of(survival)

    def _steady_rate(self, x: Floats) -> Floats:
        rate: Floats = self.law.rate(x[..., np.newaxis], self.shape)[..., 0]
        return rate

    def high(self, q: Floats) -> Floats:
        """Factors exceeded with at most the probabilities q, or about so."""
        high = self._steady_high(q)
        if self.spike_probability == 0:
            return high
        share = np.minimum(q / self.spike_probability, 1)
        spiked = self.spike_slowdown * self._steady_high(np.minimum(share, 1 - 1e-9))
        return np.where(share < 1, np.maximum(high, spiked), high)

    def _steady_high(self, q: Floats) -> Floats:
        high: Floats = self.law.upper_quantile(q[:, np.newaxis], self.shape)[:, 0]
        return high

    def low(self, log_p: float) -> float:
        """A factor that is undercut with probability e^log_p, spikes aside."""
        return float(self.law.lower_quantile(np.full(1, log_p), self.shape)[0])

    @property
    def log_sd(self) -> float:
        """About the standard deviation of the logarithm, spikes aside."""
        return log_sd(self.law, self.shape)


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
        return np.exp(value, out=value)

    def upper_quantile(self, q: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """An x that is exceeded with at most the probability q, about."""
        one, other = (s.law.upper_quantile(q / 2, s.shape) for s in self.factors)
        return one * other

    def lower_quantile(self, log_p: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """An x that is undercut with at most the probability e^log_p, about."""
        one, other = (s.law.lower_quantile(log_p, s.shape) for s in self.factors)
        return np.maximum(one, _FAR) * np.maximum(other, _FAR)

    def at_score(self, z: Floats, shape: Floats) -> Floats:  # noqa: ARG002
        """About the x of that score: its logarithm's standard deviations."""
        sd = float(np.hypot(*(log_sd(s.law, s.shape) for s in self.factors)))
        return np.exp(sd * z)


def step_factor(sources: Sequence[Source], probability: float, slowdown: float) -> StepFactor:
    """Of factors at one point that are drawn for each GPU."""
    factors = merged(sources)
    law, shape = factors[0].law, factors[0].shape
    if len(factors) > 1:
        law = product_law(factors[0], factors[1])
    return StepFactor(law=law, shape=shape, spike_probability=probability, spike_slowdown=slowdown)


def product_law(one: Source, other: Source) -> ProductLaw:
    """P(product > x) is the mean of the wider's over the narrower."""
    wide, narrow = sorted((one, other), key=lambda s: -log_sd(s.law, s.shape))
    rule = legendre(_PRODUCT_NODES)
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


def narrow_lognormal(sd: float) -> Source:
    """A factor whose logarithm has this standard deviation, at one point."""
    return Source(law=LogNormal, shape=np.full((2, 1), np.sqrt(np.expm1(sd * sd))))


def log_sd(law: Law, shape: Floats) -> float:
    """About the standard deviation of the factor's logarithm, of the part within one sd."""
    low, high = law.at_score(np.array([[-1.0], [1.0]]), shape)[:, 0]
    return max(float(np.log(high / low)) / 2, _SMALLEST_SD)
