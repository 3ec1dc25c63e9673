"""A right model against brute-force runs: how often the verdict is wrong, and how often right."""

from typing import Any

import numpy as np
import pytest

from service.calibration.backtest import compare
from service.calibration.prediction import predict
from service.calibration.run_comparison import Comparison, Observed, Verdict
from service.model.scenario import decode_scenario

NUM_RUNS, NUM_STEPS, NUM_GPUS = 1_000, 200, 64
SCENARIO: dict[str, Any] = {
    "num_gpus": NUM_GPUS,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {
        "persistent": {"kind": "lognormal", "cv": 0.04},
        "transient": {"kind": "lognormal", "cv": 0.03},
    },
}
SIGMA_P, SIGMA_T = (float(np.sqrt(np.log1p(cv**2))) for cv in (0.04, 0.03))


def runs(seed: int, more_ms: float = 0.0) -> np.ndarray:
    """Steps of runs, each on a cluster of its own: (runs, steps) in ms, drawn GPU by GPU."""
    rng = np.random.default_rng(seed)
    steps = np.empty((NUM_RUNS, NUM_STEPS))
    for run in range(NUM_RUNS):
        lasting = SIGMA_P * rng.standard_normal(NUM_GPUS) - SIGMA_P**2 / 2
        passing = SIGMA_T * rng.standard_normal((NUM_STEPS, NUM_GPUS)) - SIGMA_T**2 / 2
        steps[run] = 110 + more_ms + 300 * np.exp((lasting + passing).max(axis=1))
    return steps


def held(steps: np.ndarray, tolerance: float) -> list[Comparison]:
    predicted = predict(decode_scenario(SCENARIO), hours=24)
    return [
        compare(
            Observed(
                num_gpus=NUM_GPUS,
                num_steps=NUM_STEPS,
                step_mean_ms=float(run.mean()),
                step_sd_ms=float(run.std(ddof=1)),
            ),
            predicted,
            tolerance_fraction=tolerance,
        )
        for run in steps
    ]


def rate(found: list[Comparison], verdict: Verdict) -> float:
    return sum(one.verdict == verdict for one in found) / len(found)


def test_one_right_run_in_a_hundred_parts_where_chance_is_all_that_is_tolerated() -> None:
    """Of 1 000 runs 10 are expected: 2 to 20 with 99.8 %."""
    found = held(runs(1), tolerance=0.001)
    assert 0.002 <= rate(found, "parted") <= 0.020
    places = [one.place for one in found]
    # One in ten is below p10 and one in ten above p90, within 3.3 standard errors
    assert places.count("below_p10") / NUM_RUNS == pytest.approx(0.1, abs=0.032)
    assert places.count("above_p90") / NUM_RUNS == pytest.approx(0.1, abs=0.032)
    assert np.mean([one.ratio for one in found]) == pytest.approx(1, abs=0.002)


def test_right_runs_agree_and_wrong_ones_part_at_the_usual_tolerance() -> None:
    assert rate(held(runs(2), tolerance=0.05), "agrees") > 0.98
    # 40 ms more communication: 9 % of the step
    wrong = held(runs(3, more_ms=40), tolerance=0.05)
    assert rate(wrong, "parted") > 0.9
    assert rate(wrong, "agrees") < 0.02
