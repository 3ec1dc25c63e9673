"""The kinds of remedies, how they are asked for and how they are stored."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

from service.model.parts.communication import Link
from service.model.parts.pipeline import ScheduleName
from service.model.remedy.remedy_settings import (
    BucketCounts,
    ChunkCounts,
    CompressionMs,
    Contention,
    Counts,
    ExtraSteps,
    Fractions,
    Hours,
    IntraLink,
    MicrobatchCounts,
    MicrobatchFactors,
    Ratios,
    Schedules,
    StageCounts,
    Steps,
)

MAX_REQUESTS = 16

Kind = Literal[
    "replace_slow_gpus",
    "evict_worst",
    "hot_spares",
    "faster_detection",
    "rebalance_work",
    "backup_workers",
    "balance_data",
    "checkpoint_optimal",
    "overlap_buckets",
    "prefetch_load",
    "local_steps",
    "delayed_update",
    "hierarchical_collective",
    "compress_gradients",
    "more_microbatches",
    "interleave_stages",
    "change_schedule",
    "rebalance_stages",
    "fewer_stages",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
COUNTED = ("evict_worst", "hot_spares", "backup_workers")
OF_PIPELINE: tuple[Kind, ...] = (
    "more_microbatches",
    "interleave_stages",
    "change_schedule",
    "rebalance_stages",
    "fewer_stages",
)
"""Kinds that do the same job in another pipeline, and so may need more memory."""

Setting = dict[str, float | str]
"""How much of a remedy: its parameters by name."""


class RemedyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of remedy, and what to try it with."""

    kind: Annotated[Kind, Meta(description="What is done.")]
    counts: Counts | None = None
    mean_hours: Hours | None = None
    cv_fractions: Fractions | None = None
    num_buckets: BucketCounts | None = None
    contention_fraction: Contention | None = None
    steps: Steps | None = None
    extra_steps_fraction: ExtraSteps | None = None
    intra_link: IntraLink | None = None
    compression_ratios: Ratios | None = None
    compression_ms: CompressionMs | None = None
    microbatch_factors: MicrobatchFactors | None = None
    microbatches: MicrobatchCounts | None = None
    chunks_per_stage: ChunkCounts | None = None
    schedules: Schedules | None = None
    stages: StageCounts | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The settings that it names."""
        names = self.__struct_fields__
        return tuple(name for name in names if name != "kind" and getattr(self, name) is not None)


SETTINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(COUNTED, ("counts",)),
    "faster_detection": ("mean_hours",),
    "balance_data": ("cv_fractions",),
    "overlap_buckets": ("num_buckets", "contention_fraction"),
    "local_steps": ("steps", "extra_steps_fraction"),
    "delayed_update": ("extra_steps_fraction",),
    "hierarchical_collective": ("intra_link",),
    "compress_gradients": ("compression_ratios", "compression_ms"),
    "more_microbatches": ("microbatch_factors", "microbatches"),
    "interleave_stages": ("chunks_per_stage",),
    "change_schedule": ("schedules",),
    "fewer_stages": ("stages",),
}
"""The fields of a request that a kind reads; the others read none."""


class Remedy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One remedy with one setting, as it is stored; the setting says how much of it.

    count                 GPUs more that are evicted, stand by or are not waited for
    mean_hours            length of an episode; or as a fraction of the scenario's, `hours_fraction`
    cv_fraction           of the replica variability that is left
    num_buckets           equal buckets that gradients travel in
    contention_fraction   as in the scenario's overlap; None: as it is there
    steps                 local steps between two exchanges
    extra_steps_fraction  as in the scenario's synchronization; None: as it is there
    intra_link            between the GPUs of a node; None: the scenario's
    compression_ratio     how many times smaller messages are than now
    compression_ms        as in the scenario's communication; None: as it is there
    microbatch_factor     times more micro-batches than now
    microbatches          of a replica and step
    chunks_per_stage      of the pipeline
    schedule              of the pipeline; None where there is none to change to
    stages                of the pipeline; None: half as many
    """

    kind: Kind
    count: int | None = None
    mean_hours: float | None = None
    hours_fraction: float | None = None
    cv_fraction: float | None = None
    num_buckets: int | None = None
    contention_fraction: float | None = None
    steps: int | None = None
    extra_steps_fraction: float | None = None
    intra_link: Link | None = None
    compression_ratio: float | None = None
    compression_ms: float | None = None
    microbatch_factor: int | None = None
    microbatches: int | None = None
    chunks_per_stage: int | None = None
    schedule: ScheduleName | None = None
    stages: int | None = None

    @property
    def setting(self) -> Setting | None:
        """The parameters by name; None where there are none."""
        named = {name: getattr(self, name) for name in self.__struct_fields__ if name != "kind"}
        return {
            name: _said(value) if isinstance(value, Link) else value
            for name, value in named.items()
            if value is not None
        } or None


def _said(link: Link) -> str:
    """A preset by its name, another link as JSON."""
    if link == Link(preset=link.preset) and link.preset is not None:
        return link.preset
    given = {name: value for name, value in msgspec.to_builtins(link).items() if value is not None}
    return msgspec.json.encode(given).decode()


class NotApplicable(Struct, frozen=True, kw_only=True):
    """A remedy that was left out, and why; without a setting where that holds for all of them."""

    kind: Kind
    setting: Setting | None
    reason: str
