import http.client
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient
from structlog.testing import capture_logs

from service.api.authentication import OPEN_CHECK_S
from service.app import create_app
from service.db.engine import Database
from service.jobs.key_tokens import parse
from service.settings import Limits, Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.api.served import served

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
UNLIMITED = Limits(requests_per_minute=0)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def closed(sqlite_database: Database) -> Iterator[tuple[Client, dict[str, str]]]:
    """A service with one key, and the header of that key."""
    header = key_of(sqlite_database, "admin")
    with (
        app_over(Settings(limits=UNLIMITED), sqlite_database) as app,
        TestClient(app, base_url=BASE_URL) as client,
    ):
        yield client, header


@pytest.fixture(scope="module")
def closed_to_all(shared_database: Database) -> Iterator[Client]:
    """A service with a key that no test sends: whoever is refused changes nothing of it."""
    key_of(shared_database, "viewer")
    with (
        app_over(Settings(limits=UNLIMITED), shared_database) as app,
        TestClient(app, base_url=BASE_URL) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "name", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "Via", "X-Real-IP"]
)
def test_an_open_service_refuses_what_a_proxy_sends(
    client: Client, problem_of: ProblemOf, name: str
) -> None:
    refused = client.get("/v1/meta", headers={name: "for=192.0.2.7"})
    assert name.lower() in problem_of(refused, "forwarded-while-open")["detail"]
    assert client.get("/v1/meta").status_code == 200
    assert client.get("/healthz", headers={name: "x"}).status_code == 200


def test_a_closed_service_takes_what_a_proxy_sends(
    closed: tuple[Client, dict[str, str]],
) -> None:
    client, header = closed
    assert client.get("/v1/meta", headers={**header, "Via": "1.1 proxy"}).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        *("", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "trn_x_y", "Bearer trn_", "Bearer x.y.z"),
        f"Bearer trn_{'0' * 16}_{'A' * 43}",
        f"Bearer trn_{'0' * 16}_{'A' * 42}",
        "Bearer " + "x" * 20_000,
    ],
)
def test_what_is_no_key_is_a_401(closed_to_all: Client, problem_of: ProblemOf, sent: str) -> None:
    refused = closed_to_all.get("/v1/meta", headers={"Authorization": sent})
    problem = problem_of(refused, "unauthenticated")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert len(problem["detail"]) < 200


def test_a_wrong_secret_is_told_like_an_unknown_key(
    closed: tuple[Client, dict[str, str]], problem_of: ProblemOf
) -> None:
    client, header = closed
    text = header["Authorization"].removeprefix("Bearer ")
    known = parse(text)
    assert known is not None
    wrong = f"Bearer trn_{known.public_id}_{'A' * 43}"
    unknown = f"Bearer trn_{'0' * 16}_{known.secret}"
    told = [
        problem_of(client.get("/v1/meta", headers={"Authorization": sent}), "unauthenticated")
        for sent in (wrong, unknown)
    ]
    assert told[0]["detail"] == told[1]["detail"]
    assert known.secret not in repr(told)


def test_a_refused_key_is_in_the_log_without_its_secret(
    closed: tuple[Client, dict[str, str]],
) -> None:
    client, header = closed
    sent = header["Authorization"] + "x"
    with capture_logs() as lines:
        client.get("/v1/meta", headers={"Authorization": sent})
        client.get("/v1/meta")
    failed = [line for line in lines if line["event"] == "authentication_failed"]
    assert [line["reason"] for line in failed] == [
        "there is no such API key",
        "the header Authorization is missing: send Bearer with an API key",
    ]
    assert {line["address"] for line in failed} == {"testclient"}
    assert sent.split("_", 2)[2] not in repr(lines)


def test_two_keys_are_no_key(sqlite_database: Database) -> None:
    value = key_of(sqlite_database, "admin")["Authorization"]
    with served(sqlite_database) as (address, _):
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=90)
        connection.putrequest("GET", "/v1/meta")
        for _ in range(2):
            connection.putheader("Authorization", value)
        connection.endheaders()
        answer = connection.getresponse()
        problem = msgspec.json.decode(answer.read())
        connection.close()
    assert (answer.status, problem["type"]) == (400, "/problems/malformed-request")
    assert "twice" in problem["detail"]


TOKENS = st.one_of(
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=200),
    st.from_regex(r"trn_[0-9a-f]{0,20}_[A-Za-z0-9_-]{0,50}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}\.[A-Za-z0-9_-]{0,40}", fullmatch=True),
)


def test_no_text_gets_in(closed_to_all: Client) -> None:
    @settings(
        max_examples=100,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(scheme=st.sampled_from(["Bearer", "bearer", "BEARER", "Basic", ""]), token=TOKENS)
    def attempt(scheme: str, token: str) -> None:
        answer = closed_to_all.get("/v1/meta", headers={"Authorization": f"{scheme} {token}"})
        assert answer.status_code == 401
        assert msgspec.json.decode(answer.content)["type"] == "/problems/unauthenticated"

    attempt()


def test_the_service_closes_with_its_first_key(
    app: Litestar, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    with TestClient(app, base_url=BASE_URL) as client:
        assert client.get("/v1/meta").status_code == 200
        key_of(sqlite_database, "viewer")
        authenticator = app.state.gate.authenticator
        authenticator._checked_at -= OPEN_CHECK_S
        problem_of(client.get("/v1/meta"), "unauthenticated")


def test_an_address_of_the_network_is_never_open(app: Litestar, problem_of: ProblemOf) -> None:
    app.state.gate.authenticator.stay_closed()
    with TestClient(app, base_url=BASE_URL) as client:
        problem_of(client.get("/v1/meta"), "unauthenticated")


def test_metrics_are_public_only_where_it_is_said(
    sqlite_database: Database, problem_of: ProblemOf
) -> None:
    key_of(sqlite_database, "viewer")
    for public, app in (
        (public, create_app(Settings(public_metrics=public), sqlite_database))
        for public in (False, True)
    ):
        with TestClient(app, base_url=BASE_URL) as client:
            answer = client.get("/metrics")
            if public:
                assert answer.status_code == 200
            else:
                problem_of(answer, "unauthenticated")
            problem_of(client.get("/v1/meta"), "unauthenticated")
