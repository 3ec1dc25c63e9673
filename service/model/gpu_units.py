"""Units of one persistent draw: what a step sees of the slowest ones and of the rest.

A unit has a slowness y that lasts (its law given by score) and passes t in a step with probability
F(t / y). Slow units are known by their rank, -log P(Y <= y) = e^log_rank; the others, the bulk, by
a limit of it.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from service.model.laws.law import Floats, Law
from service.model.nodes import mapped_legendre
from service.model.step_factor import StepFactor, log_sd

LARGEST_RATE = 36.7
_BULK_NODES = 48
# The bulk's scores start here; no slow GPU comes from below.
_LOWEST_SCORE = -8.0
_SMALLEST_SLOWNESS = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """A unit that is not among the slowest, at the nodes t.

    slowness   (states,) of the unit; `weight` (states,) their probabilities
    rate       (nodes,) -log of its probability to pass t
    passing    (states, nodes) the same probability in each state, over the mean one
    """

    slowness: Floats
    weight: Floats
    rate: Floats
    passing: Floats

    def variance(self, share: Floats) -> float:
        """Of the integral of passing × share over its states; share is (nodes,)."""
        effect = self.passing @ share
        centred = effect - self.weight @ effect
        return float(self.weight @ (centred * centred))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUnits:
    """One GPU, or `power` of them of which the slowest counts, times `mean`."""

    law: Law
    shape: Floats
    power: float
    mean: float
    step: StepFactor

    @property
    def persistent_log_sd(self) -> float:
        """About the standard deviation of the slowness's logarithm."""
        return log_sd(self.law, self.shape)

    def slowness(self, log_rank: Floats) -> Floats:
        """(units,) the persistent factor of that rank."""
        return self._at(-special.ndtri(-np.expm1(-np.exp(log_rank) / self.power)))

    def top_rate(self, t: Floats, log_rank: Floats) -> Floats:
        """(units, nodes) -log P(passes t | slowness of that rank)."""
        return self.step.rate(t / self.slowness(log_rank)[:, np.newaxis])

    def bulk(self, t: Floats, limit: float) -> Bulk:
        """Units of which -log P(Y <= y) is above `limit`."""
        highest = -float(special.ndtri(-np.expm1(-limit / self.power)))
        rule = mapped_legendre(_BULK_NODES)
        score = highest - rule.nodes * (highest - _LOWEST_SCORE)
        weight = rule.weights * np.exp(
            -score * score / 2 + (self.power - 1) * special.log_ndtr(score)
        )
        weight /= weight.sum()
        slowness = self._at(score)
        above = -np.expm1(-self.step.rate(t / slowness[:, np.newaxis]))
        rate = -np.log1p(-np.minimum(weight @ above, 1 - 2.0**-53))
        return Bulk(slowness=slowness, weight=weight, rate=rate, passing=(1 - above) * np.exp(rate))

    def _at(self, score: Floats) -> Floats:
        factor = self.law.at_score(score[:, np.newaxis], self.shape)[:, 0]
        return self.mean * np.maximum(factor, _SMALLEST_SLOWNESS)
