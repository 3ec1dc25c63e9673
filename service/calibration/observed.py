"""The cells that a fit works with, and their medians."""

import numpy as np
from msgspec import Struct

from service.calibration.timings import BoolArray, FloatArray, IntArray, Timings


class Observed(Struct, frozen=True, kw_only=True):
    """Compute of every rank and step in ms, (steps, ranks), NaN where there is none.

    `nodes`, `replicas`, `stages` are (ranks,) where they are known.
    """

    compute_ms: FloatArray
    steps: IntArray
    ranks: IntArray
    nodes: IntArray | None
    replicas: IntArray | None
    stages: IntArray | None

    def with_ranks(self, chosen: BoolArray) -> "Observed":
        """Some of the ranks, (ranks,)."""
        return Observed(
            compute_ms=self.compute_ms[:, chosen],
            steps=self.steps,
            ranks=self.ranks[chosen],
            nodes=None if self.nodes is None else self.nodes[chosen],
            replicas=None if self.replicas is None else self.replicas[chosen],
            stages=None if self.stages is None else self.stages[chosen],
        )

    def with_steps(self, chosen: BoolArray) -> "Observed":
        """Some of the steps, (steps,)."""
        return Observed(
            compute_ms=self.compute_ms[chosen],
            steps=self.steps[chosen],
            ranks=self.ranks,
            nodes=self.nodes,
            replicas=self.replicas,
            stages=self.stages,
        )


def observed_of(timings: Timings) -> Observed:
    """The compute phase of timings."""
    return Observed(
        compute_ms=timings.compute_ms,
        steps=timings.steps,
        ranks=timings.ranks,
        nodes=timings.nodes,
        replicas=timings.replicas,
        stages=timings.stages,
    )


def median_of(cells: FloatArray, axis: int) -> FloatArray:
    """Medians along an axis of what is not NaN; NaN where nothing is there."""
    count = np.isfinite(cells).sum(axis=axis)
    ordered = np.sort(cells, axis=axis)  # NaN last
    length = max(cells.shape[axis] - 1, 0)
    low = np.clip((count - 1) // 2, 0, length)
    high = np.clip(count // 2, 0, length)
    pick_low = np.take_along_axis(ordered, np.expand_dims(low, axis), axis)
    pick_high = np.take_along_axis(ordered, np.expand_dims(high, axis), axis)
    middle: FloatArray = np.squeeze((pick_low + pick_high) / 2, axis)
    return middle


def mean_of(cells: FloatArray, axis: int) -> FloatArray:
    """Means along an axis of what is not NaN; NaN where nothing is there."""
    known = np.isfinite(cells)
    count = known.sum(axis=axis)
    total = np.where(known, cells, 0.0).sum(axis=axis)
    means: FloatArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return means


def comparable(present: BoolArray, ranks: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Steps with at least two of the `ranks`, and of these those with at least two such steps.

    `present` is (steps, ranks). Leaving one out may leave another one alone, so until none is.
    """
    while True:
        steps: BoolArray = present[:, ranks].sum(axis=1) > 1
        left = ranks & (present[steps].sum(axis=0) > 1)
        if (left == ranks).all():
            return steps, ranks
        ranks = left


def stage_groups(stages: IntArray | None, num_ranks: int) -> list[IntArray]:
    """Positions of the ranks of each stage; all of them where no stages are known."""
    if stages is None:
        return [np.arange(num_ranks)]
    return [np.flatnonzero(stages == stage) for stage in np.unique(stages)]


def relative_to_stage(cells: FloatArray, stages: IntArray | None) -> FloatArray:
    """Every cell by the median of its stage's ranks in its step."""
    found = np.empty_like(cells)
    for ranks in stage_groups(stages, cells.shape[1]):
        part = cells[:, ranks]
        found[:, ranks] = part / median_of(part, axis=1)[:, np.newaxis]
    return found
