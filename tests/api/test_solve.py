"""`POST /v1/evaluations/solve`: answers are held to `POST /v1/evaluations` of the same service."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import QUESTIONS, SCENARIO, VARIED
from service.model import MODEL_VERSION
from service.model.results import COLUMNS

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/evaluations/solve"
QUESTION: dict[str, Any] = {
    "unknown": {"path": "num_gpus"},
    "seek": "largest",
    "target": {"column": "efficiency_fraction", "at_least": 0.9},
}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def solved(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def result(client: Client, scenario: dict[str, Any], **overrides: Any) -> dict[str, Any]:
    body = {"scenario": scenario, "overrides": overrides, "ranks_limit": 0}
    found: dict[str, Any] = client.post("/v1/evaluations", json=body).json()["result"]
    return found


def test_the_answer_and_its_neighbor_are_evaluations(client: Client) -> None:
    found = solved(client, {"scenario": VARIED, **QUESTION})
    assert (found["found"], found["value"]) == (True, 500)
    assert found["at_value"]["value"] == 500
    assert found["at_neighbor"]["value"] == 501
    for place in (found["at_value"], found["at_neighbor"]):
        assert list(place["result"]) == [column.name for column in COLUMNS]
        there = result(client, VARIED, num_gpus=place["value"])
        assert place["target"] == pytest.approx(there["efficiency_fraction"], rel=1e-9)
        assert place["result"]["gpu_hours_lost"] == pytest.approx(there["gpu_hours_lost"], rel=1e-9)
        assert place["standard_error"] == 0
    assert found["at_value"]["target"] >= 0.9 > found["at_neighbor"]["target"]
    assert found["scenario"]["num_gpus"] == 500
    assert found["scenario"]["period_days"] == 30
    assert (found["nearest"], found["range_end"], found["warnings"]) == (None, None, [])
    assert found["is_monotone"] is True
    assert found["tolerance"] == 0
    assert found["evaluations"] < 100
    assert found["model_version"] == MODEL_VERSION


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_example_of_the_documentation_is_answered(client: Client, name: str) -> None:
    body = QUESTIONS[name]
    found = solved(client, body)
    assert found["detail"]
    if not found["found"]:
        assert (found["value"], found["scenario"], found["at_value"]) == (None, None, None)
        assert found["nearest"]["target"] < 0.9
        assert "comes nearest" in found["detail"]
        return
    column = body["target"]["column"]
    kept = result(client, body["scenario"], **{body["unknown"]["path"]: found["value"]})
    failing = found["at_neighbor"]["value"]
    broken = result(client, body["scenario"], **{body["unknown"]["path"]: failing})
    if "at_most" in body["target"]:
        assert kept[column] <= body["target"]["at_most"] * (1 + 1e-9)
        assert broken[column] > body["target"]["at_most"] * (1 - 1e-9)
    else:
        assert kept[column] >= body["target"]["at_least"] * (1 - 1e-9)
        assert broken[column] < body["target"]["at_least"] * (1 + 1e-9)


def test_a_profile_is_asked_about_too(client: Client, problem_of: ProblemOf) -> None:
    profile = {"slug": "prod", "name": "Prod", "gpu_type": "H100-SXM", "defaults": VARIED}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    inline = solved(client, {"scenario": VARIED, **QUESTION})
    assert solved(client, {"profile": "prod@1", **QUESTION}) == inline
    overrides = {"variability.transient.cv": 0.04}
    assert solved(client, {"profile": "prod", "overrides": overrides, **QUESTION})["value"] > 500
    refused = client.post(URL, json={"profile": "other", **QUESTION})
    (fault,) = problem_of(refused, "invalid-input")["errors"]
    assert fault["pointer"] == "/profile"


def test_the_end_of_the_range_is_named(client: Client) -> None:
    question = {
        "unknown": {"path": "variability.transient.cv"},
        "seek": "largest",
        "target": {"column": "gpu_hours_lost", "at_most": 1e6},
    }
    found = solved(client, {"scenario": VARIED, **question})
    assert found["value"] == 0.3
    assert found["at_neighbor"] is None
    assert found["range_end"]["code"] == "cv_too_large_for_normal"
    assert found["range_end"]["value"] > 0.3


def test_the_scenario_may_break_a_rule_that_the_answer_keeps(client: Client) -> None:
    scenario = {**SCENARIO, "num_gpus": 64, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    question = {
        "unknown": {"path": "num_gpus"},
        "seek": "smallest",
        "target": {"column": "efficiency_fraction", "at_least": 0.5},
    }
    found = solved(client, {"scenario": scenario, **question})
    assert found["value"] == 70
    assert found["range_end"]["detail"] == "70 slow GPUs, but num_gpus is 69"


@pytest.mark.parametrize(
    ("changes", "slug", "pointer"),
    [
        ({"unknown": {"path": "num_gpu"}}, "invalid-input", "/unknown/path"),
        ({"unknown": {"path": "seed"}}, "invalid-input", "/unknown/path"),
        ({"unknown": {"path": ""}}, "invalid-input", "/unknown/path"),
        (
            {"unknown": {"path": "variability.persistent.cv"}},
            "invalid-input",
            "/unknown/path",
        ),
        (
            {"unknown": {"path": "num_gpus", "minimum": 0}},
            "invalid-input",
            "/unknown/minimum",
        ),
        (
            {"unknown": {"path": "num_gpus", "minimum": 9, "maximum": 8}},
            "invalid-input",
            "/unknown",
        ),
        ({"target": {"column": "nonsense", "at_least": 1}}, "invalid-input", "/target/column"),
        ({"target": {"column": "method", "at_least": 1}}, "invalid-input", "/target/column"),
        ({"target": {"column": "days_to_finish", "at_most": 1}}, "invalid-input", "/target/column"),
        ({"target": {"column": "gpu_hours_lost"}}, "invalid-input", "/target"),
        (
            {"target": {"column": "gpu_hours_lost", "at_most": 1, "at_least": 0}},
            "invalid-input",
            "/target",
        ),
        ({"seek": "best"}, "invalid-input", "/seek"),
        ({"tolerance": 0}, "invalid-input", "/tolerance"),
        ({"scenario": {**VARIED, "num_gpus": "8"}}, "invalid-scenario", "/scenario/num_gpus"),
        (
            {"overrides": {"variability.transient.cv": 0.4}},
            "invalid-scenario",
            "/overrides/variability.transient.cv",
        ),
        ({"scenario": None}, "invalid-input", ""),
        ({"extra": 1}, "invalid-input", "/extra"),
    ],
)
def test_what_cannot_be_asked_is_named_by_its_place(
    client: Client, problem_of: ProblemOf, changes: dict[str, Any], slug: str, pointer: str
) -> None:
    answer = client.post(URL, json={"scenario": VARIED, **QUESTION, **changes})
    assert answer.status_code == 422
    (fault,) = problem_of(answer, slug)["errors"]
    assert fault["pointer"] == pointer


def test_too_many_draws_are_refused_in_their_place(client: Client, problem_of: ProblemOf) -> None:
    scenario = {
        **SCENARIO,
        "draws": 1_000_000,
        "variability": {"persistent": {"kind": "normal", "cv": 0.04}},
    }
    target = {"column": "gpu_hours_lost_p90", "at_most": 1e5}
    answer = client.post(URL, json={"scenario": scenario, **QUESTION, "target": target})
    (fault,) = problem_of(answer, "invalid-scenario")["errors"]
    assert (fault["pointer"], fault["code"]) == ("/scenario/draws", "too_many_draws")
