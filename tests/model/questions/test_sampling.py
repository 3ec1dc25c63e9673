"""Standard errors of derived columns follow from that of the loss."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.questions.sampling import (
    FEWEST_DRAWS,
    MOST_RANK_STEPS,
    is_sampled,
    refuse_long_recursions,
    standard_error,
    without_spread,
)
from service.model.scenario import decode_fields, decode_scenario
from service.model.simulated_points import rank_steps

SCENARIO: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {
        "persistent": {"kind": "normal", "cv": 0.04},
        "transient": {"kind": "normal", "cv": 0.03},
    },
    "total_steps": 1_000,
    "draws": 64,
}


def test_errors_of_quantiles_are_those_of_the_loss() -> None:
    found = evaluate(columns_of(decode_scenario(SCENARIO))).columns
    available = found["gpu_hours_available"]
    p90 = standard_error("gpu_hours_lost_p90", found)
    assert p90[0] > 0
    # The least efficient clusters lose most.
    p10 = standard_error("efficiency_fraction_p10", found)
    assert p10 == pytest.approx(p90 / available, rel=1e-12)
    for exact in ("gpu_hours_lost", "gpu_hours_useful"):
        assert standard_error(exact, found)[0] == 0


def test_errors_of_the_step_are_relative_to_the_time_that_is_left() -> None:
    """If the loss is off by 1 % of what is not lost, so is the step, and so are the days."""
    found = dict(evaluate(columns_of(decode_scenario(SCENARIO))).columns)
    kept = found["gpu_hours_available"] - found["gpu_hours_lost"]
    found["gpu_hours_lost_se"] = 0.01 * kept
    for name in ("step_mean_ms", "days_to_finish", "useful_compute_fraction"):
        assert standard_error(name, found) == pytest.approx(0.01 * found[name], rel=1e-12)
    slowest = standard_error("slowest_compute_mean_ms", found)
    assert slowest == pytest.approx(0.01 * found["step_mean_ms"], rel=1e-12)
    efficiency = standard_error("efficiency_fraction", found)
    assert efficiency == pytest.approx(0.01 * found["efficiency_fraction"], rel=1e-12)
    per_day = standard_error("gpu_hours_lost_per_day", found)
    assert per_day == pytest.approx(0.01 * kept / 30, rel=1e-12)
    assert np.isnan(standard_error("gpu_hours_transient", found)).all()


@pytest.mark.parametrize(
    ("name", "changes", "draws"),
    [
        ("gpu_hours_lost", {}, FEWEST_DRAWS),
        ("gpu_hours_lost_p90", {}, 64),
        ("efficiency_fraction_p10", {}, 64),
        # What the slowest that stand by leave is sampled.
        ("gpu_hours_lost", {"num_spare_gpus": 2}, 64),
        ("gpu_hours_lost", {"num_spare_gpus": 2, "variability": {}}, FEWEST_DRAWS),
    ],
)
def test_only_what_needs_draws_has_them(name: str, changes: dict[str, Any], draws: int) -> None:
    columns = columns_of(decode_scenario({**SCENARIO, **changes}))
    few = without_spread(columns, name)
    assert few["draws"].tolist() == [draws]
    assert is_sampled(few) == (draws > FEWEST_DRAWS)


def test_fewer_draws_do_not_change_the_expected_loss() -> None:
    columns = columns_of(decode_scenario(SCENARIO))
    few = without_spread(columns, "gpu_hours_lost")
    assert evaluate(few).columns["gpu_hours_lost"][0] == pytest.approx(
        evaluate(columns).columns["gpu_hours_lost"][0], rel=1e-12
    )


STALE: dict[str, Any] = {
    **SCENARIO,
    "variability": {"transient": {"kind": "normal", "cv": 0.03}},
    "synchronization": {"kind": "delayed_update"},
}


def test_simulated_steps_keep_their_draws() -> None:
    columns = columns_of(decode_scenario(STALE))
    assert without_spread(columns, "gpu_hours_lost")["draws"][0] == 64
    steady = columns_of(decode_scenario({**STALE, "variability": {}}))
    assert without_spread(steady, "gpu_hours_lost")["draws"][0] == FEWEST_DRAWS


def test_long_simulations_are_refused_with_what_would_be_shorter() -> None:
    columns = columns_of(decode_scenario(STALE))
    needed = float(rank_steps(columns)[0])
    refuse_long_recursions(columns)
    refuse_long_recursions(columns, MOST_RANK_STEPS / needed * 0.999)
    with pytest.raises(InvalidScenario) as caught:
        refuse_long_recursions(columns, MOST_RANK_STEPS / needed * 1.001)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/draws", "too_long_at_once")
    assert "3.0e+08 steps of single GPUs" in problem.detail
    assert "fewer draws than 64" in problem.detail
    # Nothing is simulated where nothing varies.
    refuse_long_recursions(columns_of(decode_scenario({**STALE, "variability": {}})), 1e300)


def test_points_that_break_a_rule_take_no_time() -> None:
    crowd = {**STALE, "slow_groups": [{"count": 65, "speed_fraction": 0.5}]}
    refuse_long_recursions(columns_of(decode_fields(crowd)), 1e300)
