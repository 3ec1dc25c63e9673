"""What the mathematics need of a distribution with mean 1.

`shape` is (parameters, points): row 0 the coefficient of variation, which must be positive, row 1
the second parameter of the families that have one. Everything is written from the upper tail: the
slowest of ten million GPUs sits where the distribution function has rounded to 1.

`warp` gives the variable v in which the quadrature of the maximum places its nodes (x itself, its
logarithm, its cube root): there the tail falls like a Gaussian's and 44 nodes reach 1e-9. The
rate of a GPU at v is -log P(mean X <= x(v)): the rates of GPUs add up to that of the slowest.
"""

from typing import Annotated, NamedTuple, Protocol

import numpy as np
import scipy
from msgspec import Meta
from numpy.typing import NDArray

Floats = NDArray[np.float64]

Cv = Annotated[
    float,
    Meta(ge=0, le=1, description="Standard deviation over mean, a fraction: 0.05 is 5 %."),
]

ALMOST_ONE = 1 - 2.0**-53
"""Largest survival probability used: its rate is 36.7 and not infinite, so that 0 GPUs of a group
times it is 0 and not nan."""


OUTSIDE = 1e-11
"""The maximum lies outside of the interval of integration with about this probability at either
end. Smaller is not better: the same nodes would be spread over a longer interval."""

SMALLEST_X = float(np.finfo(np.float64).tiny)
"""Instead of 0 and below, where a logarithm is taken."""


class Quadrature(NamedTuple):
    """How the distribution function of the maximum is integrated in v (`nodes.mapped_legendre`).

    `above` is the probability of a maximum above the upper end of the interval.
    """

    num_nodes: int = 44
    map_rate: float = 3.0
    power: int = 1
    above: float = OUTSIDE


class Law(Protocol):
    """A family, or an object that knows more than `shape` says (a table of quantiles)."""

    def quadrature(self) -> Quadrature:
        """The rule that was shown to be accurate for this law."""

    def tail_power(self, shape: Floats, /) -> Floats | None:
        """The a of a tail that falls as x^-a, (points,); None for a lighter tail.

        The integral of such a tail above the interval of integration is not negligible.
        """

    def warp(self, x: Floats, /) -> Floats:
        """The variable v of x."""

    def unwarp(self, v: Floats, /) -> Floats:
        """The x of v."""

    def share_below(self, v: Floats, rate: Floats, /) -> Floats:
        """exp(-rate) dx/dv, whose integral over v is that of the maximum's F over x; in place."""

    def add_rate(
        self, v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats, /
    ) -> None:
        """Add the rate of `num_gpus` at v; `v`, `to` (nodes, points), the others (points,)."""

    def rate_and_slope(self, v: Floats, mean: Floats, shape: Floats, /) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v, all (points,)."""

    def rate(self, x: Floats, shape: Floats, /) -> Floats:
        """-log P(X <= x), 0 to 36.8; x is (..., points). Upper tail to 1e-12 relative."""

    def upper_quantile(self, q: Floats, shape: Floats, /) -> Floats:
        """The x with P(X > x) = q, exact for tiny q; q is (..., points)."""

    def lower_quantile(self, log_p: Floats, shape: Floats, /) -> Floats:
        """The x with log P(X <= x) = `log_p`, (..., points)."""

    def at_score(self, z: Floats, shape: Floats, /) -> Floats:
        """The x with P(X <= x) = Phi(z), each half from its own tail; z is (..., points)."""


def add_rate_of(survival: Floats, num_gpus: Floats, to: Floats) -> None:
    """Add -`num_gpus` log(1 - survival) in place, kept finite; overwrites `survival`."""
    np.minimum(survival, ALMOST_ONE, out=survival)
    np.negative(survival, out=survival)
    np.log1p(survival, out=survival)
    survival *= num_gpus
    to -= survival


def rate_of(survival: Floats) -> Floats:
    """-log(1 - survival), kept finite."""
    rate: Floats = -np.log1p(-np.minimum(survival, ALMOST_ONE))
    return rate


def at_score_by_tails(law: Law, z: Floats, shape: Floats) -> Floats:
    """`at_score` through the quantile functions, for laws that know no better."""
    upper = law.upper_quantile(scipy.special.ndtr(-np.maximum(z, 0)), shape)
    lower = law.lower_quantile(scipy.special.log_ndtr(np.minimum(z, 0)), shape)
    return np.where(z > 0, upper, lower)


class Light:
    """What most laws have in common: the usual rule, and no tail to speak of."""

    __slots__ = ()

    @staticmethod
    def quadrature() -> Quadrature:
        """The usual rule."""
        return Quadrature()

    @staticmethod
    def tail_power(shape: Floats) -> None:
        """No power: the tail falls faster."""


class InLogarithm:
    """Laws that are integrated in v = log x."""

    __slots__ = ()

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
        """exp(-rate) dx/dv; in place."""
        np.subtract(v, rate, out=rate)
        return np.exp(rate, out=rate)


class InCubeRoot:
    """Laws that are integrated in v = x^(1/3), in which a gamma is nearly normal.

    Source: Wilson and Hilferty, PNAS 17, 1931.
    """

    __slots__ = ()

    @staticmethod
    def warp(x: Floats) -> Floats:
        """The variable v = x^(1/3)."""
        return np.cbrt(x)

    @staticmethod
    def unwarp(v: Floats) -> Floats:
        """The x of v."""
        return v * v * v

    @staticmethod
    def share_below(v: Floats, rate: Floats) -> Floats:
        """exp(-rate) dx/dv; in place."""
        np.negative(rate, out=rate)
        np.exp(rate, out=rate)
        rate *= v
        rate *= v
        rate *= 3
        return rate
