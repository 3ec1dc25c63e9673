"""The stored input columns: every numeric leaf by its path."""

import numpy as np
import pytest

from service.model.axes import decode_axes
from service.model.columns import Columns, columns_of
from service.model.grid import build_grid
from service.model.inputs import INPUT_LABELS, InputColumn, input_column, input_names
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
