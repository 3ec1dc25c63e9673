"""The fields of the input: one struct is request body, stored JSON and kernel input.

Fields, units and bounds: design page "The model", section 1. Times are milliseconds.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.model.distributions import Distribution
from service.model.parts.bounds import MAX_TIME_MS, MIN_COMPUTE_MS, TimeMs
from service.model.parts.communication import Communication, Fixed
from service.model.parts.overlap import NoOverlap, Overlap
from service.model.parts.pipeline import Pipeline, Stage
from service.model.parts.synchronization import EveryStep, Synchronization

# RFC 8785 digests take whole numbers up to 2^53 - 1, as JSON readers everywhere do.
MAX_SEED = 2**53 - 1
MAX_SLOW_GROUPS = 16
# So that 1 / speed, and with it every time, stays finite.
MIN_SPEED = 1e-6
MAX_GPUS = 10_000_000
# Every spare and every evicted GPU is one drawn by itself.
MAX_STANDING_BY = 1_024
MAX_NODE_GPUS = 1_024


class SlowGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GPUs that are persistently slow, all by the same factor."""

    count: Annotated[int, Meta(ge=1, le=MAX_GPUS, description="How many GPUs.")]
    speed_fraction: Annotated[
        float, Meta(ge=MIN_SPEED, le=1, description="Speed of each, as a fraction of nominal.")
    ]
    placement: Annotated[
        Stage | Literal["random", "worst"],
        Meta(
            description="Where they sit in a pipeline: random GPUs (expectation over all "
            "placements), the worst, or the stage of this number, counted from 0, replica by "
            "replica. Without a pipeline it does not matter."
        ),
    ] = "random"


class SpikeField(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rare slow steps of single GPUs; not of mean 1."""

    probability: Annotated[
        float, Meta(ge=0, le=1, description="Of a spike, for every GPU and step.")
    ]
    slowdown: Annotated[
        float, Meta(ge=1, le=1e6, description="Factor on the GPU's compute time in that step.")
    ]


class EpisodeField(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Slow periods of single GPUs (fail-slow), lasting in wall-clock time; not of mean 1."""

    rate_per_gpu_day: Annotated[
        float, Meta(ge=0, le=1e6, description="How often a GPU falls into one, per day.")
    ]
    mean_hours: Annotated[
        float, Meta(ge=0, le=1e6, description="How long one lasts on average, hours.")
    ]
    severity: Annotated[
        float, Meta(ge=1, le=1e6, description="Factor on the GPU's compute time meanwhile.")
    ]


class Variability(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes compute times differ, beside slow groups. The factors multiply."""

    transient: Annotated[
        Distribution | None,
        Meta(description="Drawn for every GPU and step, independently; mean 1."),
    ] = None
    persistent: Annotated[
        Distribution | None, Meta(description="Drawn once for every GPU of a cluster; mean 1.")
    ] = None
    node: Annotated[
        Distribution | None,
        Meta(description="Drawn once for every node, shared by its GPUs; mean 1."),
    ] = None
    replica: Annotated[
        Distribution | None,
        Meta(
            description="Drawn for every step and data-parallel replica, shared by the GPUs of its "
            "tensor-parallel group; mean 1."
        ),
    ] = None
    common: Annotated[
        Distribution | None, Meta(description="Drawn for every step, shared by all GPUs; mean 1.")
    ] = None
    spikes: Annotated[SpikeField | None, Meta(description="Rare slow steps of single GPUs.")] = None
    episodes: Annotated[
        EpisodeField | None, Meta(description="Slow periods of single GPUs, in wall-clock time.")
    ] = None
    autocorrelation: Annotated[
        float,
        Meta(
            ge=0,
            le=0.999,
            description="Of a GPU's transient draw from one step to the next; moves only the "
            "spread, never the expected loss.",
        ),
    ] = 0.0


class Strong(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Strong scaling: the work of a step is divided among the GPUs."""

    # Not msgspec's tag: that is demanded only where there is another document to tell apart.
    kind: Literal["strong"]
    reference_num_gpus: Annotated[
        int, Meta(ge=1, le=MAX_GPUS, description="The size at which compute_ms holds.")
    ]


class Failures(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fail-stop failures and checkpoints: the rate is given in one of two ways."""

    failures_per_1000_node_days: Annotated[
        Annotated[float, Meta(ge=0, le=1e6)] | None,
        Meta(description="Failures that stop the job, per 1 000 nodes and day."),
    ] = None
    mtbf_hours_per_gpu: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e12)] | None,
        Meta(description="Mean time between failures of one GPU, hours."),
    ] = None
    detection_s: Annotated[
        float, Meta(ge=0, le=1e7, description="Until a failure is noticed, s.")
    ] = 0.0
    restart_s: Annotated[
        float, Meta(ge=0, le=1e7, description="From there until the job runs again, s.")
    ] = 0.0
    checkpoint_write_s: Annotated[
        float, Meta(ge=0, le=1e7, description="Writing a checkpoint, s.")
    ] = 0.0
    checkpoint_interval_s: Annotated[
        Annotated[float, Meta(ge=1e-3, le=1e9)] | Literal["optimal"],
        Meta(description='Work between checkpoints, s; or "optimal".'),
    ] = "optimal"
    asynchronous_checkpoint: Annotated[
        bool, Meta(description="Whether the job computes while a checkpoint is written.")
    ] = False


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A synchronous training job: what a step takes and what may slow it down."""

    num_gpus: Annotated[
        int, Meta(ge=1, le=MAX_GPUS, description="GPUs held by the job, all paid for.")
    ]
    compute_ms: Annotated[
        Annotated[float, Meta(ge=MIN_COMPUTE_MS, le=MAX_TIME_MS)] | None,
        Meta(
            description="Nominal compute per GPU and step, ms. May be left out only where the "
            "pipeline says forward_ms and backward_ms: then it is microbatches times their mean "
            "over the stages."
        ),
    ] = None
    load_ms: Annotated[TimeMs, Meta(description="Data loading before compute, per step, ms.")] = 0.0
    backward_fraction: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of compute_ms that is backward: the window that can hide "
            "communication. With m accumulated micro-steps only the last backward hides: 2/3 / m.",
        ),
    ] = 2 / 3
    communication: Communication = Fixed()
    overlap: Overlap = NoOverlap()
    slow_groups: Annotated[tuple[SlowGroup, ...], Meta(max_length=MAX_SLOW_GROUPS)] = ()
    variability: Variability = Variability()
    gpus_per_node: Annotated[
        int, Meta(ge=1, le=MAX_NODE_GPUS, description="GPUs that share a node.")
    ] = 8
    tensor_parallel_size: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_NODE_GPUS,
            description="GPUs that move in lockstep: a replica, or a stage of a pipeline.",
        ),
    ] = 1
    scaling: Annotated[
        Literal["weak"] | Strong,
        Meta(
            description="What compute_ms does when the cluster grows: nothing (weak), or the work "
            "of a step is divided (strong)."
        ),
    ] = "weak"
    synchronization: Synchronization = EveryStep()
    pipeline: Annotated[
        Pipeline | None, Meta(description="Stages that work one behind the other; null: none.")
    ] = None
    num_spare_gpus: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_STANDING_BY,
            description="Hot spares held and paid for beside num_gpus; the persistently slowest "
            "of all stand by.",
        ),
    ] = 0
    num_evicted_gpus: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_STANDING_BY,
            description="Of num_gpus, the persistently slowest so many are given back and no "
            "longer paid for.",
        ),
    ] = 0
    failures: Failures | None = None
    period_days: Annotated[int, Meta(ge=1, le=3660, description="The loss window, days.")] = 30
    total_steps: Annotated[
        Annotated[int, Meta(ge=1, le=10**15)] | None,
        Meta(description="Steps of the whole job, for the fixed-work view."),
    ] = None
    seed: Annotated[
        int,
        Meta(ge=0, le=MAX_SEED, description="Of the single reproducible draw and of sampling."),
    ] = 0
    draws: Annotated[
        int,
        Meta(ge=16, le=1_000_000, description="Clusters sampled where a spread has no formula."),
    ] = 1_000
