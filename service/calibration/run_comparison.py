"""What is known of a run, and what comes of holding it against its prediction."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Verdict = Literal["agrees", "parted", "cannot_tell"]
Component = Literal["load", "slowest_compute", "communication"]
ErrorSource = Literal["calibration", "step_sd", "step_quantiles", "model"]
Place = Literal["below_p10", "p10_to_p90", "above_p90"]
Ms = Annotated[float, Meta(gt=0, le=1e12)]
Phase = Annotated[float, Meta(ge=0, le=1e12)]


class Observed(Struct, frozen=True, kw_only=True):
    """What is known of the steps of a run; `step_mean_se_ms` only where somebody has found it.

    `step_autocorrelation` is that of the run that the profile was calibrated from.
    """

    num_gpus: int
    num_steps: int
    step_mean_ms: float
    step_mean_se_ms: float | None = None
    step_sd_ms: float | None = None
    step_p50_ms: float | None = None
    step_p95_ms: float | None = None
    step_autocorrelation: float | None = None
    gpu_hours: float | None = None
    load_ms: float | None = None
    slowest_compute_ms: float | None = None
    communication_ms: float | None = None


class ComponentRow(Struct, frozen=True, kw_only=True):
    """A part of the step: predicted, observed, and what would explain the whole difference."""

    component: Component
    predicted_ms: float
    observed_ms: Annotated[
        float | None,
        Meta(description="Null unless it was sent, or found as the quantity that is predicted."),
    ]
    needed_ms: Annotated[
        float | None,
        Meta(
            description="What it would have to be for the model to give the observed step, all "
            "else as predicted; null where that is below nothing."
        ),
    ]


class Losses(Struct, frozen=True, kw_only=True):
    """What the run loses of its own GPU-hours, by the observed and by the predicted step.

    1 - ideal / step of both; the ideal step counts GPUs that a step does not wait for as lost.
    """

    gpu_hours: float
    observed_gpu_hours_lost: float
    predicted_gpu_hours_lost: float
    predicted_gpu_hours_lost_p10: float | None
    predicted_gpu_hours_lost_p50: float | None
    predicted_gpu_hours_lost_p90: float | None
    observed_efficiency_fraction: float
    predicted_efficiency_fraction: float


class Comparison(Struct, frozen=True, kw_only=True):
    """The outcome of a back-test."""

    verdict: Verdict
    reasons: list[str]
    ratio: Annotated[float, Meta(description="Observed mean step over the predicted one.")]
    log_ratio: float
    difference_ms: Annotated[float, Meta(description="Observed less predicted.")]
    step_mean_se_ms: Annotated[
        float | None, Meta(description="Standard error of the observed mean; null if unknown.")
    ]
    step_mean_se_source: ErrorSource | None
    place: Annotated[
        Place | None, Meta(description="Where the observed mean lies among predicted clusters.")
    ]
    deviations: Annotated[
        float | None,
        Meta(
            description="Observed less the predicted median, in standard deviations of chance (of "
            "steps and of clusters): beyond 2.576 in size it lies outside the 99 %."
        ),
    ]
    chance_low_ms: Annotated[
        float | None,
        Meta(
            description="99 % of such runs lie between this and the next, if spreads and what was "
            "written by hand in the profile are exact; times of a calibration have their error."
        ),
    ]
    chance_high_ms: float | None
    departure: Annotated[
        float | None,
        Meta(
            description="How far the ratio is off, with its sign, in units of the larger of the "
            "tolerance and what chance explains: beyond 1 the verdict is `parted`. What the drift "
            "rule adds up."
        ),
    ]
    components: list[ComponentRow]
    explained_by: Annotated[
        Component | None,
        Meta(
            description="The component whose observed value explains at least half of the "
            "difference; null where none does, or none was sent."
        ),
    ]
    losses: Losses
