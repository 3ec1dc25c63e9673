"""The distributions of a factor with mean 1 and coefficient of variation `cv`.

A class here is at once the declaration (decoding, bounds, storage, the API's schema) and the
mathematics, so that one more distribution touches this file alone: its class, and its name in
`Distribution`. Functions are vectorised over `cv`, which must be positive, and are written from the
upper tail: the slowest of ten million GPUs sits where the distribution function has rounded to 1.

`warp` gives the variable v in which the quadrature of the maximum places its nodes (x itself, its
logarithm, its cube root): there the tail falls like a Gaussian's and 44 nodes reach 1e-9. The
rate of a GPU at v is -log P(mean X <= x(v)): the rates of GPUs add up to that of the slowest.
"""

from typing import Annotated, get_args

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from scipy import special

from service.model.normal_rate import add_normal_rate, normal_rate_and_slope

Floats = NDArray[np.float64]
Cv = Annotated[
    float,
    Meta(ge=0, le=1, description="Standard deviation over mean, a fraction: 0.05 is 5 %."),
]

MAX_CV_NORMAL = 0.3
"""Above this a normal factor would be negative too often (4e-4 at 0.3); lognormal has no limit."""

ALMOST_ONE = 1 - 2.0**-53
"""Largest survival probability used: its rate is 36.7 and not infinite, so that 0 GPUs of a group
times it is 0 and not nan."""


class Normal(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="normal"
):
    """Symmetric: 1 + cv z. Only up to a `cv` of 0.3."""

    cv: Cv

    @staticmethod
    def warp(x: Floats) -> Floats:
        """The variable v = x."""
        return x

    @staticmethod
    def unwarp(v: Floats) -> Floats:
        """The x of v."""
        return v

    @staticmethod
    def share_below(v: Floats, rate: Floats) -> Floats:  # noqa: ARG004 - dx/dv is 1 here
        """exp(-rate) dx/dv, whose integral over v is that of the maximum's F over x; in place."""
        np.negative(rate, out=rate)
        return np.exp(rate, out=rate)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, cv: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v; `v`, `to` (nodes, points), the others (points,)."""
        scale = mean * cv
        add_normal_rate(1 / scale, v, -1 / cv, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, cv: Floats) -> tuple[Floats, Floats]:
        """The rate and its derivative by v, all (points,)."""
        scale = mean * cv
        rate, slope = normal_rate_and_slope((v - mean) / scale)
        return rate, slope / scale

    @staticmethod
    def upper_quantile(q: Floats, cv: Floats) -> Floats:
        """The x with P(X > x) = q, exact for tiny q."""
        return 1 - cv * special.ndtri(q)

    @staticmethod
    def lower_quantile(log_p: Floats, cv: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        return 1 + cv * special.ndtri_exp(log_p)


class LogNormal(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="lognormal"
):
    """Positive and skewed to the right: exp(s z - s²/2), s² = log(1 + cv²)."""

    cv: Cv

    @staticmethod
    def warp(x: Floats) -> Floats:
        """The variable v = log x."""
        return np.log(x)

    @staticmethod
    def unwarp(v: Floats) -> Floats:
        """The x of v."""
        return np.exp(v)

    @staticmethod
    def share_below(v: Floats, rate: Floats) -> Floats:
        """exp(-rate) dx/dv, whose integral over v is that of the maximum's F over x; in place."""
        np.subtract(v, rate, out=rate)
        return np.exp(rate, out=rate)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, cv: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v; `v`, `to` (nodes, points), the others (points,)."""
        log_sd = _log_sd(cv)
        offset = log_sd / 2 - np.log(mean) / log_sd
        add_normal_rate(1 / log_sd, v, offset, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, cv: Floats) -> tuple[Floats, Floats]:
        """The rate and its derivative by v, all (points,)."""
        log_sd = _log_sd(cv)
        rate, slope = normal_rate_and_slope((v - np.log(mean)) / log_sd + log_sd / 2)
        return rate, slope / log_sd

    @staticmethod
    def upper_quantile(q: Floats, cv: Floats) -> Floats:
        """The x with P(X > x) = q, exact for tiny q."""
        log_sd = _log_sd(cv)
        return np.exp(-log_sd * (special.ndtri(q) + log_sd / 2))

    @staticmethod
    def lower_quantile(log_p: Floats, cv: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        log_sd = _log_sd(cv)
        return np.exp(log_sd * (special.ndtri_exp(log_p) - log_sd / 2))


class Gamma(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="gamma"
):
    """Positive, tail between normal and lognormal: Gamma(k) / k, k = 1 / cv²."""

    cv: Cv

    @staticmethod
    def warp(x: Floats) -> Floats:
        """The variable v = x^(1/3), in which a gamma is nearly normal (Wilson and Hilferty)."""
        return np.cbrt(x)

    @staticmethod
    def unwarp(v: Floats) -> Floats:
        """The x of v."""
        return v * v * v

    @staticmethod
    def share_below(v: Floats, rate: Floats) -> Floats:
        """exp(-rate) dx/dv, whose integral over v is that of the maximum's F over x; in place."""
        np.negative(rate, out=rate)
        np.exp(rate, out=rate)
        rate *= v
        rate *= v
        rate *= 3
        return rate

    @staticmethod
    def add_rate(v: Floats, mean: Floats, cv: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v; `v`, `to` (nodes, points), the others (points,)."""
        shape = cv**-2.0
        y = v * v
        y *= v
        y *= shape / mean
        survival = special.gammaincc(shape, y, out=y)
        np.minimum(survival, ALMOST_ONE, out=survival)
        np.negative(survival, out=survival)
        np.log1p(survival, out=survival)
        survival *= num_gpus
        to -= survival

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, cv: Floats) -> tuple[Floats, Floats]:
        """The rate and its derivative by v, all (points,)."""
        shape = cv**-2.0
        x = v * v * v / mean
        survival = np.minimum(special.gammaincc(shape, shape * x), ALMOST_ONE)
        # x^k e^(-kx) k^k / Gamma(k), by its distance from x = 1: the plain terms cancel when k is
        # large (k = 1e12 at cv 1e-6) and would leave no digit.
        from_one = x - 1
        log_density = shape * (np.log1p(from_one) - from_one) + _log_gamma_peak(shape)
        return -np.log1p(-survival), -3 / v * np.exp(log_density) / (1 - survival)

    @staticmethod
    def upper_quantile(q: Floats, cv: Floats) -> Floats:
        """The x with P(X > x) = q, exact for tiny q."""
        shape = cv**-2.0
        return special.gammainccinv(shape, q) / shape

    @staticmethod
    def lower_quantile(log_p: Floats, cv: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`.

        Below z = -4.5 with a cv under 1e-3, SciPy's inverse is up to 0.3 standard deviations off:
        no matter for the end of an integral or for one of the fastest ranks of a draw.
        """
        shape = cv**-2.0
        low = special.gammaincinv(shape, np.exp(log_p))
        high = special.gammainccinv(shape, -np.expm1(log_p))
        return np.where(log_p < -1, low, high) / shape


Distribution = Normal | LogNormal | Gamma
Law = type[Normal] | type[LogNormal] | type[Gamma]

LAWS: tuple[Law, ...] = get_args(Distribution)
FAMILIES: tuple[str, ...] = ("none", *(str(law.__struct_config__.tag) for law in LAWS))
"""Names by code: a column of families holds positions in this tuple."""


def law_of(family: int) -> Law:
    """The law with this code; 0 ("none") has none."""
    if not 1 <= family <= len(LAWS):
        raise ValueError(f"family: code {family} is no distribution, they are 1 … {len(LAWS)}")
    return LAWS[family - 1]


def log_cdf(law: Law, x: Floats, cv: Floats) -> Floats:
    """Logarithm of P(X <= x), (points,); -36.7 or so where it is lower."""
    rate, _ = law.rate_and_slope(law.warp(x), np.ones(1), cv)
    return -rate


def _log_sd(cv: Floats) -> Floats:
    return np.sqrt(np.log1p(cv * cv))


def _log_gamma_peak(shape: Floats) -> Floats:
    """log(k^k e^(-k) / Gamma(k)); above k = 100 by Stirling's series, where both halves cancel."""
    series: Floats = 0.5 * np.log(shape / (2 * np.pi)) - (1 - 1 / (30 * shape**2)) / (12 * shape)
    exact: Floats = special.xlogy(shape, shape) - shape - special.gammaln(shape)
    peak: Floats = np.where(shape > 100, series, exact)
    return peak
