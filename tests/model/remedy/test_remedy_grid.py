"""A scenario and its remedies as points."""

from typing import Any

import msgspec
import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.remedy.remedies import applicable
from service.model.remedy.remedy_gains import evaluated
from service.model.remedy.remedy_grid import (
    RemedyGrid,
    remedy_grid,
    stored_axes,
    stored_grid,
    stored_remedies,
)
from service.model.remedy.remedy_kinds import RemedyRequest
from service.model.results import COLUMN_NAMES
from service.model.scenario import decode_scenario

OF_REMEDIES = {"remedy", "remedy_count", "gpu_hours_given_back"}
DOCUMENT: dict[str, Any] = {
    "num_gpus": 64,
    "compute_ms": 300,
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}, {"count": 2, "speed_fraction": 0.8}],
    "variability": {"replica": {"kind": "normal", "cv": 0.02}},
    "failures": {"failures_per_1000_node_days": 6.5, "checkpoint_interval_s": 600},
}


@pytest.fixture
def grid() -> RemedyGrid:
    document = decode_scenario(DOCUMENT)
    return remedy_grid(document, applicable(document)[0])


def test_point_0_is_the_scenario_as_it_is(grid: RemedyGrid) -> None:
    assert grid.num_points == 1 + len(grid.changes)
    assert grid.axis_paths == ("remedy", "remedy_setting")
    assert grid.inputs_at(0) == {"remedy": None, "remedy_setting": None}
    assert grid.point_scenario(0) == grid.base
    change = grid.changes[3]
    assert grid.point_scenario(4) == change.scenario
    assert grid.inputs_at(4) == {
        "remedy": change.remedy.kind,
        "remedy_setting": change.remedy.setting,
    }
    assert not grid.failures(0, grid.num_points).any()


def test_each_point_is_what_its_scenario_is_alone(grid: RemedyGrid) -> None:
    results, _ = evaluated(grid)
    for point in range(grid.num_points):
        alone = evaluate(columns_of(grid.point_scenario(point))).columns
        for name in set(COLUMN_NAMES) - OF_REMEDIES:
            np.testing.assert_allclose(
                results.columns[name][point], alone[name][0], rtol=1e-9, atol=1e-9, err_msg=name
            )


def test_the_leaves_that_any_remedy_changes_are_named(grid: RemedyGrid) -> None:
    changed = grid.changed_leaves()
    assert {"num_evicted_gpus", "num_spare_gpus", "slow_groups.count", "compute_ms"} <= set(changed)
    assert "num_gpus" not in changed
    # Absent on both sides, and so NaN: no change.
    assert "variability.persistent.cv" not in changed


def test_what_is_stored_gives_the_same_points(grid: RemedyGrid) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(stored_axes(grid.changes)))
    remedies = stored_remedies(stored)
    assert remedies is not None
    again = stored_grid(grid.base, remedies)
    assert again.changes == grid.changes
    assert stored[0]["remedies"][0] == {"kind": "replace_slow_gpus"}
    assert stored_remedies([]) is None
    assert stored_remedies([{"path": "num_gpus", "values": [1]}]) is None


def test_a_scenario_that_nothing_helps_has_one_point() -> None:
    document = decode_scenario({"num_gpus": 8, "compute_ms": 1})
    grid = remedy_grid(document, applicable(document)[0])
    results, gains = evaluated(grid)
    assert grid.num_points == len(results.failure) == len(gains.given_back) == 1
    assert grid.changed_leaves() == ()
    asked = applicable(document, [RemedyRequest(kind="rebalance_work")])
    assert asked[0] == []
