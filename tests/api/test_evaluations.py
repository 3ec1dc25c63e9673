"""Figures are the founding page's: one GPU at 70 % among 1 024, 30 + 300 + 80 ms."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.evaluations import INLINE_GPUS
from service.model import MODEL_VERSION
from service.model.results import COLUMNS

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
SPIKES = {"probability": 0.001, "slowdown": 2}
URL = "/v1/evaluations"

SCENARIO = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def evaluated(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_one_slow_gpu_loses_176_008_gpu_hours(client: Client) -> None:
    found = evaluated(client, {"scenario": SCENARIO})
    assert list(found["result"]) == [column.name for column in COLUMNS]
    assert found["result"]["gpu_hours_lost"] == pytest.approx(176_008, abs=0.5)
    assert found["result"]["step_mean_ms"] == pytest.approx(30 + 300 / 0.7 + 80, rel=1e-12)
    assert found["model_version"] == MODEL_VERSION
    assert found["warnings"] == []


def test_the_scenario_is_shown_with_every_default(client: Client) -> None:
    shown = evaluated(client, {"scenario": SCENARIO})["scenario"]
    assert shown["period_days"] == 30
    assert shown["seed"] == 0
    assert evaluated(client, {"scenario": shown})["scenario"] == shown


def test_the_draw_is_bounded_slowest_first_and_reproducible(client: Client) -> None:
    scenario = {**SCENARIO, "variability": {"transient": {"kind": "normal", "cv": 0.05}}}
    body = {"scenario": scenario, "ranks_limit": 5}
    draw = evaluated(client, body)["ranks"]
    assert draw == evaluated(client, body)["ranks"]
    assert draw["num_ranks"] == 1024
    assert draw["num_left_out"] == 1019
    times = [row["compute_ms"] for row in draw["ranks"]]
    assert len(times) == 5
    assert times == sorted(times, reverse=True)
    assert draw["ranks"][0]["rank"] == 0
    other = evaluated(client, {**body, "overrides": {"seed": 1}})["ranks"]
    assert other["ranks"] != draw["ranks"]


def test_no_draw_is_made_when_no_rows_are_wanted(client: Client) -> None:
    assert evaluated(client, {"scenario": SCENARIO, "ranks_limit": 0})["ranks"] is None


def test_a_large_cluster_is_drawn_too(client: Client) -> None:
    scenario = {**SCENARIO, "num_gpus": INLINE_GPUS + 1}
    found = evaluated(client, {"scenario": scenario, "ranks_limit": 1})
    assert found["ranks"]["num_ranks"] == INLINE_GPUS + 1


def test_overrides_replace_what_is_at_their_path(client: Client) -> None:
    found = evaluated(client, {"scenario": SCENARIO, "overrides": {"slow_groups": []}})
    assert found["result"]["gpu_hours_lost"] == 0
    assert found["scenario"]["slow_groups"] == []


def test_a_profile_gives_the_scenario(client: Client, problem_of: ProblemOf) -> None:
    profile = {"slug": "prod", "name": "Prod", "gpu_type": "H100-SXM", "defaults": SCENARIO}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    inline = evaluated(client, {"scenario": SCENARIO})
    assert evaluated(client, {"profile": "prod"}) == inline
    assert evaluated(client, {"profile": "prod@1"}) == inline
    halved = evaluated(client, {"profile": "prod", "overrides": {"num_gpus": 512}})
    assert halved["scenario"]["num_gpus"] == 512
    answer = client.post(URL, json={"profile": "prod", "overrides": {"num_gpus": 0}})
    (fault,) = problem_of(answer, "invalid-scenario")["errors"]
    assert fault["pointer"] == "/overrides/num_gpus"


@pytest.mark.parametrize(
    ("body", "slug", "pointers"),
    [
        ({}, "invalid-input", [""]),
        ({"scenario": SCENARIO, "profile": "prod"}, "invalid-input", ["/profile"]),
        ({"profile": "unknown"}, "invalid-input", ["/profile"]),
        ({"profile": "prod@x"}, "invalid-input", ["/profile"]),
        ({"scenario": SCENARIO, "ranks_limit": 4097}, "invalid-input", ["/ranks_limit"]),
        ({"scenario": SCENARIO, "rank_limit": 1}, "invalid-input", ["/rank_limit"]),
        ({"scenario": []}, "invalid-input", ["/scenario"]),
        (
            {"scenario": {"num_gpus": "8", "compute_ms": -1, "extra": 1}},
            "invalid-scenario",
            ["/scenario/compute_ms", "/scenario/extra", "/scenario/num_gpus"],
        ),
        (
            {
                "scenario": SCENARIO,
                "overrides": {
                    "num_gpus": 64,
                    "slow_groups": [{"count": 70, "speed_fraction": 0.7}],
                },
            },
            "invalid-scenario",
            ["/overrides/slow_groups/0/count"],
        ),
        (
            {"scenario": {**SCENARIO, "slow_groups": [{"count": 1, "speed_fraction": 0}]}},
            "invalid-scenario",
            ["/scenario/slow_groups/0/speed_fraction"],
        ),
    ],
)
def test_bad_input_is_named_by_its_place(
    client: Client, problem_of: ProblemOf, body: dict[str, Any], slug: str, pointers: list[str]
) -> None:
    found = problem_of(client.post(URL, json=body), slug)
    assert sorted(fault["pointer"] for fault in found["errors"]) == pointers


def test_a_broken_rule_shows_both_numbers(client: Client, problem_of: ProblemOf) -> None:
    scenario = {**SCENARIO, "num_gpus": 64, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    found = problem_of(client.post(URL, json={"scenario": scenario}), "invalid-scenario")
    (fault,) = found["errors"]
    assert fault["pointer"] == "/scenario/slow_groups/0/count"
    assert fault["code"] == "too_many_slow_gpus"
    assert fault["detail"] == "70 slow GPUs, but num_gpus is 64"


def test_every_finite_extreme_is_answered_or_refused(client: Client) -> None:
    """No input that passes the checks may overflow into a number that JSON cannot say."""
    for num_gpus in (1, 10_000_000):
        for time_ms in (5e-324, 1e-9, 1e12):
            scenario = {"num_gpus": num_gpus, "compute_ms": time_ms, "load_ms": time_ms}
            answer = client.post(URL, json={"scenario": scenario, "ranks_limit": 0})
            assert answer.status_code in {200, 422}, answer.text


def test_more_draws_than_an_answer_at_once_has_time_for_are_refused(client: Client) -> None:
    lasting = {"persistent": {"kind": "lognormal", "cv": 0.03}}
    scenario = {**SCENARIO, "draws": 20_001, "variability": lasting}
    refused = client.post(URL, json={"scenario": scenario})
    assert refused.status_code == 422
    (fault,) = refused.json()["errors"]
    assert (fault["pointer"], fault["code"]) == ("/scenario/draws", "too_many_draws")
    # Where nothing lasts, nothing is sampled.
    assert evaluated(client, {"scenario": {**scenario, "variability": {}}})["warnings"] == []


def test_a_spread_that_was_not_computed_is_said(client: Client) -> None:
    lasting = {"persistent": {"kind": "lognormal", "cv": 0.03}, "spikes": SPIKES}
    backup = {"kind": "backup_workers", "count": 2}
    scenario = {**SCENARIO, "variability": lasting, "synchronization": backup}
    found = evaluated(client, {"scenario": scenario, "ranks_limit": 0})
    assert found["result"]["gpu_hours_lost_p50"] is None
    assert [each["code"] for each in found["warnings"]] == ["spread_not_computed"]
