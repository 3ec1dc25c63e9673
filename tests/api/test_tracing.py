import re
from collections.abc import Iterator
from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.db.engine import Database
from service.settings import Settings
from tests.otlp_receiver import ReceivedSpan, Receiver, receiving

Client = TestClient[Litestar]

SERVER = 2
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def answered(
    database: Database, receiver: Receiver, *requests: tuple[str, str], **headers: str
) -> tuple[list[Any], list[ReceivedSpan]]:
    """Send the requests to a service that traces; its answers and, after its end, its spans."""
    app = create_app(Settings(otlp_endpoint=receiver.endpoint), database)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answers = [client.request(method, path, headers=headers) for method, path in requests]
    return answers, receiver.spans()


def test_a_request_is_a_span_named_by_its_route(
    receiver: Receiver, sqlite_database: Database
) -> None:
    (answer,), (span,) = answered(sqlite_database, receiver, ("GET", "/problems/conflict"))
    assert span.name == "GET /problems/{slug}"
    assert span.kind == SERVER
    assert span.parent_id == ""
    # The id in the answer and in the log is the id of the trace.
    assert span.trace_id == answer.headers["x-request-id"]
    assert span.attributes == {
        "http.request.method": "GET",
        "url.path": "/problems/conflict",
        "http.route": "/problems/{slug}",
        "http.response.status_code": 200,
        "trainard.request_id": answer.headers["x-request-id"],
    }
    assert span.resource["trainard.role"] == "embedded"
    assert not span.failed


def test_the_trace_of_the_caller_goes_on(receiver: Receiver, sqlite_database: Database) -> None:
    (answer,), (span,) = answered(
        sqlite_database, receiver, ("GET", "/nope"), traceparent=TRACEPARENT
    )
    assert (span.name, span.trace_id, span.parent_id) == ("GET (none)", TRACE, PARENT)
    assert span.attributes["http.response.status_code"] == 404
    assert answer.json()["trace_id"] == answer.headers["x-request-id"] == TRACE
    # A caller's fault is no fault of the service.
    assert not span.failed


def test_a_request_id_stays_beside_the_trace(receiver: Receiver, sqlite_database: Database) -> None:
    (answer,), (span,) = answered(
        sqlite_database,
        receiver,
        ("GET", "/v1/meta"),
        **{"traceparent": TRACEPARENT, "x-request-id": "nightly-run-7"},
    )
    assert answer.headers["x-request-id"] == "nightly-run-7"
    assert span.trace_id == TRACE
    assert span.attributes["trainard.request_id"] == "nightly-run-7"


def test_a_caller_that_is_not_sampled_is_not_traced(
    receiver: Receiver, sqlite_database: Database
) -> None:
    _, spans = answered(
        sqlite_database, receiver, ("GET", "/v1/meta"), traceparent=TRACEPARENT[:-1] + "0"
    )
    assert spans == []


def test_a_failing_service_marks_its_span(receiver: Receiver, empty_url: str) -> None:
    database = Database(empty_url)
    (answer,), (span,) = answered(database, receiver, ("GET", "/v1/cluster-profiles"))
    database.close()
    assert answer.status_code in {500, 503}
    assert span.failed
    assert span.attributes["http.response.status_code"] == answer.status_code


def test_probes_and_scrapes_are_not_traced(receiver: Receiver, sqlite_database: Database) -> None:
    answers, spans = answered(
        sqlite_database, receiver, *(("GET", path) for path in ("/healthz", "/readyz", "/metrics"))
    )
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert spans == []


def test_the_storing_of_a_batch_is_a_part_of_its_request(
    receiver: Receiver, sqlite_database: Database
) -> None:
    body = {
        "items": [{"custom_id": "a", "scenario": {"num_gpus": 8, "compute_ms": 1}}],
        "name": "traced",
    }
    app = create_app(Settings(otlp_endpoint=receiver.endpoint), sqlite_database)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/scenario-batches", json=body, headers={"prefer": "wait=30"})
    assert answer.status_code == 200, answer.text
    (request,) = receiver.named("POST /v1/scenario-batches")
    (stored,) = receiver.named("batch.submit")
    assert (stored.trace_id, stored.parent_id) == (request.trace_id, request.span_id)
    batch_id = stored.attributes["trainard.batch"]
    assert stored.attributes["trainard.points"] == 1
    # The real engine ran it, and its spans are found by the batch's id.
    (chunk,) = receiver.named("chunk")
    assert chunk.trace_id == batch_id.replace("-", "")
    parts = [span.name for span in receiver.spans() if span.parent_id == chunk.span_id]
    assert sorted(parts) == ["batch.finish", "chunk.compute", "chunk.store"]


@pytest.mark.parametrize(
    "given",
    [
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}",
        "nonsense",
    ],
)
def test_a_malformed_trace_of_the_caller_is_ignored(client: Client, given: str) -> None:
    answer = client.get("/healthz", headers={"traceparent": given})
    assert answer.status_code == 200
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    assert answer.headers["x-request-id"] not in given


def test_without_a_collector_the_callers_trace_still_names_the_request(client: Client) -> None:
    answer = client.get("/nope", headers={"traceparent": TRACEPARENT})
    assert answer.json()["trace_id"] == TRACE
