"""How stages of a model work one behind the other. Design page "The model", section 7."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.model.distributions import Distribution
from service.model.parts.bounds import MAX_TIME_MS, MIN_COMPUTE_MS, TimeMs

MAX_STAGES = 1_024
MAX_MICROBATCHES = 65_536
MAX_CHUNKS = 64

ScheduleName = Literal[
    "naive",
    "gpipe",
    "1f1b",
    "interleaved_1f1b",
    "looped_bfs",
    "zb1p",
    "zb_h1",
    "zb_h2",
    "zbv",
    "interleaved_zb1p",
    "dualpipe",
    "dualpipev",
]

Stage = Annotated[int, Meta(ge=0, lt=MAX_STAGES)]
OperationMs = Annotated[float, Meta(ge=MIN_COMPUTE_MS, le=MAX_TIME_MS)]
OfStages = Annotated[tuple[OperationMs, ...], Meta(min_length=1, max_length=MAX_STAGES)]
# Not next to nothing: shares of all weights would become 0, and steps with them.
Weight = Annotated[float, Meta(ge=1e-9, le=1e9)]
Weights = Annotated[tuple[Weight, ...], Meta(min_length=1, max_length=MAX_STAGES)]


class Pipeline(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stages of a replica, each on its own GPUs, that hand micro-batches on to each other."""

    schedule: Annotated[
        ScheduleName, Meta(description="The order in which each stage works through its share.")
    ]
    stages: Annotated[int, Meta(ge=1, le=MAX_STAGES, description="P, stages of a replica.")]
    microbatches: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_MICROBATCHES,
            description="M, micro-batches of a replica and step; dualpipe: of both directions.",
        ),
    ]
    chunks_per_stage: Annotated[
        int,
        Meta(ge=1, le=MAX_CHUNKS, description="V, model chunks of a stage (virtual stages)."),
    ] = 1
    forward_ms: Annotated[
        OperationMs | OfStages | None,
        Meta(
            description="Forward of a micro-batch at a stage, all its chunks, ms: one number, or "
            "one per stage. Left out: from compute_ms and backward_fraction."
        ),
    ] = None
    backward_ms: Annotated[
        OperationMs | OfStages | None, Meta(description="Likewise its backward, ms.")
    ] = None
    stage_weights: Annotated[
        Weights | None,
        Meta(
            description="Work of each stage relative to the others, such as its layers; left out: "
            "all equal. Not beside forward_ms."
        ),
    ] = None
    backward_weight_fraction: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Share of a backward that is the weight gradient, which nobody waits for: "
            "used by schedules that split it off (zb…, dualpipe…).",
        ),
    ] = 0.5
    p2p_ms: Annotated[
        TimeMs,
        Meta(description="From the end of an operation to its use by another stage, ms."),
    ] = 0.0
    per_op_jitter: Annotated[
        Distribution | None,
        Meta(description="Drawn for every operation and GPU, independently; mean 1."),
    ] = None
