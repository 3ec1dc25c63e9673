"""A timeline in the Trace Event Format, which Perfetto and chrome://tracing open.

Source: "Trace Event Format", the Chromium project (JSON object form; complete events "X", metadata
events "M"; times in microseconds). Events of one thread may not overlap, so times are rounded to
whole nanoseconds, an end and the start that follows it alike.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.model.timeline_documents import OperationKind, Timeline, TimelineOperation

LETTERS: dict[OperationKind, str] = {
    "forward": "F",
    "backward": "B",
    "backward_input": "B",
    "backward_weight": "W",
    "forward_backward": "F",
}
_STEP = "step"
_NS_PER_MS, _NS_PER_US = 1_000_000, 1_000


class SliceArguments(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of an operation; of a phase of the step nothing."""

    microbatch: int | None = None
    chunk: int | None = None
    backward_microbatch: int | None = None
    backward_chunk: int | None = None


class Slice(Struct, frozen=True, kw_only=True, tag_field="ph", tag="X"):
    """An operation of a stage, or a phase of the step."""

    name: Annotated[
        str,
        Meta(
            description="`F 3`, `B 3`, `W 3`: forward, backward (or its input gradient) and weight "
            "gradient of micro-batch 3; `F 5 + B 3` is both at once."
        ),
    ]
    cat: str
    pid: Annotated[int, Meta(description="The replica.")]
    tid: Annotated[int, Meta(description="The stage; after the last one: the step.")]
    ts: Annotated[float, Meta(description="Start, microseconds.")]
    dur: Annotated[float, Meta(description="Duration, microseconds.")]
    args: SliceArguments


class NameArguments(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process or thread is called, or where it is shown."""

    name: str | None = None
    sort_index: int | None = None


class Label(Struct, frozen=True, kw_only=True, tag_field="ph", tag="M"):
    """The name of a replica or stage, or its place among them."""

    name: Literal["process_name", "thread_name", "thread_sort_index"]
    pid: int
    tid: int
    args: NameArguments


class ChromeTrace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A timeline in the Trace Event Format."""

    trace_events: list[Label | Slice]
    display_time_unit: Literal["ms", "ns"] = "ms"
    other_data: dict[str, str]


def chrome_trace(timeline: Timeline) -> ChromeTrace:
    """Replicas are processes, stages threads; the phases of the step are a thread of their own."""
    return ChromeTrace(
        trace_events=[*_labels(timeline), *_phases(timeline), *_operations(timeline)],
        other_data={
            "schedule": timeline.schedule,
            "stages": str(timeline.num_stages),
            "microbatches": str(timeline.microbatches),
            "chunks_per_stage": str(timeline.chunks_per_stage),
            "draw": timeline.draw,
            "makespan_ms": repr(timeline.makespan_ms),
        },
    )


def trace_file_name(timeline: Timeline) -> str:
    """Such as `timeline-1f1b-8x4x1-replica-0.trace.json`: sizes P x M x V, replica."""
    sizes = f"{timeline.num_stages}x{timeline.microbatches}x{timeline.chunks_per_stage}"
    return f"timeline-{timeline.schedule}-{sizes}-replica-{timeline.replica}.trace.json"


def _labels(timeline: Timeline) -> Iterator[Label]:
    pid = timeline.replica
    yield Label(
        name="process_name", pid=pid, tid=0, args=NameArguments(name=f"replica {timeline.replica}")
    )
    names = [f"stage {stage.stage}" for stage in timeline.stages]
    for tid, name in enumerate([*names, _STEP]):
        yield Label(name="thread_name", pid=pid, tid=tid, args=NameArguments(name=name))
        # The step above its stages.
        place = tid + 1 if name != _STEP else 0
        yield Label(
            name="thread_sort_index", pid=pid, tid=tid, args=NameArguments(sort_index=place)
        )


def _phases(timeline: Timeline) -> Iterator[Slice]:
    for phase in timeline.phases:
        start, length = _microseconds(phase.start_ms, phase.end_ms)
        yield Slice(
            name=phase.kind,
            cat=_STEP,
            pid=timeline.replica,
            tid=timeline.num_stages,
            ts=start,
            dur=length,
            args=SliceArguments(),
        )


def _operations(timeline: Timeline) -> Iterator[Slice]:
    for stage in timeline.stages:
        for operation in stage.operations:
            start, length = _microseconds(operation.start_ms, operation.end_ms)
            yield Slice(
                name=operation_name(operation),
                cat=operation.kind,
                pid=timeline.replica,
                tid=stage.stage,
                ts=start,
                dur=length,
                args=SliceArguments(
                    microbatch=operation.microbatch,
                    chunk=operation.chunk,
                    backward_microbatch=operation.backward_microbatch,
                    backward_chunk=operation.backward_chunk,
                ),
            )


def operation_name(operation: TimelineOperation) -> str:
    """Letter and micro-batch, of a forward_backward both."""
    name = f"{LETTERS[operation.kind]} {operation.microbatch}"
    if operation.backward_microbatch is None:
        return name
    return f"{name} + B {operation.backward_microbatch}"


def _microseconds(start_ms: float, end_ms: float) -> tuple[float, float]:
    """Start and duration, in whole nanoseconds."""
    start, end = round(start_ms * _NS_PER_MS), round(end_ms * _NS_PER_MS)
    return start / _NS_PER_US, (end - start) / _NS_PER_US
