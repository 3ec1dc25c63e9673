"""What a caller sends to have remedies ranked, and what it gets back."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from service.jobs.batch_documents import (
    Notice,
    Overrides,
    ProfileReference,
    RemedyRequests,
    ScenarioObject,
)
from service.jobs.evaluation_prices import EvaluationRateDays
from service.jobs.output_columns import ResultColumns
from service.jobs.typed_prices import TypedPriceIn
from service.model.remedy.remedy_kinds import Kind, NotApplicable, Setting
from service.reports.money import CostStatus, Money


class RemediesIn(TypedPriceIn, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario, inline or of a profile, and what to try against its loss."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = msgspec.field(default_factory=dict)
    remedies: RemedyRequests = msgspec.field(default_factory=list)


GpuHours = Annotated[float, Meta(description="GPU-hours over the window.")]


class RemedyOut(Struct, frozen=True, kw_only=True):
    """One remedy: a whole evaluation of the scenario with `overrides`, against that without."""

    kind: Kind
    setting: Annotated[
        Setting | None,
        Meta(
            description="How much of it: `count`, `mean_hours`, `hours_fraction`, `cv_fraction`, "
            "`num_buckets`, `steps`, `compression_ratio`, `microbatch_factor`, `microbatches`, "
            "`chunks_per_stage`, `schedule`, `stages`, and what else the request gave."
        ),
    ]
    count: Annotated[
        int,
        Meta(
            description="Units of the remedy: GPUs replaced, evicted, standing by or not waited "
            "for (of pipelines whole replicas); 1 where it is one measure for the whole job."
        ),
    ]
    overrides: Overrides
    gpu_hours_given_back: Annotated[
        float,
        Meta(
            description="Lost before less lost after, where lost is held less effective: what the "
            "remedy itself holds is paid from it. Negative where it does not pay."
        ),
    ]
    gpu_hours_given_back_se: Annotated[
        float, Meta(description="Standard error by sampling, at most; 0 where exact.")
    ]
    gpu_hours_held_change: GpuHours
    gpu_hours_effective_change: Annotated[
        float, Meta(description="Of GPU-hours at the original ideal step, over the window.")
    ]
    gpu_hours_saved_for_equal_work: Annotated[
        float,
        Meta(
            description="What the work of the window would no longer hold: at most all of it. "
            "Where steps become much faster, given_back counts all that could be done beside it."
        ),
    ]
    step_mean_ms_after: float
    efficiency_fraction_after: Annotated[
        float, Meta(description="Effective over held, at the original ideal step.")
    ]
    useful_compute_fraction_after: Annotated[
        float,
        Meta(
            description="Nominal compute over the expected step: does not count an exchange every "
            "step as work, unlike the ideal step of the efficiency."
        ),
    ]
    break_even_extra_steps_fraction: Annotated[
        float | None,
        Meta(
            description="What steps gain in speed by waiting less often: with more extra steps "
            "than this for the same progress the remedy does not pay. Null where every step waits. "
            "No penalty is built in, because none is universal."
        ),
    ]
    break_even_gpu_hours: Annotated[
        float,
        Meta(
            description="Given back by each unit before GPU-hours that the remedy holds itself: "
            "above it a unit is too dear. A hot spare holds 24 a day."
        ),
    ]
    peak_microbatches_in_flight_before: Annotated[
        float | None,
        Meta(
            description="Of a remedy that does the same job in another pipeline: micro-batches "
            "whose activations a stage holds at once, at the stage with most. Null for others."
        ),
    ]
    peak_microbatches_in_flight_after: Annotated[
        float | None, Meta(description="Likewise; micro-batches may be of another size.")
    ]
    activation_ratio: Annotated[
        float | None,
        Meta(
            description="Likewise activations of a GPU after over before: micro-batches in flight "
            "x layers of a stage x samples of a micro-batch."
        ),
    ]
    parameter_ratio: Annotated[
        float | None, Meta(description="Likewise parameters of a GPU after over before.")
    ]
    money_given_back: Annotated[
        Money | None, Meta(description="What is given back costs so much over the window.")
    ]
    money_saved_for_equal_work: Annotated[
        Money | None, Meta(description="What is saved for the same work costs so much.")
    ]
    break_even_price: Annotated[
        Money | None, Meta(description="Most that a unit may cost over the window.")
    ]


class RemediesOut(Struct, frozen=True, kw_only=True):
    """The scenario as it is, and what can be done, by GPU-hours given back."""

    result: ResultColumns
    remedies: list[RemedyOut]
    not_applicable: Annotated[
        list[NotApplicable], Meta(description="Remedies left out, and why each does not apply.")
    ]
    cost_status: CostStatus
    rates: list[EvaluationRateDays]
    unpriced_days: int | None
    warnings: list[Notice]
    model_version: str
    scenario: Annotated[
        ScenarioObject, Meta(description="The scenario as computed, every default written out.")
    ]
