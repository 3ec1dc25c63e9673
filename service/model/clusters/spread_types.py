"""How the window's mean slowest factor is spread over clusters."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats

CLOSED_FORM, QUADRATURE, MONTE_CARLO = 0, 1, 2
"""Positions in METHODS of results.py."""
SPREAD_PROBABILITIES = np.array([0.1, 0.5, 0.9])


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """m: the mean over the window of a step's slowest factor, in a random cluster.

    quantiles         (points, 3) p10, p50, p90 of m
    mean              (points,) of m over clusters
    reciprocal_mean   (points,) of 1 / (rho + m), rho the fleet's `outside_ratio`; `reciprocal_sd`
                      its standard deviation
    …_se              standard errors, 0 where nothing was sampled
    method            (points,) CLOSED_FORM, QUADRATURE or MONTE_CARLO

    All NaN where the combination is not covered, see `spread_of`.
    """

    quantiles: Floats
    quantiles_se: Floats
    mean: Floats
    mean_se: Floats
    reciprocal_mean: Floats
    reciprocal_mean_se: Floats
    reciprocal_sd: Floats
    method: NDArray[np.int8]

    def taken(self, rows: NDArray[np.intp]) -> "Spread":
        """The points of these numbers, in this order."""
        return Spread(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def empty_spread(num_points: int) -> Spread:
    """Nothing known yet: NaN."""
    values: dict[str, Any] = {field.name: np.full(num_points, np.nan) for field in fields(Spread)}
    for name in ("quantiles", "quantiles_se"):
        values[name] = np.full((num_points, len(SPREAD_PROBABILITIES)), np.nan)
    values["method"] = np.full(num_points, QUADRATURE, dtype=np.int8)
    return Spread(**values)


def put(spread: Spread, rows: NDArray[np.intp], found: Spread) -> None:
    """Write the points of `found` into these rows."""
    for field in fields(Spread):
        getattr(spread, field.name)[rows] = getattr(found, field.name)
