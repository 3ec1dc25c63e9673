"""Webhook endpoints over HTTP, on both databases."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from cryptography.fernet import Fernet
from litestar import Litestar
from litestar.testing import TestClient
from msgspec import structs
from sqlalchemy import select
from standardwebhooks.webhooks import Webhook

from service.api.webhook_endpoints import ENDPOINT_EXAMPLE
from service.app import create_app
from service.db.engine import Database
from service.db.tables import idempotency_key, webhook_endpoint
from service.settings import Deliveries, Limits, Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.api.served import wait_until
from tests.jobs.delivery_worlds import World
from tests.jobs.receivers import LOOPBACK, OK, answer, receiving

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/webhook-endpoints"
KEY = Fernet.generate_key().decode()
SETTINGS = Settings(
    deliveries=Deliveries(egress=LOOPBACK, secrets_key=KEY),
    limits=Limits(webhook_endpoints=3),
)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def client(database: Database) -> Iterator[Client]:
    with app_over(SETTINGS, database) as app, TestClient(app, base_url=BASE_URL) as opened:
        opened.headers.update(key_of(database, "admin"))
        yield opened


def made(client: Client, **changes: Any) -> dict[str, Any]:
    found = client.post(PATH, json={**ENDPOINT_EXAMPLE, **changes})
    assert found.status_code == 201, found.text
    document: dict[str, Any] = found.json()
    return document


def stored(database: Database) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(webhook_endpoint)))


def test_a_secret_is_shown_once_and_stored_encrypted(client: Client, database: Database) -> None:
    first, again = (
        client.post(PATH, json=ENDPOINT_EXAMPLE, headers={"Idempotency-Key": "once"})
        for _ in range(2)
    )
    document = first.json()
    assert document["secret"].startswith("whsec_")
    assert first.headers["cache-control"] == "no-store"
    assert again.json() == {**document, "secret": None}
    read = client.get(first.headers["location"])
    assert read.json() == {name: part for name, part in document.items() if name != "secret"}
    assert read.headers["etag"] == first.headers["etag"] == '"1"'
    (row,) = stored(database)
    with database.read() as connection:
        kept = connection.execute(select(idempotency_key)).all()
    for text in (repr(row), repr(kept), client.get(PATH).text, client.get("/v1/audit-events").text):
        assert document["secret"] not in text
    assert Fernet(KEY).decrypt(row.secrets[0]["secret"]).decode() == document["secret"]


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@hooks.example.org/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::ffff:10.0.0.1]/",
    ],
)
def test_a_url_that_may_not_be_posted_to_is_refused(
    url: str, client: Client, problem_of: ProblemOf
) -> None:
    problem = problem_of(client.post(PATH, json={"name": "x", "url": url}), "invalid-input")
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == [
        ("/url", "url_refused")
    ]
    assert "hunter2" not in str(problem)
    endpoint = made(client)
    changed = client.patch(
        f"{PATH}/{endpoint['id']}", json={"url": url}, headers={"If-Match": '"1"'}
    )
    assert problem_of(changed, "invalid-input")["errors"][0]["pointer"] == "/url"


def test_changes_need_the_version_that_they_are_based_on(
    client: Client, problem_of: ProblemOf
) -> None:
    path = f"{PATH}/{made(client)['id']}"
    problem_of(client.patch(path, json={"name": "x"}), "precondition-required")
    stale = {"If-Match": '"7"'}
    problem_of(client.patch(path, json={"name": "x"}, headers=stale), "precondition-failed")
    problem_of(client.delete(path, headers=stale), "precondition-failed")
    changed = client.patch(path, json={"name": "x", "enabled": False}, headers={"If-Match": '"1"'})
    assert changed.headers["etag"] == '"2"'
    document = changed.json()
    assert (document["name"], document["enabled"]) == ("x", False)
    assert document["disabled_reason"].startswith("disabled by ")
    problem_of(client.post(f"{path}/test"), "conflict")
    again = client.patch(path, json={"enabled": True}, headers={"If-Match": '"2"'}).json()
    assert (again["enabled"], again["disabled_at"], again["disabled_reason"]) == (True, None, None)
    assert client.delete(path, headers={"If-Match": '"3"'}).status_code == 204
    problem_of(client.get(path), "not-found")
    problem_of(client.patch(path, json={}, headers={"If-Match": '"4"'}), "not-found")
    assert client.get(f"{path}/deliveries").json() == {"items": [], "next_page_token": None}


def test_a_team_has_a_limited_number(client: Client, problem_of: ProblemOf) -> None:
    for _ in range(3):
        made(client)
    problem = problem_of(client.post(PATH, json=ENDPOINT_EXAMPLE), "conflict")
    assert "3 webhook endpoints" in problem["detail"]
    page = client.get(PATH, params={"page_size": 2}).json()
    assert len(page["items"]) == 2
    rest = client.get(PATH, params={"page_size": 2, "page_token": page["next_page_token"]}).json()
    assert (len(rest["items"]), rest["next_page_token"]) == (1, None)


def test_money_is_turned_elsewhere_only_by_those_who_may_see_it(
    client: Client, database: Database, problem_of: ProblemOf
) -> None:
    planner = key_of(database, "planner")
    body = {**ENDPOINT_EXAMPLE, "include_costs": True}
    problem_of(client.post(PATH, json=body, headers=planner), "missing-scope")
    path = f"{PATH}/{made(client, include_costs=True)['id']}"
    plain = f"{PATH}/{made(client)['id']}"
    held = {"If-Match": '"1"', **planner}
    elsewhere = {"url": "https://evil.example.org/"}
    problem_of(client.patch(path, json=elsewhere, headers=held), "missing-scope")
    problem_of(client.patch(plain, json={"include_costs": True}, headers=held), "missing-scope")
    # Not by taking the money away in the same breath, or before
    for change in (
        {**elsewhere, "include_costs": False},
        {"include_costs": False},
        {"enabled": True, **elsewhere},
    ):
        problem_of(client.patch(path, json=change, headers=held), "missing-scope")
    problem_of(
        client.post(f"{path}/secret-rotation", json={"overlap_s": 0}, headers=planner),
        "missing-scope",
    )
    # What is sent stops with anybody, and begins again with those who see it.
    same = {"name": "x", "url": ENDPOINT_EXAMPLE["url"], "enabled": False, "include_costs": True}
    assert client.patch(path, json=same, headers=held).status_code == 200
    again = {"If-Match": '"2"', **planner}
    problem_of(client.patch(path, json={"enabled": True}, headers=again), "missing-scope")
    assert client.patch(path, json={"enabled": True}, headers={"If-Match": '"2"'}).is_success
    assert client.patch(plain, json={"name": "y", **elsewhere}, headers=held).status_code == 200
    assert client.post(f"{plain}/secret-rotation", headers=planner).status_code == 201


def test_an_endpoint_that_had_money_is_guarded_by_its_log(
    client: Client, database: Database, problem_of: ProblemOf
) -> None:
    world = World(database)
    row = world.webhook("https://hooks.example.org/", include_costs=True)
    path, planner = f"{PATH}/{row.endpoint_id}", key_of(database, "planner")
    # Those who see money take it away; it waits, and its log holds it.
    changed = client.patch(path, json={"include_costs": False}, headers={"If-Match": '"1"'})
    assert changed.status_code == 200
    held = {"If-Match": '"2"', **planner}
    for change in ({"url": "https://evil.example.org/"}, {"include_costs": True}):
        problem_of(client.patch(path, json=change, headers=held), "missing-scope")
    problem_of(client.post(f"{path}/secret-rotation", headers=planner), "missing-scope")
    problem_of(client.post(f"/v1/deliveries/{row.id}/replay", headers=planner), "missing-scope")


def test_few_test_messages_wait_and_few_secrets_sign(client: Client, problem_of: ProblemOf) -> None:
    path = f"{PATH}/{made(client, url='https://127.0.0.1:1/')['id']}"
    for _ in range(3):
        assert client.post(f"{path}/test").status_code == 202
    problem = problem_of(client.post(f"{path}/test"), "conflict")
    assert problem["detail"].startswith("3 test messages wait")
    for _ in range(2):
        assert client.post(f"{path}/secret-rotation").status_code == 201
    problem = problem_of(client.post(f"{path}/secret-rotation"), "conflict")
    assert problem["detail"].startswith("3 secrets of the endpoint sign already")
    at_once = client.post(f"{path}/secret-rotation", json={"overlap_s": 0})
    assert at_once.json()["old_secrets_end_at"] == []


def test_an_endpoint_of_private_networks_says_so(client: Client, problem_of: ProblemOf) -> None:
    assert made(client)["notice"] is None
    for url in ("http://hooks.internal/x", "https://hooks.internal:25/"):
        notice = made(client, url=url)["notice"]
        assert "only while hooks.internal leads to nothing but networks in" in notice
        for endpoint in client.get(PATH).json()["items"]:
            client.delete(f"{PATH}/{endpoint['id']}", headers={"If-Match": '"1"'})
    for url in ("http://8.8.8.8/", "https://168.63.129.16/", "https://a.org:0/", "https://[v1.x]/"):
        problem_of(client.post(PATH, json={"name": "x", "url": url}), "invalid-input")


def test_a_reader_does_not_see_the_path_of_a_url(client: Client, database: Database) -> None:
    made(client, url="https://hooks.example.org:8443/services/T000/secret?token=x")
    shown = client.get(PATH, headers=key_of(database, "viewer")).json()["items"][0]
    assert shown["url"] == "https://hooks.example.org:8443/…"
    assert client.get(PATH).json()["items"][0]["url"].endswith("token=x")


def test_a_test_message_is_sent_by_the_running_service(client: Client) -> None:
    with receiving(answer(500), OK) as receiver:
        endpoint = made(client, url=receiver.url())
        rotated = client.post(f"{PATH}/{endpoint['id']}/secret-rotation")
        assert rotated.status_code == 201
        assert len(rotated.json()["old_secrets_end_at"]) == 1
        sent = client.post(f"{PATH}/{endpoint['id']}/test")
        assert sent.status_code == 202
        path = sent.headers["location"]
        wait_until(lambda: client.get(path).json()["attempts"] == 1)
        waiting = client.get(path).json()
        assert (waiting["state"], waiting["last_status"]) == ("pending", 500)
        assert waiting["payload"]["type"] == "webhook.test"
        # Not after five seconds, but at once
        assert client.post(f"{path}/cancellation").json()["state"] == "canceled"
        assert client.post(f"{path}/replay").status_code == 202
        wait_until(lambda: client.get(path).json()["state"] == "delivered")
    found = client.get(path).json()
    assert [(part["attempt"], part["status"]) for part in found["attempt_log"]] == [
        (1, 500),
        (2, 200),
    ]
    first, second = receiver.received
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == found["message_id"]
    for secret in (endpoint["secret"], rotated.json()["secret"]):
        assert Webhook(secret).verify(second.body, second.headers)["type"] == "webhook.test"
    listed = client.get(f"{PATH}/{endpoint['id']}/deliveries").json()["items"]
    assert [item["id"] for item in listed] == [found["id"]]


def test_without_a_key_secrets_are_stored_plain_and_it_is_said(database: Database) -> None:
    plain = structs.replace(SETTINGS, deliveries=Deliveries())
    with TestClient(create_app(plain, database), base_url=BASE_URL) as opened:
        # The service has set its own log up by now.
        capture = structlog.testing.LogCapture()
        structlog.configure(processors=[capture], cache_logger_on_first_use=False)
        secret = opened.post(PATH, json=ENDPOINT_EXAMPLE).json()["secret"]
    assert stored(database)[0].secrets[0]["secret"] == secret
    assert secret not in repr(capture.entries)
    assert "webhook_secret_not_encrypted" in [entry["event"] for entry in capture.entries]
