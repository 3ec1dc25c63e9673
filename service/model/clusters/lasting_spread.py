"""Clusters that differ, with steps that do not: the slowest GPU is the same in every step.

The distribution over clusters of the window's mean slowest factor is then that of the maximum.
E[f(M)] = f(lo) + the integral of f'(t) P(M > t) from lo on, f(t) = 1 / (rho + h(t)), h what a step
takes.
"""

import numpy as np

from service.model.clusters.slowest_laws import Integral, SlowestLaw, integral_of, slowest_laws
from service.model.clusters.spread_types import (
    QUADRATURE,
    SPREAD_PROBABILITIES,
    Spread,
    empty_spread,
    put,
)
from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.slowest.falling_root import falling_root

_LOG_TARGETS = np.log(-np.log(SPREAD_PROBABILITIES))[:, np.newaxis]
_TINY = np.finfo(np.float64).tiny
_ALMOST_ONE = 1 - 2.0**-53


def lasting_spread(fleet: Fleet) -> Spread:
    """Exact, by quadrature and root finding."""
    found = empty_spread(fleet.num_points)
    for law in slowest_laws(fleet):
        rho = fleet.outside_ratio[law.rows]
        integral = integral_of(law)
        zero = np.zeros(len(rho))
        mean, sd = _reciprocal_moments(integral, rho)
        quantiles = quantiles_of_slowest(law)
        if law.lines is not None:
            quantiles = law.lines.value(quantiles.T).T
        part = Spread(
            quantiles=quantiles,
            quantiles_se=np.zeros((len(rho), len(SPREAD_PROBABILITIES))),
            mean=integral.low + (integral.weight * integral.above).sum(axis=0),
            mean_se=zero,
            reciprocal_mean=mean,
            reciprocal_mean_se=zero,
            reciprocal_sd=sd,
            method=np.full(len(rho), QUADRATURE, dtype=np.int8),
        )
        put(found, law.rows, part)
    return found


def quantiles_of_slowest(law: SlowestLaw) -> Floats:
    """(points, 3) p10, p50, p90."""

    def excess(v: Floats) -> Floats:
        rate = -np.log1p(-np.minimum(law.above(v), _ALMOST_ONE))
        height: Floats = np.log(np.maximum(rate, _TINY)) - _LOG_TARGETS
        return height

    shape = (len(SPREAD_PROBABILITIES), len(law.rows))
    ends = [np.broadcast_to(law.breaks[end], shape) for end in (0, -1)]
    quantiles: Floats = np.exp(falling_root(excess, *ends)).T
    return quantiles


def _reciprocal_moments(integral: Integral, rho: Floats) -> tuple[Floats, Floats]:
    """(points,) mean and standard deviation of 1 / (rho + h), from its distance to that at lo."""
    at_low = 1 / (rho + integral.low)
    value = 1 / (rho + integral.value)
    slope = integral.weight * integral.above * value * value
    first = -slope.sum(axis=0)
    second = (2 * (at_low - value) * slope).sum(axis=0)
    return at_low + first, np.sqrt(np.maximum(second - first * first, 0))
