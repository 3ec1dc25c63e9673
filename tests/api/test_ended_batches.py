"""Requests that change nothing of a batch that has ended: one service answers them all.

In a file of their own, since a process computes batches of one database at a time.
"""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tests.api.test_batches import SLOW, finished, post

Check = Callable[[httpx.Response, str], dict[str, Any]]
NOBODY = "01a22869-6f4e-72c6-8158-fe19e726e3f8"


@pytest.fixture(scope="module")
def reader(shared_client: TestClient[Litestar]) -> TestClient[Litestar]:
    """Of a service with one batch that has ended."""
    finished(shared_client, post(shared_client, SLOW))
    return shared_client


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"where": "colour:eq:1"}, "colour"),
        ({"where": "num_gpus:about:1"}, "num_gpus:about:1"),
        ({"where": "num_gpus:eq:many"}, "many"),
        ({"where": "num_gpus:eq:inf"}, "inf"),
        ({"where": "num_gpus:is_null:maybe"}, "true or false"),
        ({"where": "method:gt:closed_form"}, "eq or ne"),
        ({"order_by": "num_gpus,-num_gpus"}, "twice"),
        ({"order_by": "a,b,c,d,e,f"}, "6 columns"),
        ({"order_by": "-cost_of_loss"}, "currency="),
        ({"page_token": "nonsense"}, "page_token"),
        ({"colour": "red"}, "colour"),
        ({"page_size": "0"}, "page_size"),
        ({"created_after": "yesterday"}, "created_after"),
        ({"created_before": "0001-01-01T00:00:00+14:00"}, "created_before"),
    ],
)
def test_faulty_queries_are_refused_by_name(
    reader: TestClient[Litestar], problem_of: Check, query: dict[str, str], said: str
) -> None:
    answer = reader.get("/v1/results", params=query)
    assert answer.status_code == 400
    assert said in problem_of(answer, "malformed-request")["detail"]


def test_a_page_token_belongs_to_its_query(reader: TestClient[Litestar], problem_of: Check) -> None:
    token = reader.get("/v1/results", params={"page_size": 2}).json()["next_page_token"]
    answer = reader.get("/v1/results", params={"page_token": token, "order_by": "num_gpus"})
    assert answer.status_code == 400
    assert "another filter" in problem_of(answer, "malformed-request")["detail"]


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/scenario-batches/{NOBODY}",
        "/v1/scenario-batches/nonsense",
        "/v1/scenario-batches/nonsense/results",
        "/v1/results/nonsense",
        f"/v1/results/{NOBODY}.1",
        f"/v1/comparisons?baseline={NOBODY}&candidate={NOBODY}",
    ],
)
def test_what_is_not_there_is_404(
    reader: TestClient[Litestar], problem_of: Check, path: str
) -> None:
    answer = reader.get(path)
    assert answer.status_code == 404
    problem_of(answer, "not-found")


def test_exports_stream_as_files(reader: TestClient[Litestar]) -> None:
    (batch,) = reader.get("/v1/scenario-batches").json()["items"]
    table = reader.get("/v1/exports", params={"batch": batch["id"]})
    assert table.headers["content-type"].startswith("text/csv")
    assert table.headers["content-disposition"].endswith('.csv"')
    assert table.text.count("\r\n") == 31
    lines = reader.get("/v1/exports", params={"batch": batch["id"], "format": "jsonl"})
    assert len(lines.text.splitlines()) == 30
    assert reader.get("/v1/exports", params={"format": "xls"}).status_code == 400


def test_an_ended_batch_is_not_cancelled(reader: TestClient[Litestar], problem_of: Check) -> None:
    (batch,) = reader.get("/v1/scenario-batches").json()["items"]
    answer = reader.post(f"/v1/scenario-batches/{batch['id']}/cancellation")
    assert answer.status_code == 409
    problem_of(answer, "conflict")
