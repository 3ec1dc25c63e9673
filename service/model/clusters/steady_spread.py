"""Clusters that are alike: they differ by the noise of their steps and of their episodes alone.

The noise of steps is the average over many of them, and taken as normal; where the steps of a
window are too few for that, there is no spread. Episodes only ever slow a cluster down, and most
windows of a small one have none: what they add is taken as a gamma of its mean and variance (a sum
of few rare delays, exponential where there is about one).
"""

from dataclasses import replace

import numpy as np
from scipy import special

from service.model.clusters.episode_effects import episode_variance, kept_share
from service.model.clusters.slowest_laws import means_by_state
from service.model.clusters.spread_types import QUADRATURE, SPREAD_PROBABILITIES, Spread
from service.model.clusters.step_noise import Moments, slowest_moments, window_variance
from service.model.fleet import Fleet
from service.model.laws.law import Floats

_SCORES = special.ndtri(SPREAD_PROBABILITIES)
MOST_NOISE = 0.1
"""Of the mean; above it the average of a window's steps is not normal."""
_NEARLY_NORMAL = 1e6
"""A gamma of this shape and more is normal to 1e-3 of its standard deviation."""


def steady_spread(fleet: Fleet, num_steps: Floats, window_hours: Floats) -> Spread:
    """About the expected slowest factor."""
    moments = slowest_moments(replace(fleet, episodes=None))
    variance = window_variance(fleet, moments, num_steps)
    if fleet.episodes is None:
        return normal_spread(moments.mean, variance, fleet.outside_ratio, _typical(fleet, moments))
    mean, rho = np.empty(fleet.num_points), fleet.outside_ratio
    of_episodes = np.empty(fleet.num_points)
    for rows, of_state, weight in means_by_state(fleet):
        share = kept_share(fleet.episodes.mean_hours[rows], window_hours[rows])
        mean[rows] = 1 / (weight / (rho[rows] + of_state)).sum(axis=0) - rho[rows]
        of_episodes[rows] = episode_variance(of_state, weight, rho[rows], share)
    found = normal_spread(mean, variance, rho, _typical(fleet, moments))
    added = np.maximum(mean - moments.mean, 0.0)
    return replace(
        found,
        quantiles=delayed_quantiles(moments.mean, added, variance + of_episodes),
        reciprocal_mean=_reciprocal(rho + mean, variance + of_episodes),
        reciprocal_sd=np.sqrt(variance + of_episodes) / (rho + mean) ** 2,
    )


def _typical(fleet: Fleet, moments: Moments) -> Floats:
    """(points,) what the noise of a step is held against: where much is hidden, the whole step."""
    if fleet.lines is None:
        return moments.mean
    whole: Floats = fleet.outside_ratio + moments.mean
    return whole


def normal_spread(
    mean: Floats, variance: Floats, rho: Floats, typical: Floats | None = None
) -> Spread:
    """Spread of a normal m with these (points,) moments, by the delta method.

    NaN where it is too wide for that beside what is `typical`, by default the mean.
    """
    widest = MOST_NOISE * (mean if typical is None else typical)
    sd = np.where(variance <= widest**2, np.sqrt(variance), np.nan)
    zero = np.zeros_like(mean)
    return Spread(
        quantiles=mean[:, np.newaxis] + sd[:, np.newaxis] * _SCORES,
        quantiles_se=np.zeros((len(mean), len(_SCORES))),
        mean=mean,
        mean_se=zero,
        reciprocal_mean=_reciprocal(rho + mean, sd * sd),
        reciprocal_mean_se=zero,
        reciprocal_sd=sd / (rho + mean) ** 2,
        method=np.full(len(mean), QUADRATURE, dtype=np.int8),
    )


def _reciprocal(stretched: Floats, variance: Floats) -> Floats:
    """(points,) E[1 / (rho + m)] to second order."""
    found: Floats = 1 / stretched + variance / stretched**3
    return found


def delayed_quantiles(base: Floats, added: Floats, variance: Floats) -> Floats:
    """(points, 3) quantiles of base plus a gamma of mean `added` and this variance."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shape = np.where(variance > 0, added * added / variance, np.inf)
    nearly = (shape > _NEARLY_NORMAL) | (added == 0)
    few = np.where(nearly, 1.0, shape)[:, np.newaxis]
    gamma = added[:, np.newaxis] / few * special.gammaincinv(few, SPREAD_PROBABILITIES)
    normal = added[:, np.newaxis] + np.sqrt(variance)[:, np.newaxis] * _SCORES
    found: Floats = base[:, np.newaxis] + np.where(nearly[:, np.newaxis], normal, gamma)
    return found
