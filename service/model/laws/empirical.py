"""Factors as observed: a table of quantiles."""

from functools import cached_property, lru_cache
from typing import Annotated

import numpy as np
import scipy
from msgspec import Meta, Struct

from service.model.laws.law import Floats, Light, rate_of

MAX_QUANTILES = 10_001
_MAX_VALUE = 1e12
_UPPER_HALVINGS = 30
_LOWER_HALVINGS = 8


class Empirical(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="empirical"
):
    """Observed quantiles at equally spaced probabilities, a straight line between neighbours.

    The first is the minimum, the last the maximum. They are relative times in any unit: the law is
    rescaled to mean 1. So many intervals as there are between them stand for so many observations;
    a cluster with more GPUs needs a tail that was not observed, which is refused, or with
    `allow_extrapolation` computed as if nothing were slower than the maximum, and flagged.
    """

    quantiles: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=_MAX_VALUE)], ...],
        Meta(
            min_length=2,
            max_length=MAX_QUANTILES,
            description="At the probabilities 0, 1/n … 1; relative times in any unit.",
        ),
    ]
    allow_extrapolation: Annotated[
        bool, Meta(description="Compute clusters beyond the observed tail, and flag them.")
    ] = False

    def __post_init__(self) -> None:
        """Refuse what is no table of quantiles."""
        steps = np.diff(self.quantiles)
        if (steps < 0).any():
            at = int(np.argmax(steps < 0)) + 1
            raise ValueError(
                f"quantiles must not decrease: item {at} is {self.quantiles[at]}, below "
                f"{self.quantiles[at - 1]}"
            )
        if self.quantiles[-1] == 0:
            raise ValueError("quantiles must not all be 0")


class Table(Light):
    """The law of one table. It takes nothing of `shape`, which may hold anything."""

    def __init__(self, quantiles: tuple[float, ...]) -> None:
        values = np.array(quantiles, dtype=np.float64)
        # Before the mean is taken, so that no sum of tiny values underflows.
        values /= values[-1]
        self.knots = values / ((values[1:] + values[:-1]) / 2).mean()
        self.num_observations = len(values) - 1

    @cached_property
    def halved(self) -> Floats:
        """The knots and the places of P(X > x) = 1/2, 1/4 … 2^-30: a piece at most halves it.

        Ten million GPUs are above the last with a probability of 0.01. And the first interval in
        halves, where the distribution function of a fraction more than one GPU starts like a root.
        """
        upper = 2.0 ** -np.arange(1.0, _UPPER_HALVINGS + 1)
        lower = 1 - 2.0 ** -np.arange(1.0, _LOWER_HALVINGS + 1) / self.num_observations
        return np.union1d(self.knots, self.upper_quantile(np.append(lower, upper), upper))

    @cached_property
    def cv(self) -> float:
        """Standard deviation over mean; 0 where all quantiles are equal."""
        left, right = self.knots[:-1] - 1, self.knots[1:] - 1
        return float(np.sqrt((left * left + left * right + right * right).mean() / 3))

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

    def add_rate(
        self, v: Floats, mean: Floats, shape: Floats, num_gpus: Floats, to: Floats
    ) -> None:
        """Add the rate of `num_gpus` at v."""
        to += num_gpus * self.rate(v / mean, shape)

    def rate_and_slope(
        self,
        v: Floats,
        mean: Floats,
        shape: Floats,  # noqa: ARG002 - see the class
    ) -> tuple[Floats, Floats]:
        """The rate of one GPU and its derivative by v; beyond both ends the latter is 0."""
        survival, density = self._survival_and_density(v / mean)
        rate = rate_of(survival)
        return rate, -density / mean * np.exp(rate)

    def rate(self, x: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - see the class
        """-log P(X <= x)."""
        return rate_of(self._survival_and_density(x)[0])

    def upper_quantile(self, q: Floats, shape: Floats) -> Floats:  # noqa: ARG002 - see the class
        """The x with P(X > x) = q."""
        place = q * self.num_observations
        interval = np.clip(place.astype(np.intp), 0, self.num_observations - 1)
        left = self.knots[-2 - interval]
        right = self.knots[-1 - interval]
        x: Floats = right - (place - interval) * (right - left)
        return x

    def lower_quantile(self, log_p: Floats, shape: Floats) -> Floats:
        """The x with log P(X <= x) = `log_p`."""
        low = self._at_probability(np.exp(log_p))
        return np.where(log_p < -1, low, self.upper_quantile(-np.expm1(log_p), shape))

    def at_score(self, z: Floats, shape: Floats) -> Floats:
        """The x with P(X <= x) = Phi(z)."""
        low = self._at_probability(scipy.special.ndtr(z))
        return np.where(z < 0, low, self.upper_quantile(scipy.special.ndtr(-z), shape))

    def _at_probability(self, p: Floats) -> Floats:
        place = p * self.num_observations
        interval = np.clip(place.astype(np.intp), 0, self.num_observations - 1)
        left = self.knots[interval]
        x: Floats = left + (place - interval) * (self.knots[interval + 1] - left)
        return x

    def _survival_and_density(self, x: Floats) -> tuple[Floats, Floats]:
        """P(X > x), counted from the upper end, and the density."""
        num = self.num_observations
        num_below = np.searchsorted(self.knots, x, side="right")
        interval = np.clip(num_below - 1, 0, num - 1)
        right = self.knots[interval + 1]
        # An interval of no width is entered from neither side but at the outermost ones.
        width = np.maximum(right - self.knots[interval], np.finfo(np.float64).tiny)
        within = np.clip((right - x) / width, 0, 1)
        inside = (num_below > 0) & (num_below <= num)
        survival: Floats = ((num - 1 - interval) + within) / num
        return survival, np.where(inside, 1 / (num * width), 0.0)


@lru_cache(maxsize=64)
def table_of(quantiles: tuple[float, ...]) -> Table:
    """The law of these quantiles, the same object for the same ones."""
    return Table(quantiles)


def observed_share(quantiles: tuple[float, ...]) -> float:
    """The smallest tail probability that the table resolves: 1 / N of more GPUs lies beyond."""
    return 1 / (len(quantiles) - 1)
