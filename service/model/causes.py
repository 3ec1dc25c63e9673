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

    slowest  of a step with everything in it
    mean_se  (points,) standard error of the mean; 0 where nothing was sampled
    without  (causes, points) expected slowest factor once the causes up to this one are off; it
             never rises along the causes but after backup_workers and where GPUs stand by (the
             best of those that differ are better than nominal), and ends at 1
    """

    slowest: Slowest
    without: Floats
    mean_se: Floats

    def taken(self, rows: Rows) -> "Factors":
        """Some of the points, or points again."""
        return Factors(
            slowest=self.slowest.taken(rows),
            without=self.without[:, rows],
            mean_se=self.mean_se[rows],
        )


def factors_of(fleet: Fleet, slowest: Slowest, mean_se: Floats, expected: Mean) -> Factors:
    """The counterfactuals of a fleet whose own slowest factor is known, with its standard error.

    `expected` gives (points,) the slowest factor of a fleet.
    """
    without = np.empty((len(CAUSES), fleet.num_points))
    may_rise = fleet.num_removed > 0
    last = slowest.mean
    for row, cause in enumerate(CAUSES):
        rest = _switched_off(fleet, cause)
        if rest is not None and cause == "common":
            # Independent of all else and of mean 1: it moves no expectation.
            fleet = rest
        elif rest is not None:
            mean = np.ones(fleet.num_points) if cause == CAUSES[-1] else expected(rest)
            # What is switched off has never made a step shorter (Jensen): round-off is no gain.
            gains = may_rise | (fleet.num_backup > 0)
            last = np.where(gains, mean, np.minimum(mean, last))
            fleet = rest
        without[row] = last
    floor = np.where(may_rise, 0.0, 1.0)
    return Factors(slowest=slowest, without=np.maximum(without, floor), mean_se=mean_se)


def _switched_off(fleet: Fleet, cause: str) -> Fleet | None:
    """The fleet without the cause; None where it has none of it."""
    if cause == "backup_workers":
        has = bool((fleet.num_backup > 0).any())
        return replace(fleet, num_backup=np.zeros_like(fleet.num_backup)) if has else None
    if cause == "slow_groups":
        return fleet
    nothing: dict[str, Any] = {cause: None}
    return None if getattr(fleet, cause) is None else replace(fleet, **nothing)
