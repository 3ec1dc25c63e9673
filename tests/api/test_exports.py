"""Streamed exports over HTTP."""

import csv
import io
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any
from uuid import UUID

import anyio
import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.exports import parts_in_threads
from service.db.engine import Database
from service.jobs import export_results
from service.jobs.export_extracts import Extract
from service.reports.export import EXPORTERS
from tests.api.served import served, wait_until
from tests.jobs.export_bodies import a_profile_with_a_rate, priced_batch, written
from tests.reports.export_readers import READERS

Client = TestClient[Litestar]
Check = Callable[[httpx.Response, str], dict[str, Any]]


@pytest.fixture
def batch_id(sqlite_database: Database) -> str:
    """A batch of 16 points with costs."""
    a_profile_with_a_rate(sqlite_database)
    return str(priced_batch(sqlite_database).id)


@pytest.fixture(scope="module")
def shared_batch_id(shared_database: Database) -> str:
    """The same for all tests that store nothing."""
    a_profile_with_a_rate(shared_database)
    return str(priced_batch(shared_database).id)


@pytest.mark.parametrize("name", EXPORTERS)
def test_each_format_is_a_download(
    shared_client: Client, shared_database: Database, shared_batch_id: str, name: str
) -> None:
    answer = shared_client.get("/v1/exports", params={"batch": shared_batch_id, "format": name})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == EXPORTERS[name].media_type
    assert answer.headers["content-disposition"] == (
        f'attachment; filename="trainard-results.{EXPORTERS[name].extension}"'
    )
    assert answer.content == written(shared_database, batch=UUID(shared_batch_id), format=name)
    assert len(READERS[name](answer.content)) == 16


@pytest.mark.parametrize("name", EXPORTERS)
def test_a_comparison_is_a_download(
    client: Client, sqlite_database: Database, batch_id: str, name: str
) -> None:
    other = str(priced_batch(sqlite_database, overrides={"slow_groups": []}).id)
    query = {
        "baseline": batch_id,
        "candidate": other,
        "order_by": "-past.gpu_hours_lost",
        "format": name,
    }
    answer = client.get("/v1/exports/comparison", params=query)
    assert answer.status_code == 200
    assert "trainard-comparison." in answer.headers["content-disposition"]
    rows = READERS[name](answer.content)
    lost = [float(row["past.gpu_hours_lost"]) for row in rows]
    assert len(lost) == 16
    assert lost == sorted(lost, reverse=True)


def test_filters_and_order_are_those_of_the_list(
    shared_client: Client, shared_batch_id: str
) -> None:
    query = {"where": ["num_gpus:ge:256", "num_gpus:le:512"], "order_by": "-num_gpus"}
    answer = shared_client.get("/v1/exports", params=query)
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [row["num_gpus"] for row in rows] == ["512", "512", "256", "256"]
    assert {row["batch_id"] for row in rows} == {shared_batch_id}


def test_too_many_rows_to_sort_are_a_422(
    shared_client: Client, shared_batch_id: str, problem_of: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_results, "MAX_SORTED_ROWS", 15)
    answer = shared_client.get(
        "/v1/exports", params={"batch": shared_batch_id, "order_by": "point"}
    )
    assert answer.status_code == 422
    assert "more than 15 rows match" in problem_of(answer, "too-many-rows")["detail"]


@pytest.mark.parametrize(
    "query",
    [
        {"format": "xlsx"},
        {"format": ""},
        {"format": "CSV"},
        {"where": "num_gpus"},
        {"where": "num_gpus:like:8"},
        {"where": "colour:eq:1"},
        {"where": "num_gpus:eq:nan"},
        {"order_by": "colour"},
        {"order_by": "num_gpus,-num_gpus"},
        {"order_by": "cost_of_loss"},
        {"batch": "../../etc/passwd"},
        {"num_gpus_min": "0"},
        {"num_gpus_min": "1e3"},
        {"created_after": "yesterday"},
        {"currency": "euro"},
        {"pricing": "0"},
        {"page_size": "5"},
        {"name": "\0"},
        {"name": "x" * 201},
    ],
)
def test_hostile_parameters_are_refused_before_the_first_byte(
    shared_client: Client, problem_of: Check, query: dict[str, str]
) -> None:
    problem_of(shared_client.get("/v1/exports", params=query), "malformed-request")


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ({}, "malformed-request"),
        ({"baseline": "x", "candidate": "y"}, "malformed-request"),
        ({"order_by": "past"}, "malformed-request"),
        ({"columns": "method"}, "malformed-request"),
        ({"candidate": "00000000-0000-7000-8000-000000000001"}, "not-found"),
        ({"candidate_pricing": "9"}, "not-found"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(
    shared_client: Client, shared_batch_id: str, problem_of: Check, query: dict[str, str], slug: str
) -> None:
    both = {"baseline": shared_batch_id, "candidate": shared_batch_id, **query} if query else {}
    problem_of(shared_client.get("/v1/exports/comparison", params=both), slug)


def test_a_head_makes_no_file(
    shared_client: Client, shared_batch_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def written(*_: Any) -> Iterator[bytes]:
        made.append(b"a")
        yield made[-1]

    monkeypatch.setattr(Extract, "written", written)
    answer = shared_client.head("/v1/exports", params={"batch": shared_batch_id})
    assert made == []
    assert shared_client.get("/v1/exports", params={"batch": shared_batch_id}).content == b"a"
    assert (answer.status_code, answer.content) == (200, b"")
    assert "trainard-results.csv" in answer.headers["content-disposition"]


def test_a_connection_is_given_back_whatever_ends_the_stream(
    client: Client, sqlite_database: Database, batch_id: str
) -> None:
    assert client.get("/v1/exports", params={"batch": batch_id}).status_code == 200
    assert client.get("/v1/exports", params={"order_by": "colour"}).status_code == 400
    assert client.head("/v1/exports").status_code == 200
    # The service looks after its own work beside.
    wait_until(lambda: _checked_out(sqlite_database) == 0)


def test_a_caller_who_goes_away_ends_the_work(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Extract, "written", lambda *_: repeat(b"x" * 10_000))
    with served(sqlite_database) as (address, _):
        with httpx.stream("GET", f"{address}/v1/exports") as answer:
            assert answer.status_code == 200
            next(answer.iter_bytes())
            assert _checked_out(sqlite_database) == 1
        wait_until(lambda: _checked_out(sqlite_database) == 0)


def test_parts_are_closed_when_their_reader_is_canceled() -> None:
    closed: list[bool] = []

    async def cancel_in_the_middle() -> None:
        parts = parts_in_threads(iter([b"a", b"b"]), lambda: closed.append(True), stall_s=60)
        with anyio.CancelScope() as scope:
            await anext(parts)
            scope.cancel()
            await anext(parts)

    anyio.run(cancel_in_the_middle)
    assert closed == [True]


def _checked_out(database: Database) -> int:
    pool: Any = database.engine.pool
    found: int = pool.checkedout()
    return found
