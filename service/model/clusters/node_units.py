"""Units of several GPUs that share a lasting factor: nodes, or tensor-parallel groups.

A unit's slowness is Y = A times the largest m_i P_i of its GPUs (A the node's factor, P a GPU's
own, m = 1 / speed). With h(t, y) = P(m P T <= t | m P <= y), a unit of slowness y passes t with
probability F(t / y) E[Π h(t / A, y / A) over its other GPUs | Y = y]; one below c, with
E[Π h(t / A, c / A) over all of its GPUs | Y < c]. GPUs of a tensor-parallel group share a step's
factor R besides: Π becomes a product over groups of E[Π h(t / (A R), ·)].
Source: model page, "Spread"; `numerics.md` section 4.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.model.clusters.cluster_draws import Clusters
from service.model.clusters.cluster_ranks import Drawn
from service.model.clusters.step_factor import LARGEST_RATE, StepFactor
from service.model.clusters.unit_gpus import drawn_gpus
from service.model.clusters.unit_members import Composition, Members
from service.model.clusters.unit_slowness import rank_table, scores_at, scores_below
from service.model.laws.law import Floats, rate_of
from service.model.slowest.nodes import chebyshev

DEGREE = 16
BULK_NODES = 28
SHARED_NODES = 6
SHARED_SCORE = 6.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBulk:
    """A unit that is not among the slowest, at the nodes t.

    rate     (nodes,) -log of its probability to pass t
    weight   (states,) probabilities of its shared factor
    passing  (states, nodes) its probability to pass, over the mean one
    members  its GPUs, kind by kind, with their numbers
    """

    rate: Floats
    weight: Floats
    passing: Floats
    members: list[tuple[float, Members]]

    def variance(self, share: Floats) -> float:
        """Of the integral of passing times share over units: between shared factors, and within."""
        effect = self.passing @ share
        centred = effect - self.weight @ effect
        variance = centred * centred
        shared = (self.passing * share)[..., np.newaxis]
        for count, of_kind in self.members:
            effects = (of_kind.passing @ shared)[..., 0]
            centred = effects - (of_kind.weight * effects).sum(axis=1, keepdims=True)
            variance = variance + count * (of_kind.weight * centred * centred).sum(axis=1)
        return float(self.weight @ variance)


class NodeUnits:
    """Units of one composition."""

    def __init__(self, composition: Composition) -> None:
        self._composition = composition
        self._ranks, self._log_slowness = rank_table(composition)

    @property
    def step(self) -> StepFactor:
        """Of a GPU."""
        return self._composition.step

    @property
    def lasting_log_sd(self) -> float:
        """About the standard deviation of the slowness's logarithm."""
        return self._composition.lasting_log_sd

    @property
    def shared_step(self) -> tuple[float, float]:
        """Between these lies the factor of a step that its GPUs share."""
        replica = self._composition.replica
        if replica is None:
            return 1.0, 1.0
        low, high = replica.law.at_score(np.array([[-SHARED_SCORE], [SHARED_SCORE]]), replica.shape)
        return max(float(low[0]), 1e-3), float(high[0])

    @property
    def by_gpu(self) -> bool:
        """Where its GPUs differ and share nothing in a step, their scatter is drawn."""
        differ = self._composition.own is not None or self.step.is_abrupt
        return differ and self._composition.replica is None

    def gpus(self, drawn: Drawn, clusters: Clusters, group: int) -> tuple[NDArray[np.intp], Floats]:
        """Cluster and log slowness of each GPU of the drawn units."""
        log_y = self._at(drawn.log_rank)
        return drawn_gpus(self._composition, drawn, log_y, clusters, group)

    @property
    def num_gpus(self) -> int:
        """Of a unit."""
        return round(sum(kind.number for kind in self._composition.kinds))

    def slowness(self, log_rank: Floats) -> Floats:
        """(units,) the persistent factor of that rank."""
        return np.exp(self._at(log_rank))

    def top_rate(self, t: Floats, log_rank: Floats) -> Floats:
        """(units, nodes) -log P(passes t | slowness of that rank)."""
        slowness = self._at(log_rank)
        rate = self._composition.alone_rate(t / np.exp(slowness)[:, np.newaxis])
        if self._composition.own is None:
            return np.clip(rate + self._others_rate(t, slowness), 0, LARGEST_RATE)
        # What other GPUs of their own add varies slowly with y: a polynomial through a few.
        rule = chebyshev(DEGREE)
        low, half = slowness[-1], max((slowness[0] - slowness[-1]) / 2, 1e-12)
        others = self._others_rate(t, low + half * (rule.points + 1))
        basis = np.polynomial.chebyshev.chebvander((slowness - low) / half - 1, DEGREE)
        return np.clip(rate + basis @ (rule.to_coefficients @ others), 0, LARGEST_RATE)

    def bulk(self, t: Floats, limit: float) -> NodeBulk:
        """Units of which -log P(Y <= y) is above `limit`."""
        unit = self._composition
        log_y = float(self._at(np.log([limit]))[0])
        score, weight = scores_below(unit, log_y, BULK_NODES)
        bound = np.full(len(score), log_y)
        members = unit.members(t, score, bound)
        passing = np.exp(-unit.total_rate(t, score, bound, members))
        rate = rate_of(weight @ (1 - passing))
        counts = [kind.number for kind in unit.kinds]
        return NodeBulk(
            rate=rate,
            weight=weight,
            passing=passing * np.exp(rate),
            members=list(zip(counts, members, strict=True)),
        )

    def _others_rate(self, t: Floats, log_y: Floats) -> Floats:
        """(units, nodes) -log P(all but the slowest GPU pass t | the slowest is at y)."""
        score, weight = scores_at(self._composition, log_y, SHARED_NODES)
        bound = np.broadcast_to(log_y[:, np.newaxis], score.shape)
        rates = self._composition.rate_of_others(t, score.ravel(), bound.ravel())
        above = -np.expm1(-rates).reshape(*weight.shape, len(t))
        return rate_of(np.einsum("kus,kust->ut", weight, above))

    def _at(self, log_rank: Floats) -> Floats:
        """The cubic through the four nearest entries of the table, by Neville's scheme."""
        ranks, log_slowness = self._ranks, self._log_slowness
        first = np.clip(np.searchsorted(ranks, log_rank) - 2, 0, len(ranks) - 4)
        places = ranks[first + np.arange(4)[:, np.newaxis]] - log_rank
        table = list(log_slowness[first + np.arange(4)[:, np.newaxis]])
        for level in range(1, 4):
            for row in range(4 - level):
                left, right = places[row], places[row + level]
                table[row] = (left * table[row + 1] - right * table[row]) / (left - right)
        # It falls with the rank; where it jumps a cubic would overshoot.
        right = np.clip(np.searchsorted(ranks, log_rank), 1, len(ranks) - 1)
        found: Floats = np.clip(table[0], log_slowness[right], log_slowness[right - 1])
        return found
