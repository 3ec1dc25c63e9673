"""Pareto factors."""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from service.model.laws.hazard import (
    add_hazard_rate,
    hazard_of_log_p,
    hazard_of_score,
    hazard_rate,
    hazard_rate_and_slope,
)
from service.model.laws.law import SMALLEST_X, Floats, InLogarithm, Quadrature


class Pareto(
    Struct,
    InLogarithm,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="pareto",
):
    """A tail that falls as x^-a above the minimum (a - 1) / a, a = 1 + sqrt(1 + 1 / cv²) > 2."""

    cv: Annotated[
        float,
        Meta(ge=0, le=3, description="Standard deviation over mean, a fraction: 0.05 is 5 %."),
    ]

    @staticmethod
    def quadrature() -> Quadrature:
        """Measured: 44 nodes leave 1e-10, at cv up to 3; see `tail_power` for what is above."""
        return Quadrature(map_rate=2.0, above=1e-7)

    @staticmethod
    def tail_power(shape: Floats) -> Floats:
        """The a of the tail."""
        power: Floats = 1 + np.sqrt(1 + shape[0] ** -2.0)
        return power

    @staticmethod
    def add_rate(v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats) -> None:
        """Add the rate of `num_gpus` at v."""
        power = Pareto.tail_power(shape)
        hazard = v - (np.log(mean) + _log_minimum(power))
        hazard *= power
        add_hazard_rate(hazard, num_gpus, to)

    @staticmethod
    def rate_and_slope(v: Floats, mean: Floats, shape: Floats) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v."""
        power = Pareto.tail_power(shape)
        hazard = power * (v - np.log(mean) - _log_minimum(power))
        return hazard_rate_and_slope(hazard, power)

    @staticmethod
    def rate(x: Floats, shape: Floats) -> Floats:
        """-log P(X <= x)."""
        power = Pareto.tail_power(shape)
        return hazard_rate(power * (np.log(np.maximum(x, SMALLEST_X)) - _log_minimum(power)))

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


def _log_minimum(power: Floats) -> Floats:
    return np.log1p(-1 / power)


def _at_hazard(hazard: Floats, shape: Floats) -> Floats:
    power = Pareto.tail_power(shape)
    x: Floats = np.exp(hazard / power + _log_minimum(power))
    return x
