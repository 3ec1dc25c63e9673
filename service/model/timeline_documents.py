"""A timeline of one step of one replica, as it is answered and drawn.

Times are ms from the start of the step.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Draw = Literal["nominal", "drawn"]
OperationKind = Literal[
    "forward", "backward", "backward_input", "backward_weight", "forward_backward"
]
PhaseKind = Literal["load", "pass", "wait", "exchange"]


class TimelineOperation(Struct, frozen=True, kw_only=True):
    """What a stage does with one micro-batch, without a break."""

    kind: Annotated[
        OperationKind,
        Meta(
            description="`backward` is whole; `backward_input` and `backward_weight` are its two "
            "gradients apart; a `forward_backward` goes forward with one micro-batch and back with "
            "another."
        ),
    ]
    chunk: Annotated[
        int, Meta(description="Of the stage's model chunks; dualpipe: 1 comes the other way.")
    ]
    microbatch: int
    backward_chunk: Annotated[
        int | None, Meta(description="What a `forward_backward` goes back with; else null.")
    ]
    backward_microbatch: int | None
    start_ms: float
    end_ms: float


class TimelineStage(Struct, frozen=True, kw_only=True):
    """One stage of the replica, and its operations in order."""

    stage: int
    factor: Annotated[
        float,
        Meta(
            description="Its operations take so many times as long as at nominal speed, "
            "per_op_jitter aside: the factor of its slowest GPU."
        ),
    ]
    slowest_gpu: Annotated[
        int, Meta(description="The number of that GPU, as in `ranks` of an evaluation.")
    ]
    busy_ms: float
    idle_ms: Annotated[float, Meta(description="Of the replica's pass, makespan_ms less busy_ms.")]
    peak_microbatches_in_flight: float
    operations: list[TimelineOperation]


class Phase(Struct, frozen=True, kw_only=True):
    """A part of the step, of the whole replica."""

    kind: Annotated[
        PhaseKind,
        Meta(
            description="Loading that is not hidden; the pass through the pipeline; waiting for "
            "the slowest replica; exchanging gradients."
        ),
    ]
    start_ms: float
    end_ms: float


class Timeline(Struct, frozen=True, kw_only=True):
    """One replica in one step; all times are ms from the start of the step."""

    draw: Annotated[Draw, Meta(description="`nominal`: all at nominal speed, without variability.")]
    replica: int
    num_replicas: int
    schedule: str
    num_stages: int
    microbatches: int
    chunks_per_stage: int
    makespan_ms: Annotated[float, Meta(description="From the pass's start to its end.")]
    bubble_fraction: Annotated[float, Meta(description="Idle over all time of the stages.")]
    busy_stages_mean: Annotated[float, Meta(description="How many stages work on average.")]
    slowest_makespan_ms: Annotated[
        float | None,
        Meta(
            description="Of the replica that the step waits for; null where replicas do not wait "
            "in every step."
        ),
    ]
    step_ms: Annotated[float | None, Meta(description="Likewise; the whole step.")]
    phases: list[Phase]
    stages: list[TimelineStage]
