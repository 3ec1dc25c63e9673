"""A service over an embedded database, called through its ASGI door."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.db.engine import Database
from service.settings import Limits, Settings
from tests.api.reused_apps import app_over

BASE_URL = "http://127.0.0.1:8000"


@pytest.fixture
def limits() -> Limits:
    """Override in a module to serve with other limits."""
    return Limits()


@pytest.fixture
def app(sqlite_database: Database, limits: Limits) -> Iterator[Litestar]:
    with app_over(Settings(limits=limits), sqlite_database) as made:
        yield made


@pytest.fixture
def client(app: Litestar) -> Iterator[TestClient[Litestar]]:
    with TestClient(app, base_url=BASE_URL) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_limits() -> Limits:
    """Override in a module to share a service with other limits."""
    return Limits(requests_per_minute=0)


@pytest.fixture(scope="module")
def shared_database(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    path = tmp_path_factory.mktemp("shared") / "trainard.db"
    path.write_bytes(sqlite_template.read_bytes())
    opened = Database(f"sqlite:///{path}")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def shared_client(
    shared_database: Database, shared_limits: Limits
) -> Iterator[TestClient[Litestar]]:
    """A service of a whole module: for tests that find nothing of each other."""
    with (
        app_over(Settings(limits=shared_limits), shared_database) as app,
        TestClient(app, base_url=BASE_URL) as opened,
    ):
        yield opened


Problem = dict[str, Any]


@pytest.fixture
def problem_of() -> Callable[[httpx.Response, str], Problem]:
    """Check the shape of a problem document and its kind, and give it back."""

    def check(answer: httpx.Response, slug: str) -> Problem:
        assert answer.headers["content-type"] == "application/problem+json"
        found: Problem = msgspec.json.decode(answer.content)
        assert list(found) == [
            *("type", "title", "status", "detail", "instance", "errors", "trace_id")
        ]
        assert found["type"] == f"/problems/{slug}", found
        assert found["status"] == answer.status_code
        assert found["trace_id"] == answer.headers["x-request-id"]
        assert found["detail"]
        assert found["title"]
        return found

    return check
