"""Approval of rates over HTTP: by another key, with the version that was read."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.db.engine import Database
from tests.api.access_keys import key_of

Client = TestClient[Litestar]
Check = Callable[[httpx.Response, str], dict[str, Any]]
RATES = "/v1/gpu-hour-rates"
RATE = {
    "gpu_type": "H100",
    "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
    "valid_from": "2027-01-01",
    "source": "example amount",
}


@pytest.fixture
def keys(sqlite_database: Database) -> dict[str, dict[str, str]]:
    """Two of finance, and one that may not approve."""
    return {
        "anna": key_of(sqlite_database, "finance"),
        "bert": key_of(sqlite_database, "finance"),
        "writer": key_of(sqlite_database, "finance", scopes=["costs:read", "costs:write"]),
    }


def approve(client: Client, path: str, key: dict[str, str], etag: str) -> httpx.Response:
    return client.post(f"{path}/approval", headers={**key, "If-Match": etag})


def test_another_key_approves_the_version_that_was_read(
    client: Client, keys: dict[str, dict[str, str]], problem_of: Check
) -> None:
    made = client.post(RATES, json=RATE, headers=keys["anna"])
    path, etag = made.headers["location"], made.headers["etag"]
    refused = problem_of(approve(client, path, keys["anna"], etag), "own-rate")
    assert "another person must approve it" in refused["detail"]
    refused = problem_of(approve(client, path, keys["writer"], etag), "missing-scope")
    assert "costs:approve" in refused["detail"]
    problem_of(client.post(f"{path}/approval", headers=keys["bert"]), "precondition-required")
    problem_of(approve(client, path, keys["bert"], '"7"'), "precondition-failed")
    assert client.get(path, headers=keys["bert"]).json() == made.json()

    answer = approve(client, path, keys["bert"], etag)
    assert answer.status_code == 200, answer.text
    approved = answer.json()
    assert approved["approved_by"].startswith("finance of a test [")
    assert approved["approved_by"] != approved["recorded_by"]
    assert (answer.headers["etag"], approved["version"]) == ('"2"', 2)
    again = approve(client, path, keys["bert"], etag)
    assert (again.status_code, again.json()) == (200, approved)
    assert client.get(path, headers=keys["anna"]).json() == approved


def test_the_list_tells_what_waits(client: Client, keys: dict[str, dict[str, str]]) -> None:
    made = client.post(RATES, json=RATE, headers=keys["anna"])

    def listed(approved: str) -> list[str]:
        answer = client.get(f"{RATES}?approved={approved}", headers=keys["bert"])
        return [rate["id"] for rate in answer.json()["items"]]

    assert (listed("true"), listed("false")) == ([], [made.json()["id"]])
    approve(client, made.headers["location"], keys["bert"], made.headers["etag"])
    assert (listed("true"), listed("false")) == ([made.json()["id"]], [])


def test_while_the_service_is_open_nobody_can_approve(client: Client, problem_of: Check) -> None:
    made = client.post(RATES, json=RATE)
    answer = approve(client, made.headers["location"], {}, made.headers["etag"])
    assert "make keys first" in problem_of(answer, "own-rate")["detail"]
