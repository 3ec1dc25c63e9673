"""Gamma factors with a skewness of their own (Pearson's type III)."""

from typing import Annotated

import numpy as np
import scipy
from msgspec import Meta, Struct

from service.model.laws.gamma import Gamma
from service.model.laws.law import (
    SMALLEST_X,
    Cv,
    Floats,
    InCubeRoot,
    Light,
    Quadrature,
    add_rate_of,
    at_score_by_tails,
)


class ShiftedGamma(
    Struct,
    Light,
    InCubeRoot,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="shifted_gamma",
):
    """1 + (2 cv / skew) (G - 1), G a gamma factor of cv skew / 2.

    Its skewness is `skew`: 2 cv gives the gamma, 2 the exponential. The smallest value is
    1 - 2 cv / skew, so that `cv` must be at most skew / 2.
    """

    cv: Cv
    skew: Annotated[
        float, Meta(ge=0.001, le=4, description="Skewness: 0 symmetric, 2 like the exponential.")
    ]

    @staticmethod
    def quadrature() -> Quadrature:
        """Measured: 56 nodes leave 2e-11, at skewness up to 4; without the power 4e-7."""
        return Quadrature(num_nodes=56, map_rate=2.0, power=2)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        stretch, inner = _inner(shape)
        k = inner[0] ** -2.0
        y = v * v
        y *= v
        y *= k / (stretch * mean)
        y -= k * (1 / stretch - 1)
        np.maximum(y, 0, out=y)
        add_rate_of(scipy.special.gammaincc(k, y, out=y), num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        stretch, inner = _inner(shape)
        x = v * v * v / mean
        g = np.maximum(1 + (x - 1) / stretch, SMALLEST_X)
        root = np.cbrt(g)
        rate, slope = Gamma.rate_and_slope(root, np.ones(1), inner)
        return rate, slope / (3 * root * root) * 3 * v * v / (stretch * mean)

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        stretch, inner = _inner(shape)
        return Gamma.rate(1 + (x - 1) / stretch, inner)

    @staticmethod
    def upper_quantile(q: Floats, shape: Floats) -> Floats:
        """The x with P(X > x) = q."""
        stretch, inner = _inner(shape)
        x: Floats = (1 - stretch) + stretch * Gamma.upper_quantile(q, inner)
        return x

    @staticmethod
    def lower_quantile(log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        stretch, inner = _inner(shape)
        x: Floats = (1 - stretch) + stretch * Gamma.lower_quantile(log_p, inner)
        return x

    @staticmethod
    def at_score(z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        return at_score_by_tails(ShiftedGamma, z, shape)


def lowest(shape: Floats) -> Floats:
    """(points,) the smallest factor; below 0 the scenario makes no sense."""
    factor: Floats = 1 - 2 * shape[0] / shape[1]
    return factor


def _inner(shape: Floats) -> tuple[Floats, Floats]:
    """The stretch 2 cv / skew, and the shape of the gamma that is stretched."""
    return 2 * shape[0] / shape[1], shape[1:] / 2
