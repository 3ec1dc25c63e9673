"""What hides behind what: the fields of overlap. Design page "The model", section 5."""

from typing import Annotated

from msgspec import Meta, Struct

MAX_BUCKETS = 65_536
MAX_LISTED_BUCKETS = 1_024
MAX_LAYERS = 4_096

Prefetch = Annotated[
    bool,
    Meta(description="Whether the next step's data load while this step runs: max(load, rest)."),
]


class NoOverlap(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="none"
):
    """Communication begins when the slowest GPU has computed."""

    load_prefetch: Prefetch = False


class Buckets(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="buckets"
):
    """Gradients travel in buckets during backward, one after the other (DDP).

    Exactly one of num_buckets, bucket_bytes and bucket_shares.
    """

    num_buckets: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_BUCKETS)] | None, Meta(description="Equal buckets.")
    ] = None
    bucket_bytes: Annotated[
        Annotated[float, Meta(ge=1, le=1e18)] | None,
        Meta(
            description="Largest size of a bucket, bytes before compression: full ones, and the "
            "rest in the last. Needs a communication that knows its message."
        ),
    ] = None
    bucket_shares: Annotated[
        Annotated[
            tuple[Annotated[float, Meta(gt=0, le=1e18)], ...],
            Meta(min_length=1, max_length=MAX_LISTED_BUCKETS),
        ]
        | None,
        Meta(description="Relative sizes of unequal buckets, in the order in which they travel."),
    ] = None
    contention_fraction: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="How much slower compute runs while communication is busy; published mean "
            "0.189.",
        ),
    ] = 0.0
    load_prefetch: Prefetch = False


class Fsdp(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="fsdp"
):
    """Sharded parameters (FSDP, ZeRO-3): layers are gathered ahead, gradients scattered behind."""

    num_layers: Annotated[int, Meta(ge=1, le=MAX_LAYERS, description="Equal layers.")]
    prefetch_layers: Annotated[
        int, Meta(ge=0, le=MAX_LAYERS, description="Layers gathered ahead of the computing one.")
    ] = 1
    load_prefetch: Prefetch = False


Overlap = NoOverlap | Buckets | Fsdp
