"""No outlet shows money to whoever lacks costs:read: every operation.

The prices are unmistakable, so that an amount, or a cost made of it, is found as text wherever it
leaks.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from litestar.testing import TestClient
from sqlalchemy import delete, select, update

from service.db.batches import unsent_batches
from service.db.engine import Database
from service.db.tables import api_key, gpu_hour_rate, pricing_line
from service.jobs.chunks import num_chunks
from service.jobs.scopes import ROLES, widest
from service.jobs.tasks import TASKS
from service.settings import Limits, Settings
from tests.api.access_keys import key_of
from tests.api.access_requests import BATCHES, REQUESTS, Request
from tests.api.access_world import SLOW, Call, World
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.api.served import wait_until
from tests.jobs.chunk_steps import end, record
from tests.reports.export_readers import READERS

AMOUNT = "12345.67"
UNLIMITED = Limits(requests_per_minute=0, points_per_hour=0)
# What shows amounts or rate ids to those who may see them.
SHOWING = {
    "create_schedule",
    "list_schedules",
    "get_schedule",
    "change_schedule",
    "pause_schedule",
    "resume_schedule",
    "evaluate_remedies",
    "search_pipelines",
    "list_rates",
    "get_rate",
    "resolve_rate",
    "create_rate",
    "correct_rate",
    "submit_and_wait",
    "list_batch_results",
    "list_results",
    "list_sorted_results",
    "get_result",
    "compare_batches",
    "read_loss_history",
    "export_results",
    "export_lines",
    "export_comparison",
    "download_export",
    "get_report",
    "read_report",
}
# Of workflows that nobody makes: what waits for them is there for `worker`.
LATER_VERSION = 1_000_000
# These change by themselves.
UNSTEADY = {
    *("get_health", "get_readiness", "get_metrics", "list_workers", "get_meta"),
    # The courier tries them again.
    *("list_deliveries", "list_endpoint_deliveries", "get_delivery"),
}


class PricedWorld(World):
    """A world whose batches are priced: H100 at 12345.67 EUR per GPU-hour."""

    def rate_body(self) -> dict[str, Any]:
        is_first = not hasattr(self, "rate")
        return {
            **super().rate_body(),
            "gpu_type": "H100" if is_first else self.unique(),
            "price_per_gpu_hour": {"amount": AMOUNT, "currency": "EUR"},
        }

    def schedule_body(self) -> dict[str, Any]:
        budget = {"cost_of_loss_per_30_days": {"amount": AMOUNT, "currency": "EUR"}}
        body = super().schedule_body()
        (item,) = body["batch"]["items"]
        items = [{**item, "pricing": {"gpu_type": "H100"}}]
        batch = {**body["batch"], "items": items}
        # So that the slots of earlier years are priced too
        return {**body, "batch": batch, "budget": budget, "start_in_days": 1_000}

    def batch_body(self) -> dict[str, Any]:
        (item,) = SLOW["items"]
        return {
            "name": self.unique(),
            "start_on": "2026-12-01",
            "currency": "EUR",
            "items": [{**item, "pricing": {"gpu_type": "H100"}}],
        }


def _submit_and_wait(world: World) -> Call:
    return "POST", BATCHES, {"json": world.batch_body(), "headers": {"Prefer": "wait=30"}}


CALLS: dict[str, Request] = {
    **REQUESTS,
    "submit_and_wait": Request(own=_submit_and_wait),
    "list_sorted_results": Request(
        own=lambda _: ("GET", "/v1/results?order_by=-gpu_hours_lost,num_gpus&pricing=1", {})
    ),
    "export_lines": Request(
        own=lambda _: ("GET", "/v1/exports?format=jsonl&order_by=-gpu_hours_lost", {})
    ),
}


class House(msgspec.Struct, frozen=True, kw_only=True):
    """A running service with a priced world and keys."""

    client: Any
    database: Database
    world: PricedWorld
    keys: dict[str, dict[str, str]]

    def send(self, call: Call, role: str, **headers: str) -> httpx.Response:
        method, path, arguments = call
        sent = {**arguments.get("headers", {}), **self.keys[role], **headers}
        answer: httpx.Response = self.client.request(method, path, **{**arguments, "headers": sent})
        return answer

    def get(self, path: str, role: str) -> httpx.Response:
        return self.send(("GET", path, {}), role)

    def secrets(self) -> set[str]:
        """The price, the rate's id, and the whole units of every cost that finance is shown."""
        shown = [
            self.get(path, "finance").json()
            for path in (
                f"{BATCHES}/{self.world.batch}/results",
                "/v1/loss-history?scenario=one%20slow%20GPU",
            )
        ]
        whole = {amount.split(".")[0] for amount in _amounts(shown)}
        long = {units for units in whole if len(units) > 5}
        assert len(long) > 20
        return {AMOUNT, self.world.rate, *long}


@contextmanager
def worker(database: Database) -> Iterator[None]:
    """Does here what a worker process does on PostgreSQL: the embedded database has its own."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.wait(0.02):
            with database.read() as connection:
                batches = unsent_batches(connection, LATER_VERSION, 10)
                tasks = [
                    (task, row)
                    for task in TASKS.values()
                    for row in task.unsent(connection, LATER_VERSION)
                ]
            for batch in batches:
                for chunk in range(num_chunks(batch.points_total, batch.chunk_points)):
                    record(database, batch.id, chunk)
                end(database, batch.id)
            for task, row in tasks:
                task.run(database, row)

    thread = threading.Thread(target=work)
    if not database.is_sqlite:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        if not database.is_sqlite:
            thread.join()


@contextmanager
def priced_house(database: Database) -> Iterator[House]:
    keys = {str(role): key_of(database, role) for role in ROLES}
    with (
        app_over(Settings(limits=UNLIMITED), database) as app,
        worker(database),
        TestClient(app, base_url=BASE_URL) as client,
    ):
        world = PricedWorld(client, keys["admin"], "priced")
        yield House(client=client, database=database, world=world, keys=keys)


@pytest.fixture
def house(sqlite_database: Database) -> Iterator[House]:
    """Of one test, which may change everything."""
    with priced_house(sqlite_database) as made:
        yield made


@pytest.fixture
def either_house(database: Database) -> Iterator[House]:
    """The same on both databases."""
    with priced_house(database) as made:
        yield made


@pytest.fixture(scope="module")
def shared(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Of all tests that only add to it."""
    path = tmp_path_factory.mktemp("costs") / "trainard.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    with priced_house(database) as made:
        yield made
    database.close()


def _amounts(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if "amount" in document and "currency" in document:
            yield document["amount"]
        document = list(document.values())
    if isinstance(document, list):
        for part in document:
            yield from _amounts(part)


def _found(secrets: set[str], answer: httpx.Response) -> list[str]:
    # A problem names the path that was asked for.
    text = answer.text.replace(answer.request.url.path, "") + str(answer.headers.raw)
    return sorted(secret for secret in secrets if secret in text)


def _statuses(document: Any) -> Iterator[str]:
    """The statuses of all costs in a document; what stands beside a withheld one must be null."""
    if isinstance(document, dict):
        status = document.get("cost_status", document.get("past_status"))
        if isinstance(status, str):
            yield status
            money = [name for name in document if name.startswith("cost_of_loss")]
            assert [document[name] for name in money] == [None] * len(money)
            assert document.get("rates", []) == []
        document = list(document.values())
    if isinstance(document, list):
        for part in document:
            yield from _statuses(part)


def _lasting(answer: httpx.Response) -> list[Any]:
    """What two answers to one question have in common."""
    headers = [answer.headers.get(name) for name in ("etag", "link", "location", "content-type")]
    text = answer.text
    if '"rates_as_of"' in text:
        # A batch tells when it was priced last, by a new version; and nothing else of that.
        told = r'(?m)"rates_as_of":"[^"]+"|"version":[0-9]+|^id: [0-9]+$'
        text = re.sub(told, "", text)
        headers[0] = None
    if answer.status_code >= 400:
        text = str({**answer.json(), "trace_id": None})
    return [answer.status_code, text, *headers]


def _wait_for(house: House, path: str) -> None:
    wait_until(lambda: house.get(path, "admin").json()["state"] == "succeeded")


def test_no_operation_shows_money_without_costs_read(either_house: House) -> None:
    house = either_house
    secrets = house.secrets()
    showing = set()
    for name, request in CALLS.items():
        shown = house.send(request.own(house.world), "admin")
        if _found(secrets, shown):
            showing.add(name)
        # What only a planner may change is still there when the viewer was refused.
        call = request.own(house.world)
        for role in ("viewer", "planner"):
            hidden = house.send(call, role)
            assert _found(secrets, hidden) == [], (name, role)
            if hidden.headers.get("content-type") == "application/json":
                assert set(_statuses(hidden.json())) <= {"withheld"}, (name, role)
            if name in SHOWING and hidden.status_code != 403:
                assert "withheld" in hidden.text, (name, role, hidden.text)
    assert showing == SHOWING


def test_what_is_withheld_does_not_depend_on_the_prices(house: House) -> None:
    world = house.world
    # Made once: those that change something make objects of their own.
    asked = {name: request.own(world) for name, request in CALLS.items() if name not in UNSTEADY}
    reads = {name: call for name, call in asked.items() if call[0] == "GET"}

    def answers(role: str) -> dict[str, list[Any]]:
        return {name: _lasting(house.send(call, role)) for name, call in reads.items()}

    withheld, shown = answers("viewer"), answers("admin")
    made = house.send(("POST", f"{BATCHES}/{world.batch}/repricings", {"json": {}}), "finance")
    assert made.status_code == 201, made.text
    assert answers("viewer") == withheld
    with house.database.write() as connection:
        # As if no rate had ever been recorded.
        connection.execute(update(pricing_line).values(rate_id=None, amount=None))
        connection.execute(delete(gpu_hour_rate))
    assert answers("viewer") == withheld
    now = answers("admin")
    assert {name for name in now if now[name] != shown[name]} >= {
        "list_results",
        "get_result",
        "compare_batches",
        "read_loss_history",
        "export_results",
        "export_comparison",
        "list_pricings",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/v1/results?order_by=-cost_of_loss&currency=EUR",
        "/v1/results?order_by=cost_of_loss",
        "/v1/results?where=cost_of_loss:gt:1&currency=EUR",
        "/v1/results?where=cost_of_loss:is_null:true",
        "/v1/results?currency=EUR",
        "/v1/results?currency=USD",
        "/v1/results?pricing=2",
        BATCHES + "/{batch}/results?pricing=2",
        BATCHES + "/{batch}/results?order_by=num_gpus,cost_of_loss",
        "/v1/comparisons?baseline={batch}&candidate={batch}&order_by=new.cost_of_loss",
        "/v1/comparisons?baseline={batch}&candidate={batch}&order_by=-magnitude.cost_of_loss",
        "/v1/comparisons?baseline={batch}&candidate={batch}&baseline_pricing=2",
        "/v1/exports?order_by=cost_of_loss&currency=EUR",
        "/v1/exports?currency=EUR",
        "/v1/exports?format=parquet&pricing=3",
        "/v1/exports/comparison?baseline={batch}&candidate={batch}&candidate_pricing=2",
        "/v1/exports/comparison?baseline={batch}&candidate={batch}&order_by=past.cost_of_loss",
    ],
)
def test_questions_that_money_answers_are_refused(shared: House, path: str) -> None:
    asked = path.format(batch=shared.world.batch)
    for role in ("viewer", "planner"):
        answer = shared.get(asked, role)
        assert answer.status_code == 403, answer.text
        problem = answer.json()
        assert problem["type"] == "/problems/missing-scope"
        assert "costs:read" in problem["detail"]
    assert shared.get(asked, "finance").status_code in {200, 400, 404}


@pytest.mark.parametrize("format_name", ["parquet", "arrow"])
def test_binary_formats_hold_no_money(shared: House, format_name: str) -> None:
    path = f"/v1/exports?format={format_name}&batch={shared.world.batch}"
    hidden = READERS[format_name](shared.get(path, "viewer").content)
    shown = READERS[format_name](shared.get(path, "finance").content)
    assert [list(row) for row in hidden] == [list(row) for row in shown]
    assert {(row["cost_of_loss"], row["currency"], row["cost_status"]) for row in hidden} == {
        (None, None, "withheld")
    }
    assert all(row["cost_of_loss"] > 0 and row["currency"] == "EUR" for row in shown)


def test_page_tokens_and_bodies_of_finance_do_not_help_a_viewer(shared: House) -> None:
    path = "/v1/results?order_by=-cost_of_loss&currency=EUR&page_size=2"
    token = shared.get(path, "finance").json()["next_page_token"]
    assert shared.get(f"{path}&page_token={token}", "finance").status_code == 200
    assert shared.get(f"{path}&page_token={token}", "viewer").status_code == 403
    # Of another order it is refused as any other foreign token.
    other = "/v1/results?order_by=-gpu_hours_lost&page_size=2"
    assert shared.get(f"{other}&page_token={token}", "viewer").status_code == 400
    body = {"currency": "EUR", "where": ["cost_of_loss:gt:1"]}
    for asked in (body, {"pricing": 2}):
        refused = shared.send(("POST", "/v1/exports", {"json": asked}), "viewer")
        assert refused.status_code == 403, refused.text


def _take_costs(house: House, name: str) -> None:
    """Take costs:read from the key."""
    c = api_key.c
    is_it = c.public_id == house.keys[name]["Authorization"].split("_")[1]
    with house.database.write() as connection:
        scopes = connection.scalars(select(c.scopes).where(is_it)).one()
        left = [scope for scope in scopes if scope != "costs:read"]
        assert len(left) == len(scopes) - 1
        connection.execute(update(api_key).where(is_it).values(scopes=left))


def test_a_repeated_correction_does_not_show_the_price_again(shared: House) -> None:
    shared.keys["writer"] = key_of(shared.database, "finance")
    path = f"/v1/gpu-hour-rates/{shared.world.new_rate()}"
    body = {"valid_until": "2026-12-31", "reason": "ends with the year"}
    call = ("POST", f"{path}/corrections", {"json": body, "headers": shared.world.etag(path)})
    once = {"Idempotency-Key": "correction"}
    first = shared.send(call, "writer", **once)
    assert AMOUNT in first.text
    assert shared.send(call, "writer", **once).text == first.text
    _take_costs(shared, "writer")
    again = shared.send(call, "writer", **once)
    assert again.status_code == 403, again.text
    assert AMOUNT not in again.text


def test_a_key_that_loses_costs_read_is_shown_no_money_from_then_on(shared: House) -> None:
    scopes = widest("planner")
    assert "costs:read" in scopes
    shared.keys["grantee"] = key_of(shared.database, "planner", scopes=scopes)
    call = _submit_and_wait(shared.world)
    once = {"Idempotency-Key": "once"}
    first = shared.send(call, "grantee", **once)
    asked = shared.send(("POST", "/v1/exports", {"json": {"format": "csv"}}), "grantee")
    path = asked.headers["location"]
    _wait_for(shared, path)
    assert first.json()["results"]["items"][0]["cost_status"] == "priced"
    rows = READERS["csv"](shared.get(f"{path}/content", "grantee").content)
    assert {row["cost_status"] for row in rows} == {"priced"}
    etag = shared.get(f"/v1/results/{shared.world.batch}.3", "grantee").headers["etag"]

    _take_costs(shared, "grantee")
    again = shared.send(call, "grantee", **once)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["id"] == first.json()["id"]
    assert set(_statuses(again.json())) == {"withheld"}
    for suffix in ("/content", "/sidecar"):
        refused = shared.get(path + suffix, "grantee")
        assert refused.status_code == 403, refused.text
        assert "costs:read" in refused.json()["detail"]
    told = shared.get(path, "grantee").json()
    hidden = [told[name] for name in ("query", "rows", "bytes", "sha256", "content_url")]
    assert (told["state"], hidden) == ("succeeded", [None] * 5)
    # What a cache holds from before is not confirmed.
    now = shared.send(
        ("GET", f"/v1/results/{shared.world.batch}.3", {}), "grantee", **{"If-None-Match": etag}
    )
    assert now.status_code == 200
    assert now.json()["result"]["cost_status"] == "withheld"


def test_evaluations_and_profiles_know_no_money(shared: House) -> None:
    for name in ("evaluate_scenario", "get_profile", "get_batch", "list_batch_errors"):
        document = shared.send(REQUESTS[name].own(shared.world), "admin").json()
        text = json.dumps(document)
        assert "cost_of_loss" not in text
        assert "amount" not in text
