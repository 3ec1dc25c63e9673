"""Remedies for what a pipeline costs: overrides, or why they do not apply.

All keep the job: its model, global batch, GPUs and nominal compute (`same_job.py`).
"""

from collections.abc import Sequence

import numpy as np

from service.model.columns import Columns
from service.model.fields import Scenario
from service.model.parts.pipeline import Pipeline, ScheduleName
from service.model.pipeline import SCHEDULES
from service.model.pipeline.schedule import counted
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.remedy_kinds import Remedy
from service.model.same_job import Overrides, PipelineSizes, same_job, sizes_of
from service.model.stage_sizes import num_replicas

NO_PIPELINE = "there is no pipeline"
ONE_STAGE = "a pipeline of one stage has no bubble"
INTERLEAVED: dict[ScheduleName, ScheduleName] = {
    "gpipe": "looped_bfs",
    "looped_bfs": "looped_bfs",
    "1f1b": "interleaved_1f1b",
    "interleaved_1f1b": "interleaved_1f1b",
    "zb1p": "interleaved_zb1p",
    "interleaved_zb1p": "interleaved_zb1p",
}
"""Schedules of one chunk a stage, or of several, and what they are with more."""


def more_microbatches(scenario: Scenario, _columns: Columns, remedy: Remedy) -> Overrides:
    """The same global batch in more and smaller micro-batches."""
    now = _with_bubble(scenario)
    number = remedy.microbatches
    if number is None:
        number = now.microbatches * (remedy.microbatch_factor or 1)
    elif number <= now.microbatches:
        raise DoesNotApplyError(
            f"{number} is no more than the {counted(now.microbatches, 'micro-batch')} of now"
        )
    # With one micro-batch, all that naive takes, gpipe is the same.
    schedule: ScheduleName = "gpipe" if now.schedule == "naive" else now.schedule
    return same_job(scenario, sizes_of(now)._replace(schedule=schedule, microbatches=number))


def interleave_stages(scenario: Scenario, _columns: Columns, remedy: Remedy) -> Overrides:
    """Each stage in several chunks of the model, that take turns."""
    now, chunks = _with_bubble(scenario), remedy.chunks_per_stage or 1
    schedule = INTERLEAVED.get(now.schedule)
    if schedule is None:
        kinds = ", ".join(kind for kind, other in INTERLEAVED.items() if kind != other)
        raise DoesNotApplyError(f"{now.schedule} has no interleaved form: {kinds} have one")
    if chunks <= now.chunks_per_stage:
        raise DoesNotApplyError(
            f"{chunks} chunks per stage are no more than {now.chunks_per_stage}"
        )
    return same_job(scenario, sizes_of(now)._replace(schedule=schedule, chunks=chunks))


def change_schedule(scenario: Scenario, _columns: Columns, remedy: Remedy) -> Overrides:
    """Another order of the same operations; chunks only where the schedule demands others."""
    now = _pipeline_of(scenario)
    if remedy.schedule is None:
        raise DoesNotApplyError(
            f"no other schedule of {_said(now)} takes a shorter pass at nominal speed"
        )
    if remedy.schedule == now.schedule:
        raise DoesNotApplyError(f"the schedule is {now.schedule} already")
    return same_job(scenario, with_schedule(now, remedy.schedule))


def with_schedule(now: Pipeline, name: ScheduleName) -> PipelineSizes:
    """The sizes of another schedule: as they are, but chunks where it takes no such number."""
    nearest = SCHEDULES[name].nearest(now.stages, now.microbatches, now.chunks_per_stage)
    chunks = nearest[0].chunks if nearest else now.chunks_per_stage
    return PipelineSizes(name, now.stages, now.microbatches, chunks)


def rebalance_stages(scenario: Scenario, columns: Columns, _remedy: Remedy) -> Overrides:
    """The same work for all stages; less where all GPUs of a stage are slow for good."""
    now = _pipeline_of(scenario)
    shares = _shares(scenario, now.stages, int(num_replicas(columns)[0]))
    are_equal = len(set(shares)) == 1
    found: Overrides = {}
    if now.forward_ms is None or now.backward_ms is None:
        found["pipeline.stage_weights"] = None if are_equal else shares
    else:
        for name in ("forward_ms", "backward_ms"):
            mean = float(np.mean(getattr(now, name)))
            found[f"pipeline.{name}"] = mean if are_equal else [mean * part for part in shares]
    unchanged = all(
        _as_shares(getattr(now, path.rpartition(".")[2]), now.stages)
        == _as_shares(value, now.stages)
        for path, value in found.items()
    )
    if unchanged:
        raise DoesNotApplyError(
            "all stages have equal work already"
            if are_equal
            else "all stages have work in proportion to the speed of their GPUs already"
        )
    return found


def fewer_stages(scenario: Scenario, _columns: Columns, remedy: Remedy) -> Overrides:
    """More replicas of fewer stages on the same GPUs; micro-batches keep their size."""
    now = _pipeline_of(scenario)
    stages = now.stages // 2 if remedy.stages is None else remedy.stages
    if now.stages == 1:
        raise DoesNotApplyError("the pipeline has one stage already")
    if stages >= now.stages:
        raise DoesNotApplyError(f"{stages} stages are no fewer than {now.stages}")
    if now.microbatches * stages % now.stages:
        raise DoesNotApplyError(
            f"{counted(now.microbatches, 'micro-batch')} in {now.stages} stages are "
            f"{now.microbatches * stages / now.stages:g} of the same size in {stages}, which must "
            "be whole"
        )
    number = now.microbatches * stages // now.stages
    return same_job(scenario, sizes_of(now)._replace(stages=stages, microbatches=number))


def _pipeline_of(scenario: Scenario) -> Pipeline:
    if scenario.pipeline is None:
        raise DoesNotApplyError(NO_PIPELINE)
    return scenario.pipeline


def _with_bubble(scenario: Scenario) -> Pipeline:
    """The pipeline, if smaller operations could gain anything.

    Of one stage only noise is left: many small operations average it out.
    """
    now = _pipeline_of(scenario)
    if now.stages == 1 and now.per_op_jitter is None:
        raise DoesNotApplyError(ONE_STAGE)
    return now


def _shares(scenario: Scenario, stages: int, replicas: int) -> list[float]:
    """(stages,) of the work, of mean 1: by the slowest speed where all GPUs of a stage are slow."""
    speeds = [1.0] * stages
    for stage in range(stages):
        here = [group for group in scenario.slow_groups if group.placement == stage]
        if sum(group.count for group in here) == replicas * scenario.tensor_parallel_size:
            speeds[stage] = min(group.speed_fraction for group in here)
    mean = sum(speeds) / stages
    return [speed / mean for speed in speeds]


def _as_shares(value: float | Sequence[float] | None, stages: int) -> list[float]:
    """(stages,) of mean 1, to as many digits as matter."""
    listed = value if isinstance(value, Sequence) else [1.0] * stages
    mean = sum(listed) / stages
    return [round(part / mean, 9) for part in listed]


def _said(now: Pipeline) -> str:
    return f"{counted(now.stages, 'stage')} and {counted(now.microbatches, 'micro-batch')}"
