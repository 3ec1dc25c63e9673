"""The same job in a pipeline of other sizes: the overrides that keep its work.

What stays: the GPUs, the model, the global batch, and so the nominal compute of a GPU and step.
With P' stages in the place of P there are N / (P' T) replicas, so that the samples of a replica,
which were M micro-batches of one size, are M P' / P of that size; in M' micro-batches each has

    s = (M / M') (P' / P)

times the size that it had, and a stage has P / P' of the layers: what took f takes f M / M'.
Handing on, `p2p_ms`, is left as it is. Work of unequal stages is taken to lie evenly inside of
each, so that a new stage has the integral over its share of the model.

Slow GPUs at a stage go with its layers (`moved_groups.py`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from service.model.fields import Scenario
from service.model.moved_groups import moved_groups
from service.model.parts.pipeline import Pipeline, ScheduleName

Overrides = dict[str, Any]


class PipelineSizes(NamedTuple):
    """A schedule and P, M and V, as the fields of a scenario name them."""

    schedule: ScheduleName
    stages: int
    microbatches: int
    chunks: int


def sizes_of(pipeline: Pipeline) -> PipelineSizes:
    """Those that a pipeline has."""
    return PipelineSizes(
        pipeline.schedule, pipeline.stages, pipeline.microbatches, pipeline.chunks_per_stage
    )


def same_job(scenario: Scenario, sizes: PipelineSizes) -> Overrides:
    """Values to put at paths of a scenario with a pipeline; only those that differ.

    ValueError without a pipeline.
    """
    now = scenario.pipeline
    if now is None:
        raise ValueError("a scenario without a pipeline has no sizes to change")
    wanted: Overrides = {
        "pipeline.schedule": sizes.schedule,
        "pipeline.stages": sizes.stages,
        "pipeline.microbatches": sizes.microbatches,
        "pipeline.chunks_per_stage": sizes.chunks,
    }
    found = {
        path: value
        for (path, value), own in zip(wanted.items(), sizes_of(now), strict=True)
        if value != own
    }
    size = now.microbatches / sizes.microbatches
    for name in ("forward_ms", "backward_ms", "stage_weights"):
        value = getattr(now, name)
        if value is None:
            continue
        changed = _changed(value, size if name != "stage_weights" else 1.0, sizes.stages)
        if changed != (list(value) if isinstance(value, tuple) else value):
            found[f"pipeline.{name}"] = changed
    groups = moved_groups(scenario.slow_groups, now.stages, sizes.stages)
    return found if groups is None else {**found, "slow_groups": groups}


def resampled(work: Sequence[float], stages: int) -> list[float]:
    """The work of each of `stages` stages that share what the given ones had, all of it."""
    if len(work) == stages:
        return list(work)
    so_far = np.concatenate([[0.0], np.cumsum(work)])
    ends = np.linspace(0.0, len(work), stages + 1)
    found: list[float] = np.diff(np.interp(ends, np.arange(len(so_far)), so_far)).tolist()
    return found


def _changed(value: float | Sequence[float], size: float, stages: int) -> float | list[float]:
    """Times, of all stages or of each, when micro-batches of all stages have `size` of the work."""
    if not isinstance(value, Sequence):
        return value * size
    # A stage of fewer has more layers, but a replica of fewer stages has fewer samples.
    share = size * stages / len(value)
    return [part * share for part in resampled(value, stages)]
