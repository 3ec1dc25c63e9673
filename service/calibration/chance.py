"""What chance does to the mean step of a run: its own steps, and the luck of its cluster."""

import math
from typing import Final, NamedTuple

from service.calibration.prediction import P90_DEVIATIONS, P95_DEVIATIONS, Prediction
from service.calibration.run_comparison import ErrorSource, Observed

# Two-sided, 1 %
CHANCE_DEVIATIONS: Final = 2.5758293035489004
# Of a logarithm of widths: below it both sides are alike
EVEN: Final = 1e-9


class Interval(NamedTuple):
    """Where 99 % of the runs lie whose profile is exact, in ms."""

    low: float
    high: float

    def holds(self, step_ms: float) -> bool:
        """Whether the mean step lies in it, ends included."""
        return self.low <= step_ms <= self.high


def standard_error(
    observed: Observed, predicted: Prediction
) -> tuple[float | None, ErrorSource | None]:
    """Of the observed mean, in ms.

    From the deviation of single steps as if they were independent; with autocorrelation phi at most
    sqrt((1 + phi) / (1 - phi)) times as much (that of one GPU; of the slowest of many it is less).
    Phi is the larger of the profile's, which is that of each GPU alone, and of that of whole steps
    in the run that the profile was calibrated from, which holds what all GPUs share.
    """
    if observed.step_mean_se_ms is not None:
        return observed.step_mean_se_ms, "calibration"
    phi = max(predicted.autocorrelation, observed.step_autocorrelation or 0.0)
    per_step = math.sqrt(max(1.0, (1 + phi) / (1 - phi)) / observed.num_steps)
    if observed.step_sd_ms is not None:
        return observed.step_sd_ms * per_step, "step_sd"
    if observed.step_p50_ms is not None and observed.step_p95_ms is not None:
        sd = (observed.step_p95_ms - observed.step_p50_ms) / P95_DEVIATIONS
        return sd * per_step, "step_quantiles"
    if predicted.step_sd_ms is None:
        return None, None
    return predicted.step_sd_ms * per_step, "model"


def chance_of(predicted: Prediction, error: float | None) -> Interval | None:
    """The interval that holds 99 % of such runs of an exact profile; None where it is not known.

    Either end is as far from the clusters' median as both lucks together put it: that of the
    cluster, by the law below, and that of the steps; with the latter the error of the profile's own
    figures, where it is known.
    """
    low, middle, high = (
        predicted.step_mean_p10_ms,
        predicted.step_mean_p50_ms,
        predicted.step_mean_p90_ms,
    )
    if low is None or middle is None or high is None or error is None:
        return None
    by_steps = CHANCE_DEVIATIONS * math.hypot(error, predicted.figures_se_ms or 0.0)
    return Interval(
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


def deviations_of(step_ms: float, predicted: Prediction, chance: Interval | None) -> float | None:
    """How far off the clusters' median, in standard deviations of chance; None without any."""
    middle = predicted.step_mean_p50_ms
    if middle is None or chance is None:
        return None
    off = step_ms - middle
    width = chance.high - middle if off > 0 else middle - chance.low
    return CHANCE_DEVIATIONS * off / width if width > 0 else None


def departure_of(
    step_ms: float, predicted: Prediction, chance: Interval | None, tolerance_fraction: float
) -> float | None:
    """How far the ratio is off 1, in units of the larger of the tolerance and what chance explains.

    Beyond 1 in size the run has parted.
    """
    if chance is None:
        return None
    step = predicted.step_mean_ms
    by_chance = chance.high / step - 1 if step_ms > step else 1 - chance.low / step
    return (step_ms / step - 1) / max(tolerance_fraction, by_chance)
