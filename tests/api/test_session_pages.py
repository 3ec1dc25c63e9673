"""Which pages the cookie of a session speaks for."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient

from service.app import create_app
from service.db.engine import Database
from service.settings import Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/session"
KEYS = "/v1/api-keys"
NEW_KEY = {"name": "forged", "role": "admin"}
FRIEND = "https://bi.example"


@pytest.fixture(scope="module")
def signed_in(shared_database: Database) -> Iterator[Client]:
    """A browser that an administrator has signed in with, where another origin may call the API."""
    header = key_of(shared_database, "admin")
    app = create_app(Settings(cors_origins=(FRIEND,)), shared_database)
    with TestClient(app, base_url=BASE_URL) as client:
        key = header["Authorization"].removeprefix("Bearer ")
        assert client.post(PATH, json={"key": key}).status_code == 201
        yield client
    structlog.reset_defaults()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": FRIEND},
        {"Origin": FRIEND, "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:8001"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin, cross-site"},
        {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        },
    ],
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", KEYS, NEW_KEY), ("DELETE", PATH, None), ("PATCH", f"{KEYS}/x", {"name": "y"})],
)
def test_another_page_changes_nothing_with_it(
    signed_in: Client, headers: dict[str, str], method: str, path: str, body: Any
) -> None:
    refused = signed_in.request(method, path, json=body, headers=headers)
    assert refused.status_code == 403, refused.text
    assert refused.json()["type"] in {"/problems/foreign-page", "/problems/foreign-origin"}
    assert "access-control-allow-credentials" not in refused.headers
    keys = signed_in.get(KEYS, headers={"Sec-Fetch-Site": "same-origin"})
    assert keys.status_code == 200
    assert [key["name"] for key in keys.json()["items"]] == ["admin of a test"]


@pytest.mark.parametrize(
    "headers",
    [{"Sec-Fetch-Site": "same-origin"}, {"Origin": BASE_URL}, {"Origin": "https://127.0.0.1:8000"}],
)
def test_a_page_of_ours_may_change_things(signed_in: Client, headers: dict[str, str]) -> None:
    body = {"profile": "not-there"}
    assert signed_in.post("/v1/evaluations", json=body, headers=headers).status_code == 422


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": FRIEND},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_another_page_reads_nothing_with_it(
    signed_in: Client, problem_of: ProblemOf, headers: dict[str, str]
) -> None:
    problem_of(signed_in.get(KEYS, headers=headers), "foreign-page")
    assert signed_in.get(PATH, headers=headers).json()["signed_in"] is False
    assert signed_in.head(KEYS, headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
        {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        },
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_the_reader_may_go_anywhere(signed_in: Client, headers: dict[str, str]) -> None:
    assert signed_in.get(KEYS, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{"Origin": FRIEND}, {"Sec-Fetch-Site": "same-site"}])
def test_another_page_signs_nobody_in(
    signed_in: Client, problem_of: ProblemOf, headers: dict[str, str]
) -> None:
    body = {"key": f"trn_{'0' * 16}_{'A' * 43}"}
    problem_of(signed_in.post(PATH, json=body, headers=headers), "foreign-page")


def test_a_key_in_the_header_needs_no_page(signed_in: Client, shared_database: Database) -> None:
    """Pages of allowed origins hold a key themselves."""
    header = {**key_of(shared_database, "viewer"), "Origin": FRIEND}
    answer = signed_in.get("/v1/meta", headers=header)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == FRIEND
    assert "access-control-allow-credentials" not in answer.headers
