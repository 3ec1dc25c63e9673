import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import select

from service.api.api_keys import READER_EXAMPLE, WITH_COSTS_EXAMPLE
from service.db.engine import Database
from service.db.tables import idempotency_key
from service.settings import Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/api-keys"


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def keyed(database: Database) -> Iterator[Client]:
    """A service whose client sends an administrator's key."""
    with app_over(Settings(), database) as app, TestClient(app, base_url=BASE_URL) as client:
        client.headers.update(key_of(database, "admin"))
        yield client


def bearer(made: httpx.Response) -> dict[str, str]:
    return {"Authorization": f"Bearer {made.json()['key']}"}


def test_a_key_is_shown_once_and_works_at_once(keyed: Client) -> None:
    made = keyed.post(PATH, json={"name": "ledger", "role": "finance"})
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    document = made.json()
    assert document["key"].startswith(f"trn_{document['public_id']}_")
    read = keyed.get(made.headers["location"])
    assert read.headers["etag"] == made.headers["etag"] == '"1"'
    assert read.json() == {name: value for name, value in document.items() if name != "key"}
    assert keyed.get("/v1/gpu-hour-rates", headers=bearer(made)).status_code == 200
    # A secret may hold an underscore itself.
    assert document["key"].split("_", 2)[2] not in keyed.get(PATH).text


def test_a_repeated_creation_neither_shows_nor_keeps_the_secret(
    keyed: Client, database: Database
) -> None:
    body = {"name": "ledger", "role": "finance"}
    first, again = (
        keyed.post(PATH, json=body, headers={"Idempotency-Key": "attempt-1"}) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["cache-control"] == "no-store"
    assert again.json() == {**first.json(), "key": None}
    assert len(keyed.get(PATH).json()["items"]) == 2
    with database.read() as connection:
        stored = connection.execute(select(idempotency_key)).one()
    assert first.json()["key"].split("_", 2)[2] not in repr(stored)
    assert first.json()["public_id"] in repr(stored)


@pytest.mark.parametrize("example", [WITH_COSTS_EXAMPLE, READER_EXAMPLE])
def test_the_documented_examples_are_made(keyed: Client, example: dict[str, Any]) -> None:
    made = keyed.post(PATH, json=example)
    assert made.status_code == 201, made.text
    assert ("costs:read" in made.json()["scopes"]) == ("grant" in example)


def test_a_change_needs_the_current_version(keyed: Client, problem_of: ProblemOf) -> None:
    path = keyed.post(PATH, json={"name": "a", "role": "viewer"}).headers["location"]
    change = {"name": "b", "expires_at": "2099-01-01T00:00:00+01:00"}
    problem_of(keyed.patch(path, json=change), "precondition-required")
    stale = keyed.patch(path, json=change, headers={"If-Match": '"7"'})
    problem_of(stale, "precondition-failed")
    changed = keyed.patch(path, json=change, headers={"If-Match": '"1"'})
    assert changed.headers["etag"] == '"2"'
    assert changed.json()["name"] == "b"
    assert changed.json()["expires_at"] == "2098-12-31T23:00:00Z"
    past = {"expires_at": "2020-01-01T00:00:00Z"}
    refused = keyed.patch(path, json=past, headers={"If-Match": '"2"'})
    assert problem_of(refused, "invalid-input")["errors"][0]["code"] == "in_the_past"


def test_revoking_waits_for_nothing_and_acts_at_once(keyed: Client, problem_of: ProblemOf) -> None:
    made = keyed.post(PATH, json={"name": "a", "role": "viewer"})
    assert keyed.get("/v1/meta", headers=bearer(made)).status_code == 200
    answers = [keyed.post(f"{made.headers['location']}/revocation") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["revoked_at"] is not None
    refused = keyed.get("/v1/meta", headers=bearer(made))
    assert "is revoked" in problem_of(refused, "unauthenticated")["detail"]
    renamed = keyed.patch(made.headers["location"], json={"name": "b"}, headers={"If-Match": '"2"'})
    problem_of(renamed, "conflict")


def test_the_keys_of_another_team_are_not_there(
    keyed: Client, database: Database, problem_of: ProblemOf
) -> None:
    path = keyed.post(PATH, json={"name": "a", "role": "viewer"}).headers["location"]
    foreign = key_of(database, "admin", new_team(database, "others"))
    problem_of(keyed.get(path, headers=foreign), "not-found")
    problem_of(keyed.post(f"{path}/revocation", headers=foreign), "not-found")
    changed = keyed.patch(path, json={"name": "b"}, headers={**foreign, "If-Match": '"1"'})
    problem_of(changed, "not-found")
    assert [key["role"] for key in keyed.get(PATH, headers=foreign).json()["items"]] == ["admin"]


def test_keys_are_paged(keyed: Client) -> None:
    for number in range(3):
        keyed.post(PATH, json={"name": f"number {number}", "role": "viewer"})
    first = keyed.get(PATH, params={"page_size": 3}).json()
    rest = keyed.get(PATH, params={"page_token": first["next_page_token"]}).json()
    names = [key["name"] for page in (first, rest) for key in page["items"]]
    assert names == ["admin of a test", "number 0", "number 1", "number 2"]
    assert rest["next_page_token"] is None


def test_the_last_use_is_noted(keyed: Client) -> None:
    made = keyed.post(PATH, json={"name": "a", "role": "viewer"})
    assert made.json()["last_used_at"] is None
    before = time.time()
    keyed.get("/v1/meta", headers=bearer(made))
    keyed.get("/v1/meta", headers=bearer(made))
    used = keyed.get(made.headers["location"]).json()["last_used_at"]
    assert used is not None
    assert used[:4] == time.strftime("%Y", time.gmtime(before))


def test_an_open_service_makes_no_key(client: Client, problem_of: ProblemOf) -> None:
    """Else the first who comes by would close it to all others."""
    refused = client.post(PATH, json={"name": "a", "role": "admin"})
    assert "trainard key create" in problem_of(refused, "first-key-by-cli")["detail"]
    assert client.get(PATH).json()["items"] == []
