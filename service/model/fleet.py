"""Points of one structure, as the mathematics of the barrier take them.

All points of a fleet have the same sources with the same families; the values differ. Definitions:
design page "The model", section 3.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.exchange.shared_lines import StepLines
from service.model.laws.law import Floats
from service.model.laws.source import Source
from service.model.pipeline.shape import PipelineShape
from service.model.recursion.pattern import Pattern

Rows = slice | NDArray[np.intp]

_PER_STEP = ("transient", "replica", "common", "spikes")
_RANDOM = ("persistent", "transient", "node", "replica", "common", "spikes", "episodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spikes:
    """With `probability` a GPU's step takes `slowdown` times as long; (points,) each."""

    probability: Floats
    slowdown: Floats

    def part(self, rows: Rows) -> "Spikes":
        """Some of the points."""
        return Spikes(probability=self.probability[rows], slowdown=self.slowdown[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Slow periods; (points,) each.

    occupancy      share of the time that a GPU spends in one
    severity       factor on its compute time meanwhile, at least 1
    mean_hours     how long one lasts on average
    """

    occupancy: Floats
    severity: Floats
    mean_hours: Floats

    def part(self, rows: Rows) -> "Episodes":
        """Some of the points."""
        return Episodes(
            occupancy=self.occupancy[rows],
            severity=self.severity[rows],
            mean_hours=self.mean_hours[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """`points` clusters.

    num_gpus, mean         (classes, points) GPUs of each speed class and their factor 1 / speed;
                           class 0 is nominal; 0 GPUs where a class is absent. Counts may be
                           fractional. GPUs that only stand by (`num_removed`) are among them.
    persistent, transient  one draw for each GPU: once per cluster, each step
    node                   one draw for each node, once per cluster
    replica                one draw for each tensor-parallel group, each step
    common                 one draw for all, each step
    autocorrelation        (points,) of the transient score from one step to the next
    gpus_per_node, tensor_parallel_size   (points,) int64; the second divides the first
    outside_ratio          (points,) time of a step outside of compute / nominal compute time
    num_removed            (points,) int64, the so many persistently slowest GPUs do not take part
    num_backup             (points,) int64, a step ends without its so many last GPUs
    lines                  what a step takes given its slowest factor, as a factor; None: the factor
    rest_lines             likewise, if the load were not hidden; None: it is not
    round_steps            (points,) int64 steps whose mean a GPU's factors enter with; None: one
    pattern                who waits for whom where no barrier ends every step or round; it holds
                           where something varies from step to step, otherwise the lines do
    pipeline               stages that have to be simulated, all of one plan: `num_gpus` is then one
                           class, slow GPUs and local steps are among the shape's, `num_backup` are
                           replicas, and there are no lines
    """

    num_gpus: Floats
    mean: Floats
    gpus_per_node: NDArray[np.int64]
    tensor_parallel_size: NDArray[np.int64]
    outside_ratio: Floats
    num_removed: NDArray[np.int64]
    num_backup: NDArray[np.int64]
    autocorrelation: Floats
    persistent: Source | None = None
    transient: Source | None = None
    node: Source | None = None
    replica: Source | None = None
    common: Source | None = None
    spikes: Spikes | None = None
    episodes: Episodes | None = None
    lines: StepLines | None = None
    rest_lines: StepLines | None = None
    round_steps: NDArray[np.int64] | None = None
    pattern: Pattern | None = None
    pipeline: PipelineShape | None = None

    @property
    def num_points(self) -> int:
        """How many clusters."""
        return len(self.outside_ratio)

    @property
    def is_random(self) -> bool:
        """Whether anything varies."""
        return any(getattr(self, name) is not None for name in _RANDOM)

    @property
    def varies_per_step(self) -> bool:
        """Whether anything is drawn anew each step."""
        return any(getattr(self, name) is not None for name in _PER_STEP)

    @property
    def is_simulated(self) -> bool:
        """Whether only a recursion tells how long steps take."""
        return self.pattern is not None and self.varies_per_step

    @property
    def is_plain(self) -> bool:
        """Whether a step takes what its slowest GPU takes, and no more is to it."""
        special = (self.lines, self.round_steps, self.pattern, self.pipeline)
        return all(part is None for part in special)

    @property
    def stands_by_lastingly(self) -> bool:
        """Whether GPUs stand by that chance has made the slowest for good."""
        lasting = self.persistent is not None or self.node is not None
        return lasting and bool(self.num_removed.any())

    @property
    def only_source(self) -> Source | None:
        """The one draw for each GPU that is all there is; None where there is more."""
        there = [name for name in _RANDOM if getattr(self, name) is not None]
        plain = not (self.num_removed.any() or self.num_backup.any())
        if there in (["transient"], ["persistent"]) and plain:
            return self.transient or self.persistent
        return None

    def step_at(self, slowest: Floats) -> Floats:
        """(points,) what a step takes, as a factor, whose slowest factor is this."""
        return slowest if self.lines is None else self.lines.value(slowest)

    def part(self, rows: Rows) -> "Fleet":
        """Some of the points."""
        taken: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                taken[field.name] = value[..., rows]
            elif value is not None:
                taken[field.name] = value.part(rows)
        return replace(self, **taken)
