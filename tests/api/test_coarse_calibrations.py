"""`/v1/coarse-calibrations`, and that its readings are scenarios."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/coarse-calibrations"
KNOWN = {
    "num_gpus": 1024,
    "step_p50_ms": 458,
    "step_p95_ms": 470,
    "load_ms": 30,
    "communication_ms": 80,
}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def test_every_reading_can_be_evaluated_and_has_the_quantiles(client: Client) -> None:
    answer = client.post(URL, json=KNOWN)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["gpu_hours_lost"]["low"] == 0
    assert [reading["hypothesis"] for reading in found["readings"]] == [
        *["transient"] * 3,
        *["common"] * 3,
    ]
    for reading in found["readings"]:
        evaluated = client.post("/v1/evaluations", json={"scenario": reading["overrides"]})
        assert evaluated.status_code == 200, evaluated.text
        result = evaluated.json()["result"]
        assert result["step_p50_ms"] == pytest.approx(458)
        assert result["step_p95_ms"] == pytest.approx(470)
        assert result["gpu_hours_lost"] == pytest.approx(reading["gpu_hours_lost"], abs=1e-6)


def test_what_no_run_has_is_refused(client: Client, problem_of: ProblemOf) -> None:
    body = {**KNOWN, "step_p95_ms": 400}
    problem = problem_of(client.post(URL, json=body), "refused-timings")
    (fault,) = problem["errors"]
    assert (fault["pointer"], fault["code"]) == ("/step_p95_ms", "inconsistent_times")
    body = {**KNOWN, "tensor_parallel_size": 3}
    problem = problem_of(client.post(URL, json=body), "refused-timings")
    assert [fault["pointer"] for fault in problem["errors"]] == ["/tensor_parallel_size"]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"num_gpus": 0}, "/num_gpus"),
        ({"step_p50_ms": -1}, "/step_p50_ms"),
        ({"load_ms": "30"}, "/load_ms"),
        ({"step_p99_ms": 500}, "/step_p99_ms"),
    ],
)
def test_the_body_is_read_strictly(
    client: Client, problem_of: ProblemOf, changed: dict[str, Any], pointer: str
) -> None:
    problem = problem_of(client.post(URL, json={**KNOWN, **changed}), "invalid-input")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_no_query_is_read(client: Client, problem_of: ProblemOf) -> None:
    problem_of(client.post(URL + "?period_days=7", json=KNOWN), "malformed-request")
