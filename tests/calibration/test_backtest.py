"""Verdicts by hand, and the 99 % of chance against brute force."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.special import ndtri

from service.calibration.backtest import compare
from service.calibration.prediction import Prediction
from service.calibration.run_comparison import Comparison, Observed

STEP, IDEAL = 450.0, 405.0
PREDICTED = Prediction(
    ideal_step_ms=IDEAL,
    step_mean_ms=STEP,
    step_mean_p10_ms=STEP,
    step_mean_p50_ms=STEP,
    step_mean_p90_ms=STEP,
    step_p50_ms=STEP,
    step_p95_ms=STEP + 16.448536269514722,
    load_ms=30,
    slowest_compute_ms=340,
    communication_ms=80,
    efficiency_fraction=0.9,
    autocorrelation=0,
)
WIDE = replace(PREDICTED, step_mean_p10_ms=430.0, step_mean_p90_ms=470.0)
UNKNOWN = replace(PREDICTED, step_mean_p10_ms=None, step_mean_p50_ms=None, step_mean_p90_ms=None)


def held(
    step_ms: float, predicted: Prediction = PREDICTED, tolerance: float = 0.05, **more: Any
) -> Comparison:
    observed = Observed(
        **{"num_gpus": 64, "num_steps": 10_000, "step_mean_ms": step_ms, "step_sd_ms": 10.0, **more}
    )
    return compare(observed, predicted, tolerance_fraction=tolerance)


@pytest.mark.parametrize(
    ("step_ms", "predicted", "sd", "verdict"),
    [
        # se 0.1 ms: the tolerance of 22.5 ms decides
        (450, PREDICTED, 10, "agrees"),
        (472, PREDICTED, 10, "agrees"),
        (428, PREDICTED, 10, "agrees"),
        (473, PREDICTED, 10, "parted"),
        (427, PREDICTED, 10, "parted"),
        # within, but 1.645 se of 1 ms are beyond
        (472, PREDICTED, 100, "cannot_tell"),
        # beyond, but within 2.576 se of 10 ms
        (475, PREDICTED, 1_000, "cannot_tell"),
        (476, PREDICTED, 1_000, "parted"),
        # beyond, but clusters differ: 20 ms at 10 % are 40.2 ms at 0.5 %
        (490, WIDE, 10, "cannot_tell"),
        (491, WIDE, 10, "parted"),
        (410, WIDE, 10, "cannot_tell"),
        (409, WIDE, 10, "parted"),
        (460, WIDE, 10, "agrees"),
        # how far clusters differ is not known
        (473, UNKNOWN, 10, "cannot_tell"),
        (460, UNKNOWN, 10, "agrees"),
    ],
)
def test_verdicts(step_ms: float, predicted: Prediction, sd: float, verdict: str) -> None:
    found = held(step_ms, predicted, step_sd_ms=sd)
    assert found.verdict == verdict
    assert len(found.reasons) >= 2
    if found.departure is not None:
        assert (abs(found.departure) > 1) == (verdict == "parted")


@pytest.mark.parametrize(
    ("told", "error", "source"),
    [
        ({"step_mean_se_ms": 0.7}, 0.7, "calibration"),
        ({}, 0.1, "step_sd"),
        (
            {"step_sd_ms": None, "step_p50_ms": 440, "step_p95_ms": 440 + 2 * 16.448536269514722},
            0.2,
            "step_quantiles",
        ),
        ({"step_sd_ms": None, "step_p50_ms": 440}, 0.1, "model"),
    ],
)
def test_the_standard_error_is_the_best_known(
    told: dict[str, Any], error: float, source: str
) -> None:
    found = held(STEP, **told)
    assert found.step_mean_se_ms == pytest.approx(error)
    assert found.step_mean_se_source == source


def test_steps_that_are_alike_tell_less() -> None:
    found = held(STEP, replace(PREDICTED, autocorrelation=0.6))
    assert found.step_mean_se_ms == pytest.approx(0.1 * 2)
    # Steps that alternate are not counted for more than they are
    found = held(STEP, replace(PREDICTED, autocorrelation=-0.6))
    assert found.step_mean_se_ms == pytest.approx(0.1)


def test_steps_that_were_alike_when_the_profile_was_calibrated_tell_less() -> None:
    # (1 + 0.6) / (1 - 0.6) = 2 squared
    assert held(STEP, step_autocorrelation=0.6).step_mean_se_ms == pytest.approx(0.1 * 2)
    both = replace(PREDICTED, autocorrelation=0.6)
    assert held(STEP, both, step_autocorrelation=0.1).step_mean_se_ms == pytest.approx(0.2)
    # 24 ms are beyond 2.576 standard errors of independent steps, and within those of alike ones
    assert held(474, step_sd_ms=500).verdict == "parted"
    assert held(474, step_sd_ms=500, step_autocorrelation=0.6).verdict == "cannot_tell"


def test_calibrated_figures_have_their_error() -> None:
    rough = replace(PREDICTED, figures_se_ms=9.0)
    found = held(473, rough)
    # 9 ms and 0.1 ms together
    assert found.chance_high_ms == pytest.approx(450 + 2.5758293035489004 * math.hypot(9, 0.1))
    assert found.verdict == "cannot_tell"
    assert "the standard error of 9 ms of the calibrated times" in found.reasons[1]
    assert held(474, rough).verdict == "parted"


def test_what_is_not_known_of_a_parted_run_is_said() -> None:
    unknown = held(500).reasons
    assert "if the profile's figures were exact" in unknown[1]
    assert "taken as independent" in unknown[2]
    assert not any("independent" in one for one in held(500, step_autocorrelation=0.0).reasons)
    assert not any("independent" in one for one in held(500, step_mean_se_ms=0.1).reasons)


def test_nobody_knows_how_steps_vary() -> None:
    silent = replace(PREDICTED, step_p50_ms=None, step_p95_ms=None)
    for step_ms in (STEP, 600):
        found = held(step_ms, silent, step_sd_ms=None)
        assert found.verdict == "cannot_tell"
        assert found.step_mean_se_ms is None
        assert found.step_mean_se_source is None
        assert found.chance_low_ms is found.chance_high_ms is None
        assert found.deviations is found.departure is None
        assert "step_sd_ms" in found.reasons[1]
    assert held(600, UNKNOWN).deviations is None
    assert "clusters differ" in held(600, UNKNOWN).reasons[1]


def test_figures_by_hand() -> None:
    found = held(495)
    assert found.ratio == pytest.approx(1.1)
    assert found.log_ratio == pytest.approx(math.log(1.1))
    assert found.difference_ms == pytest.approx(45)
    # All clusters are alike: 45 ms in standard errors of 0.1 ms
    assert found.deviations == pytest.approx(450)
    assert found.chance_high_ms == pytest.approx(450 + 2.5758293035489004 * 0.1)
    assert found.departure == pytest.approx(0.1 / 0.05)
    assert held(405).departure == pytest.approx(-2)
    # 491 of WIDE: what chance explains, 40.2 ms, is more than the tolerance of 22.5
    by_chance = 20 * 2.5758293035489004 / 1.2815515655446004
    assert held(491, WIDE).departure == pytest.approx(41 / by_chance, rel=1e-4)


def test_a_steady_run_of_a_steady_scenario_has_no_deviation() -> None:
    steady = replace(PREDICTED, step_p95_ms=STEP)
    found = held(500, steady, step_sd_ms=0)
    assert (found.verdict, found.deviations) == ("parted", None)
    assert held(STEP, steady, step_sd_ms=0).departure == 0


@pytest.mark.parametrize(
    ("step_ms", "place"), [(429, "below_p10"), (430, "p10_to_p90"), (471, "above_p90")]
)
def test_the_place_among_clusters(step_ms: float, place: str) -> None:
    assert held(step_ms, WIDE).place == place
    assert held(step_ms, UNKNOWN).place is None


def test_losses_by_hand() -> None:
    found = held(500, WIDE).losses
    hours = 64 * 10_000 * 500 / 3.6e6
    assert found.gpu_hours == pytest.approx(hours)
    assert found.observed_gpu_hours_lost == pytest.approx(hours * (1 - IDEAL / 500))
    assert found.predicted_gpu_hours_lost == pytest.approx(hours * (1 - IDEAL / 450))
    assert found.predicted_gpu_hours_lost_p10 == pytest.approx(hours * (1 - IDEAL / 430))
    assert found.predicted_gpu_hours_lost_p90 == pytest.approx(hours * (1 - IDEAL / 470))
    assert found.observed_efficiency_fraction == pytest.approx(0.81)
    held_longer = held(500, UNKNOWN, gpu_hours=100.0).losses
    assert held_longer.observed_gpu_hours_lost == pytest.approx(19)
    assert held_longer.predicted_gpu_hours_lost_p50 is None


@pytest.mark.parametrize(
    ("phases", "explained_by"),
    [
        ({}, None),
        ({"communication_ms": 125.0}, "communication"),
        ({"communication_ms": 102.0, "load_ms": 53.0}, "load"),
        ({"communication_ms": 90.0, "load_ms": 31.0, "slowest_compute_ms": 341.0}, None),
        ({"slowest_compute_ms": 300.0}, None),
    ],
)
def test_the_phase_that_explains_half_of_it(
    phases: dict[str, Any], explained_by: str | None
) -> None:
    assert held(495, **phases).explained_by == explained_by


def test_what_would_explain_all_of_it() -> None:
    rows = {row.component: row for row in held(405, load_ms=5.0).components}
    assert rows["communication"].needed_ms == pytest.approx(35)
    assert rows["slowest_compute"].needed_ms == pytest.approx(295)
    # 30 ms of loading cannot become 45 ms less
    assert rows["load"].needed_ms is None
    assert (rows["load"].predicted_ms, rows["load"].observed_ms) == (30, 5)
    assert held(STEP, load_ms=30.0).explained_by is None


def quantiles_of(steps: np.ndarray) -> Prediction:
    low, middle, high = np.quantile(steps, [0.1, 0.5, 0.9]).tolist()
    return replace(
        PREDICTED,
        step_mean_ms=float(steps.mean()),
        step_mean_p10_ms=low,
        step_mean_p50_ms=middle,
        step_mean_p90_ms=high,
    )


@pytest.mark.parametrize("num_ranks", [1, 64, 1_024])
@pytest.mark.parametrize("error", [0.0, 4.0])
def test_ninety_nine_of_a_hundred_clusters_are_explained_by_chance(
    num_ranks: int, error: float
) -> None:
    """The slowest of ranks that differ for good by 5 %, drawn by its own distribution."""
    rng = np.random.default_rng(num_ranks)
    # The largest of n uniforms is one uniform to the power of 1/n; normal by the inverse.
    uniform = rng.random(200_000) ** (1 / num_ranks)
    steps = 110 + 300 * (1 + 0.05 * ndtri(uniform))
    found = held(500, quantiles_of(steps), step_mean_se_ms=error)
    runs = steps + error * rng.standard_normal(len(steps))
    assert found.chance_low_ms is not None
    assert found.chance_high_ms is not None
    outside = np.mean((runs < found.chance_low_ms) | (runs > found.chance_high_ms))
    assert 0.005 < outside < 0.015


def test_a_skewed_law_is_met_by_its_three_quantiles() -> None:
    """Gumbel, exactly: p10, p50 and p90, and the 0.5 % and 99.5 % points."""

    def point(share: float) -> float:
        return STEP - 5 * math.log(-math.log(share))

    clusters = replace(
        PREDICTED,
        step_mean_p10_ms=point(0.1),
        step_mean_p50_ms=point(0.5),
        step_mean_p90_ms=point(0.9),
    )
    found = held(STEP, clusters, step_mean_se_ms=0.0)
    assert found.chance_high_ms == pytest.approx(point(0.995), abs=0.3)
    assert found.chance_low_ms == pytest.approx(point(0.005), abs=0.35)


def test_clusters_that_lie_on_one_side_only() -> None:
    above = replace(PREDICTED, step_mean_p90_ms=470.0)
    found = held(STEP, above, step_mean_se_ms=0.0)
    assert found.chance_low_ms == STEP
    assert found.chance_high_ms == pytest.approx(450 + 20 * 2.5758293035489004 / 1.2815515655446004)
