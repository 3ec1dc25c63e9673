"""Expected slowest factors with the causes switched off one after the other.

Telescoping counterfactuals of the same model: design page "The model", section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from service.model.columns import Floats
from service.model.fleet import Fleet, Rows
from service.model.slowest.barrier import Slowest

CAUSES = (
    "backup_workers",
    "episodes",
    "transient",
    "spikes",
    "replica",
    "common",
    "persistent",
    "node",
    "slow_groups",
)
"""In the order in which they are switched off."""

Mean = Callable[[Fleet], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Of `points` clusters of one structure.

    slowest  of a step with everything in it; without a barrier, of what lasts
    step     what the step takes, as a factor: compute x it + the serial rest is the step
    rest     (points,) mean of `step` if the load were not hidden behind the step before
    mean_se  (points,) standard error of the mean of `step`; 0 where nothing was sampled
    without  (causes, points) that mean once the causes up to this one are off; it never rises
             along the causes but after backup_workers and where GPUs stand by (the best of those
             that differ are better than nominal), and ends at that of equal GPUs
    """

    slowest: Slowest
    step: Slowest
    rest: Floats
    without: Floats
    mean_se: Floats

    def taken(self, rows: Rows) -> "Factors":
        """Some of the points, or points again."""
        return Factors(
            slowest=self.slowest.taken(rows),
            step=self.step.taken(rows),
            rest=self.rest[rows],
            without=self.without[:, rows],
            mean_se=self.mean_se[rows],
        )


def without_causes(fleet: Fleet, step: Slowest, expected: Mean) -> Floats:
    """(causes, points) the counterfactuals of a fleet whose own step is known.

    `expected` gives (points,) the mean of a fleet's step, as a factor.
    """
    without = np.empty((len(CAUSES), fleet.num_points))
    nominal = fleet.step_at(np.ones(fleet.num_points))
    may_rise = fleet.num_removed > 0
    last = step.mean
    for row, cause in enumerate(CAUSES):
        rest = without_cause(fleet, cause)
        if rest is not None and cause == "common" and fleet.is_plain:
            # Independent of all else and of mean 1: it moves no expectation.
            fleet = rest
        elif rest is not None:
            mean = nominal if cause == CAUSES[-1] else expected(rest)
            # What is switched off has never made a step shorter (Jensen): round-off is no gain.
            gains = may_rise | (fleet.num_backup > 0)
            last = np.where(gains, mean, np.minimum(mean, last))
            fleet = rest
        without[row] = last
    floor = np.where(may_rise, -np.inf, nominal)
    bounded: Floats = np.maximum(without, floor)
    return bounded


def unknown_causes(fleet: Fleet) -> Floats:
    """(causes, points) where nobody asks for the counterfactuals."""
    return np.full((len(CAUSES), fleet.num_points), np.nan)


def without_cause(fleet: Fleet, cause: str) -> Fleet | None:
    """The fleet without the cause; None where it has none of it.

    Single operations of a pipeline vary from step to step: their jitter goes with `transient`.
    """
    if cause == "backup_workers":
        has = bool((fleet.num_backup > 0).any())
        return replace(fleet, num_backup=np.zeros_like(fleet.num_backup)) if has else None
    if cause == "slow_groups":
        return fleet
    pipeline = fleet.pipeline
    if cause == "transient" and pipeline is not None and pipeline.jitter is not None:
        return replace(fleet, transient=None, pipeline=replace(pipeline, jitter=None))
    nothing: dict[str, Any] = {cause: None}
    return None if getattr(fleet, cause) is None else replace(fleet, **nothing)
