"""The factor of one GPU's step that is drawn anew each step, for one point.

transient × replica (where a replica is one GPU) × spikes. The product of two laws is the mean of
one's distribution function over the other, taken over the narrower one, and kept as a table of
cubic pieces: the sampling of clusters asks for it tens of thousands of times.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from service.model.cubics import cubic_pieces
from service.model.laws.law import Floats, Law

# Scores of the narrower factor of a product: beyond 8 sd lies 1e-15.
_NUM_SCORES = 48
_FARTHEST_SCORE = 8.0
_PIECES = 96
# Rates are between these; a product's table ends where they do.
_LARGEST_RATE = 36.7
_SMALLEST_RATE = 1e-25
_SMALLEST_SD = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFactor:
    """The law of one GPU's factor in one step.

    law, shape             None: always 1
    spike_probability      0 where there are none
    spike_slowdown
    """

    law: Law | None
    shape: Floats
    spike_probability: float
    spike_slowdown: float

    def rate(self, x: Floats) -> Floats:
        """-log P(factor <= x), 0 to 36.8; any shape."""
        rate = self._steady_rate(x)
        if self.spike_probability > 0:
            spiked = -np.expm1(-self._steady_rate(x / self.spike_slowdown))
            above = self.spike_probability * spiked
            above -= (1 - self.spike_probability) * np.expm1(-rate)
            rate = -np.log1p(-np.minimum(above, 1 - 2.0**-53))
        return rate

    def _steady_rate(self, x: Floats) -> Floats:
        if self.law is None:
            return np.where(x >= 1, 0.0, _LARGEST_RATE)
        return self.law.rate(x[..., np.newaxis], self.shape)[..., 0]

    def high(self, q: Floats) -> Floats:
        """Factors exceeded with about the probabilities q, at most 1."""
        high = self._steady_high(q)
        if self.spike_probability > 0:
            spiked = self._steady_high(np.minimum(q / self.spike_probability, 1 - 1e-12))
            often = q < self.spike_probability
            high = np.where(often, np.maximum(high, self.spike_slowdown * spiked), high)
        return high

    def _steady_high(self, q: Floats) -> Floats:
        if self.law is None:
            return np.ones_like(q)
        return self.law.upper_quantile(q[:, np.newaxis], self.shape)[:, 0]

    def low(self, log_p: float) -> float:
        """A factor that is undercut with probability e^log_p, spikes aside."""
        if self.law is None:
            return 1.0
        return float(self.law.lower_quantile(np.full(1, log_p), self.shape)[0])

    @property
    def log_sd(self) -> float:
        """About the standard deviation of the logarithm, spikes aside."""
        return log_sd(self.law, self.shape)


def log_sd(law: Law, shape: Floats) -> float:
    """About the standard deviation of the factor's logarithm, of the part within one sd."""
    low, high = law.at_score(np.array([[-1.0], [1.0]]), shape)[:, 0]
    return max(float(np.log(high / low)) / 2, _SMALLEST_SD)
