"""The factor of one GPU's step that is drawn anew each step, for one point."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.model.clusters.product_law import StepLaw, log_sd, product_law
from service.model.laws.law import Floats, rate_of
from service.model.laws.lognormal import LogNormal
from service.model.laws.source import Source
from service.model.slowest.rank_law import merged

__all__ = ["LARGEST_RATE", "StepFactor", "StepLaw", "log_sd", "narrow_lognormal", "step_factor"]

LARGEST_RATE = 36.7
"""Of what hardly ever happens; finite, so that 0 GPUs times it is 0."""
_FAR_EXPONENT = 24.0
_ABRUPT_SD = 0.7
_SMALLEST = 1e-300


@dataclass(frozen=True, kw_only=True)
class StepFactor:
    """The law of one GPU's factor in one step: of mean 1, and now and then a spike."""

    law: StepLaw
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

    @cached_property
    def is_abrupt(self) -> bool:
        """Whether the law begins with a bound density: log P(factor <= x) has a pole there."""
        far, near = self.low(-_FAR_EXPONENT), self.low(-_FAR_EXPONENT / 2)
        return bool(np.log(near / max(far, _SMALLEST)) < _ABRUPT_SD * self.log_sd)

    @cached_property
    def log_sd(self) -> float:
        """About the standard deviation of the logarithm, spikes aside."""
        return log_sd(self.law, self.shape)


def step_factor(sources: Sequence[Source], probability: float, slowdown: float) -> StepFactor:
    """Of factors at one point that are drawn for each GPU."""
    factors = merged(sources)
    law: StepLaw = factors[0].law
    if len(factors) > 1:
        law = product_law(factors[0], factors[1])
    return StepFactor(
        law=law, shape=factors[0].shape, spike_probability=probability, spike_slowdown=slowdown
    )


def narrow_lognormal(sd: float) -> Source:
    """A factor whose logarithm has this standard deviation, at one point."""
    return Source(law=LogNormal, shape=np.full((2, 1), np.sqrt(np.expm1(sd * sd))))
