"""Units of one lasting draw: what a step sees of the slowest ones and of the rest.

A unit has a slowness y that lasts and passes t in a step with probability F(t / y). Slow units are
known by their rank, -log P(Y <= y) = e^log_rank; the others, the bulk, by a limit of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import special

from service.model.clusters.cluster_draws import Clusters
from service.model.clusters.cluster_ranks import Drawn
from service.model.clusters.step_factor import StepFactor, log_sd
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.nodes import mapped_legendre

_BULK_NODES = 24
# The bulk's scores start here; no slow GPU comes from below.
_LOWEST_SCORE = -8.0
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuBulk:
    """A unit that is not among the slowest, at the nodes t.

    weight   (states,) probabilities of its slowness
    rate     (nodes,) -log of its probability to pass t
    passing  (states, nodes) the same probability in each state, over the mean one
    """

    weight: Floats
    rate: Floats
    passing: Floats

    def variance(self, share: Floats) -> float:
        """Of the integral of passing times share over its states; share is (nodes,)."""
        effect = self.passing @ share
        centred = effect - self.weight @ effect
        return float(self.weight @ (centred * centred))


@dataclass(frozen=True, kw_only=True)
class GpuUnits:
    """GPUs of one speed; `lasting` is of one point, `mean` is 1 / speed."""

    lasting: Source
    mean: float
    step: StepFactor

    @cached_property
    def lasting_log_sd(self) -> float:
        """About the standard deviation of the slowness's logarithm."""
        return log_sd(self.lasting.law, self.lasting.shape)

    @property
    def shared_step(self) -> tuple[float, float]:
        """Nothing is shared."""
        return 1.0, 1.0

    @property
    def by_gpu(self) -> bool:
        """A unit is a GPU; one by one they are needed where the step's law has a pole."""
        return self.step.is_abrupt

    def gpus(self, drawn: Drawn, clusters: Clusters, group: int) -> tuple[NDArray[np.intp], Floats]:
        """Cluster and log slowness of each drawn GPU."""
        del clusters, group
        return drawn.cluster, np.log(self.slowness(drawn.log_rank))

    @property
    def num_gpus(self) -> int:
        """Of a unit."""
        return 1

    def slowness(self, log_rank: Floats) -> Floats:
        """(units,) the lasting factor of that rank."""
        return self._at(-special.ndtri(-np.expm1(-np.exp(log_rank))))

    def top_rate(self, t: Floats, log_rank: Floats) -> Floats:
        """(units, nodes) -log P(passes t | slowness of that rank)."""
        return self.step.rate(t / self.slowness(log_rank)[:, np.newaxis])

    def bulk(self, t: Floats, limit: float) -> GpuBulk:
        """Units of which -log P(Y <= y) is above `limit`."""
        highest = -float(special.ndtri(-np.expm1(-limit)))
        rule = mapped_legendre(_BULK_NODES)
        score = highest - rule.nodes * (highest - _LOWEST_SCORE)
        weight = rule.weights * np.exp(-score * score / 2)
        weight /= weight.sum()
        above = -np.expm1(-self.step.rate(t / self._at(score)[:, np.newaxis]))
        rate = rate_of(weight @ above)
        return GpuBulk(weight=weight, rate=rate, passing=(1 - above) * np.exp(rate))

    def _at(self, score: Floats) -> Floats:
        factor = self.lasting.law.at_score(score[:, np.newaxis], self.lasting.shape)[:, 0]
        return self.mean * np.maximum(factor, _SMALLEST)
