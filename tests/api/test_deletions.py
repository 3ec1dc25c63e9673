"""Deleting a batch over HTTP, the background engine included."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import func, select

from service.api.examples import BATCH_EXAMPLES
from service.app import create_app
from service.db.engine import Database
from service.db.tables import batch_item, chunk_ledger, result_block, scenario_batch
from service.settings import Settings
from tests.api.conftest import BASE_URL
from tests.api.served import wait_until

Check = Callable[[httpx.Response, str], dict[str, Any]]
NOBODY = "01a22869-6f4e-72c6-8158-fe19e726e3f8"
(SLOW, *_) = BATCH_EXAMPLES.values()


def finished(client: TestClient[Litestar]) -> tuple[str, str]:
    """The address and the entity tag of a batch that has ended."""
    accepted = client.post("/v1/scenario-batches", json=SLOW)
    location: str = accepted.headers["location"]
    for _ in range(600):
        answer = client.get(location)
        if answer.json()["ended_at"] is not None:
            return location, answer.headers["etag"]
        time.sleep(0.1)
    pytest.fail(f"{location} did not end")


def rows_left(database: Database) -> int:
    with database.read() as connection:
        return sum(
            connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (scenario_batch, batch_item, chunk_ledger, result_block)
        )


def test_a_deleted_batch_is_gone_and_its_rows_follow(
    client: TestClient[Litestar], sqlite_database: Database, problem_of: Check
) -> None:
    location, etag = finished(client)
    deleted = client.delete(location, headers={"If-Match": etag})
    assert (deleted.status_code, deleted.content) == (204, b"")
    for path in ("", "/results", "/errors", "/pricings"):
        problem_of(client.get(location + path), "not-found")
    problem_of(client.delete(location, headers={"If-Match": etag}), "not-found")
    assert client.get("/v1/scenario-batches").json()["items"] == []
    assert client.get("/v1/results").json()["items"] == []
    wait_until(lambda: rows_left(sqlite_database) == 0)
    assert rows_left(sqlite_database) == 0


def test_deletion_needs_the_version_that_was_read(
    client: TestClient[Litestar], problem_of: Check
) -> None:
    location, _ = finished(client)
    problem_of(client.delete(location), "precondition-required")
    problem_of(client.delete(location, headers={"If-Match": '"77"'}), "precondition-failed")
    problem_of(
        client.delete(f"/v1/scenario-batches/{NOBODY}", headers={"If-Match": '"1"'}), "not-found"
    )
    assert client.get(location).status_code == 200


def test_a_batch_that_runs_is_not_deleted(client: TestClient[Litestar], problem_of: Check) -> None:
    many = {
        "path": "slow_groups.0.speed_fraction",
        "logspace": {"start": 0.4, "stop": 0.99, "num": 400_000},
    }
    scenario = {"num_gpus": 8, "compute_ms": 1, "slow_groups": [{"count": 1, "speed_fraction": 1}]}
    body = {"name": "long", "items": [{"custom_id": "a", "scenario": scenario, "axes": [many]}]}
    accepted = client.post("/v1/scenario-batches", json=body)
    assert accepted.status_code == 202, accepted.text
    location = accepted.headers["location"]
    refused = client.delete(location, headers={"If-Match": accepted.headers["etag"]})
    problem = problem_of(refused, "conflict")
    assert "only a batch that has ended can be deleted" in problem["detail"]
    client.post(f"{location}/cancellation")


def test_the_retention_is_shown(sqlite_database: Database) -> None:
    for days in (0, 90):
        app = create_app(Settings(retention_days=days), sqlite_database)
        with TestClient(app, base_url=BASE_URL) as client:
            assert client.get("/v1/meta").json()["limits"]["retention_days"] == days
