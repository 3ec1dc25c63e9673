"""Gamma factors."""

import numpy as np
import scipy
from msgspec import Struct

from service.model.laws.law import (
    ALMOST_ONE,
    Cv,
    Floats,
    InCubeRoot,
    Light,
    add_rate_of,
    at_score_by_tails,
    rate_of,
)


class Gamma(
    Struct,
    Light,
    InCubeRoot,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="gamma",
):
    """Positive, tail between normal and lognormal: Gamma(k) / k, k = 1 / cv²."""

    cv: Cv

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        k = shape[0] ** -2.0
        y = v * v
        y *= v
        y *= k / mean
        add_rate_of(scipy.special.gammaincc(k, y, out=y), num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        k = shape[0] ** -2.0
        x = v * v * v / mean
        survival = np.minimum(scipy.special.gammaincc(k, k * x), ALMOST_ONE)
        # x^k e^(-kx) k^k / Gamma(k), by its distance from x = 1: the plain terms cancel when k is
        # large (k = 1e12 at cv 1e-6) and would leave no digit.
        from_one = x - 1
        log_density = k * (np.log1p(from_one) - from_one) + _log_peak(k)
        return -np.log1p(-survival), -3 / v * np.exp(log_density) / (1 - survival)

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        k = shape[0] ** -2.0
        return rate_of(scipy.special.gammaincc(k, k * np.maximum(x, 0)))

    @staticmethod
    def upper_quantile(q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        k = shape[0] ** -2.0
        x: Floats = scipy.special.gammainccinv(k, q) / k
        return x

    @staticmethod
    def lower_quantile(log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`.

        Below z = -4.5 with a cv under 1e-3, SciPy's inverse is up to 0.3 standard deviations off:
        no matter for the end of an integral or for one of the fastest ranks of a draw.
        """
        k = shape[0] ** -2.0
        low = scipy.special.gammaincinv(k, np.exp(log_p))
        high = scipy.special.gammainccinv(k, -np.expm1(log_p))
        x: Floats = np.where(log_p < -1, low, high) / k
        return x

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        return at_score_by_tails(Gamma, z, shape)


def _log_peak(k: Floats) -> Floats:
    """log(k^k e^(-k) / Gamma(k)); above k = 100 by Stirling's series, where both halves cancel."""
    series: Floats = 0.5 * np.log(k / (2 * np.pi)) - (1 - 1 / (30 * k**2)) / (12 * k)
    exact: Floats = scipy.special.xlogy(k, k) - k - scipy.special.gammaln(k)
    peak: Floats = np.where(k > 100, series, exact)
    return peak
