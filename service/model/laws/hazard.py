"""Families with P(X > x) = exp(-h(x)), h the cumulative hazard: an exponential variable, reshaped.

For them every tail is exact: the h of an upper quantile is -log q, that of a normal score z is
-log Phi(-z).
"""

import numpy as np
import scipy

from service.model.laws.law import Floats, add_rate_of, rate_of

_LARGEST = 700.0
"""exp(-700) is still a number."""
_LOG_LARGEST = float(np.log(_LARGEST))
_SMALLEST = 2.0**-53


def hazard_of_log_p(log_p: Floats) -> Floats:
    """The h with log P(h(X) <= h) = `log_p`."""
    near_one = np.maximum(log_p, -1)
    with np.errstate(divide="ignore"):
        low = -np.log1p(-np.exp(np.minimum(log_p, -1)))
        high = -np.log(-np.expm1(near_one))
    return np.where(log_p < -1, low, high)


def hazard_of_score(z: Floats) -> Floats:
    """The h with P(h(X) <= h) = Phi(z)."""
    return np.negative(scipy.special.log_ndtr(-z))


def exp_of_log_hazard(log_hazard: Floats) -> Floats:
    """In place, without overflow."""
    np.minimum(log_hazard, _LOG_LARGEST, out=log_hazard)
    return np.exp(log_hazard, out=log_hazard)


def add_hazard_rate(hazard: Floats, num_gpus: Floats, to: Floats) -> None:
    """Add the rate of `num_gpus`, (nodes, points); overwrites `hazard`."""
    np.clip(hazard, 0, _LARGEST, out=hazard)
    np.negative(hazard, out=hazard)
    add_rate_of(np.exp(hazard, out=hazard), num_gpus, to)


def hazard_rate(hazard: Floats) -> Floats:
    """-log P(X <= x) from h(x); below the smallest x h is negative."""
    return rate_of(np.exp(-np.clip(hazard, 0, _LARGEST)))


def hazard_rate_and_slope(hazard: Floats, slope: Floats) -> tuple[Floats, Floats]:
    """The rate and its derivative, from h and its derivative."""
    bounded = np.clip(hazard, _SMALLEST, _LARGEST)
    return hazard_rate(bounded), -slope / np.expm1(bounded)
