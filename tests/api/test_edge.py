import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar, get
from litestar.exceptions import LitestarException
from litestar.response import Stream
from litestar.testing import TestClient

from service.api.edge import SECURITY_HEADERS
from service.app import create_app
from service.db.engine import Database
from service.settings import Settings

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]


@pytest.fixture
def client(shared_client: Client) -> Client:
    """These requests store nothing: one service answers them all."""
    return shared_client


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/nope", "/openapi.json"])
def test_every_answer_has_the_security_headers(client: Client, path: str) -> None:
    answer = client.get(path)
    for name in SECURITY_HEADERS:
        if name != b"cache-control":
            assert answer.headers[name.decode()] == SECURITY_HEADERS[name].decode()
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_callers_request_id_is_kept(client: Client) -> None:
    answer = client.get("/healthz", headers={"x-request-id": "abc-123_X.9"})
    assert answer.headers["x-request-id"] == "abc-123_X.9"


@pytest.mark.parametrize(
    "given",
    [
        *("short", "has space in it", "x" * 129, 'quo"ted-value', ""),
        *(f"trn_{'0' * 16}_{'A' * 43}", "eyJhbGciOiJSUzI1NiJ9.e30.c2ln"),
    ],
)
def test_a_harmful_request_id_is_replaced(client: Client, given: str) -> None:
    answer = client.get("/healthz", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] != given
    assert len(answer.headers["x-request-id"]) == 32


def test_every_request_is_one_json_line_in_the_log(
    app: Litestar, capsys: pytest.CaptureFixture[str]
) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as logging_client:
        logging_client.get("/problems/too-large?x=1%0A2", headers={"x-request-id": "logged-id"})
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert line["route"] == "/problems/{slug}"
    assert line["trace_id"] == "logged-id"
    assert (line["method"], line["status"]) == ("GET", 400)
    assert line["duration_ms"] > 0


@pytest.mark.parametrize("path", ["/v1/cluster-profiles/{}", "/{}", "/v1/%74rn_{}"])
def test_a_key_in_an_address_does_not_reach_the_log(
    app: Litestar, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    secret = "S" * 43
    with TestClient(app, base_url="http://127.0.0.1") as logging_client:
        logging_client.get(path.format(f"trn_{'0' * 16}_{secret}"))
    # The client of this test logs its own requests.
    lines = [line for line in capsys.readouterr().err.splitlines() if "HTTP Request" not in line]
    assert any('"event":"request"' in line for line in lines)
    assert [line for line in lines if secret in line] == []


@pytest.mark.parametrize("path", ["/healthz", "/v1/meta", "/docs", "/problems/conflict"])
def test_head_answers_like_get_without_the_body(client: Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_of_nothing_is_a_404_without_a_body(client: Client) -> None:
    answer = client.head("/nope")
    assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/v1/evaluations", "OPTIONS, POST"),
        ("/v1/cluster-profiles", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_options_and_405_name_all_methods(
    client: Client, problem_of: ProblemOf, path: str, allow: str
) -> None:
    options = client.options(path)
    assert (options.status_code, options.headers["allow"]) == (204, allow)
    assert options.content == b""
    refused = client.request("PATCH", path)
    assert refused.headers["allow"] == allow
    assert "PATCH" in problem_of(refused, "method-not-allowed")["detail"]


def test_options_of_nothing_is_a_404(client: Client, problem_of: ProblemOf) -> None:
    problem_of(client.options("/nope"), "unknown-route")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]", "[::1]:80"]
)
def test_loopback_hosts_are_answered(client: Client, host: str) -> None:
    assert client.get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", ""),
        *("127.0.0.1@evil.example", "localhost:x", "localhost, evil.example", "127.0.0.2"),
    ],
)
def test_foreign_hosts_are_refused(client: Client, problem_of: ProblemOf, host: str) -> None:
    problem_of(client.get("/healthz", headers={"host": host}), "foreign-host")


def test_any_host_is_answered_where_none_is_listed(sqlite_database: Database) -> None:
    app = create_app(Settings(allowed_hosts=()), sqlite_database)
    with TestClient(app, base_url="http://gpu-cost.example") as client:
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8001"},
        {"origin": "chrome-extension://127.0.0.1:8000"},
        {"origin": "//127.0.0.1:8000"},
        {"origin": " "},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "Cross-Site"},
    ],
)
def test_a_foreign_page_changes_nothing(
    client: Client, problem_of: ProblemOf, headers: dict[str, str]
) -> None:
    problem_of(client.post("/v1/cluster-profiles", json={}, headers=headers), "foreign-origin")


def test_the_services_own_page_may_change_something(client: Client, problem_of: ProblemOf) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    problem_of(client.post("/v1/evaluations", json={}, headers=headers), "invalid-input")


def test_a_foreign_page_may_follow_a_link(client: Client) -> None:
    headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    answer = client.get("/docs", headers=headers)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


async def _broken_parts() -> AsyncIterator[bytes]:
    yield b"first"
    raise RuntimeError("the disk is gone")


@get("/broken")
async def broken() -> Stream:
    return Stream(_broken_parts())


def test_an_answer_that_breaks_half_way_is_logged_and_not_ended_well(
    app: Litestar, capsys: pytest.CaptureFixture[str]
) -> None:
    app.register(broken)
    with (
        TestClient(app, base_url="http://127.0.0.1") as client,
        pytest.raises(LitestarException, match="after response started"),
    ):
        client.get("/broken")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    (line,) = [line for line in lines if line["event"] == "answer_broken"]
    assert "the disk is gone" in line["exception"]
