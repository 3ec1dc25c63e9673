"""What steps of jobs with pipelines take: their slowest replica, and what is beside it."""

import numpy as np
from numpy.typing import NDArray

from service.model.causes import Factors, unknown_causes, without_causes
from service.model.columns import Columns, Floats
from service.model.fleet import Fleet
from service.model.piped_fleets import beside, with_nominal_step
from service.model.pipeline.simulate import Piped, simulate_pipelines
from service.model.pipelines import nominal_pipeline
from service.model.results import METHODS
from service.model.slowest.barrier import Slowest, mean_only
from service.model.times import compute_ms

CLOSED_FORM, MONTE_CARLO, RECURSION = (
    METHODS.index(name) for name in ("closed_form", "monte_carlo", "recursion")
)

Codes = NDArray[np.int8]


def piped_factors(
    columns: Columns, fleet: Fleet, *, with_causes: bool = True
) -> tuple[Factors, Codes]:
    """Of points of one plan whose stages are simulated."""
    fleet = with_nominal_step(columns, fleet)
    found = _simulated(columns, fleet)
    shift = _ratio(columns, beside(columns).step_shift)
    step = Slowest(
        mean=_not_below_nominal(fleet, found.mean + shift),
        quantiles=found.quantiles + shift[:, np.newaxis],
        variance=found.variance,
    )

    def expected(rest: Fleet) -> Floats:
        return _not_below_nominal(rest, _simulated(columns, rest).mean + shift)

    makespan = _not_below(fleet, found.rest, _ratio(columns, nominal_pipeline(columns).makespan_ms))
    factors = Factors(
        slowest=mean_only(makespan),
        step=step,
        rest=makespan + _ratio(columns, beside(columns).rest_shift),
        without=without_causes(fleet, step, expected) if with_causes else unknown_causes(fleet),
        mean_se=found.mean_se,
    )
    return factors, np.where(found.is_exact, RECURSION, MONTE_CARLO).astype(np.int8)


def as_makespans(columns: Columns, factors: Factors, method: Codes) -> tuple[Factors, Codes]:
    """Of replicas as ranks: the slowest of them in place of the factor that it draws."""
    makespan = factors.rest - _ratio(columns, beside(columns).rest_shift)
    closed = (method == CLOSED_FORM) & ~nominal_pipeline(columns).is_closed
    replaced = Factors(
        slowest=mean_only(makespan),
        step=factors.step,
        rest=factors.rest,
        without=factors.without,
        mean_se=factors.mean_se,
    )
    return replaced, np.where(closed, RECURSION, method).astype(np.int8)


def _simulated(columns: Columns, fleet: Fleet) -> Piped:
    return simulate_pipelines(fleet, columns["seed"], columns["draws"])


def _not_below_nominal(fleet: Fleet, step: Floats) -> Floats:
    """(points,) the step, as `_not_below` that of equal GPUs."""
    return _not_below(fleet, step, fleet.step_at(np.ones(fleet.num_points)))


def _not_below(fleet: Fleet, found: Floats, nominal: Floats) -> Floats:
    """Chance makes nothing shorter (Jensen), the noise of sampling may; not so where GPUs stand by.

    A makespan is convex in the times of its operations, and so is the largest of several.
    """
    gains = (fleet.num_removed > 0) | (fleet.num_backup > 0)
    return np.where(gains, found, np.maximum(found, nominal))


def _ratio(columns: Columns, ms: Floats) -> Floats:
    ratio: Floats = ms / compute_ms(columns)
    return ratio
