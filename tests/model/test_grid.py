import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.model.axes import decode_axes
from service.model.columns import COUNT, SPEED, columns_of
from service.model.grid import LONG_AXIS, Grid, build_grid
from service.model.kernel import Results, evaluate
from service.model.leaves import leaves
from service.model.losses import BLOCK_POINTS
from service.model.problems import InvalidScenario
from service.model.results import ATTRIBUTION_COLUMNS, COLUMN_NAMES, COLUMNS
from service.model.rules import FAILURES
from service.model.scenario import apply_overrides, decode_fields, decode_scenario, full
from tests.model.nullable import OF_COMMUNICATION, OF_OTHERS, OF_SPREAD

ORACLE = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "barrier.jsonl").read_text().splitlines()
]
BASE: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 2, "speed_fraction": 0.8}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}
GROUPS = [
    [],
    [{"count": 1, "speed_fraction": 0.7}],
    [{"count": 3, "speed_fraction": 0.9}, {"count": 100, "speed_fraction": 0.95}],
    [{"count": 1, "speed_fraction": 0.5}] * 3,
]
SOURCES = [
    None,
    {"kind": "normal", "cv": 0.31},
    {"kind": "normal", "cv": 0},
    {"kind": "gamma", "cv": 0.2},
    {"kind": "lognormal", "cv": 0.1},
]
SIZES = {"path": "num_gpus", "range": {"start": 1, "stop": 20_000, "step": 40}}
LOADS = {"path": "load_ms", "values": [0, 1e6]}
CVS = {"path": "variability.transient.cv", "values": [0.0, 0.02, 0.3, 0.9]}


def values(path: str, *listed: Any) -> dict[str, Any]:
    return {"path": path, "values": [*listed]}


def grid_of(*axes: dict[str, Any], base: dict[str, Any] = BASE, max_points: int = 10**6) -> Grid:
    return build_grid(decode_scenario(base), decode_axes([*axes]), max_points=max_points)


def refused(*axes: dict[str, Any], base: dict[str, Any] = BASE) -> list[tuple[str, str]]:
    with pytest.raises(InvalidScenario) as caught:
        grid_of(*axes, base=base, max_points=100)
    return [(problem.pointer, problem.code) for problem in caught.value.problems]


def assert_same(found: Results, row: int, alone: Results) -> None:
    assert found.failure[row] == alone.failure[0]
    for column in COLUMNS:
        one, other = found.columns[column.name][row], alone.columns[column.name][0]
        # Losses are differences of steps: their round-off is that of what is available.
        hours = alone.columns["gpu_hours_available"][0]
        slack = 1e-9 * hours if column.unit == "GPU-hours" and not math.isnan(hours) else 0
        assert one == pytest.approx(other, rel=1e-9, abs=slack, nan_ok=True), column.name


def points_of(grid: Grid, at_most: int = 60) -> Iterator[int]:
    return iter(range(0, grid.num_points, max(1, grid.num_points // at_most)))


def assert_points_are_scenarios(grid: Grid) -> None:
    """Every point is the scenario with the values of the axes in it, evaluated by itself."""
    found = evaluate(grid.columns(0, grid.num_points))
    for point in points_of(grid):
        scenario = decode_fields(apply_overrides(full(grid.base), grid.inputs_at(point)))
        assert grid.point_scenario(point) == scenario
        assert_same(found, point, evaluate(columns_of(scenario)))


def evaluated(document: dict[str, Any]) -> dict[str, float]:
    grid = build_grid(decode_scenario(document), (), max_points=1)
    assert grid.num_points == 1
    found = evaluate(grid.columns(0, 1)).columns
    return {name: found[name][0].item() for name in COLUMN_NAMES}


@pytest.mark.parametrize("row", ORACLE, ids=lambda row: row["id"])
def test_reference_values(row: dict[str, Any]) -> None:
    found = evaluated(row["scenario"])
    for name, expected in row["expected"].items():
        slack = row["atol_gpu_hours"] if name.startswith("gpu_hours_lost") else 0
        assert found[name] == pytest.approx(expected, rel=row["rtol"], abs=slack), name


def test_reference_values_as_one_grid_of_zipped_axes() -> None:
    scenarios = [full(decode_scenario(row["scenario"])) for row in ORACLE]
    names = ("num_gpus", "load_ms", "compute_ms", "communication", "slow_groups", "variability")
    zipped = {"zip": [values(name, *(each[name] for each in scenarios)) for name in names]}
    found = evaluate(grid_of(zipped).columns(0, len(ORACLE))).columns
    for position, row in enumerate(ORACLE):
        for name, expected in row["expected"].items():
            slack = row["atol_gpu_hours"] if name.startswith("gpu_hours_lost") else 0
            wanted = pytest.approx(expected, rel=row["rtol"], abs=slack)
            assert found[name][position] == wanted, (row["id"], name)


def test_figures_of_the_founding_page() -> None:
    step = {**BASE, "slow_groups": [], "variability": {}}
    one_slow = {**step, "slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
    small, large = evaluated(one_slow), evaluated({**one_slow, "num_gpus": 1024})
    assert f"{small['gpu_hours_lost_per_day']:.0f}" == "367"
    assert f"{small['gpu_hours_available_per_day']:.0f}" == "1536"
    assert f"{small['gpu_hours_lost']:.0f}" == "11001"
    assert f"{large['gpu_hours_lost_per_day']:.0f}" == "5867"
    assert f"{large['gpu_hours_lost']:.0f}" == "176008"
    jitter = {**step, "variability": {"transient": {"kind": "normal", "cv": 0.05}}}
    at_8, at_1024 = evaluated({**jitter, "num_gpus": 8}), evaluated({**jitter, "num_gpus": 1024})
    assert f"{at_8['efficiency_fraction']:.0%}" == "95%"
    assert f"{at_1024['efficiency_fraction']:.0%}" == "89%"
    assert f"{at_1024['gpu_hours_lost']:.0f}" == "78311"
    slow_link = evaluated({**one_slow, "communication": {"kind": "fixed", "allreduce_ms": 200}})
    assert f"{slow_link['efficiency_fraction']:.4f}" == "0.8048"
    assert slow_link["useful_compute_fraction"] < small["useful_compute_fraction"]


def test_points_come_in_c_order() -> None:
    grid = grid_of(values("num_gpus", 8, 16), values("load_ms", 1, 2, 3))
    assert grid.num_points == 6
    assert grid.axis_paths == ("num_gpus", "load_ms")
    columns = grid.columns(0, 6)
    assert columns["num_gpus"].tolist() == [8, 8, 8, 16, 16, 16]
    assert columns["load_ms"].tolist() == [1, 2, 3, 1, 2, 3]
    assert columns["compute_ms"].tolist() == [300] * 6
    assert columns[COUNT].tolist() == [[2]] * 6
    assert [grid.inputs_at(point) for point in (0, 2, 3)] == [
        {"num_gpus": 8, "load_ms": 1.0},
        {"num_gpus": 8, "load_ms": 3.0},
        {"num_gpus": 16, "load_ms": 1.0},
    ]


def test_zipped_axes_advance_together() -> None:
    zipped = {"zip": [values("compute_ms", 100, 200), values("slow_groups.0.count", 1, 4)]}
    grid = grid_of(values("num_gpus", 8, 16), zipped, values("load_ms", 5, 6))
    columns = grid.columns(0, grid.num_points)
    assert columns["num_gpus"].tolist() == [8] * 4 + [16] * 4
    assert columns["compute_ms"].tolist() == [100, 100, 200, 200] * 2
    assert columns[COUNT][:, 0].tolist() == [1, 1, 4, 4] * 2
    assert columns["load_ms"].tolist() == [5, 6] * 4
    assert grid.axis_paths == ("num_gpus", "compute_ms", "slow_groups.0.count", "load_ms")
    assert_points_are_scenarios(grid)


def test_axes_of_whole_structures() -> None:
    grid = grid_of(values("slow_groups", *GROUPS), values("variability.transient", *SOURCES))
    columns = grid.columns(0, grid.num_points)
    assert columns[COUNT][:: len(SOURCES)].tolist() == [
        [0, 0, 0],
        [1, 0, 0],
        [3, 100, 0],
        [1, 1, 1],
    ]
    assert columns[SPEED][:: len(SOURCES)].tolist() == [
        [1, 1, 1],
        [0.7, 1, 1],
        [0.9, 0.95, 1],
        [0.5, 0.5, 0.5],
    ]
    failure = [FAILURES[code] for code in grid.failures(0, grid.num_points).tolist()]
    assert failure[:6] == ["", "cv_too_large_for_normal", "", "", "", ""]
    assert set(failure[10:15]) == {"too_many_slow_gpus"}
    assert_points_are_scenarios(grid)


def test_the_groups_of_the_base_are_replaced_by_shorter_lists_too() -> None:
    base = {**BASE, "slow_groups": GROUPS[3]}
    grid = grid_of(values("slow_groups", *GROUPS[:2]), base=base)
    assert grid.columns(0, 2)[COUNT].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert_points_are_scenarios(grid)


def test_axes_of_one_group_and_of_its_leaves() -> None:
    base = {**BASE, "slow_groups": GROUPS[3]}
    grid = grid_of(
        values("slow_groups.2", {"count": 5, "speed_fraction": 0.9}, GROUPS[3][0]),
        values("slow_groups.0.count", 1, 60),
        values("slow_groups.0.speed_fraction", 0.4, 1.0),
        values("slow_groups.1.speed_fraction", 0.45),
        base=base,
    )
    columns = grid.columns(0, grid.num_points)
    assert columns[COUNT][0].tolist() == [1, 1, 5]
    assert columns[SPEED][-1].tolist() == [1.0, 0.45, 0.5]
    assert grid.failures(0, 8).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert_points_are_scenarios(grid)


def test_the_family_is_an_axis_of_its_own() -> None:
    kinds = values("variability.transient.kind", "normal", "gamma", "lognormal")
    grid = grid_of(kinds, CVS)
    assert grid.failures(0, 12).tolist() == [0, 0, 0, 2] + [0] * 8
    assert_points_are_scenarios(grid)


def test_whole_communication_and_variability_are_axes() -> None:
    grid = grid_of(
        values("communication", {"kind": "fixed"}, {"kind": "fixed", "allreduce_ms": 200}),
        values("variability", {}, {"transient": {"kind": "gamma", "cv": 0.1}}),
    )
    assert grid.columns(0, 4)["communication.allreduce_ms"].tolist() == [0, 0, 200, 200]
    assert_points_are_scenarios(grid)


@pytest.mark.parametrize("kind", ["normal", "gamma", "lognormal"])
def test_long_axes_of_sizes_agree_with_their_scenarios(kind: str) -> None:
    base = {**BASE, "variability": {"transient": {"kind": kind, "cv": 0.05}}}
    grid = grid_of(values("slow_groups.0.speed_fraction", 0.7, 0.99), SIZES, base=base)
    assert grid.dimensions[1].length == 500 > LONG_AXIS
    columns = grid.columns(0, grid.num_points)
    assert columns.size_key is not None
    assert columns.size_key.tolist() == [0] * 500 + [1] * 500
    assert columns.barrier_key is None
    assert FAILURES[grid.failures(0, 1)[0]] == "too_many_slow_gpus"
    assert_points_are_scenarios(grid)


def test_axes_that_the_barrier_does_not_see_share_its_work() -> None:
    grid = grid_of(SIZES, LOADS, CVS, values("compute_ms", 10, 300))
    columns = grid.columns(0, grid.num_points)
    assert columns.barrier_key is not None
    assert columns.size_key is not None
    assert columns.barrier_key[:8].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert len(np.unique(columns.barrier_key)) == 500 * 4
    assert len(np.unique(columns.size_key)) == 4
    assert_points_are_scenarios(grid)


def test_a_grid_that_only_changes_times_has_one_barrier() -> None:
    columns = grid_of(LOADS).columns(0, 2)
    assert columns.barrier_key is not None
    assert columns.barrier_key.tolist() == [0, 0]
    assert columns.size_key is None
    assert grid_of(CVS).columns(0, 4).barrier_key is None
    assert grid_of().columns(0, 1).barrier_key is None


def test_sizes_in_a_zip_are_no_long_axis() -> None:
    sizes = [float(size) for size in range(10, 210)]
    grid = grid_of(
        {"zip": [values("num_gpus", *sizes), values("slow_groups.0.count", *([3] * 200))]}
    )
    assert grid.columns(0, 200).size_key is None
    assert_points_are_scenarios(grid)


def test_failing_points_do_not_disturb_the_others() -> None:
    grid = grid_of(
        values("slow_groups.0.count", 1, 500),
        SIZES,
        LOADS,
        values("slow_groups.0.speed_fraction", 0.9),
    )
    failure = grid.failures(0, grid.num_points)
    assert 0 < (failure == 1).sum() < grid.num_points
    found = evaluate(grid.columns(0, grid.num_points))
    assert np.array_equal(found.failure, failure)
    assert np.array_equal(np.isnan(found.columns["step_mean_ms"]), failure != 0)
    assert np.array_equal(found.columns["method"] == -1, failure != 0)
    assert_points_are_scenarios(grid)


KEYS = ("barrier_key", "step_key", "size_key")


def concatenated(grid: Grid, size: int) -> Iterator[tuple[str, Any]]:
    parts = [
        grid.columns(start, min(start + size, grid.num_points))
        for start in range(0, grid.num_points, size)
    ]
    for name in leaves():
        yield name, np.concatenate([part[name] for part in parts])
    for name in KEYS:
        found = [getattr(part, name) for part in parts]
        yield name, None if found[0] is None else np.concatenate(found)


@pytest.mark.parametrize("size", [1, 7, 997])
def test_chunks_are_parts_of_the_whole(size: int) -> None:
    grid = grid_of(
        {"zip": [values("load_ms", 1, 2), values("variability.transient", *SOURCES[2:4])]},
        values("slow_groups", *GROUPS),
        {"path": "num_gpus", "range": {"start": 60, "stop": 300, "step": 2}},
    )
    whole = grid.columns(0, grid.num_points)
    for name, joined in concatenated(grid, size):
        here = getattr(whole, name) if name in KEYS else whole[name]
        if joined is None or joined.dtype == object:
            assert np.all(np.equal(here, joined)), name
        else:
            np.testing.assert_array_equal(here, joined, err_msg=name)
    assert grid.columns(5, 5).num_points == 0
    found = evaluate(whole)
    for start in range(0, grid.num_points, 400):
        part = evaluate(grid.columns(start, min(start + 400, grid.num_points)))
        for name in COLUMN_NAMES:
            rows = found.columns[name][start : start + 400]
            np.testing.assert_allclose(part.columns[name], rows, rtol=1e-9, atol=1e-6, err_msg=name)


def test_every_point_is_found_by_its_inputs() -> None:
    grid = grid_of(
        values("slow_groups", *GROUPS),
        {"zip": [values("load_ms", 1, 1, 2), values("compute_ms", 5, 6, 5)]},
        values("variability.transient", *SOURCES),
        values("num_gpus", 8, 16),
    )
    for point in range(grid.num_points):
        assert grid.find(grid.inputs_at(point)) == point


def test_what_is_not_on_the_grid_is_not_found() -> None:
    grid = grid_of(
        {"zip": [values("load_ms", 1, 1, 2), values("compute_ms", 5, 6, 5)]}, values("num_gpus", 8)
    )
    at = {"load_ms": 1, "compute_ms": 6, "num_gpus": 8}
    assert grid.find(at) == 1
    for change in (
        {"load_ms": 2},
        {"num_gpus": 9},
        {"num_gpus": True},
        {"compute_ms": "6"},
        {"compute_ms": 10**400},
        {"num_gpus": None},
        {"seed": 1},
    ):
        assert grid.find({**at, **change}) is None
    assert grid.find({"num_gpus": 8}) is None
    assert grid_of().find({}) == 0


def test_equal_points_of_a_zip_are_found_at_the_first() -> None:
    grid = grid_of({"zip": [values("load_ms", 1, 1), values("compute_ms", 5, 5)]})
    assert grid.num_points == 2
    assert grid.find({"load_ms": 1, "compute_ms": 5}) == 0


def test_duplicates_are_removed_with_a_warning_that_names_the_axis() -> None:
    grid = grid_of(values("load_ms", 0, 1), values("num_gpus", 8, 8.4, 9.5, 10.5, 11.5))
    assert grid.columns(0, 6)["num_gpus"].tolist() == [8, 10, 12] * 2
    assert [(warning.pointer, warning.code) for warning in grid.warnings] == [
        ("/axes/1", "duplicates_removed")
    ]
    assert grid_of(LOADS).warnings == ()


def test_a_grid_over_the_limit_is_refused_with_its_number_of_points() -> None:
    sizes = {"path": "num_gpus", "range": {"start": 1, "stop": 10_000_000, "step": 1}}
    cvs = {"path": "variability.transient.cv", "range": {"start": 0, "stop": 0.3, "step": 0.003}}
    with pytest.raises(InvalidScenario) as caught:
        grid_of(sizes, cvs)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == ("/axes", "too_many_points")
    assert problem.detail == "1010000000 points, but the limit is 1000000"
    zipped = {"zip": [values("load_ms", *range(50)), values("compute_ms", *range(1, 51))]}
    assert refused(zipped, values("num_gpus", 1, 2, 3)) == [("/axes", "too_many_points")]
    assert grid_of(zipped, values("num_gpus", 8, 9), max_points=100).num_points == 100


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (values("num_gpus", 1), values("num_gpus", 2)),
        (values("slow_groups", []), values("slow_groups.0.count", 2)),
        (values("slow_groups.0.count", 2), values("slow_groups", [])),
        (CVS, values("variability", {})),
        (values("variability.transient", None), values("variability.transient.kind", "normal")),
        (values("load_ms", 1), {"zip": [values("load_ms", 1)]}),
    ],
)
def test_nested_paths_are_refused(one: dict[str, Any], other: dict[str, Any]) -> None:
    inside = "/zip/0" if "zip" in other else ""
    assert refused(one, other) == [(f"/axes/1{inside}/path", "nested_paths")]


def test_sentences_of_nested_paths_name_both() -> None:
    with pytest.raises(InvalidScenario, match="'num_gpus' is an axis twice"):
        grid_of(values("num_gpus", 1), values("num_gpus", 1))
    with pytest.raises(
        InvalidScenario, match=r"'slow_groups\.0' and 'slow_groups' are nested: one lies under"
    ):
        grid_of(values("slow_groups", []), values("slow_groups.0", 1))
    grid_of(values("slow_groups.0.count", 1), values("slow_groups.0.speed_fraction", 1))


def test_all_faults_of_all_axes_are_reported() -> None:
    assert refused(
        values("num_gpus", 0, 8),
        {"zip": [values("load_ms", 1), values("unknown", 1)]},
        values("seed", 1),
        values("variability.transient.cv", "x"),
    ) == [
        ("/axes/0/values/0", "out_of_range"),
        ("/axes/1/zip/1/path", "unknown_path"),
        ("/axes/2/path", "refused_axis"),
        ("/axes/3/values/0", "wrong_type"),
    ]


def test_a_path_under_null_is_refused() -> None:
    base = {**BASE, "variability": {}}
    assert refused(CVS, base=base) == [("/axes/0/path", "path_under_null")]
    assert grid_of(values("variability.transient", None, SOURCES[3]), base=base).num_points == 2


@pytest.mark.parametrize("kind", ["normal", "lognormal", "gamma"])
def test_extreme_inputs_overflow_nowhere(kind: str) -> None:
    grid = grid_of(
        values("num_gpus", 2, 10_000_000),
        values("load_ms", 0, 1e12),
        values("communication.allreduce_ms", 0, 1e12),
        values("compute_ms", 1e-9, 1e12),
        values("variability.transient.cv", 0, 5e-324, 1e-12, 1e-6, 0.3, 1),
        values("slow_groups.0.speed_fraction", 1e-6, 1 - 2**-53, 1),
        values("slow_groups.0.count", 1, 2),
        base={**BASE, "period_days": 3660, "variability": {"transient": {"kind": kind, "cv": 0}}},
    )
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = evaluate(grid.columns(0, grid.num_points))
    sound = found.failure == 0
    assert sound.sum() == grid.num_points - (96 if kind == "normal" else 0)
    for name in set(COLUMN_NAMES) - OF_OTHERS - OF_SPREAD - OF_COMMUNICATION:
        assert np.isfinite(found.columns[name][sound]).all(), name
    available = found.columns["gpu_hours_available"][sound]
    total = sum(found.columns[name][sound] for name in ATTRIBUTION_COLUMNS)
    np.testing.assert_allclose(total, available, rtol=1e-9)
    for name in (*ATTRIBUTION_COLUMNS, "gpu_hours_lost", "gpu_hours_not_useful"):
        assert (found.columns[name][sound] >= 0).all(), name
    assert (found.columns["efficiency_fraction"][sound] <= 1).all()


AXES = [
    values("slow_groups", *GROUPS),
    values("variability.transient", *SOURCES),
    SIZES,
    LOADS,
    values("compute_ms", 1, 300),
    values("communication.allreduce_ms", 0, 80, 200),
    {"zip": [values("compute_ms", 1, 300), values("variability.transient", *SOURCES[3:])]},
    {"zip": [values("num_gpus", 8, 4096), values("slow_groups", *GROUPS[1:3])]},
]


def paths_of(axis: dict[str, Any]) -> set[str]:
    return {part["path"] for part in axis.get("zip", [axis])}


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(AXES), max_size=4))
def test_points_of_any_grid_are_their_scenarios(drawn: list[dict[str, Any]]) -> None:
    axes: list[dict[str, Any]] = []
    for axis in drawn:
        if all(paths_of(axis).isdisjoint(paths_of(other)) for other in axes):
            axes.append(axis)
    grid = grid_of(*axes)
    found = evaluate(grid.columns(0, grid.num_points))
    for point in points_of(grid, 8):
        assert grid.find(grid.inputs_at(point)) == point
        assert_same(found, point, evaluate(columns_of(grid.point_scenario(point))))


def test_more_points_than_a_block_are_those_of_smaller_grids() -> None:
    loads = {"path": "load_ms", "range": {"start": 0, "stop": BLOCK_POINTS, "step": 1}}
    grid = grid_of(values("slow_groups.0.count", 2, 65), loads)
    assert grid.num_points == 2 * (BLOCK_POINTS + 1)
    assert (grid.failures(0, grid.num_points) == 0).sum() == BLOCK_POINTS + 1
    assert_points_are_scenarios(grid)
    times = evaluate(grid.columns(0, grid.num_points)).columns["ideal_step_ms"]
    np.testing.assert_array_equal(times[: BLOCK_POINTS + 1], 380 + np.arange(BLOCK_POINTS + 1.0))
