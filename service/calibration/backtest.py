"""Predicted against observed: whether a run's mean step is what its profile says.

Two things make a run differ from a right model: its own steps (the standard error of their mean),
and the luck of the cluster that it ran on, which the profile itself admits (the spread between
clusters). The rule:

- `parted`: the ratio observed / predicted is off by more than the tolerance, and the observed mean
  lies outside the interval in which 99 % of such runs of such clusters lie. It holds the error of
  times that come from a calibration, but not that of spreads, nor of figures written by hand: those
  are taken as exact, and the tolerance is for that;
- `agrees`: the ratio is within the tolerance for sure: with the standard error on top, at 95 %;
- `cannot_tell`: neither. More steps, or what the model does not know, would tell.
"""

import math
from typing import Final

from service.calibration.chance import (
    Interval,
    chance_of,
    departure_of,
    deviations_of,
    standard_error,
)
from service.calibration.prediction import P95_DEVIATIONS, Prediction
from service.calibration.run_comparison import (
    Comparison,
    Component,
    ComponentRow,
    ErrorSource,
    Losses,
    Observed,
    Place,
    Verdict,
)

MS_PER_HOUR: Final = 3_600_000


def compare(observed: Observed, predicted: Prediction, *, tolerance_fraction: float) -> Comparison:
    """Hold the run against its prediction; the tolerance is a fraction of the predicted step."""
    difference = observed.step_mean_ms - predicted.step_mean_ms
    ratio = observed.step_mean_ms / predicted.step_mean_ms
    error, source = standard_error(observed, predicted)
    chance = chance_of(predicted, error)
    verdict = _verdict(observed, predicted, error, chance, tolerance_fraction)
    components = _components(observed, predicted, difference)
    return Comparison(
        verdict=verdict,
        reasons=_reasons(verdict, observed, predicted, (error, source), chance, tolerance_fraction),
        ratio=ratio,
        log_ratio=math.log(ratio),
        difference_ms=difference,
        step_mean_se_ms=error,
        step_mean_se_source=source,
        place=_place(observed, predicted),
        deviations=deviations_of(observed.step_mean_ms, predicted, chance),
        chance_low_ms=None if chance is None else chance.low,
        chance_high_ms=None if chance is None else chance.high,
        departure=departure_of(observed.step_mean_ms, predicted, chance, tolerance_fraction),
        components=components,
        explained_by=_explained_by(components, difference),
        losses=_losses(observed, predicted),
    )


def _verdict(
    observed: Observed,
    predicted: Prediction,
    error: float | None,
    chance: Interval | None,
    tolerance_fraction: float,
) -> Verdict:
    step = predicted.step_mean_ms
    off = abs(observed.step_mean_ms / step - 1)
    if off > tolerance_fraction:
        if chance is None or chance.holds(observed.step_mean_ms):
            return "cannot_tell"
        return "parted"
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
    known: tuple[float | None, ErrorSource | None],
    chance: Interval | None,
    tolerance_fraction: float,
) -> list[str]:
    """Sentences with the values and the rule; of the standard error that is `known`."""
    error, source = known
    step = predicted.step_mean_ms
    off = observed.step_mean_ms / step - 1
    way = "longer" if off > 0 else "shorter"
    first = (
        f"the mean step is {_shown(observed.step_mean_ms)} ms, {abs(off):.2%} {way} than the "
        f"predicted {_shown(step)} ms; the tolerance is {tolerance_fraction:.1%}"
    )
    found = [first]
    if chance is None:
        found.append(_unknown(error))
    else:
        where = "inside" if chance.holds(observed.step_mean_ms) else "outside"
        figures = predicted.figures_se_ms
        exactly = (
            "would lie if the profile's figures were exact"
            if figures is None
            else f"lie, with the standard error of {_shown(figures)} ms of the calibrated times, "
            "if spreads and slow GPUs are as they were found"
        )
        found.append(
            f"it lies {where} the {_shown(chance.low)} to {_shown(chance.high)} ms in which 99 % "
            f"of such runs of such clusters {exactly}"
        )
    if verdict == "parted" and source != "calibration" and observed.step_autocorrelation is None:
        found.append(
            "how alike neighbouring steps are was not recorded: beyond what the profile says of "
            "single GPUs they are taken as independent, and if they are not, more is chance"
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
