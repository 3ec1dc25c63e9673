"""The settings that remedies of a pipeline are tried with: those asked for, else default ones."""

from collections.abc import Iterator
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from service.model.columns import Floats, columns_of, joined
from service.model.fields import Scenario
from service.model.parts.pipeline import MAX_CHUNKS, Pipeline, ScheduleName
from service.model.pipeline import SCHEDULES
from service.model.pipeline.plans import peak_of
from service.model.pipelines import nominal_pipeline
from service.model.plan_lengths import plan_steps
from service.model.remedy.pipeline_overrides import with_schedule
from service.model.remedy.remedy_kinds import Remedy, RemedyRequest
from service.model.rules import failures
from service.model.same_job import same_job
from service.model.scenario import apply_overrides, decode_fields, full
from service.model.stage_sizes import num_microbatches

MICROBATCH_FACTORS = (2, 4)
CHUNKS = (2, 4)
MOST_STEPS = 10_000
"""Of the plans that the best schedule is looked for among (`plan_lengths.py`): a few seconds."""
ROUND_OFF = 1e-9
"""Relative; a smaller difference of two passes is none."""


def of_microbatches(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    """Factors, then counts."""
    counts = request.microbatches or ()
    for factor in request.microbatch_factors or (() if counts else MICROBATCH_FACTORS):
        yield Remedy(kind=request.kind, microbatch_factor=factor)
    for count in counts:
        yield Remedy(kind=request.kind, microbatches=count)


def of_interleaving(scenario: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    """By default 2 and 4 chunks where that is more, else twice as many."""
    now = 1 if scenario.pipeline is None else scenario.pipeline.chunks_per_stage
    larger = [chunks for chunks in CHUNKS if chunks > now]
    for chunks in request.chunks_per_stage or larger or [min(2 * now, MAX_CHUNKS)]:
        yield Remedy(kind=request.kind, chunks_per_stage=chunks)


def of_schedules(scenario: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    """By default the best one; none where none is better than that of the scenario."""
    for schedule in request.schedules or [best_schedule(scenario)]:
        yield Remedy(kind=request.kind, schedule=schedule)


def of_stages(_: Scenario, request: RemedyRequest) -> Iterator[Remedy]:
    """By default half as many."""
    for stages in request.stages or (None,):
        yield Remedy(kind=request.kind, stages=stages)


def best_schedule(scenario: Scenario) -> ScheduleName | None:
    """The schedule with the shortest pass at nominal speed at the sizes of the scenario.

    Of those that hold parameters once and take no long time to work through; of several equally
    short ones that with the fewest micro-batches in flight. None where none is shorter than the
    scenario's own and all were looked at.
    """
    now = scenario.pipeline
    if now is None:
        return None
    names = [now.schedule, *(name for name in _held_once() if name != now.schedule)]
    columns = joined([columns_of(_with(scenario, now, name)) for name in names])
    every = np.flatnonzero(failures(columns) == 0)
    sound = every[_in_time(plan_steps(columns.part(every)))]
    part = columns.part(sound)
    passes = nominal_pipeline(part).makespan_ms
    shortest = np.flatnonzero(passes <= passes.min() * (1 + ROUND_OFF))
    # The scenario itself keeps the rules, so that it is the first of the sound ones.
    if 0 in shortest:
        # Where some were not looked at, the answer is that one of them takes too long.
        untried = np.setdiff1d(every, sound)
        return names[int(untried[0])] if len(untried) else None
    chosen = [names[int(sound[row])] for row in shortest]
    counts = num_microbatches(part)[shortest]
    peaks = [_peak(now, name, int(count)) for name, count in zip(chosen, counts, strict=True)]
    return chosen[int(np.argmin(peaks))]


def _in_time(steps: Floats) -> NDArray[np.intp]:
    """The scenario, and as many others as there is time for, the shortest first."""
    order = 1 + np.argsort(steps[1:], kind="stable")
    fits = np.ones(len(steps), dtype=np.bool_)
    fits[order] = steps[0] + np.cumsum(steps[order]) <= MOST_STEPS
    return np.flatnonzero(fits)


def _held_once() -> list[ScheduleName]:
    names: tuple[ScheduleName, ...] = get_args(ScheduleName)
    return [name for name in names if SCHEDULES[name].layout != "both_ways"]


def _with(scenario: Scenario, now: Pipeline, name: ScheduleName) -> Scenario:
    overrides = same_job(scenario, with_schedule(now, name))
    return decode_fields(apply_overrides(full(scenario), overrides))


def _peak(now: Pipeline, name: ScheduleName, microbatches: int) -> float:
    sizes = with_schedule(now, name)
    return peak_of(name, sizes.stages, microbatches, sizes.chunks)
