"""The law of a mean factor, from its curve of normal scores."""

import numpy as np
from scipy import special

from service.model.laws.law import SMALLEST_X, Floats, InLogarithm, Quadrature, rate_of
from service.model.laws.piecewise import Pieces

_RULES = ((200, 96), (800, 384), (np.inf, 1024))
"""Nodes of the quadrature of the maximum, by the number of panels of the curve."""
_BUMPS = 201
"""As if it had so many panels."""
_NODES_OF_POWER, _ABOVE_OF_POWER = 160, 1e-9
"""Where many steps are averaged, the tail is the power's only far out."""


class MeanLaw(InLogarithm):
    """P(X > x) = Phi(-score(log x)). It takes nothing of `shape`, which may hold anything.

    Beyond the ends of the curve nothing lies. `power` is that of a tail x^-power, None for a
    lighter one.
    """

    def __init__(self, score_of: Pieces, power: float | None, *, has_bumps: bool = False) -> None:
        self._score_of = score_of
        self._power = power
        self._ends = score_of.at(score_of.edges[[0, -1]])
        bends = max(len(score_of.edges) - 1, _BUMPS if has_bumps else 0)
        self._num_nodes = next(nodes for most, nodes in _RULES if bends <= most)

    def quadrature(self) -> Quadrature:
        """Of as many nodes as the curve has bends."""
        if self._power is None:
            return Quadrature(num_nodes=self._num_nodes, map_rate=2.0)
        num_nodes = max(self._num_nodes, _NODES_OF_POWER)
        return Quadrature(num_nodes=num_nodes, map_rate=2.0, above=_ABOVE_OF_POWER)

    def tail_power(self, shape: Floats) -> Floats | None:
        """The power of the tail at every point."""
        return None if self._power is None else np.full(shape.shape[1], self._power)

    def add_rate(
        self, v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats
    ) -> None:
        """Add the rate of `num_gpus` at v."""
        del shape
        to += num_gpus * rate_of(special.ndtr(-self._score_of.at(v - np.log(mean))))

    def rate_and_slope(self, v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        del shape
        score, slope = self._score_of.with_slope(v - np.log(mean))
        rate = rate_of(special.ndtr(-score))
        density = np.exp(-score * score / 2) / np.sqrt(2 * np.pi)
        return rate, -density * slope * np.exp(rate)

    def rate(self, x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        del shape
        log_x = np.log(np.maximum(x, SMALLEST_X))
        return rate_of(special.ndtr(-self._score_of.at(log_x)))

    def upper_quantile(self, q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        return self.at_score(-special.ndtri(q), shape)

    def lower_quantile(self, log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        return self.at_score(special.ndtri_exp(log_p), shape)

    def at_score(self, z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        del shape
        score = np.asarray(np.clip(z, *self._ends))
        x: Floats = np.exp(self._score_of.inverse(score))
        return x
