"""The stored input columns: every numeric leaf by its path."""

import numpy as np
import pytest

from service.model.axes import decode_axes
from service.model.columns import Columns, columns_of
from service.model.grid import build_grid
from service.model.inputs import (
    INPUT_LABELS,
    InputColumn,
    input_column,
    input_names,
    input_words,
)
from service.model.scenario import decode_scenario

SCENARIO = {
    "num_gpus": 100,
    "load_ms": 1.5,
    "compute_ms": 2.5,
    "communication": {"kind": "fixed", "allreduce_ms": 3.5},
    "slow_groups": [
        {"count": 3, "speed_fraction": 0.5},
        {"count": 4, "speed_fraction": 0.75},
    ],
    "variability": {"transient": {"kind": "gamma", "cv": 0.125}},
    "period_days": 7,
}


def stored_of(columns: Columns, axis_paths: tuple[str, ...] = ()) -> dict[str, InputColumn]:
    return {name: input_column(columns, name) for name in input_names(columns, axis_paths)}


def test_stored_inputs_are_named_by_their_paths() -> None:
    stored = stored_of(columns_of(decode_scenario(SCENARIO)))
    assert {name: values[0].item() for name, values in stored.items()} == {
        "num_gpus": 100,
        "load_ms": 1.5,
        "compute_ms": 2.5,
        "communication.allreduce_ms": 3.5,
        "variability.transient.kind": INPUT_LABELS["variability.transient.kind"].index("gamma"),
        "variability.transient.cv": 0.125,
        "period_days": 7,
        "slow_groups.0.count": 3,
        "slow_groups.0.speed_fraction": 0.5,
        "slow_groups.1.count": 4,
        "slow_groups.1.speed_fraction": 0.75,
    }
    assert stored["num_gpus"].dtype == np.int64
    assert stored["period_days"].dtype == np.int64


def test_stored_inputs_are_nan_where_a_point_has_no_such_leaf() -> None:
    axes = decode_axes(
        [
            {"path": "slow_groups", "values": [[], [{"count": 2, "speed_fraction": 0.5}]]},
            {"path": "variability.transient", "values": [None, {"kind": "normal", "cv": 0}]},
        ]
    )
    grid = build_grid(decode_scenario({"num_gpus": 8, "compute_ms": 1}), axes, max_points=100)
    stored = stored_of(grid.columns(0, 4), grid.axis_paths)
    nan = np.nan
    np.testing.assert_array_equal(stored["slow_groups.0.count"], [nan, nan, 2, 2])
    np.testing.assert_array_equal(stored["slow_groups.0.speed_fraction"], [nan, nan, 0.5, 0.5])
    np.testing.assert_array_equal(stored["variability.transient.cv"], [nan, 0, nan, 0])
    np.testing.assert_array_equal(stored["variability.transient.kind"], [-1, 0, -1, 0])


def test_a_group_that_no_point_has_is_nan() -> None:
    columns = columns_of(decode_scenario(SCENARIO))
    assert np.isnan(input_column(columns, "slow_groups.5.count")).all()


def test_other_names_are_no_stored_inputs() -> None:
    columns = columns_of(decode_scenario(SCENARIO))
    for name in ("slow_groups.0.x", "x"):
        with pytest.raises(KeyError):
            input_column(columns, name)


PIPED = {
    "num_gpus": 4,
    "pipeline": {
        "schedule": "1f1b",
        "stages": 4,
        "microbatches": 8,
        "forward_ms": 2,
        "backward_ms": [4, 4, 4, 5],
    },
}


def test_a_time_of_all_stages_is_a_number_and_a_list_is_none() -> None:
    stored = stored_of(columns_of(decode_scenario(PIPED)))
    np.testing.assert_array_equal(stored["pipeline.forward_ms"], [2])
    assert stored.keys().isdisjoint({"pipeline.backward_ms", "pipeline.stage_weights"})
    axes = decode_axes(
        [
            {"path": "pipeline.forward_ms", "values": [2, [1, 2, 3, 4], 1.5]},
            {"path": "pipeline.backward_ms", "values": [[4, 4, 4, 5], 4]},
        ]
    )
    grid = build_grid(decode_scenario(PIPED), axes, max_points=100)
    stored = stored_of(grid.columns(0, 6), grid.axis_paths)
    nan = np.nan
    np.testing.assert_array_equal(stored["pipeline.forward_ms"], [2, 2, nan, nan, 1.5, 1.5])
    np.testing.assert_array_equal(stored["pipeline.backward_ms"], [nan, 4, nan, 4, nan, 4])
    assert stored["pipeline.forward_ms"].dtype == np.float64


def test_words_stand_beside_the_numbers_of_placements_alone() -> None:
    assert input_words("slow_groups.3.placement") == ("random", "worst")
    for name in ("slow_groups.0.count", "num_gpus", "variability.transient.kind", "unknown"):
        assert input_words(name) == ()
