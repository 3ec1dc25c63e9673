"""The family of the per-step law, by the maximum that it predicts for steps it was not fitted to.

Not by a test of fit: the middle of a law decides that, and the maximum is what a step waits for.
Beside it the skewness of all cells, since few ranks have the same maximum in every family, and many
more of them do not.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from service.calibration.autocorrelation import Memory
from service.calibration.findings import Estimate, Family, FamilyChoice, FamilyFit
from service.calibration.gaps import mean_over_steps
from service.calibration.intervals import shares_of_moments, skew_of
from service.calibration.observed import mean_of
from service.calibration.timings import BoolArray, FloatArray, IntArray
from service.model.distributions import (
    Exponential,
    Gamma,
    Law,
    LogNormal,
    Normal,
    Pareto,
    ShiftedGamma,
)
from service.model.rulebook.rules_of_sources import MAX_CV_OF_PRODUCT
from service.model.slowest.barrier import Groups, slowest_of

LAWS: Final[dict[Family, Law]] = {
    "normal": Normal,
    "gamma": Gamma,
    "lognormal": LogNormal,
    "exponential": Exponential,
    "pareto": Pareto,
}
"""From the lightest tail to the heaviest."""

MAX_SKEW = 4.0
MIN_SKEW = 0.05
LONG_SKEW = 2.0
SHORTFALL = 0.1
MAX_OFF = 3.5
ALIKE = 1.0
"""Standard errors of the skewness: what is within one is no reason to leave a lighter tail."""

MAX_PARETO_SKEW = 1e3


class _Seen(NamedTuple):
    """What a family must agree with; `skew` is None of two ranks, which are symmetric."""

    largest: Estimate
    num_ranks: float
    cv: float
    skew: float | None
    num_cells: float

    def holds(self, fit: FamilyFit) -> bool:
        """Whether the maximum is within the interval of what was seen."""
        low = self.largest.value if self.largest.low is None else self.largest.low
        high = math.inf if self.largest.high is None else self.largest.high
        return low <= fit.predicted_max_to_mean_ratio <= high

    def off(self, skew: float) -> float:
        """By how many standard errors what was seen is off a law of this skewness.

        The error of a sample's skewness is sqrt(6/n) of normal draws, 8.5/sqrt(n) of exponential
        ones and 4/sqrt(n) of those half as skewed (simulated).
        """
        if self.skew is None:
            return 0.0
        error = 2.45 * (1 + 0.6 * min(skew, MAX_SKEW) ** 2) / math.sqrt(self.num_cells)
        if skew > LONG_SKEW:
            # Without higher moments a sample of any size falls short.
            error = max(error, SHORTFALL * min(skew, MAX_SKEW))
        return abs(self.skew - skew) / error

    def fit(self, name: Family, law: Law, skew: float = 0.0) -> FamilyFit:
        """What a family predicts."""
        predicted = expected_largest(law, self.num_ranks, self.cv, skew)
        return FamilyFit(
            family=name,
            predicted_max_to_mean_ratio=predicted,
            relative_error=predicted / self.largest.value - 1,
        )


def family_of(
    cells: FloatArray, steps: IntArray, fitted: BoolArray, cv: float, memory: Memory
) -> FamilyChoice:
    """Choose by the steps that are not `fitted` (steps,); `cells` (steps, ranks) of mean 1.

    Each cell is taken by its rank's mean over the fitted steps and by its own step's mean, which
    leaves the transient factor; `cv` is its spread as fitted. Observed is the mean over held-out
    steps of the largest, predicted that of the same law and number of ranks. Ruled out is what
    lies outside of the 95 % interval, and what is more or less skewed than all cells together are;
    decided it is when one family is left, and else the closest by skewness is taken. Where no
    family of one parameter is left, the shifted gamma law of the cells' own skewness is tried.
    """
    factors = _factors(cells, fitted)
    told = np.isfinite(factors).sum(axis=1) > 1
    factors, numbers = factors[told], steps[~fitted][told]
    # A mean over few fitted steps is itself off, which widens what is left of held-out ones.
    seen = _Seen(
        largest=mean_over_steps(np.nanmax(factors, axis=1), numbers, 0.95),
        num_ranks=float(np.mean(np.isfinite(factors).sum(axis=1))),
        cv=cv * math.sqrt(1 + memory.inflation / int(fitted.sum())),
        skew=_skew(cells),
        num_cells=max(np.isfinite(cells).sum() * memory.dof_share, 1.0),
    )
    fits = [seen.fit(name, law) for name, law in LAWS.items()]
    allowed = [fit for fit in fits if _is_allowed(fit.family, cv)]
    inside = [fit for fit in allowed if seen.holds(fit)]
    off = {fit.family: seen.off(skew_of_family(fit.family, cv)) for fit in fits}
    left = [fit.family for fit in inside if off[fit.family] <= MAX_OFF]
    if left:
        chosen = min(left, key=lambda family: max(off[family], ALIKE))
        return FamilyChoice(chosen=chosen, is_decided=len(left) == 1, candidates=fits)
    if seen.skew is not None and max(2 * cv, MIN_SKEW) <= seen.skew <= MAX_SKEW:
        shifted = seen.fit("shifted_gamma", ShiftedGamma, seen.skew)
        fits.append(shifted)
        if seen.holds(shifted):
            return FamilyChoice(
                chosen="shifted_gamma", is_decided=not inside, candidates=fits, skew=seen.skew
            )
    closest = min(inside or allowed, key=lambda fit: abs(fit.relative_error))
    return FamilyChoice(
        chosen=closest.family, is_decided=False, candidates=fits, is_ruled_out=not inside
    )


def skew_of_family(family: Family, cv: float) -> float:
    """Skewness of a family of one parameter."""
    if family == "normal":
        return 0.0
    if family == "gamma":
        return 2 * cv
    if family == "lognormal":
        return cv * (3 + cv * cv)
    if family == "exponential" or cv <= 0:
        return 2.0
    power = 1 + math.sqrt(1 + cv**-2)
    if power <= 3:
        return MAX_PARETO_SKEW
    return 2 * (1 + power) / (power - 3) * math.sqrt(1 - 2 / power)


def _is_allowed(family: Family, cv: float) -> bool:
    """A normal factor among others may not be negative: the model's own rule."""
    return family != "normal" or cv <= MAX_CV_OF_PRODUCT


def _factors(cells: FloatArray, fitted: BoolArray) -> FloatArray:
    held_out = cells[~fitted] / mean_of(cells[fitted], axis=0)
    factors: FloatArray = held_out / mean_of(held_out, axis=1)[:, np.newaxis]
    return factors


def _skew(cells: FloatArray) -> float | None:
    """Skewness of all cells by their rank's and their step's mean; None of two ranks."""
    share, _ = shares_of_moments(float(np.isfinite(cells).sum(axis=1).mean()))
    if share <= MIN_SKEW:
        return None
    factors = cells / mean_of(cells, axis=0)
    factors /= mean_of(factors, axis=1)[:, np.newaxis]
    return skew_of(factors) / share


def expected_largest(law: Law, num_ranks: float, cv: float, skew: float = 0.0) -> float:
    """Expected largest of so many independent factors of mean 1."""
    if cv <= 0 or num_ranks <= 1:
        return 1.0
    groups = Groups(law, np.array([[num_ranks]]), np.array([[1.0]]), np.array([[cv], [skew]]))
    return float(slowest_of(groups, with_quantiles=False).mean[0])
