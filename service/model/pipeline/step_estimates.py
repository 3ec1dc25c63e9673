"""From drawn rounds to the mean step and its standard error.

What all GPUs share has a known mean, 1, and steadies the mean as a control variate. With episodes
the mean is the one over time: 1 / the mean over states of 1 / (rho + the mean step in it), less
rho. Within a state few draws are averaged; 1 / their mean is too large by v / (rho + m)^3, v the
variance of that mean, which is taken off. What is left of that bias is of the order of the square
of v / (rho + m)^2.
"""

from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats
from service.model.pipeline.rounds import Rounds


class Expected(NamedTuple):
    """mean of a step with its standard error, and `rest` of a step without floor."""

    mean: float
    mean_se: float
    rest: float


def expected_step(rounds: Rounds, floor: float) -> Expected:
    """Where no state lasts."""
    floored = steadied(np.maximum(rounds.step, floor), rounds.common)
    error = floored.std(ddof=1) / len(floored) ** 0.5
    return Expected(
        float(floored.mean()), float(error), float(steadied(rounds.step, rounds.common).mean())
    )


def expected_over_time(rounds: Rounds, floor: float, rho: float, inner: int) -> Expected:
    """Where every `inner` draws are those of one state.

    `rest` is the mean over the steps that are done: states weigh by how many they see.
    """
    floored = steadied(np.maximum(rounds.step, floor), rounds.common).reshape(-1, inner)
    whole = rho + floored.mean(axis=1)
    rate = 1 / whole
    if inner > 1:
        rate -= floored.var(axis=1, ddof=1) / inner * rate**3
    per_time = rate.mean()
    error = rate.std(ddof=1) / len(rate) ** 0.5 / per_time**2
    rest = steadied(rounds.step, rounds.common).reshape(-1, inner).mean(axis=1)
    mean = 1 / per_time - rho
    # Of equal terms the same sum: without a floor the rest is the mean.
    added = ((floored.mean(axis=1) - rest) * rate).mean() / per_time
    return Expected(float(mean), float(error), float(mean - added))


def steadied(values: Floats, common: Floats) -> Floats:
    """The values without what follows from the common factor's distance from 1, linearly."""
    centred = common - common.mean()
    spread = centred @ centred
    if spread == 0:
        return values
    found: Floats = values - (centred @ values / spread) * (common - 1)
    return found
