"""What an evaluation answers beside the results when it is asked to."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.jobs.batch_documents import Notice
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.pipeline_stages import nominal_stages
from service.model.problems import Problem
from service.model.questions.sensitivity import SHARE, Moved, sensitivity
from service.model.questions.tail_choice import tail_choices
from service.model.rank_counts import independent_ranks

MAX_END = 1e15
MAX_INTERVALS = 64
_End = Annotated[float, Meta(ge=0, le=MAX_END)]

SHARED_BY = {
    "transient": "one GPU",
    "persistent": "one GPU",
    "node": "the GPUs of a node",
    "replica": "the GPUs of a data-parallel replica",
    "common": "all GPUs",
    "spikes": "one GPU",
    "episodes": "one GPU",
    "per_op_jitter": "one operation of one GPU",
}
_REPLACING = "eviction, spares, faster detection"
REMOVED_BY = {
    "transient": "local steps, staleness, backup workers",
    "persistent": _REPLACING,
    "node": f"{_REPLACING}, per node",
    "replica": "balancing the data",
    "common": None,
    "spikes": "removing the cause",
    "episodes": "faster detection: shorter hours",
    "per_op_jitter": "steadier operations",
}
# Design page "The model", section 3: what is drawn once per cluster does not average out.
SHRINKS: dict[str, Literal["no", "with_steps", "with_episodes"]] = {
    "transient": "with_steps",
    "persistent": "no",
    "node": "no",
    "replica": "with_steps",
    "common": "with_steps",
    "spikes": "with_steps",
    "episodes": "with_episodes",
    "per_op_jitter": "with_steps",
}


class PipelineStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a replica's pipeline, in a pass at nominal speed."""

    stage: int
    forward_ms: Annotated[float, Meta(description="Of a micro-batch, all chunks of the stage.")]
    backward_ms: Annotated[float, Meta(description="Likewise.")]
    busy_ms: float
    idle_ms: float
    peak_microbatches_in_flight: Annotated[
        float,
        Meta(description="Micro-batches whose activations it holds at once, 1/V for each chunk."),
    ]


class SensitivityIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far each input is moved."""

    share: Annotated[
        float,
        Meta(gt=0, lt=1, description="Of the input's value, down and up; 0.1 is 10 %."),
    ] = SHARE
    intervals: Annotated[
        dict[
            Annotated[str, Meta(min_length=1, max_length=100)],
            Annotated[list[_End], Meta(min_length=2, max_length=2)],
        ],
        Meta(
            max_length=MAX_INTERVALS,
            description="Paths and the two ends between which the input is moved instead.",
            examples=[{"variability.transient.cv": [0.005, 0.05]}],
        ),
    ] = {}


class MovedOut(msgspec.Struct, frozen=True, kw_only=True):
    """One end: the value, and the loss there; null where a rule is broken, with the reason."""

    value: int | float
    gpu_hours_lost: float | None
    reason: Notice | None


class SensitivityRow(msgspec.Struct, frozen=True, kw_only=True):
    """One input, alone moved to either end; null where it has no lower or higher value."""

    path: str
    value: int | float
    low: MovedOut | None
    high: MovedOut | None
    gpu_hours_change: Annotated[
        float, Meta(description="The greatest distance from the scenario's loss, of either end.")
    ]
    elasticity: Annotated[
        float | None,
        Meta(
            description="Relative change of the loss over that of the input, between the ends; "
            "null where either is 0."
        ),
    ]


class UnmovedOut(msgspec.Struct, frozen=True, kw_only=True):
    """An input that could not be moved, and why."""

    path: str
    value: int | float | str
    code: str
    detail: str


class SensitivityOut(msgspec.Struct, frozen=True, kw_only=True):
    """By falling `gpu_hours_change`."""

    gpu_hours_lost: float
    inputs: list[SensitivityRow]
    unmoved: list[UnmovedOut]


class FamilyLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What is lost under one family; null where a rule refuses it, with the reason."""

    family: str
    gpu_hours_lost: float | None
    step_mean_ms: float | None
    reason: Notice | None


class ModelSpread(msgspec.Struct, frozen=True, kw_only=True):
    """The scenario with all its random sources of one family, at the same cv.

    `replaced` and `kept` are the sources with and without a cv.
    """

    families: list[FamilyLoss]
    lowest: float | None
    highest: float | None
    replaced: list[str]
    kept: list[str]


class IndependentRanks(msgspec.Struct, frozen=True, kw_only=True):
    """Of one source of variability: how many draws of it are independent, and what follows."""

    source: str
    independent_ranks: Annotated[
        int, Meta(description="Fewer than GPUs where groups of them move as one.")
    ]
    shared_by: Annotated[str, Meta(description="Who has one draw in common.")]
    shrinks_over_window: Annotated[
        Literal["no", "with_steps", "with_episodes"],
        Meta(
            description="Whether its part of the loss averages out over the window, and with what."
        ),
    ]
    removed_by: Annotated[
        str | None, Meta(description="Null: it costs nothing on average where all wait.")
    ]


def sensitivity_of(scenario: Scenario, asked: SensitivityIn) -> SensitivityOut:
    """Raises InvalidScenario with pointers `/intervals/…`."""
    intervals = {path: (low, high) for path, (low, high) in asked.intervals.items()}
    found = sensitivity(scenario, intervals, share=asked.share)
    return SensitivityOut(
        gpu_hours_lost=found.lost,
        inputs=[
            SensitivityRow(
                path=row.path,
                value=row.value,
                low=_end(row.low),
                high=_end(row.high),
                gpu_hours_change=row.change,
                elasticity=_finite(row.elasticity),
            )
            for row in found.moved
        ],
        unmoved=[
            UnmovedOut(path=part.path, value=part.value, code=part.code, detail=part.detail)
            for part in found.unmoved
        ],
    )


def model_spread_of(scenario: Scenario) -> ModelSpread:
    """The loss under normal, lognormal and gamma sources."""
    found = tail_choices(scenario)
    return ModelSpread(
        families=[
            FamilyLoss(
                family=choice.family,
                gpu_hours_lost=_finite(choice.lost),
                step_mean_ms=_finite(choice.step_mean_ms),
                reason=_notice(choice.reason),
            )
            for choice in found.families
        ],
        lowest=_finite(found.lowest),
        highest=_finite(found.highest),
        replaced=list(found.replaced),
        kept=list(found.kept),
    )


def independent_ranks_of(scenario: Scenario) -> list[IndependentRanks]:
    """Of each source that the scenario has."""
    counts: Mapping[str, Any] = independent_ranks(columns_of(scenario))
    return [
        IndependentRanks(
            source=source,
            independent_ranks=int(ranks[0]),
            shared_by=SHARED_BY[source],
            shrinks_over_window=SHRINKS[source],
            removed_by=REMOVED_BY[source],
        )
        for source, ranks in counts.items()
        if not math.isnan(ranks[0])
    ]


def pipeline_stages_of(scenario: Scenario) -> list[PipelineStage] | None:
    """Of each stage; None without a pipeline."""
    if scenario.pipeline is None:
        return None
    found = nominal_stages(columns_of(scenario))
    return [
        PipelineStage(
            stage=stage,
            forward_ms=forward,
            backward_ms=backward,
            busy_ms=busy,
            idle_ms=idle,
            peak_microbatches_in_flight=peak,
        )
        for stage, (forward, backward, busy, idle, peak) in enumerate(
            zip(*(part.tolist() for part in found), strict=True)
        )
    ]


def _end(end: Moved | None) -> MovedOut | None:
    if end is None:
        return None
    return MovedOut(value=end.value, gpu_hours_lost=_finite(end.lost), reason=_notice(end.reason))


def _notice(problem: Problem | None) -> Notice | None:
    if problem is None:
        return None
    return Notice(pointer=problem.pointer, code=problem.code, detail=problem.detail)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
