"""Weibull factors."""

from functools import lru_cache

import numpy as np
import scipy
from msgspec import Struct

from service.model.laws.hazard import (
    add_hazard_rate,
    exp_of_log_hazard,
    hazard_of_log_p,
    hazard_of_score,
    hazard_rate,
    hazard_rate_and_slope,
)
from service.model.laws.law import SMALLEST_X, Cv, Floats, InCubeRoot, Light, Quadrature

_DEGREE = 32
_SERIES_BELOW = 0.05
_SERIES_TERMS = 18
_NEWTON_STEPS = 8


class Weibull(
    Struct,
    Light,
    InCubeRoot,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="weibull",
):
    """h = (x Gamma(1 + u))^(1/u): light above, skewed to the left where cv is below 0.28.

    u = 1 / k solves Gamma(1 + 2u) / Gamma(1 + u)² = 1 + cv².
    """

    cv: Cv

    @staticmethod
    def quadrature() -> Quadrature:
        """Measured: 64 nodes leave 1e-10, at cv up to 1; its long tail is on the left."""
        return Quadrature(num_nodes=64, map_rate=0.2)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        u = inverse_exponent(shape[0])
        log_hazard = np.log(v)
        log_hazard *= 3 / u
        log_hazard -= (np.log(mean) - scipy.special.gammaln(1 + u)) / u
        add_hazard_rate(exp_of_log_hazard(log_hazard), num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        u = inverse_exponent(shape[0])
        hazard = _hazard(3 * np.log(v) - np.log(mean), u)
        return hazard_rate_and_slope(hazard, 3 / (u * v) * hazard)

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        log_x = np.log(np.maximum(x, SMALLEST_X))
        return hazard_rate(_hazard(log_x, inverse_exponent(shape[0])))

    @staticmethod
    def upper_quantile(q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        return _at_hazard(-np.log(q), shape)

    @staticmethod
    def lower_quantile(log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        return _at_hazard(hazard_of_log_p(log_p), shape)

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        return _at_hazard(hazard_of_score(z), shape)


def inverse_exponent(cv: Floats) -> Floats:
    """The u of a cv from 0 to 1, to about 1e-15: cv times a polynomial."""
    ratio = np.polynomial.chebyshev.chebval(2 * cv - 1, _ratio_coefficients())
    return np.asarray(cv * ratio, dtype=np.float64)


@lru_cache(maxsize=1)
def _ratio_coefficients() -> Floats:
    """Of u / cv, by Newton's method on log u in the Chebyshev points of 0 ... 1."""
    angles = (np.arange(_DEGREE + 1) + 0.5) * np.pi / (_DEGREE + 1)
    cv = (np.cos(angles) + 1) / 2
    wanted = np.log(np.log1p(cv * cv))
    u = cv * 0.8
    for _ in range(_NEWTON_STEPS):
        value, slope = _log_second_moment(u)
        u = u * np.exp((wanted - np.log(value)) * value / (u * slope))
    fit = np.polynomial.chebyshev.chebfit(2 * cv - 1, u / cv, _DEGREE)
    return np.asarray(fit, dtype=np.float64)


def _log_second_moment(u: Floats) -> tuple[Floats, Floats]:
    """log(Gamma(1 + 2u) / Gamma(1 + u)²) and its derivative.

    Below u = 0.05 by the series sum (-1)^j zeta(j) (2^j - 2) u^j / j, where both halves cancel.
    """
    j = np.arange(2, 2 + _SERIES_TERMS)[:, np.newaxis]
    term = (
        (-1.0) ** j * scipy.special.zeta(j) * (2.0**j - 2) * np.minimum(u, _SERIES_BELOW) ** (j - 1)
    )
    small = u < _SERIES_BELOW
    exact = scipy.special.gammaln(1 + 2 * u) - 2 * scipy.special.gammaln(1 + u)
    exact_slope = 2 * (scipy.special.digamma(1 + 2 * u) - scipy.special.digamma(1 + u))
    value = np.where(small, (term / j).sum(axis=0) * u, exact)
    return value, np.where(small, term.sum(axis=0), exact_slope)


def _hazard(log_x: Floats, u: Floats) -> Floats:
    log_hazard: Floats = (log_x + scipy.special.gammaln(1 + u)) / u
    return exp_of_log_hazard(log_hazard)


def _at_hazard(hazard: Floats, shape: Floats) -> Floats:
    u = inverse_exponent(shape[0])
    x: Floats = np.exp(u * np.log(np.maximum(hazard, SMALLEST_X)) - scipy.special.gammaln(1 + u))
    return x
