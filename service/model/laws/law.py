"""What the mathematics need of a distribution with mean 1.

`shape` is (parameters, points): row 0 the coefficient of variation, which must be positive, row 1
the second parameter of the families that have one. Everything is written from the upper tail: the
slowest of ten million GPUs sits where the distribution function has rounded to 1.

`warp` gives the variable v in which the quadrature of the maximum places its nodes (x itself, its
logarithm, its cube root): there the tail falls like a Gaussian's and 44 nodes reach 1e-9. The
rate of a GPU at v is -log P(mean X <= x(v)): the rates of GPUs add up to that of the slowest.
"""

from typing import Annotated, Protocol

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

Cv = Annotated[
    float,
    Meta(ge=0, le=1, description="Standard deviation over mean, a fraction: 0.05 is 5 %."),
]

ALMOST_ONE = 1 - 2.0**-53
"""Largest survival probability used: its rate is 36.7 and not infinite, so that 0 GPUs of a group
times it is 0 and not nan."""


class Law(Protocol):
    """A family, or an object that knows more than `shape` says (a table of quantiles)."""

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


def rate_of(survival: Floats) -> Floats:
    """-log(1 - survival), kept finite."""
    rate: Floats = -np.log1p(-np.minimum(survival, ALMOST_ONE))
    return rate


def at_score_by_tails(law: Law, z: Floats, shape: Floats) -> Floats:
    """`at_score` through the quantile functions, for laws that know no better."""
    upper = law.upper_quantile(special.ndtr(-np.maximum(z, 0)), shape)
    lower = law.lower_quantile(special.log_ndtr(np.minimum(z, 0)), shape)
    return np.where(z > 0, upper, lower)
