"""`POST /v1/evaluations/timeline`, and what an evaluation says about the same pipeline."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import BATCH_EXAMPLES, EIGHT_STAGES, TIMELINES
from service.model import drawn_passes

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/evaluations/timeline"
MIXED: dict[str, Any] = {
    **EIGHT_STAGES,
    "num_gpus": 32,
    "load_ms": 5,
    "communication": {"kind": "fixed", "allreduce_ms": 20},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7, "placement": 7}],
}
JITTER = {"pipeline.per_op_jitter": {"kind": "lognormal", "cv": 0.05}}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def drawn(client: Client, **body: Any) -> dict[str, Any]:
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_eight_stages_of_which_three_work(client: Client) -> None:
    found = drawn(client, scenario=EIGHT_STAGES)
    # (M + P - 1)(f + b) = 11 x 30, busy 8 x 4 / 11.
    assert (found["makespan_ms"], found["step_ms"]) == (330, 330)
    assert found["busy_stages_mean"] == pytest.approx(32 / 11)
    assert (found["draw"], found["replica"], found["schedule"]) == ("nominal", 0, "1f1b")
    last = found["stages"][7]["operations"]
    assert [(part["kind"], part["start_ms"], part["end_ms"]) for part in last[:3]] == [
        ("forward", 70, 80),
        ("backward", 80, 100),
        ("forward", 100, 110),
    ]
    assert found["scenario"]["pipeline"]["p2p_ms"] == 0
    assert found["model_version"]


def test_the_drawn_step_is_that_of_the_evaluation(client: Client) -> None:
    body = {"scenario": MIXED, "overrides": JITTER}
    found = drawn(client, **body)
    evaluated = client.post("/v1/evaluations", json=body).json()
    ranks = evaluated["ranks"]
    assert (found["draw"], found["replica"]) == ("drawn", ranks["slowest_replica"])
    assert found["makespan_ms"] == ranks["slowest_makespan_ms"]
    assert found["step_ms"] == ranks["step_ms"] == pytest.approx(25 + found["makespan_ms"])
    assert [phase["kind"] for phase in found["phases"]] == ["load", "pass", "exchange"]
    busy = {row["rank"]: row["compute_ms"] for row in ranks["ranks"]}
    for stage in found["stages"]:
        gpu = 8 * found["replica"] + stage["stage"]
        assert stage["busy_ms"] == pytest.approx(busy[gpu], rel=1e-9)
    other = drawn(client, **body, replica=3)
    assert other["makespan_ms"] < found["makespan_ms"] == other["slowest_makespan_ms"]
    nominal = drawn(client, **body, draw="nominal")
    assert nominal["makespan_ms"] == 330


def test_a_trace_is_a_file(client: Client) -> None:
    answer = client.post(f"{URL}?format=chrome_trace", json={"scenario": EIGHT_STAGES})
    assert answer.status_code == 200
    named = 'attachment; filename="timeline-1f1b-8x4x1-replica-0.trace.json"'
    assert answer.headers["content-disposition"] == named
    assert answer.headers["content-type"] == "application/json"
    trace = answer.json()
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 8 * 4 * 2 + 1
    first = next(event for event in slices if event["name"] == "F 0" and event["tid"] == 7)
    assert (first["ts"], first["dur"], first["pid"]) == (70_000, 10_000, 0)
    assert first["args"] == {"microbatch": 0, "chunk": 0}
    plain = client.post(f"{URL}?format=json", json={"scenario": EIGHT_STAGES})
    assert "content-disposition" not in plain.headers


def test_a_profile_will_do(client: Client) -> None:
    body = {
        "slug": "staged",
        "name": "Staged",
        "gpu_type": "H100",
        "defaults": EIGHT_STAGES,
    }
    assert client.post("/v1/cluster-profiles", json=body).status_code == 201
    overrides = {"pipeline.microbatches": 3}
    found = drawn(client, profile="staged@1", overrides=overrides)
    assert found["busy_stages_mean"] == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("body", "slug", "pointer", "code"),
    [
        (
            {"scenario": {"num_gpus": 8, "compute_ms": 1}},
            "invalid-scenario",
            "/scenario/pipeline",
            "no_pipeline",
        ),
        (
            {"scenario": EIGHT_STAGES, "overrides": {"pipeline.microbatches": 4096}},
            "invalid-scenario",
            "/overrides/pipeline.microbatches",
            "too_many_operations_to_show",
        ),
        ({"scenario": MIXED, "replica": 4}, "invalid-input", "/replica", "no_such_replica"),
        ({"scenario": MIXED, "replica": -1}, "invalid-input", "/replica", "out_of_range"),
        ({"scenario": MIXED, "draw": "some"}, "invalid-input", "/draw", "not_one_of"),
        ({}, "invalid-input", "", "profile_or_scenario"),
        (
            {"scenario": {**EIGHT_STAGES, "num_gpus": 12}},
            "invalid-scenario",
            "/scenario/num_gpus",
            "no_whole_pipelines",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(
    client: Client,
    problem_of: ProblemOf,
    body: dict[str, Any],
    slug: str,
    pointer: str,
    code: str,
) -> None:
    (fault,) = problem_of(client.post(URL, json=body), slug)["errors"]
    assert (fault["pointer"], fault["code"]) == (pointer, code)


def test_an_unknown_format_is_refused(client: Client, problem_of: ProblemOf) -> None:
    answer = client.post(f"{URL}?format=png", json={"scenario": EIGHT_STAGES})
    (fault,) = problem_of(answer, "malformed-request")["errors"]
    assert fault["parameter"] == "format"


def test_more_operations_than_are_drawn_one_by_one(
    client: Client, problem_of: ProblemOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn_passes, "MAX_DRAWN_OPERATIONS", 1000)
    body = {"scenario": MIXED, "overrides": JITTER}
    (fault,) = problem_of(client.post(URL, json=body), "invalid-input")["errors"]
    assert (fault["pointer"], fault["code"]) == ("/draw", "too_many_drawn_operations")
    assert drawn(client, **body, replica=0)["step_ms"] is None
    evaluated = client.post("/v1/evaluations", json=body).json()
    assert evaluated["ranks"] is None
    (left_out,) = [each for each in evaluated["warnings"] if each["code"] == "ranks_not_drawn"]
    assert "8 operations of each of 32 GPUs are too many" in left_out["detail"]


def test_the_examples_are_the_founding_figures(client: Client) -> None:
    (body,) = [body for name, body in BATCH_EXAMPLES.items() if "pipeline" in name]
    (item,) = body["items"]
    (axis,) = item["axes"]
    busy = {
        number: drawn(client, scenario=item["scenario"], overrides={axis["path"]: number})[
            "busy_stages_mean"
        ]
        for number in axis["values"]
    }
    rounded = {number: round(value, 2) for number, value in busy.items()}
    assert rounded == {1: 1.0, 3: 2.4, 4: 2.91, 8: 4.27, 32: 6.56}
    for example in TIMELINES.values():
        assert drawn(client, **example)["stages"]
