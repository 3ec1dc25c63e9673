"""What an evaluation says beside its numbers: what hurts, what idles, what is simulated."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
STEP: dict[str, Any] = {"num_gpus": 8, "load_ms": 30, "compute_ms": 300}
NORMAL = {"transient": {"kind": "normal", "cv": 0.05}}
STALE: dict[str, Any] = {
    **STEP,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": NORMAL,
    "synchronization": {"kind": "delayed_update"},
    "draws": 16,
}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def answered(client: Client, scenario: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = client.post("/v1/evaluations", json={"scenario": scenario, "ranks_limit": 0, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def notices(found: dict[str, Any]) -> dict[str, str]:
    return {each["code"]: each["detail"] for each in found["warnings"]}


def test_overlap_that_hurts_is_said_with_the_numbers(client: Client) -> None:
    # 1 000 buckets of 1 ms latency each: 2 x 7 latencies of a millisecond a bucket.
    communication = {
        "kind": "ring",
        "message_bytes": 1e9,
        "link": {"latency_us": 1000, "bandwidth_gigabytes_per_s": 50},
    }
    scenario = {**STEP, "communication": communication}
    overlap = {"kind": "buckets", "num_buckets": 1000}
    serial = answered(client, scenario)
    found = answered(client, {**scenario, "overlap": overlap})
    assert notices(serial) == {}
    longer = found["result"]["step_mean_ms"] - serial["result"]["step_mean_ms"]
    assert longer > 0
    assert found["result"]["overlap_gain_ms"] == pytest.approx(-longer)
    said = notices(found)["overlap_hurts"]
    assert f"{serial['result']['step_mean_ms']:.2f} ms of computing first" in said
    assert "GPUs idle" in notices(found)["gpus_idle"]


def test_gpus_that_idle_are_said_with_the_knee(client: Client) -> None:
    overlap = {"kind": "buckets", "num_buckets": 20}
    fixed = {"kind": "fixed", "allreduce_ms": 500}
    found = answered(client, {**STEP, "communication": fixed, "overlap": overlap})
    result = found["result"]
    assert result["compute_to_communication_ratio"] == pytest.approx(0.6)
    assert result["idle_knee_ratio"] > 0.6
    assert set(notices(found)) == {"gpus_idle"}
    said = notices(found)["gpus_idle"]
    assert "compute is 0.6 times communication" in said
    assert f"below {result['idle_knee_ratio']:.3g} times" in said
    hidden = {**STEP, "communication": {**fixed, "allreduce_ms": 100}, "overlap": overlap}
    assert notices(answered(client, hidden)) == {}


def test_simulated_steps_have_an_error_and_no_spread(client: Client) -> None:
    found = answered(client, STALE)
    assert found["result"]["method"] == "recursion"
    assert found["result"]["gpu_hours_lost_se"] > 0
    assert found["result"]["gpu_hours_lost_p50"] is None
    said = notices(found)
    assert set(said) == {"spread_not_computed", "simulated"}
    assert "steps are simulated, and only their mean is told" in said["spread_not_computed"]
    assert "standard error" in said["simulated"]


def test_what_is_asked_beside_works_for_every_way_of_waiting(client: Client) -> None:
    ring = {"kind": "ring", "parameters": 1e9, "link": {"bandwidth_gigabytes_per_s": 10}}
    ways: list[dict[str, Any]] = [
        {"overlap": {"kind": "buckets", "num_buckets": 8, "contention_fraction": 0.1}},
        {"overlap": {"kind": "fsdp", "num_layers": 8}},
        {"overlap": {"kind": "none", "load_prefetch": True}},
        {"synchronization": {"kind": "local_steps", "steps": 10}},
        {"synchronization": {"kind": "bounded_staleness", "staleness": 2}},
    ]
    asked = {"sensitivity": {}, "model_spread": True, "independent_ranks": True}
    for way in ways:
        scenario = {**STEP, "communication": ring, "variability": NORMAL, "draws": 16, **way}
        found = answered(client, scenario, **asked)
        assert found["result"]["num_data_parallel_ranks"] == 8
        moved = {row["path"]: row for row in found["sensitivity"]["inputs"]}
        bandwidth = moved["communication.link.bandwidth_gigabytes_per_s"]
        if way.get("synchronization", {}).get("kind") != "bounded_staleness":
            assert bandwidth["gpu_hours_change"] > 0
        losses = [family["gpu_hours_lost"] for family in found["model_spread"]["families"]]
        assert all(losses)
        assert [row["source"] for row in found["independent_ranks"]] == ["transient"]


def test_answers_at_once_are_not_simulated_for_long(client: Client, problem_of: ProblemOf) -> None:
    large = {**STALE, "num_gpus": 1024, "draws": 10_000}
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/v1/evaluations", {}),
        ("/v1/evaluations/remedies", {"remedies": [{"kind": "checkpoint_optimal"}]}),
        (
            "/v1/evaluations/solve",
            {
                "unknown": {"path": "synchronization.delay_ms"},
                "seek": "largest",
                "target": {"column": "efficiency_fraction", "at_least": 1},
            },
        ),
    ]
    for url, body in bodies:
        answer = client.post(url, json={"scenario": large, **body})
        (fault,) = problem_of(answer, "invalid-scenario")["errors"]
        assert (fault["pointer"], fault["code"]) == ("/scenario/draws", "too_long_at_once")
        assert "steps of single GPUs would be simulated, at most 3e+08" in fault["detail"]
        assert "fewer draws than 10000" in fault["detail"]
        assert "batch" in fault["detail"]
    # One evaluation would do, but not one for each number.
    some = {**STALE, "num_gpus": 64, "draws": 8_000}
    body = {"scenario": some, "ranks_limit": 0, "sensitivity": {}}
    (fault,) = problem_of(client.post("/v1/evaluations", json=body), "invalid-scenario")["errors"]
    assert fault["code"] == "too_long_at_once"
