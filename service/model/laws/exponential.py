"""Exponential factors above a minimum."""

import numpy as np
from msgspec import Struct

from service.model.laws.hazard import (
    add_hazard_rate,
    hazard_of_log_p,
    hazard_of_score,
    hazard_rate,
    hazard_rate_and_slope,
)
from service.model.laws.law import Cv, Floats, InCubeRoot, Light, Quadrature


class Exponential(
    Struct,
    Light,
    InCubeRoot,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="exponential",
):
    """A minimum of 1 - cv and an exponential delay above: h = (x - 1 + cv) / cv."""

    cv: Cv

    @staticmethod
    def quadrature() -> Quadrature:
        """Measured: 44 nodes leave 1e-11, at cv up to 1."""
        return Quadrature(map_rate=2.0)

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        cv = shape[0]
        hazard = v * v
        hazard *= v
        hazard *= 1 / (mean * cv)
        hazard -= (1 - cv) / cv
        add_hazard_rate(hazard, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        scale = mean * shape[0]
        return hazard_rate_and_slope(_hazard(v * v * v / mean, shape), 3 * v * v / scale)

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        return hazard_rate(_hazard(x, shape))

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


def _hazard(x: Floats, shape: Floats) -> Floats:
    cv = shape[0]
    hazard: Floats = (x - (1 - cv)) / cv
    return hazard


def _at_hazard(hazard: Floats, shape: Floats) -> Floats:
    cv = shape[0]
    x: Floats = (1 - cv) + cv * hazard
    return x
