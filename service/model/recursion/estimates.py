"""From replications to a mean and its standard error.

What is known exactly steadies it (control variates): the mean factor of the rank that is slowest
in what lasts, given the cluster, and over clusters the expectation of that lasting factor.
"""

from typing import NamedTuple

import numpy as np

from service.model.laws.law import Floats

_TINY = 1e-20


class Estimate(NamedTuple):
    """mean and, (replications,) each, how far they are from it; `widening` of the standard error.

    The error of the mean has the spread of the deviations over the root of their number, times
    `widening`: for the coefficients that were estimated, and for the spread that was, so that the
    error over its standard error has a variance of 1 (Student's).
    """

    mean: float
    deviations: Floats
    widening: float


def estimate(values: Floats, controls: list[Floats]) -> Estimate:
    """Of (replications,) values with controls of expectation 0, (replications,) each."""
    number = len(values)
    used = [control for control in controls if np.square(control).mean() > _TINY]
    design = np.stack([np.ones(number), *used], axis=1)
    fitted, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    deviations = values - design @ fitted
    freedom = number - int(rank)
    spread = (number - 1) / freedom * (number - 2) / max(number - 1 - int(rank), 1)
    return Estimate(float(fitted[0]), deviations, (spread * freedom / (freedom - 2)) ** 0.5)


def standard_error(deviations: Floats, widening: float) -> float:
    """Of the mean of deviations."""
    number = len(deviations)
    return float(widening * np.sqrt(np.square(deviations).sum() / (number * (number - 1))))
