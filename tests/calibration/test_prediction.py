"""What a run is predicted to take: the oracle's steps, and the spread of the design page."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.prediction import Prediction, figures_error_of, predict
from service.model.scenario import apply_overrides, decode_scenario
from tests.calibration.compute_tables import factors_of, timings_of

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


def test_what_is_calibrated_is_as_rough_as_its_intervals() -> None:
    compute = 3 * factors_of((40, 8), rank=0.02, step=0.02, rest=0.02)
    load = np.full((40, 8), 10.0) + np.arange(40)[:, np.newaxis] % 4
    wait = compute.max(axis=1, keepdims=True) - compute + 50 + np.arange(40)[:, np.newaxis] % 3
    timings = timings_of(compute, load_ms=load, communication_ms=wait)
    found = fit(timings, CalibrationOptions(load_is_prefetched=False))
    bare: dict[str, Any] = {"num_gpus": 8, "compute_ms": 300}
    scenario = decode_scenario(apply_overrides(bare, found.proposal.overrides))
    step = predict(scenario, hours=HOURS)
    assert step.figures_se_ms is None
    widths = {
        value.path: value.high - value.low
        for value in found.proposal.values
        if value.low is not None and value.high is not None
    }
    # An interval of 90 % is 3.29 standard errors wide
    errors = {path: width / (2 * 1.6448536269514722) for path, width in widths.items()}
    compute_ms = found.proposal.overrides["compute_ms"]
    errors["compute_ms"] *= step.slowest_compute_ms / compute_ms
    paths = ["compute_ms", "load_ms", "communication"]
    assert all(errors[path] > 0 for path in paths)
    together = math.hypot(*(errors[path] for path in paths))
    everything = list(found.proposal.overrides)
    assert figures_error_of(found, everything, step) == pytest.approx(together, rel=1e-6)
    alone = figures_error_of(found, ["compute_ms"], step)
    assert alone == pytest.approx(errors["compute_ms"], rel=1e-6)
    # What is hidden makes no step longer
    assert figures_error_of(found, ["load_ms"], replace(step, load_ms=0.0)) is None
    assert figures_error_of(found, [], step) is None
