"""What a caller sends to have pipelines searched, and what it gets back."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from service.jobs.batch_documents import Notice, Overrides, ProfileReference, ScenarioObject
from service.jobs.evaluation_prices import EvaluationRateDays
from service.jobs.output_columns import ResultColumns
from service.jobs.typed_prices import TypedPriceIn
from service.model.parts.pipeline import MAX_CHUNKS, MAX_MICROBATCHES, MAX_STAGES, ScheduleName
from service.model.questions.pipeline_candidates import Keep
from service.reports.money import CostStatus, Money

MAX_LISTED = 64
"""Numbers of a list of candidates."""
MAX_ROWS = 200
MAX_RATIO = 1e9

Stages = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_STAGES)], ...],
    Meta(
        min_length=1,
        max_length=MAX_LISTED,
        description="P to try; default all powers of two that leave whole replicas, and the "
        "scenario's.",
        examples=[[2, 4, 8]],
    ),
]
Microbatches = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_MICROBATCHES)], ...],
    Meta(
        min_length=1,
        max_length=MAX_LISTED,
        description="M to try with each P, as the scenario counts them; the size of a micro-batch "
        "follows. Default: as `keep` says.",
        examples=[[8, 16, 32]],
    ),
]
Chunks = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_CHUNKS)], ...],
    Meta(
        min_length=1,
        max_length=MAX_LISTED,
        description="V to try; default 1, 2, 4 and the scenario's, where a schedule takes them.",
    ),
]
Schedules = Annotated[
    tuple[ScheduleName, ...],
    Meta(min_length=1, max_length=MAX_LISTED, description="Schedules to try; default all."),
]
Most = Annotated[float, Meta(gt=0, le=MAX_RATIO)]


class CandidatesIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pipelines to try, and what a GPU may hold."""

    stages: Stages | None = None
    microbatches: Microbatches | None = None
    chunks_per_stage: Chunks | None = None
    schedules: Schedules | None = None
    keep: (
        Annotated[
            Keep,
            Meta(
                description="What stays where P changes: the size of a micro-batch, so that M goes "
                "with P (default), or M. Not beside `microbatches`."
            ),
        ]
        | None
    ) = None
    max_microbatches_in_flight: (
        Annotated[
            Most,
            Meta(
                description="Most micro-batches whose activations a stage may hold at once, "
                "whatever their size."
            ),
        ]
        | None
    ) = None
    max_activation_ratio: (
        Annotated[
            Most,
            Meta(
                description="Most activations of a GPU, relative to the scenario: micro-batches in "
                "flight x layers of a stage x samples of a micro-batch."
            ),
        ]
        | None
    ) = None
    max_parameter_ratio: (
        Annotated[
            Most,
            Meta(
                description="Most parameters of a GPU, relative to the scenario: 2 with half the "
                "stages. `dualpipe` holds them twice. Default: 1; null: any."
            ),
        ]
        | None
    ) = 1.0
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Rows, the best ones.")] = 20


class PipelineSearchIn(TypedPriceIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario with a pipeline, inline or of a profile, and what to try in its place."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = msgspec.field(default_factory=dict)
    search: Annotated[
        CandidatesIn, Meta(description="What is tried, and within what memory; default: see there.")
    ] = CandidatesIn()


class SizedOut(Struct, frozen=True, kw_only=True):
    """One pipeline: a whole evaluation of the scenario with `overrides`."""

    schedule: ScheduleName
    stages: int
    microbatches: int
    chunks_per_stage: int
    replicas: Annotated[int, Meta(description="Data-parallel copies of the pipeline.")]
    microbatch_size_ratio: Annotated[
        float, Meta(description="Samples of a micro-batch over those in the scenario.")
    ]
    overrides: Overrides
    gpu_hours_lost: Annotated[
        float,
        Meta(description="Over the window, at the ideal step of the scenario as it is."),
    ]
    gpu_hours_lost_se: Annotated[
        float, Meta(description="Standard error by sampling; 0 where exact.")
    ]
    gpu_hours_given_back: Annotated[
        float, Meta(description="Against the scenario as it is; negative where more is lost.")
    ]
    gpu_hours_per_1000_steps: float
    step_mean_ms: float
    efficiency_fraction: Annotated[
        float, Meta(description="At the ideal step of the scenario as it is.")
    ]
    bubble_fraction: float
    busy_gpus_mean: float
    peak_microbatches_in_flight: float
    activation_ratio: Annotated[
        float, Meta(description="Activations of a GPU over those in the scenario.")
    ]
    parameter_ratio: Annotated[
        float, Meta(description="Parameters of a GPU over those in the scenario.")
    ]
    money_lost: Money | None
    money_given_back: Money | None


class LeftOutOut(Struct, frozen=True, kw_only=True):
    """Pipelines that were not evaluated, and why; `detail` is that of the first of them."""

    code: str
    count: int
    detail: str


class PipelineSearchOut(Struct, frozen=True, kw_only=True):
    """The scenario as it is, and the pipelines that do its job, the least lost first."""

    result: ResultColumns
    pipelines: list[SizedOut]
    candidates: Annotated[int, Meta(description="Pipelines that were to be tried.")]
    evaluated: int
    left_out_by_memory: int
    left_out_by_rules: int
    left_out_by_time: Annotated[
        int, Meta(description="The largest ones, where one answer has no time for all.")
    ]
    left_out: list[LeftOutOut]
    cost_status: CostStatus
    rates: list[EvaluationRateDays]
    unpriced_days: int | None
    warnings: list[Notice]
    model_version: str
    scenario: Annotated[
        ScenarioObject, Meta(description="The scenario as computed, every default written out.")
    ]
