"""Whole scenarios with every source: reference values, invariants, brute force."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.model.axes import decode_axes
from service.model.columns import columns_of, joined
from service.model.grid import build_grid
from service.model.kernel import evaluate
from service.model.problems import InvalidScenario
from service.model.results import ATTRIBUTION_COLUMNS, METHODS
from service.model.scenario import decode_scenario

STEP: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
NORMAL = {"kind": "normal", "cv": 0.05}


def results(**changed: Any) -> dict[str, Any]:
    found = evaluate(columns_of(decode_scenario({**STEP, **changed})))
    assert found.failure[0] == 0
    return {name: values[0].item() for name, values in found.columns.items()}


def slowest(**changed: Any) -> float:
    return float(results(**changed)["slowest_compute_mean_ms"]) / 300


def test_persistent_and_per_step_lose_alike_and_spread_apart() -> None:
    # Reference values of independent code: shared/oracle/order_statistics.json.
    each_step = results(variability={"transient": NORMAL})
    lasting = results(variability={"persistent": NORMAL})
    for found in (each_step, lasting):
        assert found["gpu_hours_lost"] == pytest.approx(78_310.62510797, rel=1e-9)
    assert each_step["gpu_hours_lost_sd"] == pytest.approx(3.179612019561147, rel=1e-4)
    assert each_step["gpu_hours_lost_cluster_mean"] == pytest.approx(78_310.625, abs=0.01)
    # Those of a sample of 2 000 000 clusters.
    assert lasting["gpu_hours_lost_sd"] == pytest.approx(7_495.04, abs=15)
    assert lasting["gpu_hours_lost_p10"] == pytest.approx(69_424.95, abs=25)
    assert lasting["gpu_hours_lost_p50"] == pytest.approx(77_365.07, abs=25)
    assert lasting["gpu_hours_lost_p90"] == pytest.approx(88_150.72, abs=40)
    assert lasting["gpu_hours_lost_cluster_mean"] == pytest.approx(78_225, abs=15)
    assert lasting["gpu_hours_lost_se"] == 0
    assert METHODS[lasting["spread_method"]] == "quadrature"
    assert lasting["gpu_hours_reducible_by_eviction"] == lasting["gpu_hours_lost"]
    assert each_step["gpu_hours_reducible_by_waiting"] == each_step["gpu_hours_lost"]
    # The less efficient the cluster the more it loses.
    lost = lasting["gpu_hours_lost_p90"] / lasting["gpu_hours_available"]
    assert lasting["efficiency_fraction_p10"] == pytest.approx(1 - lost, rel=1e-12)


@pytest.mark.parametrize(
    ("variability", "wanted", "within"),
    [
        ({"node": {"kind": "normal", "cv": 0.04}, "transient": {"kind": "normal", "cv": 0.03}},
         1.163968, 1e-6),
        ({"persistent": {"kind": "normal", "cv": 0.04},
          "transient": {"kind": "normal", "cv": 0.03}}, 1.168033, 1e-6),
        ({"node": {"kind": "normal", "cv": 0.05}}, 1.1297298684299732, 1e-9),
    ],
)  # fmt: skip
def test_reference_maxima(variability: dict[str, Any], wanted: float, within: float) -> None:
    assert slowest(variability=variability) == pytest.approx(wanted, abs=within)


def test_a_scenario_of_everything_by_brute_force() -> None:
    variability = {
        "persistent": {"kind": "lognormal", "cv": 0.04},
        "node": {"kind": "normal", "cv": 0.02},
        "transient": {"kind": "gamma", "cv": 0.05},
        "replica": {"kind": "normal", "cv": 0.03},
        "common": {"kind": "gamma", "cv": 0.04},
        "spikes": {"probability": 0.002, "slowdown": 1.5},
    }
    slow = [{"count": 3, "speed_fraction": 0.9}]
    given = {"variability": variability, "slow_groups": slow, "tensor_parallel_size": 4}
    found = results(num_gpus=64, **given)
    drawn = brute_force(40_000)
    error = drawn.std() / len(drawn) ** 0.5
    mean = found["slowest_compute_mean_ms"] / 300
    assert abs(mean - drawn.mean()) < 4 * error
    for name, share in (("step_p50_ms", 0.5), ("step_p95_ms", 0.95), ("step_p99_ms", 0.99)):
        wanted = np.quantile(drawn, share)
        near = np.quantile(drawn, [share - 0.01 * (1 - share), share + 0.01 * (1 - share)])
        assert abs((found[name] - 110) / 300 - wanted) < 4 * max(np.ptp(near), 0.001)


def brute_force(num_steps: int) -> NDArray[np.float64]:
    """Slowest of 64 GPUs, each step in another cluster; see the scenario above."""
    rng = np.random.default_rng(5)
    log_sd = np.sqrt(np.log1p(0.04**2))
    speed = np.ones((num_steps, 64))
    places = rng.permuted(np.tile(np.arange(64), (num_steps, 1)), axis=1)[:, :3]
    np.put_along_axis(speed, places, 0.9, axis=1)
    factor = 1 / speed * np.exp(log_sd * rng.standard_normal(speed.shape) - log_sd**2 / 2)
    factor *= np.repeat(1 + 0.02 * rng.standard_normal((num_steps, 8)), 8, axis=1)
    factor *= rng.gamma(400, 1 / 400, speed.shape)
    factor *= np.repeat(1 + 0.03 * rng.standard_normal((num_steps, 16)), 4, axis=1)
    factor *= np.where(rng.random(speed.shape) < 0.002, 1.5, 1.0)
    slowest_of_step: NDArray[np.float64] = factor.max(axis=1)
    return slowest_of_step * rng.gamma(625, 1 / 625, num_steps)


KINDS = st.sampled_from(["normal", "lognormal", "gamma", "weibull", "exponential"])
LAWS = st.builds(lambda kind, cv: {"kind": kind, "cv": cv}, KINDS, st.floats(0.0, 0.2))
SPIKES = st.fixed_dictionaries({"probability": st.floats(0, 0.01), "slowdown": st.floats(1, 3)})
EPISODES = st.fixed_dictionaries(
    {
        "rate_per_gpu_day": st.floats(0, 0.05),
        "mean_hours": st.floats(0, 2),
        "severity": st.floats(1, 2),
    }
)
MEAN_ONE = ("transient", "persistent", "node", "replica", "common")
ALL = {**dict.fromkeys(MEAN_ONE, LAWS), "spikes": SPIKES, "episodes": EPISODES}
# Every pair meets; all seven at once take seconds.
VARIABILITY = st.lists(st.sampled_from([*ALL]), max_size=2, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: ALL[name] for name in names})
)
GROUPS = st.lists(
    st.fixed_dictionaries({"count": st.integers(1, 8), "speed_fraction": st.floats(0.6, 1)}),
    max_size=1,
)
FAILING = {"failures": {"mtbf_hours_per_gpu": 1e5, "restart_s": 300}}
SCENARIOS = st.fixed_dictionaries(
    {
        "num_gpus": st.integers(2, 500).map(lambda nodes: 8 * nodes),
        "tensor_parallel_size": st.sampled_from([1, 2, 8]),
        "variability": VARIABILITY,
        "slow_groups": GROUPS,
        "draws": st.just(64),
    }
)


def has_no_spread(scenario: dict[str, Any]) -> bool:
    """Replica groups of several GPUs, of several speeds or with spikes, beside what lasts."""
    names = set(scenario["variability"])
    grouped = "replica" in names and scenario["tensor_parallel_size"] > 1
    mixed = bool(scenario["slow_groups"]) or ("spikes" in names and "transient" not in names)
    return grouped and mixed and not names.isdisjoint({"persistent", "node"})


@settings(max_examples=20, deadline=None)
@given(SCENARIOS, st.sampled_from([{}, FAILING]))
def test_causes_are_not_negative_and_sum_up(
    scenario: dict[str, Any], failing: dict[str, Any]
) -> None:
    found = results(**scenario, **failing, total_steps=10**6)
    total = sum(found[name] for name in ATTRIBUTION_COLUMNS)
    assert total == pytest.approx(found["gpu_hours_available"], rel=1e-9)
    for name in ATTRIBUTION_COLUMNS:
        assert found[name] >= 0, name
    assert found["gpu_hours_common"] == 0
    parts = ("reducible_by_eviction", "reducible_by_waiting", "irreducible")
    grouped = sum(found[f"gpu_hours_{name}"] for name in parts)
    assert grouped == pytest.approx(found["gpu_hours_lost"], rel=1e-9, abs=1e-9 * total)
    if not has_no_spread(scenario):
        assert found["gpu_hours_lost_p10"] <= found["gpu_hours_lost_p50"] * (1 + 1e-9)
        assert found["gpu_hours_lost_p50"] <= found["gpu_hours_lost_p90"] * (1 + 1e-9)
    assert found["step_p50_ms"] <= found["step_p95_ms"] <= found["step_p99_ms"]


@settings(max_examples=20, deadline=None)
@given(SCENARIOS, st.data())
def test_one_more_source_never_lowers_the_pooled_loss(
    scenario: dict[str, Any], data: st.DataObject
) -> None:
    variability = scenario["variability"]
    absent = [name for name in MEAN_ONE if name not in variability]
    more = {**variability, data.draw(st.sampled_from(absent)): data.draw(LAWS)}
    before = results(**scenario)
    after = results(**{**scenario, "variability": more})
    # Three and more kinds of GPUs in blocks go by expected compositions: model page, "How".
    in_blocks = "episodes" in variability and bool(scenario["slow_groups"])
    error = 3e-3 if in_blocks and {"node", "replica"} & set(more) else 1e-8
    assert after["step_mean_ms"] >= before["step_mean_ms"] * (1 - error)


@pytest.mark.parametrize("source", ["persistent", "node", "transient", "replica", "common"])
def test_one_gpu_loses_nothing(source: str) -> None:
    found = results(num_gpus=1, variability={source: {"kind": "gamma", "cv": 0.3}})
    assert found["gpu_hours_lost"] == pytest.approx(0, abs=1e-6)
    spread = found["gpu_hours_lost_p90"] - found["gpu_hours_lost_p10"]
    assert (spread > 1) == (source in {"persistent", "node"})


@settings(max_examples=12, deadline=None)
@given(SCENARIOS, st.integers(1, 15))
def test_grouping_identical_gpus_changes_nothing(scenario: dict[str, Any], count: int) -> None:
    scenario = {**scenario, "slow_groups": []}
    grouped = {**scenario, "slow_groups": [{"count": count, "speed_fraction": 1.0}]}
    before = results(**scenario)
    after = results(**grouped)
    assert after["step_mean_ms"] == pytest.approx(before["step_mean_ms"], rel=1e-8)
    for name in ("step_p50_ms", "step_p95_ms", "step_p99_ms"):
        assert after[name] == pytest.approx(before[name], rel=1e-7), name


@settings(max_examples=12, deadline=None)
@given(SCENARIOS, st.floats(0.6, 1))
def test_a_group_written_as_two_is_the_same(scenario: dict[str, Any], speed: float) -> None:
    one = {**scenario, "slow_groups": [{"count": 5, "speed_fraction": speed}]}
    two = {
        **scenario,
        "slow_groups": [{"count": count, "speed_fraction": speed} for count in (2, 3)],
    }
    try:
        before, after = results(**one), results(**two)
    except InvalidScenario:
        assume(False)
    assert after["step_mean_ms"] == pytest.approx(before["step_mean_ms"], rel=1e-8)


@settings(max_examples=12, deadline=None)
@given(SCENARIOS, st.integers(1, 4))
def test_eviction_gains_nothing_where_nothing_lasts(scenario: dict[str, Any], count: int) -> None:
    per_step = {
        name: value
        for name, value in scenario["variability"].items()
        if name in {"transient", "common", "spikes"}
    }
    given_ = {"variability": per_step, "slow_groups": [], "num_gpus": scenario["num_gpus"]}
    evicted = results(**given_, num_evicted_gpus=count)
    smaller = results(**{**given_, "num_gpus": scenario["num_gpus"] - count})
    assert evicted["step_mean_ms"] == pytest.approx(smaller["step_mean_ms"], rel=1e-9)
    spared = results(**given_, num_spare_gpus=count)
    assert spared["step_mean_ms"] == pytest.approx(results(**given_)["step_mean_ms"], rel=1e-9)


@pytest.mark.parametrize("cv", [1e-300, 1e-9, 1e-4])
@pytest.mark.parametrize("lasting", ["node", "persistent"])
def test_what_lasts_may_be_next_to_nothing(lasting: str, cv: float) -> None:
    each_step = {"transient": {"kind": "normal", "cv": 0.125}}
    fields: dict[str, Any] = {
        "num_gpus": 4096,
        "slow_groups": [{"count": 5, "speed_fraction": 0.8}],
        "draws": 64,
    }
    plain = results(variability=each_step, **fields)
    found = results(variability={**each_step, lasting: {"kind": "weibull", "cv": cv}}, **fields)
    assert found["gpu_hours_lost"] == pytest.approx(plain["gpu_hours_lost"], rel=1e-5)
    for name in ("gpu_hours_lost_p10", "gpu_hours_lost_p90"):
        assert found[name] == pytest.approx(plain[name], rel=3e-3), name


def test_a_node_of_one_tensor_parallel_group_by_brute_force() -> None:
    law = {"kind": "lognormal", "cv": 0.1}
    step = {"num_gpus": 80, "load_ms": 30, "communication": {"kind": "fixed"}}
    sources = {"node": law, "replica": {"kind": "gamma", "cv": 0.1}}
    found = results(**step, variability=sources, tensor_parallel_size=8)
    rng = np.random.default_rng(6)
    log_sd = np.log1p(0.01) ** 0.5
    nodes = np.exp(log_sd * rng.standard_normal((1000, 1, 10)) - log_sd**2 / 2)
    mean = (nodes * rng.gamma(100, 0.01, (1000, 200, 10))).max(axis=2).mean(axis=1)
    lost = found["gpu_hours_available"] * (1 - 1.1 / (0.1 + mean))
    error = lost.std() / len(lost) ** 0.5
    assert abs(found["gpu_hours_lost_cluster_mean"] - lost.mean()) < 4 * error
    assert found["gpu_hours_lost_sd"] == pytest.approx(lost.std(), rel=0.1)
    for name, share in (("gpu_hours_lost_p10", 0.1), ("gpu_hours_lost_p90", 0.9)):
        assert abs(found[name] - np.quantile(lost, share)) < 6 * error


@pytest.mark.parametrize(
    "given_",
    [
        {"num_gpus": 2, "variability": {"persistent": {"kind": "gamma", "cv": 0.1}},
         "num_evicted_gpus": 1},
        {"num_gpus": 4, "variability": {"persistent": {"kind": "gamma", "cv": 0.1}},
         "num_spare_gpus": 4},
        {"num_gpus": 8, "variability": {"persistent": {"kind": "lognormal", "cv": 0.3},
                                        "transient": {"kind": "gamma", "cv": 0.05}},
         "num_evicted_gpus": 5, "draws": 64},
    ],
)  # fmt: skip
def test_the_best_of_those_that_differ_gain(given_: dict[str, Any]) -> None:
    found = results(**given_)
    total = sum(found[name] for name in ATTRIBUTION_COLUMNS)
    assert total == pytest.approx(found["gpu_hours_available"], rel=1e-9)
    # Without the slowest, GPUs that differ are better than nominal ones.
    assert found["gpu_hours_persistent"] < 0
    lost = found["gpu_hours_persistent"] + found["gpu_hours_transient"] + found["gpu_hours_spares"]
    assert lost == pytest.approx(found["gpu_hours_lost"], rel=1e-9)


def test_a_point_is_the_same_alone_and_among_others() -> None:
    lasting = {"persistent": {"kind": "gamma", "cv": 0.1}, "node": {"kind": "gamma", "cv": 0.05}}
    variability = {**lasting, "transient": {"kind": "gamma", "cv": 0.05}}
    slow = [{"count": 2, "speed_fraction": 0.9}]
    backup = {"kind": "backup_workers", "count": 2}
    scenarios = [
        {"num_gpus": 16, "gpus_per_node": 4, "variability": variability, **change}
        for change in (
            {"num_evicted_gpus": 1},
            {},
            {"slow_groups": slow},
            {"gpus_per_node": 1, "synchronization": backup},
            {"variability": {}, "slow_groups": slow},
        )
    ]
    points = [columns_of(decode_scenario({**STEP, "draws": 64, **one})) for one in scenarios]
    together = evaluate(joined(points)).columns
    for row, point in enumerate(points):
        alone = evaluate(point).columns
        for name, values in together.items():
            one = alone[name][0]
            slack = 1e-9 * abs(alone["gpu_hours_available"][0])
            assert values[row] == pytest.approx(one, rel=1e-9, abs=slack, nan_ok=True), (row, name)


def test_points_that_differ_in_their_work_alone_share_their_clusters() -> None:
    lasting = {"persistent": {"kind": "gamma", "cv": 0.05}, "transient": NORMAL}
    base = decode_scenario({**STEP, "draws": 64, "variability": lasting, "total_steps": 1})
    axes = decode_axes([{"path": "total_steps", "values": [None, 10, 20]}])
    found = evaluate(build_grid(base, axes, max_points=3).columns(0, 3)).columns
    assert np.ptp(found["gpu_hours_lost_p90"]) == 0
    assert found["gpu_hours_lost_p90_se"][0] > 0
    days = found["days_to_finish"]
    assert np.isnan(days[0])
    assert days[2] == pytest.approx(2 * days[1], rel=1e-14)


@pytest.mark.parametrize(("small", "large"), [("node", "persistent"), ("persistent", "node")])
def test_a_factor_that_is_nothing_beside_another(small: str, large: str) -> None:
    fields: dict[str, Any] = {"num_gpus": 256, "draws": 256}
    wide = {large: {"kind": "lognormal", "cv": 0.2}, "transient": NORMAL}
    plain = results(variability=wide, **fields)
    found = results(variability={**wide, small: {"kind": "lognormal", "cv": 1e-4}}, **fields)
    sd = plain["gpu_hours_lost_sd"]
    for name in ("gpu_hours_lost_p10", "gpu_hours_lost_p50", "gpu_hours_lost_p90"):
        assert abs(found[name] - plain[name]) < 0.35 * sd, name
