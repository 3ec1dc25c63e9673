"""The family of the per-step law, by the maximum that it predicts for steps it was not fitted to.

Not by a test of fit: the middle of a law decides that, and the maximum is what a step waits for.
"""

import math
from typing import Final

import numpy as np

from service.calibration.autocorrelation import Memory
from service.calibration.findings import Family, FamilyChoice, FamilyFit
from service.calibration.gaps import mean_over_steps
from service.calibration.observed import mean_of
from service.calibration.timings import BoolArray, FloatArray, IntArray
from service.model.distributions import Gamma, Law, LogNormal, Normal
from service.model.rulebook.rules_of_sources import MAX_CV_OF_PRODUCT
from service.model.slowest.barrier import Groups, slowest_of

LAWS: Final[dict[Family, Law]] = {"normal": Normal, "gamma": Gamma, "lognormal": LogNormal}
"""From the lightest tail to the heaviest; undecided, the first that is not ruled out is taken."""


def family_of(
    cells: FloatArray, steps: IntArray, fitted: BoolArray, cv: float, memory: Memory
) -> FamilyChoice:
    """Choose by the steps that are not `fitted` (steps,); `cells` (steps, ranks) of mean 1.

    Each cell is taken by its rank's mean over the fitted steps and by its own step's mean, which
    leaves the transient factor; `cv` is its spread as fitted. Observed is the mean over held-out
    steps of the largest, predicted that of the same law and number of ranks. Ruled out is what
    lies outside of the 95 % interval; decided it is when one family is left.
    """
    factors = _factors(cells, fitted)
    told = np.isfinite(factors).sum(axis=1) > 1
    factors, numbers = factors[told], steps[~fitted][told]
    num_ranks = np.isfinite(factors).sum(axis=1)
    largest = np.nanmax(factors, axis=1)
    observed = mean_over_steps(largest, numbers, 0.95)
    counts = float(np.mean(num_ranks))
    num_fitted = int(fitted.sum())
    # A mean over few fitted steps is itself off, which widens what is left of held-out ones.
    seen = cv * math.sqrt(1 + memory.inflation / num_fitted)
    fits = [
        FamilyFit(
            family=name,
            predicted_max_to_mean_ratio=predicted,
            relative_error=predicted / observed.value - 1,
        )
        for name, law in LAWS.items()
        for predicted in [expected_largest(law, counts, seen)]
    ]
    low = observed.value if observed.low is None else observed.low
    high = math.inf if observed.high is None else observed.high
    inside = [
        fit
        for fit in fits
        if low <= fit.predicted_max_to_mean_ratio <= high and _is_allowed(fit.family, cv)
    ]
    allowed = [fit for fit in fits if _is_allowed(fit.family, cv)]
    closest = min(allowed, key=lambda fit: abs(fit.relative_error))
    chosen = inside[0] if inside else closest
    return FamilyChoice(chosen=chosen.family, is_decided=len(inside) == 1, candidates=fits)


def _is_allowed(family: Family, cv: float) -> bool:
    """A normal factor among others may not be negative: the model's own rule."""
    return family != "normal" or cv <= MAX_CV_OF_PRODUCT


def _factors(cells: FloatArray, fitted: BoolArray) -> FloatArray:
    held_out = cells[~fitted] / mean_of(cells[fitted], axis=0)
    factors: FloatArray = held_out / mean_of(held_out, axis=1)[:, np.newaxis]
    return factors


def expected_largest(law: Law, num_ranks: float, cv: float) -> float:
    """Expected largest of so many independent factors of mean 1."""
    if cv <= 0 or num_ranks <= 1:
        return 1.0
    groups = Groups(law, np.array([[num_ranks]]), np.array([[1.0]]), np.array([[cv], [0.0]]))
    return float(slowest_of(groups, with_quantiles=False).mean[0])
