"""Each input moved alone, held to direct evaluations of the changed scenario."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.questions.sensitivity import Sensitivities, sensitivity
from service.model.scenario import apply_overrides, decode_scenario

SCENARIO: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 3, "speed_fraction": 0.95}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
    "tensor_parallel_size": 8,
    "failures": {"failures_per_1000_node_days": 6.5, "restart_s": 300},
}


def lost(**overrides: Any) -> float:
    changed = {path.replace("__", "."): value for path, value in overrides.items()}
    scenario = decode_scenario(apply_overrides(SCENARIO, changed))
    return float(evaluate(columns_of(scenario)).columns["gpu_hours_lost"][0])


def found_for(scenario: dict[str, Any] = SCENARIO, **intervals: Any) -> Sensitivities:
    named = {path.replace("__", "."): ends for path, ends in intervals.items()}
    return sensitivity(decode_scenario(scenario), named)


def test_each_end_is_an_evaluation_of_the_changed_scenario() -> None:
    found = found_for()
    assert found.lost == pytest.approx(lost(), rel=1e-9)
    rows = {row.path: row for row in found.moved}
    for path, low, high in (
        ("compute_ms", 270, 330),
        ("communication.allreduce_ms", 72, 88),
        ("variability.transient.cv", 0.045, 0.055),
        ("slow_groups.0.speed_fraction", 0.855, 1),
        # Away from the value: 2.7 and 3.3 GPUs; whole groups of 8.
        ("slow_groups.0.count", 2, 4),
        ("num_gpus", 920, 1128),
    ):
        row = rows[path]
        assert row.low is not None
        assert row.high is not None
        assert (row.low.value, row.high.value) == pytest.approx((low, high), rel=1e-12)
        ends = [lost(**{path: row.low.value}), lost(**{path: row.high.value})]
        assert [row.low.lost, row.high.lost] == pytest.approx(ends, rel=1e-9)
        assert row.change == pytest.approx(max(abs(end - found.lost) for end in ends), rel=1e-6)
        slope = (ends[1] - ends[0]) / (row.high.value - row.low.value)
        assert row.elasticity == pytest.approx(slope * row.value / found.lost, rel=1e-6)


def test_the_largest_change_comes_first() -> None:
    changes = [row.change for row in found_for().moved]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 0


def test_the_elasticity_of_the_size_of_a_cluster_that_does_not_vary_is_one() -> None:
    """One slow GPU costs the same share of any size."""
    scenario = {**SCENARIO, "variability": {}, "failures": None}
    rows = {row.path: row for row in found_for(scenario).moved}
    assert rows["num_gpus"].elasticity == pytest.approx(1, rel=1e-12)
    assert rows["slow_groups.0.count"].change == 0


def test_an_interval_takes_the_place_of_the_share() -> None:
    found = found_for(variability__transient__cv=(0.01, 0.05), num_gpus=(1000, 2049.5))
    rows = {row.path: row for row in found.moved}
    row = rows["variability.transient.cv"]
    assert row.low is not None
    assert row.low.value == 0.01
    assert row.low.lost == pytest.approx(lost(variability__transient__cv=0.01), rel=1e-9)
    # The interval ends at the value itself.
    assert row.high is None
    assert row.change == pytest.approx(found.lost - row.low.lost, rel=1e-9)
    size = rows["num_gpus"]
    assert size.low is not None
    assert size.high is not None
    assert (size.low.value, size.high.value) == (1000, 2056)


def test_an_end_that_breaks_a_rule_says_so() -> None:
    found = found_for(gpus_per_node=(8, 12))
    assert "gpus_per_node" not in {row.path for row in found.moved}
    unmoved = {part.path: part for part in found.unmoved}
    assert unmoved["gpus_per_node"].code == "no_whole_replicas"
    assert unmoved["gpus_per_node"].detail == "8 does not divide gpus_per_node, which is 12"
    one_sided = found_for(variability__transient__cv=(0.01, 0.5))
    row = next(row for row in one_sided.moved if row.path == "variability.transient.cv")
    assert row.high is not None
    assert row.low is not None
    assert np.isnan(row.high.lost)
    assert row.high.reason is not None
    assert row.high.reason.code == "cv_too_large_for_normal"
    assert row.change == pytest.approx(abs(row.low.lost - one_sided.lost), rel=1e-12)
    other = found_for(num_gpus=(1, 1024))
    size = next(row for row in other.moved if row.path == "num_gpus")
    assert size.low is not None
    assert size.low.value == 8


def test_what_cannot_move_is_listed_with_the_reason() -> None:
    unmoved = {part.path: part for part in found_for().unmoved}
    assert unmoved["failures.checkpoint_interval_s"].value == "optimal"
    assert unmoved["failures.checkpoint_interval_s"].code == "not_numeric"
    assert unmoved["failures.detection_s"].code == "no_other_value"
    assert "10 % is nothing" in unmoved["failures.detection_s"].detail
    assert unmoved["period_days"].code == "refused_path"
    # No smaller and no larger group divides a node of 8.
    assert unmoved["tensor_parallel_size"].code == "no_whole_replicas"
    still = {part.path: part for part in found_for(load_ms=(30, 30)).unmoved}
    assert still["load_ms"].detail == "it is 30, and its interval has no other value"


def test_shares_of_buckets_stay_as_they_are_and_say_so() -> None:
    overlap = {"kind": "buckets", "bucket_shares": [0.5, 0.3, 0.2], "contention_fraction": 0.1}
    found = found_for({**SCENARIO, "overlap": overlap})
    (row,) = (row for row in found.unmoved if row.path == "overlap.bucket_shares")
    assert (row.code, row.detail) == ("not_numeric", "it is a list of 3 numbers")
    assert row.value == [0.5, 0.3, 0.2]


def test_a_scenario_that_loses_nothing_has_no_elasticity() -> None:
    found = sensitivity(decode_scenario({"num_gpus": 8, "compute_ms": 300}), {})
    assert found.lost == 0
    assert all(np.isnan(row.elasticity) and row.change == 0 for row in found.moved)


@pytest.mark.parametrize(
    ("path", "ends", "code"),
    [
        ("num_gpu", (1, 2), "unknown_path"),
        ("draws", (16, 32), "refused_path"),
        ("variability.persistent.cv", (0.1, 0.2), "path_under_null"),
        ("num_gpus", (0, 2), "out_of_range"),
        ("num_gpus", (2, 1), "out_of_range"),
        ("variability.transient.cv", (0.1, 2), "out_of_range"),
    ],
)
def test_intervals_that_cannot_be_are_named(path: str, ends: Any, code: str) -> None:
    with pytest.raises(InvalidScenario) as refused:
        found_for(**{path: ends})
    assert [(fault.pointer, fault.code) for fault in refused.value.problems] == [
        (f"/intervals/{path}", code)
    ]
