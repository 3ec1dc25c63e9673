"""Points of one scenario with single numbers moved."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.problems import InvalidScenario
from service.model.questions.moved_columns import (
    bounds_of,
    check_path,
    moved,
    step_of_whole,
    value_of,
)
from service.model.scenario import apply_overrides, decode_scenario

SCENARIO: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300,
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}, {"count": 2, "speed_fraction": 0.9}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
    "failures": {"mtbf_hours_per_gpu": 1e5},
}
MOVES: list[tuple[str, Any]] = [
    ("num_gpus", 128),
    ("slow_groups.1.count", 3),
    ("slow_groups.0.speed_fraction", 0.8),
    ("variability.transient.cv", 0.1),
    ("load_ms", 30.0),
    ("failures.checkpoint_interval_s", 600.0),
    ("slow_groups.1.speed_fraction", 0.95),
]


def test_each_point_is_the_scenario_with_one_value_replaced() -> None:
    base = columns_of(decode_scenario(SCENARIO))
    before = {path: column.copy() for path, column in base.values.items()}
    found = moved(base, MOVES)
    assert found.num_points == len(MOVES)
    for row, (path, value) in enumerate(MOVES):
        changed = columns_of(decode_scenario(apply_overrides(SCENARIO, {path: value})))
        for leaf in changed.values:
            expected = changed[leaf][0]
            if changed[leaf].dtype == object:
                assert found[leaf][row] is None
            else:
                np.testing.assert_array_equal(found[leaf][row], expected, err_msg=leaf)
    for path, column in before.items():
        assert len(base.values[path]) == len(column) == 1


def test_numbers_are_read_back() -> None:
    base = columns_of(decode_scenario(SCENARIO))
    assert value_of(base, "slow_groups.1.speed_fraction") == 0.9
    assert value_of(base, "num_gpus") == 64
    assert isinstance(value_of(base, "num_gpus"), int)
    assert value_of(base, "total_steps") is None
    assert value_of(base, "failures.checkpoint_interval_s") is None


def test_a_word_of_zero_is_no_number_but_zero_is() -> None:
    base = columns_of(decode_scenario(SCENARIO))
    assert value_of(base, "load_ms") == 0


def test_bounds_and_steps_are_those_of_the_fields() -> None:
    assert bounds_of("num_gpus") == (1, 10_000_000)
    assert bounds_of("failures.checkpoint_interval_s") == (1e-3, 1e9)
    # The ends of an open interval are not taken, but what is beside them.
    assert bounds_of("backward_fraction") == (5e-324, 1 - 2**-53)
    assert bounds_of("total_steps") == (1, 10**15)
    groups = decode_scenario({"num_gpus": 64, "compute_ms": 1, "tensor_parallel_size": 4})
    assert step_of_whole("num_gpus", groups) == 4
    assert step_of_whole("slow_groups.0.count", groups) == 1
    assert step_of_whole("synchronization.steps", groups) == 1
    assert step_of_whole("load_ms", groups) == 0


@pytest.mark.parametrize("num_gpus", [64, 4])
def test_exchanges_by_nodes_need_whole_ones(num_gpus: int) -> None:
    link = {"bandwidth_gigabytes_per_s": 50}
    communication = {"kind": "hierarchical", "parameters": 1e9, "link": link, "intra_link": link}
    scenario = decode_scenario(
        {"num_gpus": num_gpus, "compute_ms": 1, "communication": communication}
    )
    # Within a node any number of GPUs exchanges.
    assert step_of_whole("num_gpus", scenario) == (8 if num_gpus == 64 else 1)


def test_local_steps_come_in_whole_fragments() -> None:
    local = {"kind": "local_steps", "steps": 12, "fragments": 3}
    scenario = decode_scenario({"num_gpus": 8, "compute_ms": 1, "synchronization": local})
    assert step_of_whole("synchronization.steps", scenario) == 3
    assert step_of_whole("synchronization.fragments", scenario) == 1


def test_a_path_that_is_no_number_has_none() -> None:
    with pytest.raises(KeyError):
        bounds_of("variability")
    scenario = decode_scenario(SCENARIO)
    check_path(scenario, "slow_groups.1.count", pointer="/path")
    with pytest.raises(InvalidScenario) as refused:
        check_path(scenario, "slow_groups.2.count", pointer="/path")
    (fault,) = refused.value.problems
    assert (fault.pointer, fault.code) == ("/path", "unknown_path")
