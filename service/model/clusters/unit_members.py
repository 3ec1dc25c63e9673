"""The GPUs of a unit, given the factor they share and a bound on their slowness.

A state is a score of the shared factor together with log y, the bound on the logarithm of the
slowness of every GPU: `score` and `log_y` are (states,).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from service.model.clusters.step_factor import StepFactor, log_sd
from service.model.laws.law import Floats, rate_of
from service.model.laws.source import Source
from service.model.slowest.nodes import legendre, mapped_legendre
from service.model.slowest.scores import log_at, score_at

OWN_NODES = 20
# Nodes over a replica's factor: more where it is wider than the GPUs' own.
_FEWEST_REPLICA_NODES, _MOST_REPLICA_NODES = 16, 96
# A GPU's own score below this is as good as any other.
_LOWEST_OWN, _HIGHEST_OWN = -5.0, 6.0
LOWEST, HIGHEST = -7.5, 8.0
"""Scores of the shared factor that matter."""
_TINY = np.finfo(np.float64).tiny


class Kind(NamedTuple):
    """GPUs of one speed in the unit: m = 1 / speed, and how many."""

    mean: float
    number: float


class Members(NamedTuple):
    """GPUs of a kind in each state.

    rate     (states, nodes) -log P(one passes t)
    weight   (states, own) probabilities of its own factor
    passing  (states, own, nodes) its probability to pass with that factor, over the mean one
    """

    rate: Floats
    weight: Floats
    passing: Floats


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What a unit is made of.

    node, own   lasting factors of one point, shared and of each GPU; at least one is there
    replica     a step's factor that groups of `group_size` GPUs share, in units of one kind; None
                if there is none, or if a group is one GPU (then `step` has it)
    """

    node: Source | None
    own: Source | None
    kinds: tuple[Kind, ...]
    step: StepFactor
    replica: Source | None = None
    group_size: float = 1.0

    @cached_property
    def lasting_log_sd(self) -> float:
        """About the standard deviation of the logarithm of a GPU's lasting factor."""
        sources = [source for source in (self.node, self.own) if source is not None]
        return float(np.sqrt(sum(sd_of(source) ** 2 for source in sources)))

    def log_node(self, score: Floats) -> Floats:
        """The logarithm of the shared factor; score is of any shape."""
        if self.node is None:
            return np.zeros_like(score)
        return log_at(self.node, score[..., np.newaxis])[..., 0]

    def alone_rate(self, x: Floats) -> Floats:
        """-log P(a GPU's step factor <= x), whatever it is shared with."""
        if self.replica is None:
            return self.step.rate(x)
        survival = np.zeros_like(x)
        for factor, weight in zip(*self._replica_factors(), strict=True):
            survival -= weight * np.expm1(-self.step.rate(x / factor))
        return rate_of(survival)

    def members(self, t: Floats, score: Floats, log_y: Floats) -> list[Members]:
        """Of each kind, without a replica's factor."""
        return [self._members(kind, t, score, log_y) for kind in self.kinds]

    def total_rate(self, t: Floats, score: Floats, log_y: Floats, members: list[Members]) -> Floats:
        """(states, nodes) -log P(all GPUs pass t)."""
        if self.replica is not None:
            groups = self.kinds[0].number / self.group_size
            of_groups: Floats = groups * self._group_rate(t, score, log_y)
            return of_groups
        counted = zip(self.kinds, members, strict=True)
        return np.asarray(sum(kind.number * of_kind.rate for kind, of_kind in counted))

    def rate_of_others(self, t: Floats, score: Floats, log_y: Floats) -> Floats:
        """(kinds, states, nodes) of all to pass t, given that one at y does, of each kind."""
        if self.replica is None:
            members = self.members(t, score, log_y)
            total = self.total_rate(t, score, log_y, members)
            rest: Floats = np.maximum(total - np.array([one.rate for one in members]), 0)
            return rest
        (kind,) = self.kinds
        y = np.exp(log_y)[:, np.newaxis]
        together, alone = np.zeros((2, len(score), len(t)))
        for factor, weight in zip(*self._replica_factors(), strict=True):
            of_slowest = weight * np.exp(-self.step.rate(t / (y * factor)))
            rate = self._members(kind, t / factor, score, log_y).rate
            together += of_slowest * np.exp(-(self.group_size - 1) * rate)
            alone += of_slowest
        rest = (kind.number / self.group_size - 1) * self._group_rate(t, score, log_y)
        of_group = -np.log(np.maximum(together, _TINY) / np.maximum(alone, _TINY))
        return (rest + np.maximum(of_group, 0))[np.newaxis]

    def rate_below(self, score: Floats, log_y: Floats) -> Floats:
        """-log of the probability that all GPUs lie below y; of the arguments' common shape."""
        total = np.zeros(np.broadcast_shapes(score.shape, log_y.shape))
        if self.own is not None:
            log_a = self.log_node(score)
            for kind in self.kinds:
                p = np.exp(log_y - np.log(kind.mean) - log_a)
                of_kind = self.own.law.rate(p[..., np.newaxis], self.own.shape)[..., 0]
                total += kind.number * of_kind
        return total

    def _members(self, kind: Kind, t: Floats, score: Floats, log_y: Floats) -> Members:
        log_means = np.log(kind.mean) + self.log_node(score)
        at = t / np.exp(log_means)[:, np.newaxis]
        if self.own is None:
            rate = self.step.rate(at)
            return Members(rate, np.ones((len(score), 1)), np.ones((len(score), 1, len(t))))
        highest = np.minimum(score_at(self.own, (log_y - log_means)[:, np.newaxis]), _HIGHEST_OWN)
        rule = mapped_legendre(OWN_NODES)
        own = highest - np.maximum(highest - _LOWEST_OWN, 1) * rule.nodes
        weight = rule.weights * np.exp(-own * own / 2)
        weight /= weight.sum(axis=1, keepdims=True)
        factor = np.exp(-log_at(self.own, own[..., np.newaxis]))
        above = -np.expm1(-self.step.rate(at[:, np.newaxis] * factor))
        rate = rate_of((weight[:, np.newaxis] @ above)[:, 0])
        return Members(rate, weight, (1 - above) * np.exp(rate)[:, np.newaxis])

    def _group_rate(self, t: Floats, score: Floats, log_y: Floats) -> Floats:
        """(states, nodes) -log P(a group passes t)."""
        survival = np.zeros((len(score), len(t)))
        for factor, weight in zip(*self._replica_factors(), strict=True):
            rate = self._members(self.kinds[0], t / factor, score, log_y).rate
            survival -= weight * np.expm1(-self.group_size * rate)
        return rate_of(survival)

    def _replica_factors(self) -> tuple[Floats, Floats]:
        """Nodes and weights of the factor that a group shares in a step."""
        replica = cast("Source", self.replica)
        wanted = 48 * sd_of(replica) / self.step.log_sd
        rule = legendre(int(np.clip(wanted, _FEWEST_REPLICA_NODES, _MOST_REPLICA_NODES)))
        score = LOWEST + (HIGHEST - LOWEST) * rule.nodes
        weight = rule.weights * np.exp(-score * score / 2)
        return np.exp(log_at(replica, score[:, np.newaxis])[:, 0]), weight / weight.sum()


def sd_of(source: Source) -> float:
    """About the standard deviation of the factor's logarithm, at one point."""
    return log_sd(source.law, source.shape)
