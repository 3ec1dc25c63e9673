"""`/v1/overlap-audits`."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.calibration_examples import OVERLAP_AUDITS

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/overlap-audits"
STEP = {"load_ms": 30, "compute_ms": 300, "communication_ms": 80, "step_ms": 410}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def test_step_times_alone_cannot_tell(client: Client) -> None:
    answer = client.post(URL, json=STEP)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["verdict"] == "cannot_tell"
    assert found["route"] == "arithmetic"
    assert found["hidden_share"] == {"low": 0, "high": 1, "naive_ratio": None}
    assert found["experiments"][0]["what_to_do"]


def test_interventions_tell(client: Client) -> None:
    (_, settled) = OVERLAP_AUDITS.values()
    found = client.post(URL, json=settled).json()
    # 40 of 60 ms exposed: 20 hidden, or 20 / 0.6 if overlapped compute gets 40 % longer.
    assert found["verdict"] == "overlaps"
    assert found["hidden_share"]["low"] == pytest.approx(1 / 3)
    assert found["hidden_share"]["high"] == pytest.approx(1 / 3 / 0.6)
    assert found["exposed_ms"]["value"] == 40
    assert found["wait_ms"]["value"] == 20


def test_what_no_step_can_be_is_refused(client: Client, problem_of: ProblemOf) -> None:
    body = {**STEP, "step_ms": 200, "no_communication_step_ms": 300}
    problem = problem_of(client.post(URL, json=body), "refused-timings")
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        ("/compute_ms", "inconsistent_times"),
        ("/no_communication_step_ms", "inconsistent_times"),
    ]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"step_ms": 0}, "/step_ms"),
        ({"communication_ms": 1e10}, "/communication_ms"),
        ({"backward_fraction": 1.1}, "/backward_fraction"),
        ({"confidence": 1}, "/confidence"),
        ({"hidden": 0.5}, "/hidden"),
    ],
)
def test_the_body_is_read_strictly(
    client: Client, problem_of: ProblemOf, changed: dict[str, Any], pointer: str
) -> None:
    problem = problem_of(client.post(URL, json={**STEP, **changed}), "invalid-input")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_no_query_is_read(client: Client, problem_of: ProblemOf) -> None:
    problem_of(client.post(URL + "?confidence=0.9", json=STEP), "malformed-request")
