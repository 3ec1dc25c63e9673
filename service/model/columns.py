"""Scenarios as equal-length columns: the currency from the expansion of a grid to the file."""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from service.model.distributions import FAMILIES
from service.model.fields import Scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Inputs of `points` scenarios.

    num_gpus, period_days       (points,) int64
    load_ms, compute_ms,
    allreduce_ms                (points,) float64
    slow_count                  (points, groups) int64; 0 where a point has fewer groups
    slow_speed                  (points, groups) float64; 1 where the group is absent
    transient_family            (points,) int64, position in `distributions.FAMILIES`
    transient_cv                (points,) float64; 0 where there is no such source

    barrier_key  (points,) equal for points whose slowest factor is the same; None: all differ
    size_key     (points,) equal for points that differ in nothing but num_gpus as far as the
                 slowest factor goes; None where no long axis of sizes exists
    """

    num_gpus: Ints
    load_ms: Floats
    compute_ms: Floats
    allreduce_ms: Floats
    slow_count: Ints
    slow_speed: Floats
    transient_family: Ints
    transient_cv: Floats
    period_days: Ints
    barrier_key: Ints | None = None
    size_key: Ints | None = None

    @property
    def num_points(self) -> int:
        """How many scenarios."""
        return len(self.num_gpus)

    @property
    def num_nominal(self) -> Ints:
        """(points,) GPUs at nominal speed; negative where a rule is broken."""
        nominal = self.num_gpus.copy()
        # Few groups: a sum over the short axis would take ten times longer.
        for count in self.slow_count.T:
            nominal -= count
        return nominal

    def part(self, rows: slice | NDArray[np.intp]) -> "Columns":
        """Some of the points."""
        taken = {
            field.name: value[rows]
            for field in fields(self)
            if (value := getattr(self, field.name)) is not None
        }
        return replace(self, **taken)


def columns_of(scenario: Scenario) -> Columns:
    """Columns of one point."""
    transient = scenario.variability.transient
    kind = "none" if transient is None else str(transient.__struct_config__.tag)
    groups = scenario.slow_groups
    return Columns(
        num_gpus=np.array([scenario.num_gpus], dtype=np.int64),
        load_ms=np.array([scenario.load_ms], dtype=np.float64),
        compute_ms=np.array([scenario.compute_ms], dtype=np.float64),
        allreduce_ms=np.array([scenario.communication.allreduce_ms], dtype=np.float64),
        slow_count=np.array([[group.count for group in groups]], dtype=np.int64).reshape(1, -1),
        slow_speed=np.array([[group.speed_fraction for group in groups]], dtype=float).reshape(
            1, -1
        ),
        transient_family=np.array([FAMILIES.index(kind)], dtype=np.int64),
        transient_cv=np.array([0.0 if transient is None else transient.cv], dtype=np.float64),
        period_days=np.array([scenario.period_days], dtype=np.int64),
    )
