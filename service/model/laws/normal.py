"""Normal factors."""

import numpy as np
import scipy
from msgspec import Struct

from service.model.laws.law import Cv, Floats, Light, rate_of
from service.model.slowest.normal_rate import add_normal_rate, normal_rate_and_slope

MAX_CV_NORMAL = 0.3
"""Above this a normal factor would be negative too often (4e-4 at 0.3); lognormal has no limit."""


class Normal(
    Struct,
    Light,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="normal",
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
        """exp(-rate) dx/dv; in place."""
        np.negative(rate, out=rate)
        return np.exp(rate, out=rate)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        cv = shape[0]
        add_normal_rate(1 / (mean * cv), v, -1 / cv, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        scale = mean * shape[0]
        rate, slope = normal_rate_and_slope((v - mean) / scale)
        return rate, slope / scale

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        return rate_of(scipy.special.ndtr((1 - x) / shape[0]))

    @staticmethod
    def upper_quantile(q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        x: Floats = 1 - shape[0] * scipy.special.ndtri(q)
        return x

    @staticmethod
    def lower_quantile(log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        x: Floats = 1 + shape[0] * scipy.special.ndtri_exp(log_p)
        return x

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        x: Floats = 1 + shape[0] * z
        return x
