"""`/v1/link-presets` and `/v1/collective-measurements`, and scenarios made of what they answer."""

from collections.abc import Callable
from typing import Any, get_args

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import MEASUREMENTS
from service.model.parts.link_presets import LinkPreset
from tests.model.exchange.nccl_outputs import PLAIN, SIZES

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/collective-measurements"
(EXAMPLE,) = MEASUREMENTS.values()


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def read(client: Client, **body: Any) -> dict[str, Any]:
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_every_preset_is_listed_with_its_source(client: Client) -> None:
    items = client.get("/v1/link-presets").json()["items"]
    assert [item["name"] for item in items] == list(get_args(LinkPreset))
    assert {item["evidence"] for item in items} == {"measured", "published", "assumed"}
    (ndr,) = [item for item in items if item["name"] == "infiniband_ndr_400_2026_11"]
    assert ndr["bandwidth_gigabytes_per_s"] == 50
    assert ndr["round_trip_ms"] is None
    assert "nccl-tests issue 290" in ndr["provenance"]


def test_every_preset_can_be_named_by_a_scenario(client: Client) -> None:
    for name in get_args(LinkPreset):
        scenario = {
            "num_gpus": 64,
            "compute_ms": 300,
            "communication": {"kind": "ring", "message_bytes": 1e6, "link": {"preset": name}},
        }
        answer = client.post("/v1/evaluations", json={"scenario": scenario})
        assert answer.status_code == 200, answer.text


def test_an_output_becomes_a_communication(client: Client) -> None:
    found = read(client, text=PLAIN, column="out_of_place")
    assert found["communication"]["sizes_bytes"] == list(SIZES)
    assert found["communication"]["times_ms"] == pytest.approx([0.04214, 0.05512, 1.0896])
    assert (found["num_ranks"], found["num_rows"], found["column"]) == (8, 3, "out_of_place")
    assert found["busbw_gigabytes_per_s"] == [0, 33.29, 215.57]
    assert found["largest_busbw_gigabytes_per_s"] == 215.57
    assert found["warnings"] == [
        {
            "pointer": "/text",
            "code": "measurement_in_part",
            "detail": "rows of size 0 were left out: 1",
        }
    ]


def test_what_is_answered_can_be_evaluated(client: Client) -> None:
    found = read(client, **EXAMPLE)
    assert found["warnings"] == []
    scenario = {
        "num_gpus": 8,
        "compute_ms": 300,
        "load_ms": 30,
        "communication": {**found["communication"], "message_bytes": 134217728},
    }
    answer = client.post("/v1/evaluations", json={"scenario": scenario})
    assert answer.status_code == 200, answer.text
    # The last row's 1 101.2 us beside loading and compute.
    assert answer.json()["result"]["ideal_step_ms"] == pytest.approx(331.1012)


def test_in_place_is_taken_where_nothing_is_said(client: Client) -> None:
    assert read(client, text=PLAIN)["communication"]["times_ms"][-1] == pytest.approx(1.1012)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "no line of results was found"),
        (PLAIN[: PLAIN.index("  1101.2")], "line 19: 9 values, but the header names 13"),
        (PLAIN.replace("  sum ", " none "), "line 17: reduction none"),
    ],
)
def test_what_cannot_be_used_is_refused(
    client: Client, problem_of: ProblemOf, text: str, sentence: str
) -> None:
    problem = problem_of(client.post(URL, json={"text": text}), "invalid-input")
    (fault,) = problem["errors"]
    assert (fault["pointer"], fault["code"]) == ("/text", "unreadable_measurement")
    assert fault["detail"].startswith(sentence)
    assert sentence in problem["detail"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/text"),
        ({"text": PLAIN, "column": "both"}, "/column"),
        ({"text": "a" * 1_048_577}, "/text"),
        ({"text": PLAIN, "unit": "ms"}, "/unit"),
    ],
)
def test_the_body_is_read_strictly(
    client: Client, problem_of: ProblemOf, body: dict[str, Any], pointer: str
) -> None:
    problem = problem_of(client.post(URL, json=body), "invalid-input")
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_no_query_is_read(client: Client, problem_of: ProblemOf) -> None:
    problem_of(client.get("/v1/link-presets?name=x"), "malformed-request")
    problem_of(client.post(URL + "?column=in_place", json=EXAMPLE), "malformed-request")
