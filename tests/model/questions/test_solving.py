"""Answers are held to direct evaluations on both sides, and to closed forms by scipy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.questions.sampling import MOST_DRAWS
from service.model.questions.solving import Question, Solution, Target, solve
from service.model.scenario import apply_overrides, decode_fields, decode_scenario

SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
IDEAL, OUTSIDE, COMPUTE = 410.0, 110.0, 300.0
AVAILABLE = 1024 * 24 * 30.0
ONE_SLOW = {**SEED, "slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
VARIED = {**SEED, "variability": {"transient": {"kind": "normal", "cv": 0.05}}}
CHECKPOINTS = {
    **SEED,
    "failures": {
        "mtbf_hours_per_gpu": 5e4,
        "restart_s": 300,
        "checkpoint_write_s": 30,
        "checkpoint_interval_s": 600,
    },
}


def asked(
    scenario: dict[str, Any],
    path: str,
    seek: Any,
    column: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    **limits: Any,
) -> Solution:
    threshold = at_most if at_least is None else at_least
    assert threshold is not None
    target = Target(column=column, threshold=threshold, at_least=at_least is not None)
    question = Question(path=path, seek=seek, target=target, **limits)
    return solve(decode_fields(scenario), question)


def at(scenario: dict[str, Any], path: str, value: Any, column: str) -> float:
    """The column by an ordinary evaluation of the one scenario."""
    moved = decode_scenario(apply_overrides(scenario, {path: value}))
    return float(evaluate(columns_of(moved)).columns[column][0])


def expected_maximum(num_gpus: int) -> float:
    """e_N: of standard normal draws, by scipy's adaptive quadrature of its density."""

    def density(z: float) -> float:
        return float(z * num_gpus * stats.norm.pdf(z) * stats.norm.cdf(z) ** (num_gpus - 1))

    value, _ = integrate.quad(density, -10, 12, limit=400, epsabs=1e-12, points=[0, 2, 3, 4, 5])
    return float(value)


def test_the_largest_cluster_is_exact() -> None:
    found = asked(VARIED, "num_gpus", "largest", "efficiency_fraction", at_least=0.9)
    assert found.at is not None
    assert found.neighbor is not None
    assert (found.at.value, found.neighbor.value) == (500, 501)
    for num_gpus, efficiency in ((500, found.at.target), (501, found.neighbor.target)):
        step = OUTSIDE + COMPUTE * (1 + 0.05 * expected_maximum(num_gpus))
        assert efficiency == pytest.approx(IDEAL / step, rel=1e-8)
    assert found.at.target >= 0.9 > found.neighbor.target
    assert found.tolerance == 0
    assert found.is_monotone
    assert found.end is None
    assert found.at.columns["gpu_hours_lost"][0] == pytest.approx(
        at(VARIED, "num_gpus", 500, "gpu_hours_lost"), rel=1e-9
    )
    assert found.detail.startswith("500 is the largest num_gpus with efficiency_fraction at least")


def test_the_largest_cv_follows_from_the_expected_maximum() -> None:
    """Loss A (1 - 410 / (410 + 300 cv e_N)), solved for cv."""
    found = asked(VARIED, "variability.transient.cv", "largest", "gpu_hours_lost", at_most=50_000)
    ratio = IDEAL / (1 - 50_000 / AVAILABLE) - IDEAL
    assert found.at is not None
    assert found.neighbor is not None
    assert found.at.value == pytest.approx(ratio / (COMPUTE * expected_maximum(1024)), rel=2e-9)
    assert 0 < found.neighbor.value - found.at.value <= 1e-9 * found.neighbor.value
    assert found.at.target <= 50_000 < found.neighbor.target


def test_the_slowest_speed_follows_from_the_step() -> None:
    """Loss A (1 - 410 / (110 + 300 / speed)), solved for the speed."""
    path = "slow_groups.0.speed_fraction"
    found = asked(ONE_SLOW, path, "smallest", "gpu_hours_lost", at_most=50_000, tolerance=1e-12)
    slowest = COMPUTE / (IDEAL / (1 - 50_000 / AVAILABLE) - OUTSIDE)
    assert found.at is not None
    assert found.neighbor is not None
    assert found.at.value == pytest.approx(slowest, rel=2e-12)
    assert found.neighbor.value < found.at.value
    assert found.neighbor.target > 50_000 >= found.at.target


def test_one_slow_gpu_costs_the_same_share_at_every_size() -> None:
    """Efficiency is a step function of the size: 0.76127 from the first slow GPU on."""
    allowed = asked(ONE_SLOW, "num_gpus", "largest", "efficiency_fraction", at_least=0.76)
    assert allowed.at is not None
    assert allowed.at.value == 10_000_000
    assert allowed.neighbor is None
    assert allowed.end is not None
    assert allowed.end.code == "maximum"
    assert [warning.code for warning in allowed.warnings] == ["no_effect"]
    refused = asked(ONE_SLOW, "num_gpus", "largest", "efficiency_fraction", at_least=0.77)
    assert refused.at is None
    assert refused.nearest is not None
    assert refused.nearest.target == pytest.approx(IDEAL / (OUTSIDE + COMPUTE / 0.7), rel=1e-12)
    assert "comes nearest at 1" in refused.detail


def test_one_spare_stands_in_for_one_slow_gpu() -> None:
    found = asked(ONE_SLOW, "num_spare_gpus", "smallest", "gpu_hours_lost", at_most=1_000)
    assert found.at is not None
    assert found.neighbor is not None
    assert (found.at.value, found.neighbor.value) == (1, 0)
    # The spare is paid for: 24 hours on 30 days.
    assert found.at.target == pytest.approx(720, rel=1e-9)
    assert found.neighbor.target == pytest.approx(176_008.488, rel=1e-8)
    # More spares cost more than they give back.
    assert [warning.code for warning in found.warnings] == ["not_monotone"]


def test_no_number_of_spares_is_cheap_enough() -> None:
    """The first gives most back; there is no number of them between none, it and two."""
    found = asked(ONE_SLOW, "num_spare_gpus", "smallest", "gpu_hours_lost", at_most=500, maximum=5)
    assert found.at is None
    assert found.nearest is not None
    assert found.nearest.value == 1
    assert found.nearest.target == pytest.approx(720, rel=1e-9)
    assert found.end is None
    assert found.evaluations == 6


MONOTONE = {
    "num_gpus": (VARIED, "efficiency_fraction"),
    "num_evicted_gpus": (
        {**SEED, "slow_groups": [{"count": 300, "speed_fraction": 0.9}]},
        "useful_compute_fraction",
    ),
    "variability.transient.cv": (VARIED, "step_mean_ms"),
    "slow_groups.0.speed_fraction": (ONE_SLOW, "gpu_hours_lost"),
    "slow_groups.0.count": (
        {
            **VARIED,
            "num_gpus": 100_000,
            "slow_groups": [{"count": 1, "speed_fraction": 0.95}],
        },
        "gpu_hours_lost",
    ),
    "load_ms": (VARIED, "efficiency_fraction"),
    "total_steps": ({**VARIED, "total_steps": 1_000_000}, "days_to_finish"),
    "failures.restart_s": (CHECKPOINTS, "time_ratio_fraction"),
}


@settings(max_examples=15)
@given(
    path=st.sampled_from(sorted(MONOTONE)),
    share=st.floats(0.02, 0.98),
    seek=st.sampled_from(["largest", "smallest"]),
    kept=st.sampled_from(["at_least", "at_most"]),
)
def test_the_answer_holds_and_its_neighbour_does_not(
    path: str, share: float, seek: str, kept: str
) -> None:
    scenario, column = MONOTONE[path]
    ends = {"load_ms": (0, 1e4), "failures.restart_s": (0, 1e6)}.get(path, (None, None))
    limits: dict[str, Any] = {"minimum": ends[0], "maximum": ends[1]}
    low, high = (
        asked(scenario, path, end, column, at_most=1e300, **limits).at
        for end in ("smallest", "largest")
    )
    assert low is not None
    assert high is not None
    threshold = low.target + share * (high.target - low.target)
    found = asked(scenario, path, seek, column, **{kept: threshold}, **limits)
    assert found.is_monotone
    assert found.at is not None
    places = [found.at]
    if found.neighbor is None:
        # The end of the range keeps the promise: nothing lies beyond.
        assert found.end is not None
        assert found.at.value == (high if seek == "largest" else low).value
    else:
        places.append(found.neighbor)
        distance = found.neighbor.value - found.at.value
        assert (distance > 0) == (seek == "largest")
        if found.tolerance:
            assert abs(distance) <= 1e-9 * max(found.neighbor.value, found.at.value)
        else:
            assert abs(distance) == 1
    # A whole number may miss the promise by round-off.
    slack = 0.0 if found.tolerance else 1e-12 * abs(threshold)
    for place, holds in zip(places, (True, False), strict=False):
        above = place.target >= threshold - slack
        assert (above if kept == "at_least" else place.target <= threshold + slack) == holds
        assert place.target == pytest.approx(at(scenario, path, place.value, column), rel=1e-9)
        assert place.columns[column][0] == pytest.approx(place.target, rel=1e-9)


def test_a_peak_between_the_first_values_is_found() -> None:
    """Only the best interval between checkpoints keeps what is promised of it, but for 1e-6."""
    path = "failures.checkpoint_interval_s"
    best = at(CHECKPOINTS, path, "optimal", "time_ratio_fraction")
    optimum = at(CHECKPOINTS, path, "optimal", "checkpoint_interval_s")
    threshold = best * (1 - 1e-6)
    found = asked(CHECKPOINTS, path, "largest", "time_ratio_fraction", at_least=threshold)
    assert not found.is_monotone
    assert found.at is not None
    assert found.neighbor is not None
    assert optimum < found.at.value < 1.1 * optimum
    assert at(CHECKPOINTS, path, found.at.value, "time_ratio_fraction") >= threshold
    assert at(CHECKPOINTS, path, found.neighbor.value, "time_ratio_fraction") < threshold
    assert "rises and falls" in found.warnings[0].detail
    none = asked(CHECKPOINTS, path, "largest", "time_ratio_fraction", at_least=best * (1 + 1e-9))
    assert none.at is None
    assert none.nearest is not None
    assert none.nearest.value == pytest.approx(optimum, rel=1e-3)


def test_what_no_variability_allows_is_found_at_nothing() -> None:
    found = asked(VARIED, "variability.transient.cv", "largest", "gpu_hours_lost", at_most=0)
    assert found.at is not None
    assert found.neighbor is not None
    assert found.at.value == 0
    assert 0 < found.neighbor.value < 1e-12


def test_sampled_columns_are_found_with_common_random_numbers() -> None:
    scenario = {
        **SEED,
        "num_gpus": 256,
        "draws": 64,
        "variability": {
            "transient": {"kind": "normal", "cv": 0.03},
            "persistent": {"kind": "normal", "cv": 0.04},
        },
    }
    path, column = "variability.persistent.cv", "gpu_hours_lost_p90"
    threshold = at(scenario, path, 0.03, column)
    found = asked(scenario, path, "largest", column, at_most=threshold, tolerance=1e-6)
    assert found.at is not None
    assert found.neighbor is not None
    assert found.at.value == pytest.approx(0.03, rel=1e-5)
    assert found.at.standard_error > 0
    assert found.at.standard_error == found.at.columns[f"{column}_se"][0]
    assert found.neighbor.target > threshold
    assert found.evaluations < 80
    again = asked(scenario, path, "largest", column, at_most=threshold, tolerance=1e-6)
    assert again.at is not None
    assert again.at.value == found.at.value


def test_too_many_draws_are_refused() -> None:
    scenario = {
        **SEED,
        "draws": MOST_DRAWS + 1,
        "variability": {"persistent": {"kind": "normal", "cv": 0.04}},
    }
    with pytest.raises(InvalidScenario) as refused:
        asked(scenario, "num_gpus", "largest", "gpu_hours_lost_p90", at_most=1e5)
    assert [(fault.pointer, fault.code) for fault in refused.value.problems] == [
        ("/draws", "too_many_draws")
    ]


@pytest.mark.parametrize(
    ("scenario", "path", "seek", "code", "value", "beyond"),
    [
        (VARIED, "variability.transient.cv", "largest", "cv_too_large_for_normal", 0.3, None),
        (ONE_SLOW, "slow_groups.0.count", "largest", "too_many_slow_gpus", 1024, 1025),
        (
            {**ONE_SLOW, "num_gpus": 9_000},
            "slow_groups.0.count",
            "largest",
            "too_many_slow_gpus",
            9_000,
            9_001,
        ),
        (
            {**SEED, "num_gpus": 64, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]},
            "num_gpus",
            "smallest",
            "too_many_slow_gpus",
            70,
            69,
        ),
        (
            {**SEED, "num_gpus": 40, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]},
            "num_gpus",
            "smallest",
            "too_many_slow_gpus",
            70,
            69,
        ),
    ],
)
def test_the_range_ends_where_a_rule_is_broken(
    scenario: dict[str, Any], path: str, seek: str, code: str, value: float, beyond: float | None
) -> None:
    found = asked(scenario, path, seek, "gpu_hours_lost", at_least=0)
    assert found.at is not None
    assert found.end is not None
    assert (found.at.value, found.end.code) == (value, code)
    # Of real numbers the next one there is.
    assert found.end.value == (np.nextafter(value, np.inf) if beyond is None else beyond)
    assert found.end.detail in found.detail


def test_a_short_range_below_a_rule_has_its_end_too() -> None:
    scenario = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    found = asked(
        scenario, "num_gpus", "smallest", "gpu_hours_lost", at_least=0, minimum=60, maximum=100
    )
    assert found.at is not None
    assert found.end is not None
    assert (found.at.value, found.end.value, found.end.code) == (70, 69, "too_many_slow_gpus")


def test_sizes_are_whole_tensor_parallel_groups() -> None:
    scenario = {**VARIED, "tensor_parallel_size": 8}
    found = asked(scenario, "num_gpus", "largest", "efficiency_fraction", at_least=0.9)
    assert found.at is not None
    assert found.neighbor is not None
    assert (found.at.value, found.neighbor.value) == (496, 504)
    sizes = asked(scenario, "tensor_parallel_size", "largest", "gpu_hours_lost", at_least=0)
    assert sizes.at is not None
    assert sizes.at.value == 8
    assert sizes.end is not None
    assert sizes.end.code == "no_whole_replicas"


def test_a_checkpoint_that_is_optimal_may_be_looked_for() -> None:
    scenario = {
        **CHECKPOINTS,
        "failures": {**CHECKPOINTS["failures"], "checkpoint_interval_s": "optimal"},
    }
    path = "failures.checkpoint_interval_s"
    found = asked(scenario, path, "smallest", "time_ratio_fraction", at_least=0.8)
    assert found.at is not None
    assert at(CHECKPOINTS, path, found.at.value, "time_ratio_fraction") >= 0.8


@pytest.mark.parametrize(
    ("scenario", "path", "limits", "pointer", "code"),
    [
        (SEED, "num_gpu", {}, "/unknown/path", "unknown_path"),
        (SEED, "seed", {}, "/unknown/path", "refused_path"),
        (SEED, "variability.transient.cv", {}, "/unknown/path", "path_under_null"),
        (VARIED, "variability.transient.kind", {}, "/unknown/path", "not_numeric"),
        (VARIED, "variability", {}, "/unknown/path", "not_numeric"),
        (SEED, "slow_groups.0.count", {}, "/unknown/path", "unknown_path"),
        (SEED, "num_gpus", {"minimum": 0}, "/unknown/minimum", "out_of_range"),
        (SEED, "num_gpus", {"maximum": 1e9}, "/unknown/maximum", "out_of_range"),
        (SEED, "num_gpus", {"minimum": 9, "maximum": 8}, "/unknown", "empty_range"),
        (SEED, "num_gpus", {"minimum": 8.2, "maximum": 8.8}, "/unknown", "empty_range"),
        # Every size breaks a rule: the fault is the scenario's.
        (
            {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]},
            "num_gpus",
            {"maximum": 64},
            "/slow_groups/0/count",
            "too_many_slow_gpus",
        ),
        (
            {**SEED, "variability": {"transient": {"kind": "normal", "cv": 0.4}}},
            "load_ms",
            {},
            "/variability/transient/cv",
            "cv_too_large_for_normal",
        ),
    ],
)
def test_what_cannot_be_asked_is_named(
    scenario: dict[str, Any], path: str, limits: dict[str, Any], pointer: str, code: str
) -> None:
    with pytest.raises(InvalidScenario) as refused:
        asked(scenario, path, "largest", "gpu_hours_lost", at_most=1, **limits)
    assert [(fault.pointer, fault.code) for fault in refused.value.problems] == [(pointer, code)]


def test_a_column_that_the_scenario_does_not_have_is_named() -> None:
    with pytest.raises(InvalidScenario) as refused:
        asked(VARIED, "num_gpus", "largest", "days_to_finish", at_most=10)
    (fault,) = refused.value.problems
    assert (fault.pointer, fault.code) == ("/target/column", "not_computed")
