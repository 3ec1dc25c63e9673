"""How gradients travel: the fields of communication. Design page "The model", section 5."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.model.parts.bounds import TimeMs
from service.model.parts.link_presets import LinkPreset

MAX_BYTES = 1e18
MAX_TABLE = 1_024


class Link(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link between two ranks: a preset, values of your own, or a preset with some replaced.

    Bandwidth that is used: min(bandwidth x efficiency_fraction, flows x window / round trip).
    """

    preset: Annotated[
        LinkPreset | None,
        Meta(description="A dated set of values with its source: GET /v1/link-presets."),
    ] = None
    latency_us: Annotated[
        Annotated[float, Meta(ge=0, le=1e12)] | None,
        Meta(
            description="From one rank to the next, one way, microseconds; default half of "
            "round_trip_ms where that is given, else the preset's, else 0."
        ),
    ] = None
    bandwidth_gigabytes_per_s: Annotated[
        Annotated[float, Meta(ge=1e-9, le=1e9)] | None,
        Meta(description="Of one rank in one direction, 1e9 bytes per second."),
    ] = None
    efficiency_fraction: Annotated[
        Annotated[float, Meta(ge=1e-6, le=1)] | None,
        Meta(description="Of the bandwidth, what protocols leave for the message; default 1."),
    ] = None
    round_trip_ms: Annotated[
        Annotated[float, Meta(ge=0, le=1e9)] | None,
        Meta(
            description="Round-trip time, ms: half of it is the latency where latency_us is not "
            "given, and with window_bytes it caps the bandwidth."
        ),
    ] = None
    window_bytes: Annotated[
        Annotated[float, Meta(ge=1, le=MAX_BYTES)] | None,
        Meta(description="Bytes in flight of one flow before it waits for an answer."),
    ] = None
    flows: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)] | None,
        Meta(description="Parallel flows, each with its window; default 1."),
    ] = None


class _Message(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is exchanged: message_bytes, or parameters x bytes_per_parameter."""

    message_bytes: Annotated[
        Annotated[float, Meta(ge=0, le=MAX_BYTES)] | None,
        Meta(description="Each GPU's gradients of a step, bytes before compression."),
    ] = None
    parameters: Annotated[
        Annotated[float, Meta(ge=0, le=1e18)] | None,
        Meta(
            description="Of the model; each GPU of a tensor-parallel group exchanges its share.",
        ),
    ] = None
    bytes_per_parameter: Annotated[
        float, Meta(ge=0, le=64, description="2 for 16 bit, 0.5 for 4 bit.")
    ] = 2.0
    compression_ratio: Annotated[
        float, Meta(ge=1, le=1e9, description="By which messages are made smaller.")
    ] = 1.0
    compression_ms: Annotated[
        TimeMs,
        Meta(description="To compress and to restore a message, on the GPU: never hidden, ms."),
    ] = 0.0


class _Linked(_Message, frozen=True, kw_only=True, forbid_unknown_fields=True):
    link: Annotated[Link, Meta(description="Between ranks; between nodes where hierarchical.")]
    slowest_link_fraction: Annotated[
        float,
        Meta(ge=1e-6, le=1, description="Bandwidth of the slowest link over that of the others."),
    ] = 1.0


class Fixed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="fixed"
):
    """Communication that takes the same time at every cluster size."""

    allreduce_ms: Annotated[TimeMs, Meta(description="All-reduce time per step, ms.")] = 0.0


class Ring(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="ring"):
    """Ring all-reduce: 2(n-1) latency + 2(n-1)/n S/B."""


_TreeEfficiency = Annotated[
    float, Meta(ge=1e-6, le=1, description="Of the bandwidth, what a double binary tree reaches.")
]
_IntraLink = Annotated[Link, Meta(description="Between the GPUs of a node.")]


class Tree(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="tree"):
    """Double binary tree: 2 log2(n) latency + 2 S / (B efficiency)."""

    tree_efficiency_fraction: _TreeEfficiency = 1.0


class Hierarchical(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="hierarchical"):
    """Within nodes first, then between them, with one network link a GPU."""

    intra_link: _IntraLink


class Auto(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="auto"):
    """The fastest of ring, tree and, with an intra_link, hierarchical at every point."""

    intra_link: Annotated[
        Link | None, Meta(description="Between the GPUs of a node; without it no hierarchy.")
    ] = None
    tree_efficiency_fraction: _TreeEfficiency = 1.0


class Transfer(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="transfer"):
    """One message to one place: latency + S/B, however many ranks; 0 for a single one."""


class Nccl(_Linked, frozen=True, kw_only=True, tag_field="kind", tag="nccl"):
    """Latencies as NCCL's own tuner reckons them (constants of 2026), with your bandwidth."""

    intra_link: _IntraLink
    algorithm: Annotated[
        Literal["auto", "ring", "tree"], Meta(description="auto: the faster one.")
    ] = "auto"
    protocol: Annotated[
        Literal["simple", "ll", "ll128"], Meta(description="Of NCCL; simple for large messages.")
    ] = "simple"
    intra_connection: Annotated[
        Literal["nvlink", "pci"], Meta(description="Between the GPUs of a node.")
    ] = "nvlink"


class Measured(_Message, frozen=True, kw_only=True, tag_field="kind", tag="measured"):
    """A measured curve, straight between its points in log-log; refused outside of them."""

    sizes_bytes: Annotated[
        tuple[Annotated[float, Meta(ge=1, le=MAX_BYTES)], ...],
        Meta(min_length=2, max_length=MAX_TABLE, description="Ascending message sizes, bytes."),
    ]
    times_ms: Annotated[
        tuple[Annotated[float, Meta(gt=0, le=1e12)], ...],
        Meta(min_length=2, max_length=MAX_TABLE, description="Time of each, ms."),
    ]
    measured_num_ranks: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        Meta(
            description="Ranks of the measurement: other numbers are refused. Without it the curve "
            "holds for any."
        ),
    ] = None


Communication = Fixed | Ring | Tree | Hierarchical | Auto | Transfer | Nccl | Measured
