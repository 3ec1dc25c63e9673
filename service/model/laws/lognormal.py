"""Lognormal factors."""

import numpy as np
import scipy
from msgspec import Struct

from service.model.laws.law import SMALLEST_X, Cv, Floats, InLogarithm, Light, rate_of
from service.model.slowest.normal_rate import add_normal_rate, normal_rate_and_slope


class LogNormal(
    Struct,
    Light,
    InLogarithm,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="lognormal",
):
    """Positive and skewed to the right: exp(s z - s²/2), s² = log(1 + cv²)."""

    cv: Cv

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        log_sd = _log_sd(shape)
        offset = log_sd / 2 - np.log(mean) / log_sd
        add_normal_rate(1 / log_sd, v, offset, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        log_sd = _log_sd(shape)
        rate, slope = normal_rate_and_slope((v - np.log(mean)) / log_sd + log_sd / 2)
        return rate, slope / log_sd

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        log_sd = _log_sd(shape)
        z = np.log(np.maximum(x, SMALLEST_X)) / log_sd + log_sd / 2
        return rate_of(scipy.special.ndtr(-z))

    @staticmethod
    def upper_quantile(q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        return LogNormal.at_score(-scipy.special.ndtri(q), shape)

    @staticmethod
    def lower_quantile(log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        return LogNormal.at_score(scipy.special.ndtri_exp(log_p), shape)

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        log_sd = _log_sd(shape)
        x: Floats = np.exp(log_sd * (z - log_sd / 2))
        return x


def _log_sd(shape: Floats) -> Floats:
    log_sd: Floats = np.sqrt(np.log1p(shape[0] * shape[0]))
    return log_sd
