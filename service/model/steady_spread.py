"""Clusters that are alike: nothing lasts in them but the steps' own noise.

The window's mean is then nearly the same for all, and its noise normal: millions of steps.
"""

import numpy as np
from scipy import special

from service.model.fleet import Fleet
from service.model.laws.law import Floats
from service.model.spread_types import QUADRATURE, SPREAD_PROBABILITIES, Spread
from service.model.step_noise import slowest_moments, window_variance

_SCORES = special.ndtri(SPREAD_PROBABILITIES)


def steady_spread(fleet: Fleet, num_steps: Floats) -> Spread:
    """Normal about the expected slowest factor."""
    moments = slowest_moments(fleet)
    variance = window_variance(fleet, moments, num_steps)
    return normal_spread(moments.mean, variance, fleet.outside_ratio)


def normal_spread(mean: Floats, variance: Floats, rho: Floats) -> Spread:
    """m normal with these (points,) moments, by the delta method."""
    sd = np.sqrt(variance)
    zero = np.zeros_like(mean)
    value = 1 / (rho + mean)
    return Spread(
        quantiles=mean[:, np.newaxis] + sd[:, np.newaxis] * _SCORES,
        quantiles_se=np.zeros((len(mean), len(_SCORES))),
        mean=mean,
        mean_se=zero,
        reciprocal_mean=value + variance * value**3,
        reciprocal_mean_se=zero,
        reciprocal_sd=sd * value**2,
        method=np.full(len(mean), QUADRATURE, dtype=np.int8),
    )
