"""What a caller may say about timings, since the files do not."""

from typing import Annotated

from msgspec import Meta, Struct

from service.calibration.findings import Confidence

PositiveMs = Annotated[float, Meta(gt=0, le=1e9)]


class CalibrationOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Said beside the files; every one may be left out."""

    tensor_parallel_size: Annotated[
        int,
        Meta(
            ge=1,
            le=1024,
            description="GPUs that one rank of the files stands for, since they move in lockstep.",
        ),
    ] = 1
    num_gpus: (
        Annotated[
            int,
            Meta(ge=1, le=10_000_000, description="Of the whole job; default: what the files say."),
        ]
        | None
    ) = None
    gpus_per_node: Annotated[
        int,
        Meta(ge=1, le=1024, description="For ranks whose node the files do not name."),
    ] = 8
    skip_steps: Annotated[
        int, Meta(ge=0, le=100_000, description="Steps left out at the start, such as warm-up.")
    ] = 0
    confidence: Confidence = 0.9
    load_is_prefetched: (
        Annotated[
            bool,
            Meta(description="Whether loading runs beside the step before; default: not known."),
        ]
        | None
    ) = None
    no_communication_step_ms: (
        Annotated[PositiveMs, Meta(description="Step of a run without synchronisation (no_sync).")]
        | None
    ) = None
    overlap_off_step_ms: (
        Annotated[PositiveMs, Meta(description="Step of a run with overlap switched off.")] | None
    ) = None
    isolated_communication_ms: (
        Annotated[
            PositiveMs,
            Meta(description="The same collectives alone, such as by nccl-tests, per step."),
        ]
        | None
    ) = None
