"""Tables of nodes: Gauss-Legendre with an exponential map, and Chebyshev points."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats


class Rule(NamedTuple):
    """Nodes on (0, 1) and their weights, both (nodes,)."""

    nodes: Floats
    weights: Floats


@lru_cache(maxsize=16)
def legendre(num_nodes: int) -> Rule:
    """Gauss-Legendre on (0, 1)."""
    roots, weights = np.polynomial.legendre.leggauss(num_nodes)
    return Rule((roots + 1) / 2, weights / 2)


@lru_cache(maxsize=16)
def mapped_legendre(num_nodes: int, map_rate: float = 3.0, power: int = 1) -> Rule:
    """Gauss-Legendre in w, u = w^power, at s = (e^(a u) - 1) / (e^a - 1), a = `map_rate` > 0.

    The map crowds nodes at the left end, where the distribution function of a large group's
    maximum rises within a small part of the interval. A power of 2 is for a distribution function
    that starts there like a root.
    """
    w, weights = legendre(num_nodes)
    u = w**power
    scale = np.expm1(map_rate)
    slope = map_rate * np.exp(map_rate * u) / scale * power * w ** (power - 1)
    return Rule(np.expm1(map_rate * u) / scale, weights * slope)


class Chebyshev(NamedTuple):
    """Points of [-1, 1], and the matrix that turns values there into coefficients."""

    points: Floats
    to_coefficients: Floats


@lru_cache(maxsize=8)
def chebyshev(degree: int) -> Chebyshev:
    """Interpolation of this degree in the `degree + 1` roots of the next polynomial.

    Both arrays are indexed by the point last; coefficients belong to T_0 … T_degree.
    """
    angles = (np.arange(degree + 1) + 0.5) * np.pi / (degree + 1)
    transform = np.cos(np.outer(np.arange(degree + 1), angles)) * (2 / (degree + 1))
    transform[0] /= 2
    return Chebyshev(np.cos(angles), transform)
