"""A service over an embedded database, called through its ASGI door."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.db.engine import Database
from service.settings import Limits, Settings

BASE_URL = "http://127.0.0.1:8000"


@pytest.fixture
def limits() -> Limits:
    """Override in a module to serve with other limits."""
    return Limits()


@pytest.fixture
def app(sqlite_database: Database, limits: Limits) -> Iterator[Litestar]:
    yield create_app(Settings(limits=limits), sqlite_database)
    # A service writes its log to the standard error of the moment, which pytest closes.
    structlog.reset_defaults()


@pytest.fixture
def client(app: Litestar) -> Iterator[TestClient[Litestar]]:
    with TestClient(app, base_url=BASE_URL) as opened:
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
