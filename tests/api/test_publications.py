"""Publishing a batch over HTTP."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import text

from service.app import create_app
from service.db.engine import Database
from service.settings import Settings
from tests.api.conftest import BASE_URL
from tests.jobs.batch_bodies import SIZES, item, run, submit
from tests.jobs.completed import complete

Check = Callable[[httpx.Response, str], dict[str, Any]]


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[Database]:
    opened = Database(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def postgres_client(postgres_database: Database) -> Iterator[TestClient[Litestar]]:
    app = create_app(Settings(), postgres_database)
    with TestClient(app, base_url=BASE_URL) as opened:
        yield opened


@pytest.mark.postgres
def test_from_publication_to_rows_and_back(
    postgres_client: TestClient[Litestar], postgres_database: Database, problem_of: Check
) -> None:
    client, database = postgres_client, postgres_database
    batch = run(database, item(axes=[SIZES]))
    path = f"/v1/scenario-batches/{batch.id}/publication"
    problem_of(client.get(path), "not-found")
    accepted = client.post(path)
    assert accepted.status_code == 202, accepted.text
    assert accepted.headers["location"] == path
    assert accepted.json()["state"] == "queued"
    assert client.post(path).status_code == 202
    complete(database)
    done = client.post(path)
    assert done.status_code == 200
    assert (done.json()["state"], done.json()["rows"]) == ("succeeded", 15)
    read = client.get(path)
    assert read.json() == done.json()
    assert read.headers["etag"] == done.headers["etag"]
    unchanged = client.get(path, headers={"If-None-Match": read.headers["etag"]})
    assert unchanged.status_code == 304
    with database.read() as connection:
        query = text(f"SELECT count(*) FROM {done.json()['table']} WHERE batch_id = :id")
        assert connection.scalar(query, {"id": batch.id}) == 15
    problem_of(client.delete(path), "precondition-required")
    problem_of(client.delete(path, headers={"If-Match": '"77"'}), "precondition-failed")
    removed = client.delete(path, headers={"If-Match": read.headers["etag"]})
    assert (removed.status_code, removed.content) == (204, b"")
    problem_of(client.get(path), "not-found")
    complete(database)
    with database.read() as connection:
        assert connection.scalar(query, {"id": batch.id}) == 0


@pytest.mark.postgres
def test_a_batch_that_has_not_ended_is_not_published(
    postgres_client: TestClient[Litestar], postgres_database: Database, problem_of: Check
) -> None:
    batch = submit(postgres_database, item())
    refused = postgres_client.post(f"/v1/scenario-batches/{batch.id}/publication")
    problem_of(refused, "batch-not-finished")


def test_the_embedded_database_publishes_nothing(
    client: TestClient[Litestar], sqlite_database: Database, problem_of: Check
) -> None:
    batch = run(sqlite_database, item())
    path = f"/v1/scenario-batches/{batch.id}/publication"
    assert "SQLite" in problem_of(client.post(path), "needs-postgresql")["detail"]
    problem_of(client.get(path), "not-found")
