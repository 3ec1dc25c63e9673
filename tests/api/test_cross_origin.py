import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import structlog
import uvicorn
from litestar import Litestar
from litestar.testing import TestClient

from service.api.edge import SECURITY_HEADERS
from service.app import create_app
from service.db.audit import events_of
from service.db.engine import Database
from service.jobs.actors import DEFAULT_TEAM_ID
from service.settings import Limits, Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
BI = "https://bi.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def shared(sqlite_database: Database) -> Iterator[Client]:
    """A service that pages of one origin may call."""
    with (
        app_over(Settings(cors_origins=(BI,)), sqlite_database) as app,
        TestClient(app, base_url=BASE_URL) as client,
    ):
        yield client


def test_it_is_closed_by_default(client: Client) -> None:
    for method in ("GET", "OPTIONS"):
        answer = client.request(method, "/v1/meta", headers={"Origin": BI, **PREFLIGHT})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "vary" not in answer.headers


def test_a_preflight_of_a_named_origin_is_answered(shared: Client) -> None:
    answer = shared.options("/v1/evaluations", headers={"Origin": BI, **PREFLIGHT})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == BI
    assert answer.headers["access-control-allow-methods"] == "OPTIONS, POST"
    allowed = answer.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "content-type", "idempotency-key", "if-match"} <= set(allowed)
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


def test_a_page_varies_by_all_that_it_depends_on(shared: Client) -> None:
    assert shared.get("/rates").headers["vary"] == "Accept-Language, Cookie, Origin"


def test_a_named_origin_reads_and_changes(shared: Client, problem_of: ProblemOf) -> None:
    headers = {"Origin": BI, "Sec-Fetch-Site": "cross-site"}
    read = shared.get("/v1/meta", headers=headers)
    assert read.headers["access-control-allow-origin"] == BI
    assert "ETag" in read.headers["access-control-expose-headers"]
    sent = shared.post("/v1/evaluations", json={}, headers=headers)
    problem_of(sent, "invalid-input")
    assert sent.headers["access-control-allow-origin"] == BI
    unknown = shared.get("/nothing", headers=headers)
    assert unknown.headers["access-control-allow-origin"] == BI


@pytest.mark.parametrize("origin", ["https://bi.example.evil", "http://bi.example", "null"])
def test_other_origins_get_nothing(shared: Client, problem_of: ProblemOf, origin: str) -> None:
    preflight = shared.options("/v1/evaluations", headers={"Origin": origin, **PREFLIGHT})
    read = shared.get("/v1/meta", headers={"Origin": origin})
    for answer in (preflight, read):
        assert not [name for name in answer.headers if name.startswith("access-control")]
        # Else a cache would give one origin's answer to another.
        assert answer.headers["vary"] == "Origin"
    sent = shared.post("/v1/evaluations", json={}, headers={"Origin": origin})
    problem_of(sent, "foreign-origin")


@contextmanager
def behind_proxy(database: Database, proxies: tuple[str, ...]) -> Iterator[int]:
    """The port of a service whose uvicorn is set up as `trainard serve` does."""
    app = create_app(Settings(), database)
    config = uvicorn.Config(
        app,
        port=0,
        lifespan="off",
        log_config=None,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.mark.parametrize(
    ("proxies", "forwarded_for", "address", "secure"),
    [
        (("127.0.0.1",), "198.51.100.1, 192.0.2.7", "192.0.2.7", True),
        # A proxy forwards what its client has said it is.
        (("127.0.0.1",), "x" * 5_000, "x" * 64, True),
        (("10.0.0.0/8",), "192.0.2.7", "127.0.0.1", False),
        ((), "192.0.2.7", "127.0.0.1", False),
    ],
)
def test_forwarded_headers_are_believed_from_named_proxies_only(
    sqlite_database: Database,
    proxies: tuple[str, ...],
    forwarded_for: str,
    address: str,
    *,
    secure: bool,
) -> None:
    header = key_of(sqlite_database, "admin")
    body = {"name": "a", "role": "viewer"}
    forwarded = {"X-Forwarded-For": forwarded_for, "X-Forwarded-Proto": "https"}
    with behind_proxy(sqlite_database, proxies) as port:
        url = f"http://127.0.0.1:{port}/v1/api-keys"
        answer = httpx.post(url, json=body, headers={**header, **forwarded})
    assert answer.status_code == 201
    assert ("strict-transport-security" in answer.headers) == secure
    with sqlite_database.read() as connection:
        (event,) = events_of(connection, DEFAULT_TEAM_ID)
    assert event.address == address


@pytest.mark.parametrize(
    ("method", "path", "sent", "status"),
    [
        ("GET", "/v1/meta", {"headers": {"Authorization": "Bearer x"}}, 401),
        ("GET", "/v1/meta", {"headers": {"Via": "x"}}, 403),
        ("GET", "/v1/meta", {"headers": {"Host": "evil.example"}}, 403),
        ("GET", "/v1/nothing", {}, 404),
        ("DELETE", "/v1/meta", {}, 405),
        ("POST", "/v1/evaluations", {"json": {"x": "x" * 2_000_000}}, 413),
        ("POST", "/v1/evaluations", {"content": b"x"}, 415),
        ("POST", "/v1/evaluations", {"json": {}}, 422),
        ("OPTIONS", "/v1/evaluations", {}, 204),
    ],
)
def test_refusals_have_the_security_headers_too(
    sqlite_database: Database, method: str, path: str, sent: dict[str, Any], status: int
) -> None:
    app = create_app(Settings(limits=Limits(body_bytes=1_000_000)), sqlite_database)
    with TestClient(app, base_url=BASE_URL) as client:
        answer = client.request(method, path, **sent)
    assert answer.status_code == status
    for name, value in SECURITY_HEADERS.items():
        expected = "no-store" if name == b"cache-control" and status >= 400 else value.decode()
        assert answer.headers[name.decode()] == expected
