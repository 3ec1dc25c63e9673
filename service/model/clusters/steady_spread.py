"""Clusters that are alike: they differ by the noise of their steps and of their episodes alone.

The window's mean is then nearly the same for all, and its noise taken as normal: it is the average
over millions of steps, and over many episodes or else a small part.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from service.model.clusters.episode_effects import episode_variance, kept_share
from service.model.clusters.slowest_laws import means_by_state
from service.model.clusters.spread_types import QUADRATURE, SPREAD_PROBABILITIES, Spread
from service.model.clusters.step_noise import slowest_moments, window_variance
from service.model.fleet import Fleet
from service.model.laws.law import Floats

_SCORES = special.ndtri(SPREAD_PROBABILITIES)


def steady_spread(fleet: Fleet, num_steps: Floats, window_hours: Floats) -> Spread:
    """Normal about the expected slowest factor."""
    moments = slowest_moments(replace(fleet, episodes=None))
    variance = window_variance(fleet, moments, num_steps)
    mean, rho = moments.mean, fleet.outside_ratio
    if fleet.episodes is not None:
        mean = np.empty(fleet.num_points)
        for rows, of_state, weight in means_by_state(fleet):
            share = kept_share(fleet.episodes.mean_hours[rows], window_hours[rows])
            mean[rows] = 1 / (weight / (rho[rows] + of_state)).sum(axis=0) - rho[rows]
            variance[rows] += episode_variance(of_state, weight, rho[rows], share)
    return normal_spread(mean, variance, rho)


def normal_spread(mean: Floats, variance: Floats, rho: Floats) -> Spread:
    """Spread of a normal m with these (points,) moments, by the delta method."""
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
