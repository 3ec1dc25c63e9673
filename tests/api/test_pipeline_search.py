"""`POST /v1/evaluations/pipeline-search`: held to `POST /v1/evaluations` of the same service."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import PIPED, PIPELINE_SEARCHES, SCENARIO
from service.db.engine import Database
from service.model import MODEL_VERSION
from tests.api.access_keys import key_of

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/evaluations/pipeline-search"
PRICED = {"pricing": {"gpu_type": "H100"}, "currency": "EUR", "start_on": "2026-12-01"}
RATE = {
    "gpu_type": "H100",
    "price_per_gpu_hour": {"amount": "2.00", "currency": "EUR"},
    "valid_from": "2026-01-01",
    "source": "memo",
}


ANY_PARAMETERS: dict[str, Any] = {"max_parameter_ratio": None}


def searched(client: Client, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    answer = client.post(URL, json={"scenario": PIPED, **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(client: Client, problem_of: ProblemOf, **body: Any) -> dict[str, str]:
    answer = client.post(URL, json={"scenario": PIPED, **body})
    faults = problem_of(answer, "invalid-scenario")["errors"]
    return {fault["pointer"]: fault["code"] for fault in faults}


def test_each_pipeline_can_be_repeated_from_its_overrides(shared_client: Client) -> None:
    search = {"stages": [4, 8], "schedules": ["gpipe", "1f1b", "zbv"], **ANY_PARAMETERS}
    found = searched(shared_client, search=search)
    before = found["result"]
    losses = [row["gpu_hours_lost"] for row in found["pipelines"]]
    assert losses == sorted(losses)
    assert len(losses) == found["evaluated"] == found["candidates"] == 6
    for row in found["pipelines"]:
        body = {"scenario": found["scenario"], "overrides": row["overrides"], "ranks_limit": 0}
        alone = shared_client.post("/v1/evaluations", json=body).json()["result"]
        for name in ("step_mean_ms", "gpu_hours_lost", "gpu_hours_per_1000_steps"):
            assert row[name] == pytest.approx(alone[name], rel=1e-9)
        for name in ("bubble_fraction", "busy_gpus_mean", "peak_microbatches_in_flight"):
            assert row[name] == pytest.approx(alone[name], rel=1e-9)
        assert row["gpu_hours_given_back"] == pytest.approx(
            before["gpu_hours_lost"] - alone["gpu_hours_lost"], rel=1e-9, abs=1e-6
        )
        assert row["replicas"] == 64 / row["stages"]
        assert row["microbatches"] == row["stages"] / 2
        assert row["microbatch_size_ratio"] == 1
        assert row["parameter_ratio"] == 8 / row["stages"]
        assert row["gpu_hours_lost_se"] == 0
        assert (row["money_lost"], row["money_given_back"]) == (None, None)
    assert found["model_version"] == MODEL_VERSION
    assert [each["code"] for each in found["warnings"]] == ["p2p_kept"]
    # The scenario is among them, and gives nothing back.
    (own,) = (row for row in found["pipelines"] if row["overrides"] == {})
    assert (own["schedule"], own["stages"], own["gpu_hours_given_back"]) == ("1f1b", 8, 0)


def test_the_number_of_micro_batches_may_be_kept_instead_of_their_size(
    shared_client: Client,
) -> None:
    search = {"stages": [2, 4, 16], "schedules": ["1f1b"], "keep": "microbatches"}
    search |= ANY_PARAMETERS
    found = searched(shared_client, search=search)
    for row in found["pipelines"]:
        assert row["microbatches"] == 4
        assert row["microbatch_size_ratio"] == row["stages"] / 8
        # (M + P - 1)(f + b) and 1F1B's hand-overs, 0.5 ms each
        ramp = 3 + row["stages"]
        handed = 2 * 0.5 * (ramp * (row["stages"] - 1) // row["stages"])
        assert row["step_mean_ms"] == pytest.approx(ramp * 75 + handed + 80, rel=1e-12)
    assert [row["stages"] for row in found["pipelines"]] == [2, 4, 16]


@pytest.mark.parametrize("name", PIPELINE_SEARCHES)
def test_every_example_of_the_documentation_is_answered(shared_client: Client, name: str) -> None:
    body = PIPELINE_SEARCHES[name]
    found = searched(shared_client, **body)
    asked = body["search"]
    assert found["pipelines"]
    assert len(found["pipelines"]) <= asked.get("limit", 20)
    for row in found["pipelines"]:
        assert row["activation_ratio"] <= asked.get("max_activation_ratio", 1e9)
        assert row["parameter_ratio"] <= asked.get("max_parameter_ratio", 1e9)
        most = asked.get("max_microbatches_in_flight", 1e9)
        assert row["peak_microbatches_in_flight"] <= most
    assert found["left_out_by_time"] == 0
    counted = found["evaluated"] + found["left_out_by_memory"] + found["left_out_by_rules"]
    assert counted == found["candidates"]
    assert sum(each["count"] for each in found["left_out"]) == counted - found["evaluated"]


def test_what_is_approximate_is_said(shared_client: Client) -> None:
    uneven = {**PIPED["pipeline"], "p2p_ms": 0, "stage_weights": [2, 1, 1, 1, 1, 1, 1, 1]}
    uneven["per_op_jitter"] = {"kind": "lognormal", "cv": 0.02}
    slow = [{"count": 1, "speed_fraction": 0.7, "placement": 3}]
    scenario = {**PIPED, "num_gpus": 16, "pipeline": uneven, "slow_groups": slow, "draws": 16}
    search = {"stages": [4], "schedules": ["gpipe"], **ANY_PARAMETERS}
    found = searched(shared_client, scenario=scenario, search=search)
    assert [each["code"] for each in found["warnings"]] == [
        *("stages_moved", "work_shared_out", "sampled")
    ]
    assert found["pipelines"][0]["gpu_hours_lost_se"] > 0


def test_parameters_are_bounded_by_those_of_the_scenario(shared_client: Client) -> None:
    sizes = {"stages": [4, 8, 16], "schedules": ["1f1b"]}
    found = searched(shared_client, search=sizes)
    assert {row["stages"] for row in found["pipelines"]} == {8, 16}
    assert [(each["code"], each["count"]) for each in found["left_out"]] == [
        ("too_many_parameters", 1)
    ]
    (said,) = (each for each in found["warnings"] if each["code"] == "parameters_bounded")
    assert said["pointer"] == "/search/max_parameter_ratio"
    assert said["detail"].startswith("1 pipelines were left out")
    lifted = searched(shared_client, search={**sizes, **ANY_PARAMETERS})
    assert {row["stages"] for row in lifted["pipelines"]} == {4, 8, 16}
    assert "parameters_bounded" not in {each["code"] for each in lifted["warnings"]}


def test_what_cannot_be_searched_is_placed_in_the_request(
    shared_client: Client, problem_of: ProblemOf
) -> None:
    def faults(**body: Any) -> dict[str, str]:
        return refused(shared_client, problem_of, **body)

    assert faults(scenario=SCENARIO) == {"/scenario/pipeline": "no_pipeline"}
    both = {"microbatches": [4], "keep": "microbatches"}
    assert faults(search=both) == {"/search/keep": "keep_beside_microbatches"}
    numbers = list(range(1, 65))
    many = {"stages": numbers, "microbatches": numbers}
    assert faults(search=many) == {"/search/stages": "too_many_candidates"}
    assert faults(overrides={"pipeline.stages": 7}) == {"/scenario/num_gpus": "no_whole_pipelines"}
    drawn = {"variability": {"transient": {"kind": "normal", "cv": 0.02}}, "draws": 50_000}
    assert faults(scenario={**PIPED, **drawn}) == {"/scenario/draws": "too_many_draws"}


@pytest.mark.parametrize(
    "search",
    [
        {"stages": []},
        {"stages": [0]},
        {"stages": [1] * 65},
        {"microbatches": [65_537]},
        {"chunks_per_stage": [65]},
        {"schedules": ["2f2b"]},
        {"keep": "nothing"},
        {"max_activation_ratio": 0},
        {"limit": 0},
        {"unknown": 1},
    ],
)
def test_searches_out_of_bounds_are_refused(shared_client: Client, search: Any) -> None:
    answer = shared_client.post(URL, json={"scenario": PIPED, "search": search})
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith("/search/")


def test_money_is_shown_to_those_who_may_see_it(client: Client, sqlite_database: Database) -> None:
    finance = key_of(sqlite_database, "finance")
    viewer = key_of(sqlite_database, "viewer")
    assert client.post("/v1/gpu-hour-rates", json=RATE, headers=finance).status_code == 201
    asked = {"search": {"stages": [8], "schedules": ["zb_h1"]}, **PRICED}
    (seen,) = searched(client, finance, **asked)["pipelines"]
    for name in ("lost", "given_back"):
        amount = float(seen[f"money_{name}"]["amount"])
        assert amount == pytest.approx(2 * seen[f"gpu_hours_{name}"], abs=0.01)
    withheld = searched(client, viewer, **asked)
    assert (withheld["cost_status"], withheld["rates"]) == ("withheld", [])
    (row,) = withheld["pipelines"]
    assert (row["money_lost"], row["money_given_back"]) == (None, None)
    assert row["gpu_hours_lost"] == seen["gpu_hours_lost"]
    asked = {"search": asked["search"], "price_per_gpu_hour": RATE["price_per_gpu_hour"]}
    typed = searched(client, viewer, **asked)
    assert typed["rates"] == [{"id": None, "days": 30, "is_typed": True}]
    assert typed["cost_status"] == "priced"
    assert typed["pipelines"] == [seen]
