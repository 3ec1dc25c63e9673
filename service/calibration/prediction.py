"""What a scenario says of the mean step of one run, and how far chance may move it."""

import math
from collections.abc import Collection
from statistics import NormalDist
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from service.calibration.findings import Findings
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.kernel import evaluate

HOURS_PER_DAY: Final = 24
MOST_DAYS: Final = 3_660
# Of the standard normal law: what lies between its median and its 95 % point, and its 90 % point
P95_DEVIATIONS: Final = 1.6448536269514722
P90_DEVIATIONS: Final = 1.2815515655446004


class Prediction(Struct, frozen=True, kw_only=True):
    """Of one run: its expected step, where it comes from, and the spread between clusters.

    `efficiency_fraction` is without failures, which are in no step: times `step_mean_ms` it is the
    step in which nothing would be lost, whatever the step is. Null is what the model does not tell.
    """

    ideal_step_ms: float
    step_mean_ms: float
    step_mean_p10_ms: Annotated[
        float | None, Meta(description="One cluster in ten has a shorter mean step.")
    ]
    step_mean_p50_ms: Annotated[
        float | None, Meta(description="Every second cluster has a shorter mean step.")
    ]
    step_mean_p90_ms: Annotated[
        float | None, Meta(description="Nine clusters in ten have a shorter mean step.")
    ]
    step_p50_ms: Annotated[float | None, Meta(description="Of one step of a random cluster.")]
    step_p95_ms: Annotated[float | None, Meta(description="Of one step of a random cluster.")]
    load_ms: Annotated[float, Meta(description="What loading makes a step longer by.")]
    slowest_compute_ms: Annotated[
        float, Meta(description="Of the slowest GPU, mean over steps; with a pipeline its pass.")
    ]
    communication_ms: Annotated[float, Meta(description="What it makes a step longer by.")]
    efficiency_fraction: float
    autocorrelation: Annotated[
        float, Meta(description="Of transient variability: steps that are alike tell less.")
    ]
    figures_se_ms: Annotated[
        float | None,
        Meta(
            description="Standard error of the expected step by those of the times that the "
            "profile has from a calibration; null where they come from elsewhere."
        ),
    ] = None

    @property
    def step_sd_ms(self) -> float | None:
        """Standard deviation of one step by its upper quantiles; None where they are not known."""
        if self.step_p50_ms is None or self.step_p95_ms is None:
            return None
        return (self.step_p95_ms - self.step_p50_ms) / P95_DEVIATIONS


def predict(scenario: Scenario, *, hours: float) -> Prediction:
    """The mean step of a run of so many hours of wall-clock time, by the model.

    Failures are left out: they stop a job between steps. The window is that of the run, in whole
    days, since episodes average out over it; where it is shorter than a day and episodes last,
    the spread is not known.
    """
    days = min(max(math.ceil(hours / HOURS_PER_DAY), 1), MOST_DAYS)
    of_run = replace(scenario, failures=None, period_days=days, total_steps=None)
    columns = evaluate(columns_of(of_run), with_causes=False).columns
    found = {name: float(column[0]) for name, column in columns.items()}
    low, middle, high = _spread(scenario, found, hours)
    return Prediction(
        ideal_step_ms=found["ideal_step_ms"],
        step_mean_ms=found["step_mean_ms"],
        step_mean_p10_ms=low,
        step_mean_p50_ms=middle,
        step_mean_p90_ms=high,
        step_p50_ms=_known(found["step_p50_ms"]),
        step_p95_ms=_known(found["step_p95_ms"]),
        load_ms=found["exposed_load_ms"],
        slowest_compute_ms=found["slowest_compute_mean_ms"],
        communication_ms=found["exposed_communication_ms"],
        efficiency_fraction=found["efficiency_fraction"],
        autocorrelation=scenario.variability.autocorrelation,
    )


def figures_error_of(
    found: Findings, taken: Collection[str], predicted: Prediction
) -> float | None:
    """Standard error of the expected step in ms, of the proposed values at the paths `taken`.

    The slowest compute is off by as large a fraction as the nominal one. None where neither that
    nor another time was taken. An interval is about as wide as that of a normal law: that of so
    few steps is wider, so the error is rather too large.
    """
    reach = 2 * NormalDist().inv_cdf((1 + found.confidence) / 2)
    errors = []
    for value in found.proposal.values:
        if value.path not in taken or value.low is None or value.high is None:
            continue
        error = (value.high - value.low) / reach
        if value.path == "compute_ms":
            errors.append(error / value.value * predicted.slowest_compute_ms)
        elif (value.path == "load_ms" and predicted.load_ms > 0) or value.path == "communication":
            errors.append(error)
    return math.hypot(*errors) if errors else None


def _spread(
    scenario: Scenario, found: dict[str, float], hours: float
) -> tuple[float | None, float | None, float | None]:
    """p10, p50 and p90 of the mean step over clusters, in ms.

    Efficiency times step is the same for all clusters, so that quantiles of the one are those of
    the other: the least efficient clusters have the longest steps.
    """
    variability = scenario.variability
    sources = (variability.persistent, variability.node, variability.episodes)
    is_placed = scenario.pipeline is not None and bool(scenario.slow_groups)
    if not is_placed and all(source is None for source in sources):
        return (found["step_mean_ms"],) * 3
    if variability.episodes is not None and hours < HOURS_PER_DAY:
        return None, None, None
    whole = found["efficiency_fraction"] * found["step_mean_ms"]
    low, middle, high = (
        _known(whole / found[f"efficiency_fraction_{name}"]) for name in ("p90", "p50", "p10")
    )
    return low, middle, high


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None
