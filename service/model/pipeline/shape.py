"""Pipelines of one plan, as their simulation takes them."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.model.laws.law import Floats
from service.model.laws.source import Source

Rows = slice | NDArray[np.intp]

RANDOM, WORST = -1, -2
"""Placements of slow GPUs beside the numbers of stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """`points` pipelines; all times are over the nominal compute of a GPU and step.

    schedule, stages, microbatches, chunks   P, M and V, of all points
    forward, backward    (stages, points) of a micro-batch at a stage, nominal speed, all its chunks
    weight_fraction      (points,) share of a backward that is the weight gradient
    p2p                  (points,)
    slow_count           (groups, points) int64, GPUs of each slow group; 0 where it is absent
    slow_factor          (groups, points) 1 / speed
    slow_placement       (groups, points) int64, RANDOM, WORST or a stage
    round_steps          (points,) int64, steps between two barriers, at least 1
    floor                (points,) a step takes at least so long beside what is outside: a load that
                         is hidden behind it; -inf where none is
    jitter               one draw for each GPU and operation, or None
    """

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    forward: Floats
    backward: Floats
    weight_fraction: Floats
    p2p: Floats
    slow_count: NDArray[np.int64]
    slow_factor: Floats
    slow_placement: NDArray[np.int64]
    round_steps: NDArray[np.int64]
    floor: Floats
    jitter: Source | None = None

    def part(self, rows: Rows) -> "PipelineShape":
        """Some of the points."""
        taken: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                taken[field.name] = value[..., rows]
            elif isinstance(value, Source):
                taken[field.name] = value.part(rows)
        return replace(self, **taken)
