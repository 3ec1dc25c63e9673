"""Exported files over HTTP: asked for, made by the engine, downloaded in any range, deleted."""

import base64
import hashlib
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.db.engine import Database
from service.jobs import export_files, export_making
from tests.jobs.export_bodies import a_profile_with_a_rate, priced_batch
from tests.reports.export_readers import READERS

Client = TestClient[Litestar]
Check = Callable[[httpx.Response, str], dict[str, Any]]
WITHIN_S = 60
NOWHERE = "/v1/exports/00000000-0000-7000-8000-000000000001"
SMALL_PARTS = 1_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a small file has many parts."""
    monkeypatch.setattr(export_making, "PART_BYTES", SMALL_PARTS)


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    """One for all: a process has one engine, which makes the files."""
    return shared_client


@pytest.fixture(scope="module")
def batch_id(shared_database: Database) -> str:
    """A batch of 16 points with costs."""
    a_profile_with_a_rate(shared_database)
    return str(priced_batch(shared_database).id)


@pytest.fixture
def made(client: Client, batch_id: str) -> dict[str, Any]:
    """A CSV file of the batch, made by the engine of the service."""
    return wait_for(client, client.post("/v1/exports", json={"batch": batch_id}))


@pytest.fixture(scope="module")
def kept(client: Client, batch_id: str) -> dict[str, Any]:
    """Such a file for all tests that only read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_making, "PART_BYTES", SMALL_PARTS)
        return wait_for(client, client.post("/v1/exports", json={"batch": batch_id}))


@pytest.fixture(scope="module")
def whole(client: Client, kept: dict[str, Any]) -> bytes:
    return client.get(kept["content_url"]).content


def wait_for(client: Client, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    deadline = time.monotonic() + WITHIN_S
    while True:
        found: dict[str, Any] = client.get(answer.headers["location"]).json()
        if found["state"] in {"succeeded", "failed"}:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_file_is_made_and_downloaded(client: Client, batch_id: str) -> None:
    answer = client.post(
        "/v1/exports", json={"batch": batch_id, "format": "parquet", "order_by": "-point"}
    )
    asked = answer.json()
    assert (asked["state"], asked["content_url"]) == ("queued", None)
    assert answer.headers["location"] == f"/v1/exports/{asked['id']}"
    assert (answer.headers["etag"], answer.headers["retry-after"]) == ('"1"', "1")
    found = wait_for(client, answer)
    assert (found["state"], found["rows"], found["format"]) == ("succeeded", 16, "parquet")
    assert found["query"] == {"batch": batch_id, "format": "parquet", "order_by": "-point"}
    download = client.get(found["content_url"])
    assert download.status_code == 200
    digest = hashlib.sha256(download.content)
    assert found["sha256"] == digest.hexdigest()
    assert download.headers["etag"] == f'"{found["sha256"]}"'
    assert download.headers["repr-digest"] == (
        f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    )
    assert download.headers["accept-ranges"] == "bytes"
    assert download.headers["content-type"] == "application/vnd.apache.parquet"
    assert download.headers["content-disposition"] == (
        'attachment; filename="trainard-results.parquet"'
    )
    assert int(download.headers["content-length"]) == found["bytes"] == len(download.content)
    assert [row["point"] for row in READERS["parquet"](download.content)] == list(range(16))[::-1]
    told = client.get(found["sidecar_url"])
    assert told.json()["sha256"] == found["sha256"]
    assert told.json()["batches"][0]["id"] == batch_id
    etag = {"if-none-match": told.headers["etag"]}
    assert client.get(found["sidecar_url"], headers=etag).status_code == 304


def test_a_comparison_is_made_into_a_file(client: Client, batch_id: str) -> None:
    body = {"format": "jsonl", "comparison": {"baseline": batch_id, "candidate": batch_id}}
    found = wait_for(client, client.post("/v1/exports", json=body))
    assert found["query"] == body
    rows = READERS["jsonl"](client.get(found["content_url"]).content)
    assert [row["difference.gpu_hours_lost"] for row in rows] == [0.0] * 16


@pytest.mark.parametrize(
    "span", [(0, 1), (0, 1000), (999, 1001), (1000, 2000), (500, 3500), (2999, None), (-1, None)]
)
def test_a_range_is_that_part_of_the_file(
    client: Client, kept: dict[str, Any], whole: bytes, span: tuple[int, int | None]
) -> None:
    first, stop = span
    text = f"bytes={first}-{stop - 1}" if stop else f"bytes={first}" + ("-" if first >= 0 else "")
    answer = client.get(kept["content_url"], headers={"range": text})
    expected = whole[first:stop]
    begin = first % len(whole)
    assert answer.status_code == 206
    assert answer.content == expected
    assert answer.headers["content-range"] == (
        f"bytes {begin}-{begin + len(expected) - 1}/{len(whole)}"
    )
    assert int(answer.headers["content-length"]) == len(expected)
    assert answer.headers["etag"] == f'"{kept["sha256"]}"'


def test_a_range_behind_the_end_is_a_416(
    client: Client, kept: dict[str, Any], problem_of: Check
) -> None:
    answer = client.get(kept["content_url"], headers={"range": f"bytes={kept['bytes']}-"})
    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{kept['bytes']}"
    problem_of(answer, "range-not-satisfiable")


@pytest.mark.parametrize(
    "headers",
    [
        {"range": "bytes=0-5,7-9"},
        {"range": "lines=0-5"},
        {"range": "bytes=9-5"},
        {"range": "bytes=0-5", "if-range": '"another"'},
        {"range": "bytes=0-5", "if-range": "Sun, 29 Nov 2026 19:00:00 GMT"},
    ],
)
def test_another_range_gets_the_whole_file(
    client: Client, kept: dict[str, Any], whole: bytes, headers: dict[str, str]
) -> None:
    answer = client.get(kept["content_url"], headers=headers)
    assert (answer.status_code, answer.content) == (200, whole)
    assert "content-range" not in answer.headers


def test_a_broken_download_goes_on(client: Client, kept: dict[str, Any], whole: bytes) -> None:
    begun = whole[:1234]
    rest = client.get(
        kept["content_url"],
        headers={"range": f"bytes={len(begun)}-", "if-range": f'"{kept["sha256"]}"'},
    )
    assert rest.status_code == 206
    assert hashlib.sha256(begun + rest.content).hexdigest() == kept["sha256"]


def test_a_file_that_is_known_is_not_sent_again(
    client: Client, kept: dict[str, Any], whole: bytes
) -> None:
    known = {"if-none-match": f'"{kept["sha256"]}"'}
    assert client.get(kept["content_url"], headers=known).status_code == 304
    # The condition comes before the range (RFC 9110, 13.2.2).
    assert (
        client.get(kept["content_url"], headers={**known, "range": "bytes=0-1"}).status_code == 304
    )
    other = {"if-none-match": '"another"'}
    assert client.get(kept["content_url"], headers=other).content == whole
    url = f"/v1/exports/{kept['id']}"
    etag = client.get(url).headers["etag"]
    assert client.get(url, headers={"if-none-match": etag}).status_code == 304


def test_a_head_tells_the_size_and_reads_nothing(
    client: Client, kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def content(*_: Any) -> Any:
        raise AssertionError("a part was read for nobody")

    monkeypatch.setattr(export_files, "content", content)
    answer = client.head(kept["content_url"])
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == kept["bytes"]
    part = client.head(kept["content_url"], headers={"range": "bytes=0-9"})
    assert (part.status_code, part.headers["content-length"]) == (206, "10")


def test_an_empty_file_is_downloaded(client: Client, problem_of: Check) -> None:
    body = {"format": "jsonl", "name": "nobody"}
    found = wait_for(client, client.post("/v1/exports", json=body))
    assert (found["rows"], found["bytes"]) == (0, 0)
    answer = client.get(found["content_url"])
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == "0"
    ranged = client.get(found["content_url"], headers={"range": "bytes=0-"})
    problem_of(ranged, "range-not-satisfiable")


def test_the_same_key_makes_one_file(client: Client, batch_id: str) -> None:
    headers = {"idempotency-key": "export-1"}
    first = client.post("/v1/exports", json={"batch": batch_id}, headers=headers)
    again = client.post("/v1/exports", json={"batch": batch_id}, headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    other = client.post("/v1/exports", json={"format": "jsonl"}, headers=headers)
    assert other.status_code == 422


def test_a_file_is_deleted_with_its_version(
    client: Client, made: dict[str, Any], problem_of: Check
) -> None:
    url = f"/v1/exports/{made['id']}"
    problem_of(client.delete(url), "precondition-required")
    problem_of(client.delete(url, headers={"if-match": '"1"'}), "precondition-failed")
    etag = client.get(url).headers["etag"]
    assert client.delete(url, headers={"if-match": etag}).status_code == 204
    for gone in (url, made["content_url"], made["sidecar_url"]):
        problem_of(client.get(gone), "not-found")
    problem_of(client.delete(url, headers={"if-match": etag}), "not-found")


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"format": "xlsx"}, 422, "/format"),
        ({"format": None}, 422, "/format"),
        ({"colour": "red"}, 422, "/colour"),
        ({"batch": "x"}, 422, "/batch"),
        ({"where": "num_gpus:eq:8"}, 422, "/where"),
        ({"where": ["num_gpus"]}, 422, ""),
        ({"where": ["num_gpus:eq:8"] * 21}, 422, "/where"),
        ({"order_by": "colour"}, 422, ""),
        ({"created_after": "2026-12-01T00:00:00"}, 422, "/created_after"),
        ({"created_after": "0001-01-01T00:00:00+12:00"}, 422, "/created_after"),
        ({"comparison": {}}, 422, "/comparison/baseline"),
        ({"comparison": {"baseline": 1, "candidate": 2}}, 422, "/comparison/baseline"),
        ({"page_size": 5}, 422, "/page_size"),
        ([], 422, ""),
        ({"batch": "00000000-0000-7000-8000-000000000001"}, 404, None),
    ],
)
def test_what_cannot_be_made_is_refused(
    client: Client, body: Any, status: int, pointer: str | None
) -> None:
    answer = client.post("/v1/exports", json=body)
    assert answer.status_code == status, answer.text
    assert [fault["pointer"] for fault in answer.json()["errors"]][:1] == (
        [] if pointer is None else [pointer]
    )


def test_unknown_files_and_parameters_are_refused(client: Client, problem_of: Check) -> None:
    for url in (NOWHERE, f"{NOWHERE}/content", f"{NOWHERE}/sidecar", "/v1/exports/x/content"):
        problem_of(client.get(url), "not-found")
    problem_of(client.get(f"{NOWHERE}/content?x=1"), "malformed-request")
    problem_of(client.post("/v1/exports?x=1", json={}), "malformed-request")
    problem_of(client.post("/v1/exports", content=b"{}"), "unsupported-media-type")
    problem_of(client.put("/v1/exports", json={}), "method-not-allowed")


def test_a_file_that_is_not_there_yet_says_so(
    client: Client, shared_database: Database, problem_of: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last one here: it stops the engine that all share.
    monkeypatch.setattr(client.app.state.engine, "wake", lambda: None)
    client.app.state.engine.stop()
    asked = client.post("/v1/exports", json={}).json()
    for part in ("content", "sidecar"):
        answer = client.get(f"/v1/exports/{asked['id']}/{part}")
        problem_of(answer, "export-not-finished")
        assert answer.headers["retry-after"] == "5"
    with shared_database.write() as connection:
        export_making.fail(connection, UUID(asked["id"]), "the disk is full")
    failed = client.get(f"/v1/exports/{asked['id']}/content")
    assert "the disk is full" in problem_of(failed, "export-failed")["detail"]
