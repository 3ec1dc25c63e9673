"""What a calibration finds: the document that is stored, answered and shown.

Every number that is an estimate has its interval; a number that the timings do not tell is null,
and `unknown` says what to do about it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Confidence = Annotated[float, Meta(ge=0.5, le=0.99, description="Of every interval.")]
SourceFormat = Literal["csv", "parquet", "jsonl", "operations", "kineto", "nccl_tests"]
Family = Literal["normal", "lognormal", "gamma", "exponential", "pareto", "shifted_gamma"]
Verdict = Literal["overlaps", "does_not_overlap", "cannot_tell"]


class Estimate(Struct, frozen=True, kw_only=True):
    """A value with its interval at the calibration's confidence; an open end is null."""

    value: float
    low: float | None
    high: float | None
    method: Annotated[str, Meta(description="How the interval was made, e.g. `chi_square`.")]


class Remark(Struct, frozen=True, kw_only=True):
    """Something the reader of the findings should know that is no refusal."""

    code: str
    detail: str


class TimingsLeftOut(Struct, frozen=True, kw_only=True):
    """Rows or steps that were not used, and why."""

    reason: str
    count: int


# Documents of the API are named for the whole service, where these names have other meanings.
LeftOut = TimingsLeftOut


class FileFound(Struct, frozen=True, kw_only=True):
    """A file that was read; its SHA-256 tells which one it was."""

    name: str
    format: SourceFormat
    num_bytes: int
    sha256: str
    num_rows: int


class Source(Struct, frozen=True, kw_only=True):
    """What was observed, how much of it, and what was left out."""

    files: list[FileFound]
    num_steps: int
    num_ranks: int
    num_gpus_per_rank: int
    world_size: int | None
    first_step: int
    last_step: int
    steps_have_gaps: bool
    missing_cells: int
    left_out: list[LeftOut]


class Components(Struct, frozen=True, kw_only=True):
    """Spread of compute split into what stays with a rank, what all share in a step, and the rest.

    Coefficients of variation. `node` is null where the source names no nodes, `replica` where it
    names no replicas of several ranks.
    """

    persistent_cv: Estimate | None
    node_cv: Estimate | None
    common_cv: Estimate | None
    replica_cv: Estimate | None
    transient_cv: Estimate | None


class Outlier(Struct, frozen=True, kw_only=True):
    """A rank that stands apart from the others by robust medians.

    `kind`: `slow` all the time, `fast` all the time, or `changed`: slow in a part of the steps
    (`from_step` to `to_step`), which is an episode rather than a slow GPU.
    """

    rank: int
    node: int | None
    stage: int | None
    kind: Literal["slow", "fast", "changed"]
    speed_fraction: Estimate
    robust_deviations: float
    from_step: int | None = None
    to_step: int | None = None


class TimedRank(Struct, frozen=True, kw_only=True):
    """One rank over all steps: its median compute and that as a multiple of the ranks' median."""

    rank: int
    node: int | None
    stage: int | None
    compute_median_ms: float
    to_median_ratio: float
    num_steps: int


RankRow = TimedRank


class StepRow(Struct, frozen=True, kw_only=True):
    """One step over all ranks."""

    step: int
    median_ms: float
    slowest_ms: float
    slowest_rank: int
    slowest_to_median_ratio: float


class Gaps(Struct, frozen=True, kw_only=True):
    """The slowest rank against the median, step by step, and how often it is the same rank."""

    slowest_to_median_mean_ratio: Estimate
    slowest_to_median_p50_ratio: float
    slowest_to_median_p95_ratio: float
    slowest_to_median_mean_ms: float
    max_to_mean_ratio: Annotated[
        Estimate, Meta(description="Observed E(max/mean): mean over steps of slowest by mean.")
    ]
    most_often_slowest_rank: int
    most_often_slowest_fraction: float
    steps: Annotated[list[StepRow], Meta(description="At most 500 steps, evenly thinned.")]
    slowest_autocorrelation: Annotated[
        float,
        Meta(
            description="Of the slowest rank's compute from step to step, half a standard error "
            "added, at least 0: how much less than so many steps a mean of them tells."
        ),
    ] = 0.0


class FamilyFit(Struct, frozen=True, kw_only=True):
    """A family of laws against steps that it was not fitted to."""

    family: Family
    predicted_max_to_mean_ratio: float
    relative_error: float


class FamilyChoice(Struct, frozen=True, kw_only=True):
    """The family of the per-step law; `is_decided` is false where they predict alike.

    `is_ruled_out` where none of them predicts what was seen and the chosen one is the closest.
    `skew` is that of a shifted gamma, null for the others.
    """

    chosen: Family
    is_decided: bool
    candidates: list[FamilyFit]
    is_ruled_out: bool = False
    skew: float | None = None


class HeldOut(Struct, frozen=True, kw_only=True):
    """The slowest rank predicted by the proposed scenario for steps that it was not fitted to."""

    num_fitted_steps: int
    num_held_out_steps: int
    observed_max_to_mean_ratio: Estimate
    predicted_max_to_mean_ratio: float
    relative_error: float
    independent_normal_max_to_mean_ratio: Annotated[
        float, Meta(description="What one normal law of all ranks would say, for comparison.")
    ]


class Autocorrelation(Struct, frozen=True, kw_only=True):
    """Of the rest, from step to step within a rank; only pairs of adjacent steps count."""

    lag_1: Estimate | None
    num_pairs: int
    lags: list[float | None]


class SpikesFound(Struct, frozen=True, kw_only=True):
    """Rare single steps in which a rank takes much longer."""

    probability: Estimate
    slowdown: Estimate
    num_spikes: int


class HiddenShare(Struct, frozen=True, kw_only=True):
    """Share of communication hidden behind compute, as bounds: what is known lies inside."""

    low: float
    high: float
    naive_ratio: Annotated[
        float | None,
        Meta(description="Overlap by communication time of all ranks, wait included: misleading."),
    ]


class Experiment(Struct, frozen=True, kw_only=True):
    """A measurement that would settle what the timings do not tell."""

    name: Literal[
        "no_sync_run",
        "overlap_off",
        "isolated_collective",
        "synthetic_data",
        "throttled_bandwidth",
        "profile_all_ranks",
        "more_steps",
    ]
    what_to_do: str
    what_it_tells: str


class OverlapAudit(Struct, frozen=True, kw_only=True):
    """Whether computation and communication really overlap.

    `route` is what it rests on: `traces`, `arithmetic` of step times, or `interventions`.
    """

    verdict: Verdict
    route: Literal["traces", "arithmetic", "interventions"]
    hidden_share: HiddenShare
    communication_ms: Annotated[
        Estimate | None, Meta(description="Transfer per step without the wait for late ranks.")
    ]
    wait_ms: Annotated[
        Estimate | None,
        Meta(description="Waiting inside collectives per step, mean over ranks; null if unknown."),
    ]
    exposed_ms: Estimate | None
    num_collectives_per_step: float | None
    reasons: list[str]
    experiments: list[Experiment]


class ProposedValue(Struct, frozen=True, kw_only=True):
    """One value of the proposal, at its path in the scenario."""

    path: str
    value: Any
    low: float | None
    high: float | None
    reason: str


class Unknown(Struct, frozen=True, kw_only=True):
    """A field that these timings do not tell."""

    path: str
    reason: str
    what_to_do: str


class Proposal(Struct, frozen=True, kw_only=True):
    """Scenario parts that were fitted. `overrides` are paths and values for any profile."""

    overrides: dict[str, Any]
    values: list[ProposedValue]
    unknown: list[Unknown]


class CoarseEstimate(Struct, frozen=True, kw_only=True):
    """One reading of step-time quantiles: all of their spread is due to one source."""

    hypothesis: Literal["transient", "common"]
    overrides: dict[str, Any]
    compute_ms: float
    cv: float
    step_mean_ms: float
    gpu_hours_lost: float


class Coarse(Struct, frozen=True, kw_only=True):
    """What step-time p50 and p95 with the number of GPUs leave open: a wide interval."""

    transient_cv: Estimate
    compute_ms: Estimate
    gpu_hours_lost: Estimate
    readings: list[CoarseEstimate]
    unknown: list[Unknown]
    warnings: list[Remark]


class Findings(Struct, frozen=True, kw_only=True):
    """All that one set of observed timings tells."""

    source: Source
    confidence: float
    compute_ms: Annotated[Estimate, Meta(description="Nominal: of ranks that do not stand apart.")]
    load_ms: Annotated[
        Estimate | None,
        Meta(
            description="What a step waits for its data: load and compute of the rank that comes "
            "last less the slowest compute, mean over steps; with a pipeline or a prefetched load "
            "that of the rank that loads longest."
        ),
    ]
    communication_ms: Estimate | None
    step_mean_ms: Annotated[
        Estimate | None, Meta(description="Observed step, or the slowest rank's phases.")
    ]
    as_observed: Annotated[Components, Meta(description="All ranks, outliers among them.")]
    healthy: Annotated[Components, Meta(description="Without the outliers: what is proposed.")]
    outliers: list[Outlier]
    ranks: Annotated[list[RankRow], Meta(description="Slowest first, at most 4 096.")]
    gaps: Gaps
    autocorrelation: Autocorrelation
    family: FamilyChoice
    spikes: SpikesFound | None
    held_out: HeldOut | None
    overlap: OverlapAudit | None
    proposal: Proposal
    warnings: list[Remark]
