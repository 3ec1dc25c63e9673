"""Predicted against observed: whether a run's mean step is what its profile says.

Two things make a run differ from a right model: its own steps (the standard error of their mean),
and the luck of the cluster that it ran on, which the profile itself admits (the spread between
clusters). The rule:

- `parted`: the ratio observed / predicted is off by more than the tolerance, and the observed mean
  lies outside the interval in which 99 % of such runs of such clusters lie;
- `agrees`: the ratio is within the tolerance for sure: with the standard error on top, at 95 %;
- `cannot_tell`: neither. More steps, or what the model does not know, would tell.
"""

import math
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from service.calibration.prediction import P90_DEVIATIONS, P95_DEVIATIONS, Prediction

Verdict = Literal["agrees", "parted", "cannot_tell"]
Component = Literal["load", "slowest_compute", "communication"]
ErrorSource = Literal["calibration", "step_sd", "step_quantiles", "model"]
Place = Literal["below_p10", "p10_to_p90", "above_p90"]
Ms = Annotated[float, Meta(gt=0, le=1e12)]
Phase = Annotated[float, Meta(ge=0, le=1e12)]

# Two-sided, 1 %
CHANCE_DEVIATIONS: Final = 2.5758293035489004
MS_PER_HOUR: Final = 3_600_000
# Of a logarithm of widths: below it both sides are alike
EVEN: Final = 1e-9


class Observed(Struct, frozen=True, kw_only=True):
    """What is known of the steps of a run; `step_mean_se_ms` only where somebody has found it."""

    num_gpus: int
    num_steps: int
    step_mean_ms: float
    step_mean_se_ms: float | None = None
    step_sd_ms: float | None = None
    step_p50_ms: float | None = None
    step_p95_ms: float | None = None
    gpu_hours: float | None = None
    load_ms: float | None = None
    slowest_compute_ms: float | None = None
    communication_ms: float | None = None


class ComponentRow(Struct, frozen=True, kw_only=True):
    """A part of the step: predicted, observed, and what would explain the whole difference."""

    component: Component
    predicted_ms: float
    observed_ms: Annotated[float | None, Meta(description="Null unless it was sent or found.")]
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
        float | None, Meta(description="99 % of such runs lie between this and the next.")
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


def compare(observed: Observed, predicted: Prediction, *, tolerance_fraction: float) -> Comparison:
    """Hold the run against its prediction; the tolerance is a fraction of the predicted step."""
    difference = observed.step_mean_ms - predicted.step_mean_ms
    ratio = observed.step_mean_ms / predicted.step_mean_ms
    error, source = _standard_error(observed, predicted)
    low, high = _chance(predicted, error)
    verdict = _verdict(observed, predicted, error, (low, high), tolerance_fraction)
    components = _components(observed, predicted, difference)
    return Comparison(
        verdict=verdict,
        reasons=_reasons(verdict, observed, predicted, error, (low, high), tolerance_fraction),
        ratio=ratio,
        log_ratio=math.log(ratio),
        difference_ms=difference,
        step_mean_se_ms=error,
        step_mean_se_source=source,
        place=_place(observed, predicted),
        deviations=_deviations(observed, predicted, (low, high)),
        chance_low_ms=low,
        chance_high_ms=high,
        departure=_departure(ratio, predicted, (low, high), tolerance_fraction),
        components=components,
        explained_by=_explained_by(components, difference),
        losses=_losses(observed, predicted),
    )


def _standard_error(
    observed: Observed, predicted: Prediction
) -> tuple[float | None, ErrorSource | None]:
    """Of the observed mean, in ms.

    From the deviation of single steps as if they were independent; with autocorrelation phi at most
    sqrt((1 + phi) / (1 - phi)) times as much (that of one GPU; of the slowest of many it is less).
    """
    if observed.step_mean_se_ms is not None:
        return observed.step_mean_se_ms, "calibration"
    phi = predicted.autocorrelation
    per_step = math.sqrt(max(1.0, (1 + phi) / (1 - phi)) / observed.num_steps)
    if observed.step_sd_ms is not None:
        return observed.step_sd_ms * per_step, "step_sd"
    if observed.step_p50_ms is not None and observed.step_p95_ms is not None:
        sd = (observed.step_p95_ms - observed.step_p50_ms) / P95_DEVIATIONS
        return sd * per_step, "step_quantiles"
    if predicted.step_sd_ms is None:
        return None, None
    return predicted.step_sd_ms * per_step, "model"


def _chance(predicted: Prediction, error: float | None) -> tuple[float | None, float | None]:
    """Ends of the interval that holds 99 % of such runs, in ms; None where it is not known.

    Either end is as far from the clusters' median as both lucks together put it: that of the
    cluster, by the law below, and that of the steps.
    """
    low, middle, high = (
        predicted.step_mean_p10_ms,
        predicted.step_mean_p50_ms,
        predicted.step_mean_p90_ms,
    )
    if low is None or middle is None or high is None or error is None:
        return None, None
    by_steps = CHANCE_DEVIATIONS * error
    return (
        middle - math.hypot(_beyond(middle - low, high - middle), by_steps),
        middle + math.hypot(_beyond(high - middle, middle - low), by_steps),
    )


def _beyond(near: float, far: float) -> float:
    """From the median to the 0.5 % point on the side whose 10 % point is `near` from it.

    Of the shifted lognormal law with these three quantiles, in ms; `far` is the 10 % point of the
    other side. Means of slowest GPUs are skewed: of a Gumbel law the upper point is 1 % short of
    the exact one, where two halves of normal laws would be 23 % short. Normal where it is even, and
    where one of the sides has no width.
    """
    ratio = CHANCE_DEVIATIONS / P90_DEVIATIONS
    if min(near, far) <= 0:
        return max(near, 0.0) * ratio
    skew = math.log(near / far)
    if abs(skew) < EVEN:
        return near * ratio
    return near * math.expm1(skew * ratio) / math.expm1(skew)


def _deviations(
    observed: Observed, predicted: Prediction, chance: tuple[float | None, float | None]
) -> float | None:
    middle, (low, high) = predicted.step_mean_p50_ms, chance
    if middle is None or low is None or high is None:
        return None
    off = observed.step_mean_ms - middle
    width = high - middle if off > 0 else middle - low
    return CHANCE_DEVIATIONS * off / width if width > 0 else None


def _departure(
    ratio: float,
    predicted: Prediction,
    chance: tuple[float | None, float | None],
    tolerance_fraction: float,
) -> float | None:
    low, high = chance
    if low is None or high is None:
        return None
    step = predicted.step_mean_ms
    by_chance = high / step - 1 if ratio > 1 else 1 - low / step
    return (ratio - 1) / max(tolerance_fraction, by_chance)


def _verdict(
    observed: Observed,
    predicted: Prediction,
    error: float | None,
    chance: tuple[float | None, float | None],
    tolerance_fraction: float,
) -> Verdict:
    step = predicted.step_mean_ms
    off = abs(observed.step_mean_ms / step - 1)
    if off > tolerance_fraction:
        low, high = chance
        if low is None or high is None:
            return "cannot_tell"
        return "cannot_tell" if low <= observed.step_mean_ms <= high else "parted"
    if error is None or off + P95_DEVIATIONS * error / step > tolerance_fraction:
        return "cannot_tell"
    return "agrees"


def _place(observed: Observed, predicted: Prediction) -> Place | None:
    low, high = predicted.step_mean_p10_ms, predicted.step_mean_p90_ms
    if low is None or high is None:
        return None
    if observed.step_mean_ms < low:
        return "below_p10"
    return "above_p90" if observed.step_mean_ms > high else "p10_to_p90"


def _components(observed: Observed, predicted: Prediction, difference: float) -> list[ComponentRow]:
    parts: tuple[tuple[Component, float, float | None], ...] = (
        ("load", predicted.load_ms, observed.load_ms),
        ("slowest_compute", predicted.slowest_compute_ms, observed.slowest_compute_ms),
        ("communication", predicted.communication_ms, observed.communication_ms),
    )
    return [
        ComponentRow(
            component=name,
            predicted_ms=expected,
            observed_ms=found,
            needed_ms=expected + difference if expected + difference >= 0 else None,
        )
        for name, expected, found in parts
    ]


def _explained_by(components: list[ComponentRow], difference: float) -> Component | None:
    """The component that moved most in the direction of the step, if by half of it or more."""
    if difference == 0:
        return None
    shares = {
        row.component: (row.observed_ms - row.predicted_ms) / difference
        for row in components
        if row.observed_ms is not None
    }
    most = max(shares, key=shares.__getitem__, default=None)
    return most if most is not None and shares[most] >= 1 / 2 else None


def _losses(observed: Observed, predicted: Prediction) -> Losses:
    """Over the run's own GPU-hours: as told, or those of its steps alone."""
    of_steps = observed.num_gpus * observed.num_steps * observed.step_mean_ms / MS_PER_HOUR
    held = of_steps if observed.gpu_hours is None else observed.gpu_hours
    whole = predicted.efficiency_fraction * predicted.step_mean_ms

    def lost(step_ms: float | None) -> float | None:
        return None if step_ms is None else held * (1 - whole / step_ms)

    return Losses(
        gpu_hours=held,
        observed_gpu_hours_lost=held * (1 - whole / observed.step_mean_ms),
        predicted_gpu_hours_lost=held * (1 - predicted.efficiency_fraction),
        predicted_gpu_hours_lost_p10=lost(predicted.step_mean_p10_ms),
        predicted_gpu_hours_lost_p50=lost(predicted.step_mean_p50_ms),
        predicted_gpu_hours_lost_p90=lost(predicted.step_mean_p90_ms),
        observed_efficiency_fraction=whole / observed.step_mean_ms,
        predicted_efficiency_fraction=predicted.efficiency_fraction,
    )


def _reasons(
    verdict: Verdict,
    observed: Observed,
    predicted: Prediction,
    error: float | None,
    chance: tuple[float | None, float | None],
    tolerance_fraction: float,
) -> list[str]:
    """Sentences with the values and the rule."""
    step = predicted.step_mean_ms
    off = observed.step_mean_ms / step - 1
    way = "longer" if off > 0 else "shorter"
    first = (
        f"the mean step is {_shown(observed.step_mean_ms)} ms, {abs(off):.2%} {way} than the "
        f"predicted {_shown(step)} ms; the tolerance is {tolerance_fraction:.1%}"
    )
    found = [first]
    low, high = chance
    if low is None or high is None:
        found.append(_unknown(error))
    else:
        where = "inside" if low <= observed.step_mean_ms <= high else "outside"
        found.append(
            f"it lies {where} the {_shown(low)} to {_shown(high)} ms in which 99 % of such runs of "
            "such clusters lie"
        )
    if verdict == "cannot_tell" and abs(off) <= tolerance_fraction and error is not None:
        found.append(
            f"the standard error of the mean is {_shown(error)} ms: with {P95_DEVIATIONS:.3f} of "
            "it the step may be beyond the tolerance; more steps tell more"
        )
    return found


def _unknown(error: float | None) -> str:
    if error is None:
        return (
            "how much single steps vary is known neither of the run nor by the model: send "
            "step_sd_ms"
        )
    return (
        "how far clusters differ is not known by the model for this scenario, or for a run with "
        "episodes that is shorter than a day"
    )


def _shown(ms: float) -> str:
    return f"{ms:.6g}"
