"""What must hold for every scenario with overlap and synchronization, at the level of results."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.model.columns import Columns, columns_of, joined
from service.model.kernel import Results, evaluate
from service.model.results import ATTRIBUTION_COLUMNS
from service.model.scenario import decode_scenario
from tests.model.random_waits import WAYS
from tests.soak.whole_steps import sound_scenario

MAY_BE_NEGATIVE = {"gpu_hours_backup_workers"}
SEEDS = st.integers(0, 2**32 - 1)
ALWAYS_THERE = (
    "step_mean_ms",
    "efficiency_fraction",
    "gpu_hours_lost",
    "gpu_hours_lost_se",
    "gpu_hours_above_nominal",
    "exposed_communication_ms",
    "exposed_load_ms",
    "slowest_compute_mean_ms",
    *ATTRIBUTION_COLUMNS,
)


def columns(document: dict[str, Any]) -> Columns:
    return columns_of(decode_scenario(document))


def results(document: dict[str, Any], *, with_spread: bool = False) -> dict[str, float]:
    found = evaluate(columns(document), with_spread=with_spread)
    assert found.failure[0] == 0
    return {name: float(values[0]) for name, values in found.columns.items()}


def quick(seed: int, way: str) -> dict[str, Any]:
    """A random scenario whose simulation takes no time."""
    return {**sound_scenario(np.random.default_rng(seed), way), "draws": 16}


def error_of(found: dict[str, float]) -> float:
    """Of the mean step, ms."""
    share = found["gpu_hours_lost_se"] / found["gpu_hours_available"]
    return share / found["efficiency_fraction"] * found["step_mean_ms"]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_causes_sum_up_and_none_is_negative(way: str, seed: int) -> None:
    document = quick(seed, way)
    found = results(document, with_spread=True)
    for name in ALWAYS_THERE:
        assert np.isfinite(found[name]), name
    assert not any(np.isinf(value) for value in found.values())
    available = found["gpu_hours_available"]
    assert sum(found[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(available, rel=1e-9)
    stands_by = {"num_spare_gpus", "num_evicted_gpus"} & set(document)
    for name in set(ATTRIBUTION_COLUMNS) - MAY_BE_NEGATIVE:
        assert found[name] >= 0 or stands_by, name
    parts = found["gpu_hours_communication_latency"] + found["gpu_hours_communication_bandwidth"]
    assert np.isnan(parts) or parts <= found["gpu_hours_communication"] * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=1, deadline=None)
@given(seed=SEEDS, factor=st.floats(1.01, 100))
def test_a_faster_link_never_hurts(way: str, seed: int, factor: float) -> None:
    document = quick(seed, way)
    communication = {"kind": "ring", "message_bytes": 5e7, "link": {}}
    slow = {"latency_us": 300.0, "bandwidth_gigabytes_per_s": 1.0}
    points = [
        {**document, "communication": {**communication, "link": link}}
        for link in (
            slow,
            {**slow, "bandwidth_gigabytes_per_s": factor},
            {**slow, "latency_us": 300 / factor},
        )
    ]
    found = [results(point) for point in points]
    for faster in found[1:]:
        error = 4 * (error_of(found[0]) + error_of(faster))
        assert faster["step_mean_ms"] <= found[0]["step_mean_ms"] * (1 + 1e-9) + error
        assert faster["exposed_communication_ms"] <= found[0]["exposed_communication_ms"] + (
            1e-7 * found[0]["step_mean_ms"]
        )


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
@example(seed=570467)
def test_the_last_bucket_is_never_hidden(seed: int) -> None:
    found = results(quick(seed, "buckets"))
    slack = 1e-9 * found["step_mean_ms"]
    assert found["exposed_communication_ms"] >= found["last_bucket_ms"] - slack


@pytest.mark.parametrize(
    "waiting",
    [
        {"kind": "bounded_staleness", "staleness": 0},
        {"kind": "local_steps", "steps": 1},
        {"kind": "backup_workers", "count": 0},
    ],
)
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS, way=st.sampled_from(["none", "buckets"]))
def test_a_barrier_by_another_name_is_a_barrier(
    waiting: dict[str, Any], seed: int, way: str
) -> None:
    document = {**quick(seed, way), "synchronization": {"kind": "every_step"}}
    plain = results(document, with_spread=True)
    found = results({**document, "synchronization": waiting}, with_spread=True)
    for name in set(plain) - {"break_even_extra_steps_fraction"}:
        slack = 1e-12 * abs(plain["gpu_hours_available"])
        wanted = pytest.approx(plain[name], rel=1e-12, abs=slack, nan_ok=True)
        assert found[name] == wanted, name


@settings(max_examples=3, deadline=None)
@given(steps=st.integers(2, 500), speed=st.floats(0.3, 0.95), load=st.sampled_from([0.0, 40.0]))
def test_rare_exchanges_do_nothing_for_slow_gpus(steps: int, speed: float, load: float) -> None:
    document = {
        "num_gpus": 64,
        "compute_ms": 100.0,
        "load_ms": load,
        "communication": {"kind": "fixed", "allreduce_ms": 50.0},
        "slow_groups": [{"count": 2, "speed_fraction": speed}],
    }
    local = {"kind": "local_steps", "steps": steps}
    plain, found = results(document), results({**document, "synchronization": local})
    hours = [
        one["gpu_hours_slow_groups"] * one["step_mean_ms"] / one["gpu_hours_available"]
        for one in (plain, found)
    ]
    assert hours[0] == pytest.approx(100 / speed - 100, rel=1e-9)
    assert hours[1] == pytest.approx(hours[0], rel=1e-9)
    assert found["gpu_hours_communication"] * found["step_mean_ms"] == pytest.approx(
        found["gpu_hours_available"] * 50 / steps, rel=1e-9
    )


@settings(max_examples=3, deadline=None)
@given(seed=SEEDS, staleness=st.integers(1, 4))
def test_staleness_lies_between_rare_barriers_and_the_slowest_rank(
    seed: int, staleness: int
) -> None:
    free = {"kind": "fixed", "allreduce_ms": 0.0}
    overlap = {"kind": "none", "load_prefetch": False}
    document = {**quick(seed, "stale"), "communication": free, "overlap": overlap}
    stale = {"kind": "bounded_staleness", "staleness": staleness}
    rarely = {"kind": "local_steps", "steps": staleness + 1}
    found = results({**document, "synchronization": stale, "draws": 64})
    barrier = results({**document, "synchronization": rarely, "draws": 64})
    error = 4 * (error_of(found) + error_of(barrier)) + 1e-9 * barrier["step_mean_ms"]
    assert found["step_mean_ms"] <= barrier["step_mean_ms"] + error
    # slowest_compute: of what lasts; the spikes of a rank are its own.
    own = document["load_ms"] + found["slowest_compute_mean_ms"]
    assert found["step_mean_ms"] >= own * (1 - 1e-9) - error


def _same(together: Results, row: int, alone: Results) -> None:
    available = alone.columns["gpu_hours_available"][0]
    for name, values in together.columns.items():
        wanted = alone.columns[name][0]
        slack = 1e-9 * available if name.startswith("gpu_hours") else 0.0
        assert values[row] == pytest.approx(wanted, rel=1e-9, abs=slack, nan_ok=True), (name, row)


@settings(max_examples=1, deadline=None)
@given(seed=SEEDS)
def test_points_of_every_way_in_one_grid_equal_themselves_alone(seed: int) -> None:
    """Whatever their neighbours, also where they are simulated."""
    documents = [quick(seed + number, way) for number, way in enumerate(WAYS)]
    points = [columns(document) for document in documents]
    order = np.random.default_rng(seed).permutation(len(points))
    together = evaluate(joined([points[place] for place in order]))
    for row, place in enumerate(order.tolist()):
        _same(together, row, evaluate(points[place]))


def test_simulated_points_do_not_hang_on_their_chunk() -> None:
    document = {
        "num_gpus": 24,
        "compute_ms": 100.0,
        "draws": 16,
        "variability": {"transient": {"kind": "normal", "cv": 0.2}},
    }
    points = [
        columns({**document, "num_gpus": num_gpus, "synchronization": waiting, "seed": seed})
        for num_gpus in (3, 24)
        for seed in (0, 1)
        for waiting in (
            {"kind": "delayed_update"},
            {"kind": "local_steps", "steps": 4, "overlap_steps": 1, "release_fraction": 0.5},
        )
    ]
    whole = evaluate(joined(points))
    assert len(set(whole.columns["step_mean_ms"].tolist())) == len(points)
    for row, point in enumerate(points):
        _same(whole, row, evaluate(point))
    for start in range(0, len(points), 3):
        part = evaluate(joined(points[start : start + 3]))
        for row in range(len(part.failure)):
            wanted = whole.columns["step_mean_ms"][start + row]
            assert part.columns["step_mean_ms"][row] == pytest.approx(wanted, rel=1e-12)


ORDER = ("episodes", "transient", "spikes", "replica", "common", "persistent", "node")


@pytest.mark.parametrize("way", ["none", "buckets", "fsdp", "rounds"])
@settings(max_examples=3, deadline=None)
@given(seed=SEEDS)
def test_causes_are_what_steps_shorten_by_without_them(way: str, seed: int) -> None:
    document = quick(seed, way)
    for standing in ("num_spare_gpus", "num_evicted_gpus"):
        document.pop(standing, None)
    found = results(document)
    if found["gpu_hours_lost_se"] > 0:
        return
    available, ratio = found["gpu_hours_available"], found["time_ratio_fraction"]
    backup = document["synchronization"].get("count", 0)
    share = document["num_gpus"] / (document["num_gpus"] - backup)
    per_ms = available * ratio / (found["step_mean_ms"] * share)
    extra = 1 + document["synchronization"].get("extra_steps_fraction", 0)
    last = found["step_mean_ms"] * share
    if backup:
        document["synchronization"] = {"kind": "every_step"}
        after = results(document)["step_mean_ms"]
        assert found["gpu_hours_backup_workers"] == pytest.approx(
            per_ms * (last - after), rel=1e-7, abs=1e-8 * available
        )
        last = after
    sources = dict(document["variability"])
    for cause in ORDER:
        if cause not in sources:
            assert found[f"gpu_hours_{cause}"] == 0
            continue
        del sources[cause]
        if cause == "transient":
            sources.pop("autocorrelation", None)
        after = results({**document, "variability": dict(sources)})["step_mean_ms"]
        assert found[f"gpu_hours_{cause}"] * extra == pytest.approx(
            per_ms * (last - after), rel=1e-6, abs=1e-7 * available
        ), cause
        last = after
    after = results({**document, "variability": {}, "slow_groups": []})["step_mean_ms"]
    wanted = pytest.approx(per_ms * (last - after), rel=1e-6, abs=1e-7 * available)
    assert found["gpu_hours_slow_groups"] * extra == wanted


@pytest.mark.parametrize("standing", ["num_spare_gpus", "num_evicted_gpus"])
@pytest.mark.parametrize("load", [30.0, 113.0])
def test_parts_of_steps_are_weighed_alike_where_gpus_stand_by(standing: str, load: float) -> None:
    """Communication that only its last bucket shows of adds that to the steps of every state."""
    document: dict[str, Any] = {
        "num_gpus": 3,
        "compute_ms": 100.0,
        "load_ms": load,
        "variability": {
            "persistent": {"kind": "gamma", "cv": 0.02},
            "replica": {"kind": "normal", "cv": 0.01},
            "episodes": {"rate_per_gpu_day": 0.5, "mean_hours": 6.0, "severity": 1.4},
        },
        "communication": {"kind": "fixed", "allreduce_ms": 2.0},
        "overlap": {"kind": "buckets", "num_buckets": 4},
        standing: 1,
        "draws": 64,
    }
    plain = results(document)
    assert plain["exposed_communication_ms"] == pytest.approx(0.5, rel=1e-9)
    hidden = results({**document, "overlap": {**document["overlap"], "load_prefetch": True}})
    assert hidden["exposed_communication_ms"] == pytest.approx(0.5, rel=1e-9)
    assert (hidden["exposed_load_ms"] == pytest.approx(0, abs=1e-9)) == (load == 30)
    parts = ("slowest_compute_mean_ms", "exposed_communication_ms", "exposed_load_ms")
    assert sum(hidden[name] for name in parts) == pytest.approx(hidden["step_mean_ms"], rel=1e-9)
