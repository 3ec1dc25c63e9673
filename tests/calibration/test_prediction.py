"""What a run is predicted to take: the oracle's steps, and the spread of the design page."""

from typing import Any

import pytest

from service.calibration.prediction import Prediction, predict
from service.model.scenario import decode_scenario

HOURS = 24.0 * 30
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
IDEAL, AVAILABLE = 410.0, 1024 * 24 * 30.0
# Losses of clusters whose GPUs differ by 5 % for good (design page "The model", section 3)
LOST_P10, LOST_P50, LOST_P90 = 69_425.0, 77_365.0, 88_151.0


def predicted(hours: float = HOURS, **changes: Any) -> Prediction:
    return predict(decode_scenario({**SEED, **changes}), hours=hours)


def test_steps_that_vary_are_those_of_the_oracle_and_clusters_are_alike() -> None:
    found = predicted(variability={"transient": {"kind": "normal", "cv": 0.05}})
    # barrier-003
    assert found.step_mean_ms == pytest.approx(458.72359402063756, rel=1e-9)
    assert found.efficiency_fraction == pytest.approx(0.8937844168999829, rel=1e-9)
    assert found.slowest_compute_ms == pytest.approx(348.72359402063756, rel=1e-9)
    assert (found.load_ms, found.communication_ms) == (30, 80)
    assert found.step_mean_p10_ms == found.step_mean_p90_ms == found.step_mean_ms
    assert found.step_p50_ms == pytest.approx(458.06631261576814, rel=1e-9)
    assert found.step_sd_ms == pytest.approx((468.3523433695307 - 458.06631261576814) / 1.644854)


def test_gpus_that_differ_for_good_set_clusters_apart() -> None:
    found = predicted(variability={"persistent": {"kind": "normal", "cv": 0.05}})

    def step(lost: float) -> float:
        return IDEAL / (1 - lost / AVAILABLE)

    assert found.step_mean_p10_ms == pytest.approx(step(LOST_P10), rel=1e-5)
    assert found.step_mean_p50_ms == pytest.approx(step(LOST_P50), rel=1e-5)
    assert found.step_mean_p90_ms == pytest.approx(step(LOST_P90), rel=1e-5)


def test_a_steady_scenario_is_its_ideal_step() -> None:
    found = predicted()
    assert found.step_mean_ms == found.step_mean_p10_ms == IDEAL
    assert found.step_sd_ms == 0


def test_failures_are_in_no_step() -> None:
    failures = {
        "failures_per_1000_node_days": 6.5,
        "detection_s": 60,
        "restart_s": 240,
        "checkpoint_write_s": 30,
        "checkpoint_interval_s": 3600,
    }
    found = predicted(failures=failures)
    assert (found.step_mean_ms, found.efficiency_fraction) == (IDEAL, 1)


def test_episodes_average_out_over_days_only() -> None:
    episodes = {"rate_per_gpu_day": 0.001, "mean_hours": 6, "severity": 1.3}
    variability = {"episodes": episodes}
    found = predicted(variability=variability)
    assert found.step_mean_p10_ms is not None
    assert found.step_mean_p90_ms is not None
    assert found.step_mean_p10_ms < found.step_mean_p90_ms
    longer = predicted(hours=HOURS * 12, variability=variability)
    assert longer.step_mean_p10_ms is not None
    assert longer.step_mean_p10_ms > found.step_mean_p10_ms
    short = predicted(hours=23.9, variability=variability)
    assert short.step_mean_p10_ms is short.step_mean_p50_ms is short.step_mean_p90_ms is None


def test_what_is_simulated_has_no_quantiles_of_steps() -> None:
    found = predicted(
        num_gpus=8,
        draws=64,
        variability={"transient": {"kind": "normal", "cv": 0.05}},
        synchronization={"kind": "bounded_staleness", "staleness": 2},
    )
    assert found.step_p50_ms is None
    assert found.step_sd_ms is None
    # Nothing lasts: clusters are alike
    assert found.step_mean_p50_ms == found.step_mean_ms
