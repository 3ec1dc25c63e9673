from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.db import migrate
from service.db.engine import Database
from service.model import MODEL_VERSION
from service.settings import Limits, Settings

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]


@pytest.fixture
def limits() -> Limits:
    return Limits(items_per_batch=17)


def test_health_needs_nothing(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_served_and_migrated_database_is_ready(client: Client) -> None:
    assert client.get("/readyz").json() == {"status": "ok"}


def test_tables_of_another_version_are_not_ready(
    client: Client, problem_of: ProblemOf, sqlite_database: Database
) -> None:
    with sqlite_database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'older'")
    answer = client.get("/readyz")
    detail = problem_of(answer, "not-ready")["detail"]
    assert "older" in detail
    assert migrate.head() in detail
    assert answer.headers["retry-after"]


def test_a_database_that_was_never_migrated_is_not_ready(
    empty_url: str, problem_of: ProblemOf
) -> None:
    app = create_app(Settings(database_url=empty_url))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert "none" in problem_of(client.get("/readyz"), "not-ready")["detail"]


def test_a_service_without_its_runner_is_not_ready(app: Litestar, problem_of: ProblemOf) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:
        app.state.runner.stop()
        assert "runner" in problem_of(client.get("/readyz"), "not-ready")["detail"]


def test_meta_shows_versions_and_limits(client: Client) -> None:
    found = client.get("/v1/meta").json()
    assert found["versions"]["model"] == MODEL_VERSION
    assert found["versions"]["numpy"] == version("numpy")
    assert found["versions"]["tzdata"] == version("tzdata")
    assert found["limits"]["items_per_batch"] == 17
    assert found["limits"]["body_bytes"] == 16 * 1024 * 1024
    assert found["migration"] == migrate.head()


def test_requests_are_counted_by_route_and_not_by_path(client: Client) -> None:
    for path in ("/problems/conflict", "/problems/too-large", "/nope/1", "/nope/2"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    counted = 'trainard_http_requests_total{method="GET",route="%s",status="%d"} 2.0'
    assert counted % ("/problems/{slug}", 200) in lines
    assert counted % ("(none)", 404) in lines
    assert "trainard_batch_points_computed 0.0" in lines
    assert any(line.startswith("trainard_http_request_duration_seconds_bucket") for line in lines)


def test_two_apps_count_apart(client: Client, sqlite_database: Database) -> None:
    client.get("/healthz")
    other = create_app(Settings(), sqlite_database)
    assert b'route="/healthz"' not in other.state.metrics.render()
