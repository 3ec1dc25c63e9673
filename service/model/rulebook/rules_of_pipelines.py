"""Rules about pipelines: sizes that fit, and what does not go together.

Design page "The model", sections 7 and 11.
"""

import math
from itertools import islice
from typing import Any

import numpy as np

from service.model.columns import COUNT, PLACEMENT, Columns, columns_of
from service.model.fields import Scenario
from service.model.parts.pipeline import MAX_MICROBATCHES
from service.model.pipeline import SCHEDULES
from service.model.pipeline.plans import MAX_CHUNK_MICROBATCHES
from service.model.pipeline.schedule import Sizes, counted
from service.model.pipelines import by_plan
from service.model.rulebook.rule import Mask, Rule, Said
from service.model.rulebook.rules_of_laws import negative_rule, tail_rule
from service.model.rulebook.rules_of_sources import large_in_product_rule, large_rule
from service.model.stage_sizes import (
    STRONG,
    given_times_ms,
    has_pipeline,
    num_chunks,
    num_microbatches,
    num_stages,
    replica_gpus,
)
from service.model.waiting import NO_OVERLAP, hides_load, is_local, is_stale, staleness

ABOUT = "pipeline.schedule"
_LISTS = ("forward_ms", "backward_ms", "stage_weights")
_CLOSE = 1e-9
"""By so much, relatively, may compute_ms differ from what the stages' times say."""


def _no_compute(columns: Columns) -> Mask:
    broken: Mask = np.isnan(columns["compute_ms"]) & np.isnan(given_times_ms(columns))
    return broken


def _say_no_compute(scenario: Scenario) -> Said:
    if scenario.pipeline is None:
        return "/compute_ms", "compute_ms is required, but missing"
    return "/compute_ms", "give compute_ms, or the pipeline's forward_ms and backward_ms"


def _half_the_times(columns: Columns) -> Mask:
    given = [columns[f"pipeline.{name}"].tolist() for name in _LISTS]
    rows = zip(*given, strict=True)
    return np.array(
        [
            (forward is None) != (backward is None) or None not in (forward, weights)
            for forward, backward, weights in rows
        ],
        dtype=np.bool_,
    )


def _say_half_the_times(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    if pipeline.stage_weights is not None and pipeline.forward_ms is not None:
        detail = "the stages' times say how the work is divided: leave out stage_weights"
        return "/pipeline/stage_weights", detail
    missing = "backward_ms" if pipeline.backward_ms is None else "forward_ms"
    return f"/pipeline/{missing}", "give both forward_ms and backward_ms, or neither"


def _wrong_lengths(columns: Columns) -> Mask:
    stages = num_stages(columns)
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    for name in _LISTS:
        for row, value in enumerate(columns[f"pipeline.{name}"].tolist()):
            if isinstance(value, tuple):
                broken[row] |= len(value) != stages[row]
    return broken


def _say_wrong_lengths(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    given = {name: getattr(pipeline, name) for name in _LISTS}
    name, value = next(
        (name, value)
        for name, value in given.items()
        if isinstance(value, tuple) and len(value) != pipeline.stages
    )
    return (
        f"/pipeline/{name}",
        f"{name} has {len(value)} numbers, but there are {pipeline.stages} stages",
    )


def _other_compute(columns: Columns) -> Mask:
    given, of_stages = columns["compute_ms"], given_times_ms(columns)
    broken: Mask = np.abs(given - of_stages) > _CLOSE * of_stages
    return broken


def _say_other_compute(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    each = float(np.mean(pipeline.forward_ms)) + float(np.mean(pipeline.backward_ms))
    return (
        "/compute_ms",
        (
            f"compute_ms is {scenario.compute_ms}, but "
            f"{counted(pipeline.microbatches, 'micro-batch')} of {each:g} ms forward and backward, "
            f"the mean over stages, take {pipeline.microbatches * each:.10g} ms; leave one "
            "of them out"
        ),
    )


def _no_whole_pipelines(columns: Columns) -> Mask:
    used = columns["num_gpus"] - columns["num_evicted_gpus"]
    broken: Mask = has_pipeline(columns) & (used % replica_gpus(columns) != 0)
    return broken


def _say_no_whole_pipelines(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    of_replica = pipeline.stages * scenario.tensor_parallel_size
    evicted = scenario.num_evicted_gpus
    used = scenario.num_gpus - evicted
    below, above = (used // of_replica * of_replica, -(-used // of_replica) * of_replica)
    nearest = [str(size + evicted) for size in (below, above) if size > 0]
    left = f" less {evicted} evicted" if evicted else ""
    return (
        "/num_gpus",
        (
            f"{scenario.num_gpus} GPUs{left} are no whole replicas of {pipeline.stages} stages of "
            f"{scenario.tensor_parallel_size}; {' or '.join(nearest)} would be"
        ),
    )


def _uneven_scaling(columns: Columns) -> Mask:
    strong = has_pipeline(columns) & (columns["scaling.kind"] == STRONG)
    divided = num_microbatches(columns)
    broken: Mask = strong & (
        (divided % 1 != 0) | (divided < 1) | ~np.isnan(given_times_ms(columns))
    )
    return broken


def _say_uneven_scaling(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    scaling: Any = scenario.scaling
    if pipeline.forward_ms is not None:
        detail = (
            "strong scaling divides the micro-batches of a replica, and with them its compute: say "
            "compute_ms, not the stages' times"
        )
        return "/scaling", detail
    used = scenario.num_gpus - scenario.num_evicted_gpus
    divided = pipeline.microbatches * scaling.reference_num_gpus
    of_replica = pipeline.stages * scenario.tensor_parallel_size
    nearest = [str(size + scenario.num_evicted_gpus) for size in _near(divided, used, of_replica)]
    advice = f"num_gpus of {' or '.join(nearest)} would do" if nearest else "no other size does"
    return (
        "/scaling/reference_num_gpus",
        (
            f"{counted(pipeline.microbatches, 'micro-batch')} at {scaling.reference_num_gpus} GPUs "
            f"{'is' if pipeline.microbatches == 1 else 'are'} {divided / used:g} at {used}, "
            f"which must be whole; {advice}"
        ),
    )


def _near(divided: int, used: int, of_replica: int) -> list[int]:
    """The next smaller and larger number of GPUs that leaves whole micro-batches and replicas."""
    fewer = range(divided // used, 0, -1)
    more = range(divided // used + 1, min(divided // of_replica, MAX_MICROBATCHES) + 1)
    found: list[int] = []
    for numbers in (more, fewer):
        fits = (
            divided // number
            for number in numbers
            if divided % number == 0 and divided // number % of_replica == 0
        )
        found.extend(islice(fits, 1))
    return found


def _too_many_operations(columns: Columns) -> Mask:
    broken: Mask = _chunk_microbatches(columns) > MAX_CHUNK_MICROBATCHES
    return broken


def _chunk_microbatches(columns: Columns) -> Any:
    return num_stages(columns) * num_microbatches(columns) * num_chunks(columns)


def _say_too_many_operations(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    sizes = Sizes(pipeline.stages, pipeline.microbatches, pipeline.chunks_per_stage)
    number = math.prod(sizes)
    return (
        "/pipeline",
        (f"{sizes.said(' x ')} are {number}, at most {MAX_CHUNK_MICROBATCHES} are computed"),
    )


def _invalid_sizes(columns: Columns) -> Mask:
    broken = np.zeros(columns.num_points, dtype=np.bool_)
    whole = has_pipeline(columns) & (num_microbatches(columns) % 1 == 0)
    for name, sizes, rows in by_plan(columns, np.flatnonzero(whole)):
        broken[rows] = not SCHEDULES[name].is_valid(*sizes)
    return broken


def _say_invalid_sizes(scenario: Scenario) -> Said:
    pipeline: Any = scenario.pipeline
    schedule = SCHEDULES[pipeline.schedule]
    microbatches = int(num_microbatches(columns_of(scenario))[0])
    sizes = Sizes(pipeline.stages, microbatches, pipeline.chunks_per_stage)
    nearest = " or ".join(map(_said, schedule.nearest(*sizes)))
    return (
        "/pipeline",
        f"{schedule.name} does not take {_said(sizes)}: {schedule.rule}; {nearest} would do",
    )


def _said(sizes: Sizes) -> str:
    return f"{sizes.said()} per stage"


def _no_such_stage(columns: Columns) -> Mask:
    placed = columns[PLACEMENT]
    there = columns[COUNT] > 0
    stages = np.where(has_pipeline(columns), num_stages(columns), 0.0)
    broken: Mask = np.any(there & (placed >= stages[:, np.newaxis]), axis=1)
    return broken


def _say_no_such_stage(scenario: Scenario) -> Said:
    stages = 0 if scenario.pipeline is None else scenario.pipeline.stages
    group, placement = next(
        (number, slow.placement)
        for number, slow in enumerate(scenario.slow_groups)
        if isinstance(slow.placement, int) and slow.placement >= stages
    )
    detail = "there is no pipeline" if stages == 0 else f"stages are 0 to {stages - 1}"
    return f"/slow_groups/{group}/placement", f"slow GPUs at stage {placement}, but {detail}"


def _too_many_at_stage(columns: Columns) -> Mask:
    placed, count = columns[PLACEMENT], columns[COUNT]
    room = _room(columns)
    # A group is counted with all others at its stage.
    at_stage = (placed[:, :, np.newaxis] == placed[:, np.newaxis, :]) @ count[:, :, np.newaxis]
    full = at_stage[:, :, 0] > room[:, np.newaxis]
    full &= (placed >= 0) & (count > 0)
    broken: Mask = has_pipeline(columns) & np.any(full, axis=1)
    return broken


def _room(columns: Columns) -> Any:
    """(points,) GPUs of one stage in all replicas, also those that are evicted from there."""
    return columns["num_gpus"] // replica_gpus(columns) * columns["tensor_parallel_size"]


def _say_too_many_at_stage(scenario: Scenario) -> Said:
    room = int(_room(columns_of(scenario))[0])
    at_stage: dict[int, int] = {}
    for number, slow in enumerate(scenario.slow_groups):
        if isinstance(slow.placement, int):
            at_stage[slow.placement] = at_stage.get(slow.placement, 0) + slow.count
            if at_stage[slow.placement] > room:
                pointer = f"/slow_groups/{number}/count"
    stage, there = max(at_stage.items(), key=lambda item: item[1])
    return pointer, f"{there} slow GPUs at stage {stage}, which has {room} GPUs"


def _not_with_overlap(columns: Columns) -> Mask:
    overlapped = columns["overlap.kind"] != NO_OVERLAP
    broken: Mask = has_pipeline(columns) & overlapped
    return broken


def _say_not_with_overlap(_scenario: Scenario) -> Said:
    detail = (
        "a pipeline hides communication behind its bubbles in its own way, which is not defined "
        "yet: overlap may only prefetch the load"
    )
    return "/overlap/kind", detail


def _not_with_waiting(columns: Columns) -> Mask:
    parts = (columns["synchronization.fragments"] > 1) | (
        columns["synchronization.overlap_steps"] > 0
    )
    parts = parts | (columns["synchronization.release_fraction"] < 1)
    stale = (staleness(columns) > 0) | is_stale(columns)
    in_rounds = is_local(columns) & (
        parts | (hides_load(columns) & (columns["synchronization.steps"] > 1))
    )
    broken: Mask = has_pipeline(columns) & (stale | in_rounds)
    return broken


def _say_not_with_waiting(scenario: Scenario) -> Said:
    kind = type(scenario.synchronization).__struct_config__.tag
    detail = f"{kind} is not defined for replicas that are pipelines"
    if kind == "local_steps":
        detail = (
            "local steps of a pipeline are defined for a whole exchange that all wait for, without "
            "fragments, overlap_steps, release_fraction and load_prefetch"
        )
    return "/synchronization", detail


PIPELINE_RULES = (
    Rule("missing_field", _no_compute, _say_no_compute),
    Rule("stage_times_incomplete", _half_the_times, _say_half_the_times, ABOUT),
    Rule("stage_times_wrong_length", _wrong_lengths, _say_wrong_lengths, ABOUT),
    Rule("compute_not_of_stages", _other_compute, _say_other_compute, ABOUT),
    Rule("no_whole_pipelines", _no_whole_pipelines, _say_no_whole_pipelines, ABOUT),
    Rule("microbatches_not_whole", _uneven_scaling, _say_uneven_scaling, ABOUT),
    Rule("too_many_operations", _too_many_operations, _say_too_many_operations, ABOUT),
    Rule("schedule_not_for_sizes", _invalid_sizes, _say_invalid_sizes, ABOUT),
    Rule("no_such_stage", _no_such_stage, _say_no_such_stage, COUNT),
    Rule("too_many_slow_gpus_at_stage", _too_many_at_stage, _say_too_many_at_stage, ABOUT),
    Rule("overlap_not_with_pipeline", _not_with_overlap, _say_not_with_overlap, ABOUT),
    Rule("waiting_not_with_pipeline", _not_with_waiting, _say_not_with_waiting, ABOUT),
    large_rule("per_op_jitter"),
    large_in_product_rule("per_op_jitter"),
    tail_rule("per_op_jitter"),
    negative_rule("per_op_jitter"),
)
