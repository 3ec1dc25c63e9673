"""The log of deliveries over HTTP, on both databases."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient
from msgspec import structs
from sqlalchemy import update

from service.app import create_app
from service.db.engine import Database
from service.db.tables import delivery
from service.jobs.scopes import ROLE_SCOPES
from service.settings import Settings
from tests.api.access_keys import key_of, new_team
from tests.api.conftest import BASE_URL
from tests.jobs.audit_trails import events
from tests.jobs.delivery_worlds import NOW, World
from tests.reports.loss_reports import realistic

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/deliveries"
FOLDER = {"kind": "directory", "folder": "nightly"}
MAIL = {"kind": "email", "to": ["ada@example.org"], "include_costs": True}


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def client(database: Database, world: World) -> Iterator[Client]:
    # The world's deliveries are due in 2027, so that nothing sends them meanwhile.
    assert world.team_id
    with TestClient(create_app(Settings(), database), base_url=BASE_URL) as opened:
        opened.headers.update(key_of(database, "admin"))
        yield opened


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_the_log_is_filtered_and_paged_newest_first(client: Client, world: World) -> None:
    endpoint = world.endpoint("https://hooks.example.org/")
    hook = {"kind": "webhook", "endpoint_id": str(endpoint.id), "when": "on_change"}
    made = world.store(structs.replace(realistic(), budget=None, warnings=[]))
    first = world.plan(FOLDER, MAIL, made=made)
    second = world.plan(hook, made=made, run_id=(run := world.new_run()))[-1]
    with world.database.write() as connection:
        connection.execute(
            update(delivery).where(delivery.c.id == second.id).values(state="dead", created_at=NOW)
        )
    newest = sorted([str(row.id) for row in [*first, second]], reverse=True)
    assert ids(client.get(PATH)) == newest
    for params, expected in (
        ({"kind": "email"}, [str(first[1].id)]),
        ({"state": "dead"}, [str(second.id)]),
        ({"run": str(run)}, [str(second.id)]),
        ({"endpoint": str(endpoint.id)}, [str(second.id)]),
        ({"schedule": "nightly"}, newest),
        ({"schedule": str(world.schedule_id)}, newest),
        ({"schedule": "weekly"}, []),
        ({"created_after": "2027-03-28T01:31:00Z"}, []),
        ({"created_before": "2027-03-28T03:31:01+02:00"}, newest),
    ):
        assert ids(client.get(PATH, params=params)) == expected, params
    pages = []
    token = None
    while True:
        params = {"page_size": "1", **({} if token is None else {"page_token": token})}
        page = client.get(PATH, params=params)
        pages += ids(page)
        token = page.json()["next_page_token"]
        if token is None:
            break
    assert pages == newest
    assert client.get(PATH, params={"state": "lost"}).status_code == 400


def test_money_in_a_delivery_is_withheld_and_its_reading_recorded(
    client: Client, world: World
) -> None:
    endpoint = world.endpoint("https://hooks.example.org/", include_costs=True)
    hook = {"kind": "webhook", "endpoint_id": str(endpoint.id), "include_costs": True}
    row, plain = world.plan(hook, FOLDER, made=world.store(realistic()))
    path = f"{PATH}/{row.id}"
    amount = realistic().headline.cost_of_loss_per_30_days
    assert amount is not None
    planner = key_of(world.database, "planner")
    for address in (path, PATH, f"/v1/webhook-endpoints/{endpoint.id}/deliveries"):
        hidden = client.get(address, headers=planner)
        assert hidden.status_code == 200
        assert amount.amount not in hidden.text
    shown = client.get(path, headers=planner).json()
    assert (shown["reason"], shown["payload"], shown["includes_costs"]) == (None, None, True)
    assert client.get(f"{PATH}/{plain.id}", headers=planner).json()["reason"] is not None

    def readings() -> list[str]:
        return [event.action for event in events(world.database) if event.outcome == "read"]

    assert readings() == []
    seen = client.get(path).json()
    assert seen["payload"]["data"]["report"]["cost_of_loss_per_30_days"]["amount"] == amount.amount
    assert seen["reason"] == seen["payload"]["data"]["reason"]
    assert readings() == ["get_delivery"]
    client.get(PATH, params={"kind": "directory"})
    client.get(f"{PATH}/{plain.id}")
    assert readings() == ["get_delivery"]


def test_what_is_sent_again_or_called_off(
    client: Client, world: World, problem_of: ProblemOf
) -> None:
    mail, folder = world.plan(MAIL, FOLDER, made=world.store(realistic()))
    path = f"{PATH}/{folder.id}"
    assert client.post(f"{path}/replay").status_code == 202
    canceled = client.post(f"{path}/cancellation")
    assert (canceled.status_code, canceled.json()["state"]) == (200, "canceled")
    assert client.post(f"{path}/cancellation").json() == canceled.json()
    with world.database.write() as connection:
        ended = {"state": "dead", "next_attempt_at": None}
        connection.execute(update(delivery).values(**ended))
    problem = problem_of(client.post(f"{path}/cancellation"), "conflict")
    assert problem["detail"] == "it is dead: nothing of it waits"
    # Of what holds money only by those who may see it
    planner = key_of(world.database, "planner")
    problem_of(client.post(f"{PATH}/{mail.id}/replay", headers=planner), "missing-scope")
    replayed = client.post(f"{path}/replay", headers=planner)
    assert (replayed.status_code, replayed.json()["state"]) == (202, "pending")
    assert replayed.json()["message_id"] == folder.message_id
    assert replayed.headers["location"] == path


def test_deliveries_of_another_team_are_not_there(
    client: Client, world: World, problem_of: ProblemOf
) -> None:
    (row,) = world.plan(FOLDER, made=world.store(realistic()))
    other = key_of(world.database, "admin", new_team(world.database, "other"))
    assert ids(client.get(PATH, headers=other)) == []
    for suffix, method in (("", "GET"), ("/replay", "POST"), ("/cancellation", "POST")):
        answer = client.request(method, f"{PATH}/{row.id}{suffix}", headers=other)
        problem_of(answer, "not-found")
    problem_of(client.get(f"{PATH}/nonsense"), "not-found")


def test_no_scope_but_schedules_read_is_needed_to_read(client: Client, world: World) -> None:
    (row,) = world.plan(FOLDER, made=world.store(realistic()))
    only = key_of(world.database, "viewer", scopes=["schedules:read"])
    assert client.get(f"{PATH}/{row.id}", headers=only).status_code == 200
    without = key_of(world.database, "viewer", scopes=ROLE_SCOPES["viewer"] - {"schedules:read"})
    assert client.get(f"{PATH}/{row.id}", headers=without).status_code == 403
