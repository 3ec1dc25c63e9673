"""What the reader of a pipeline's result would otherwise miss."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.jobs.batch_documents import Notice
from service.model.columns import Columns
from service.model.pipeline.schedule import counted
from service.model.pipelines import nominal_pipeline
from service.model.stage_sizes import (
    SCHEDULE_NAMES,
    has_pipeline,
    num_chunks,
    num_microbatches,
    num_stages,
    stage_times_ms,
)
from service.model.times import compute_ms
from service.reports.digits import milliseconds, percent

INTERLEAVED = ("interleaved_1f1b", "interleaved_zb1p")
MORE_CHUNKS = ("looped_bfs", *INTERLEAVED)
IDLE_PARTS = tuple(f"pipeline_idle_{name}_ms" for name in ("p2p", "fill", "imbalance", "jitter"))
ZERO_BUBBLE = ("zb1p", "zb_h1", "zb_h2", "zbv", "interleaved_zb1p")
PIPELINE = "/scenario/pipeline"


def pipeline_notices(found: Mapping[str, Any], inputs: Columns) -> Iterator[Notice]:
    """Of the one point with these inputs, whose outputs are `found`; nothing without a pipeline."""
    if not has_pipeline(inputs)[0]:
        return
    schedule = SCHEDULE_NAMES[int(inputs["pipeline.schedule"][0]) - 1]
    stages, microbatches = int(num_stages(inputs)[0]), int(num_microbatches(inputs)[0])
    yield from _of_sizes(schedule, stages, microbatches)
    yield from _of_hand_over(inputs)
    yield from _of_bubble(schedule, found)


def _of_sizes(schedule: str, stages: int, microbatches: int) -> Iterator[Notice]:
    if schedule == "naive":
        detail = f"the naive schedule keeps one of {stages} stages busy at a time"
        yield _notice("/schedule", "one_stage_works", detail)
    elif microbatches < stages:
        verb = "fills" if microbatches == 1 else "fill"
        filling = counted(microbatches, "micro-batch")
        detail = f"{filling} never {verb} {stages} stages: some are idle at any time"
        yield _notice("/microbatches", "fewer_microbatches_than_stages", detail)
    if schedule in INTERLEAVED and microbatches % stages != 0:
        verb = "is" if microbatches == 1 else "are"
        detail = (
            f"{counted(microbatches, 'micro-batch')} {verb} no multiple of {stages} stages: the "
            "order is that of PyTorch, which takes them in other groups; Megatron-LM refuses such "
            "sizes"
        )
        yield _notice("/microbatches", "microbatches_not_a_multiple", detail)


def _of_hand_over(inputs: Columns) -> Iterator[Notice]:
    forward, backward = stage_times_ms(inputs, compute_ms(inputs))
    shortest = min(float(forward.min()), float(backward.min())) / float(num_chunks(inputs)[0])
    p2p = float(inputs["pipeline.p2p_ms"][0])
    if not p2p > shortest:
        return
    detail = (
        f"handing on takes {milliseconds(p2p)} ms, more than the {milliseconds(shortest)} ms of "
        "the shortest pass through a chunk: it decides how long the pipeline takes"
    )
    if not nominal_pipeline(inputs).is_closed[0]:
        detail += (
            ", and published formulas do not hold; the makespan is worked out operation by "
            "operation"
        )
    yield _notice("/p2p_ms", "hand_over_dominates", detail)


def _of_bubble(schedule: str, found: Mapping[str, Any]) -> Iterator[Notice]:
    bubble = float(found["bubble_fraction"])
    if schedule in ZERO_BUBBLE and bubble > 0:
        detail = (
            f"{schedule} still fills and drains: {percent(bubble)} % of the pass is bubble; "
            '"zero bubble" leaves that out'
        )
        yield _notice("/schedule", "zero_bubble_still_fills", detail)
    if bubble > 1 / 2:
        detail = (
            f"more than half of the pass is bubble: {percent(bubble)} %; {_less(schedule, found)}"
        )
        yield _notice("", "mostly_bubble", detail)


def _less(schedule: str, found: Mapping[str, Any]) -> str:
    """What makes the bubble less; nothing that the schedule refuses."""
    largest = max(IDLE_PARTS, key=lambda name: float(found[name]))
    if largest == "pipeline_idle_p2p_ms":
        return (
            "most of it is waiting for what is handed on: a faster hand-over or fewer stages make "
            "it less"
        )
    if largest == "pipeline_idle_imbalance_ms":
        return (
            "most of it is waiting for the stages with the most work: stages of equal work make "
            "it less"
        )
    if schedule == "naive":
        return "another schedule or fewer stages make it less"
    if schedule in MORE_CHUNKS:
        return "more micro-batches, fewer stages or more chunks a stage make it less"
    return "more micro-batches or fewer stages make it less"


def _notice(place: str, code: str, detail: str) -> Notice:
    return Notice(pointer=PIPELINE + place, code=code, detail=detail)
