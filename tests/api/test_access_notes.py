"""What is kept of refusals and of readings of money, and that without it nothing is answered."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient
from sqlalchemy import delete, text, update

from service.api import access_notes
from service.api.contract import Contract
from service.api.openapi import document
from service.db.engine import Database
from service.db.tables import api_key, audit_chain, audit_event
from service.jobs.audit_documents import AuditEventOut
from service.settings import Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL, Problem
from tests.api.reused_apps import app_over
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import item, run

RATE = {
    "gpu_type": "H100-SXM",
    "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
    "valid_from": "2026-10-01",
    "source": "example amount",
}


@pytest.fixture
def client(database: Database) -> Iterator[TestClient[Litestar]]:
    with app_over(Settings(), database) as app, TestClient(app, base_url=BASE_URL) as opened:
        yield opened


def noted(database: Database, outcome: str) -> list[AuditEventOut]:
    return [event for event in events(database) if event.outcome == outcome]


def test_a_missing_scope_is_recorded(client: Any, database: Database) -> None:
    viewer = key_of(database, "viewer")
    path = "/v1/gpu-hour-rates?currency=EUR&page_size=5"
    assert client.get(path, headers=viewer).status_code == 403
    (event,) = noted(database, "refused")
    assert (event.action, event.subject) == ("list_rates", "/v1/gpu-hour-rates")
    assert event.principal == "key:" + viewer["Authorization"].split("_")[1]
    assert (event.role, event.address) == ("viewer", "testclient")
    assert event.request == f"GET {path}"
    assert "costs:read" in str(event.detail)


def test_what_an_operation_refuses_by_itself_is_recorded(client: Any, database: Database) -> None:
    """Sorting by cost needs more than the operation does."""
    viewer = key_of(database, "viewer")
    answer = client.get("/v1/results?order_by=-cost_of_loss&currency=EUR", headers=viewer)
    assert answer.status_code == 403
    (event,) = noted(database, "refused")
    assert (event.action, event.subject) == ("list_results", "/v1/results")
    assert event.detail == answer.json()["detail"]


def test_a_refused_key_is_recorded_once_a_minute(
    client: Any, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(database, "admin")
    public_id = key["Authorization"].split("_")[1]
    wrong = {"Authorization": f"Bearer trn_{public_id}_{'x' * 43}"}
    unknown = {"Authorization": f"Bearer trn_{'0' * 16}_{'x' * 43}"}

    def send(headers: dict[str, str], **values: Any) -> None:
        with database.write() as connection:
            connection.execute(update(api_key).values(**values) if values else text("SELECT 1"))
        for _ in range(3):
            assert client.get("/v1/meta", headers=headers).status_code == 401

    send(unknown)
    assert noted(database, "refused") == []
    send(wrong)
    send(key, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    send(key, revoked_at=datetime.now(UTC))
    reasons = ["its secret is wrong", "it is expired", "it is revoked"]
    found = noted(database, "refused")
    assert [event.detail for event in found] == [
        f"the key is refused: {reason}; at most one event a minute tells of it"
        for reason in reasons
    ]
    assert {(event.action, event.principal) for event in found} == {
        ("get_meta", f"key:{public_id}")
    }
    monkeypatch.setattr(access_notes, "REFUSED_KEY_EVERY_S", 0.0)
    send(wrong)
    assert len(noted(database, "refused")) == 6


def test_each_reading_of_money_is_one_event(client: Any, database: Database) -> None:
    finance = key_of(database, "finance")
    made = client.post("/v1/gpu-hour-rates", json=RATE, headers=finance)
    batch = run(database, item(), currency="EUR")
    paths = {
        "list_rates": "/v1/gpu-hour-rates",
        "get_rate": f"/v1/gpu-hour-rates/{made.json()['id']}",
        "list_batch_results": f"/v1/scenario-batches/{batch.id}/results",
        "export_results": "/v1/exports",
    }
    for path in paths.values():
        query = {"format": "csv"} if path == "/v1/exports" else {}
        assert client.get(path, params=query, headers=finance).status_code == 200, path
    assert {event.action: event.subject for event in noted(database, "read")} == paths
    assert len(noted(database, "read")) == len(paths)


def test_who_sees_no_money_reads_without_a_trace(client: Any, database: Database) -> None:
    viewer = key_of(database, "viewer")
    run(database, item(), currency="EUR")
    before = len(events(database))
    assert client.get("/v1/results", headers=viewer).status_code == 200
    finance = key_of(database, "finance")
    assert client.get("/v1/gpu-hour-rates/none", headers=finance).status_code == 404
    body = {"name": "a plan", "currency": "EUR", "items": [item()]}
    path = "/v1/scenario-batches?validate_only=true"
    assert client.post(path, json=body, headers=finance).status_code == 200
    assert len(events(database)) == before


def break_trail(database: Database) -> None:
    """From now on no event can be written."""
    with database.write() as connection:
        connection.execute(delete(audit_event))
        connection.execute(delete(audit_chain))
        connection.execute(text("ALTER TABLE audit_chain RENAME TO broken"))


@pytest.mark.parametrize("path", ["/v1/gpu-hour-rates", "/v1/exports?format=csv"])
def test_what_cannot_be_recorded_is_withheld(
    client: Any,
    database: Database,
    problem_of: Callable[[httpx.Response, str], Problem],
    path: str,
) -> None:
    finance = key_of(database, "finance")
    run(database, item(), currency="EUR")
    break_trail(database)
    for _ in range(20):
        # More often than there are places for exports: what was opened for them is given back.
        answer = client.get(path, headers=finance)
        problem = problem_of(answer, "unavailable")
        assert (problem["status"], "audit trail" in problem["detail"]) == (503, True)
    assert client.app.state.open_streams.of_results == set()
    assert client.post("/v1/gpu-hour-rates", json=RATE, headers=finance).status_code >= 500
    with database.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM gpu_hour_rate")) == 0


SECRET = "s" * 43


SHOWN = {
    "/v1/gpu-hour-rates?page_token=abc&on=2026-01-01": "/v1/gpu-hour-rates?on=2026-01-01&…",
    f"/v1/gpu-hour-rates?key={SECRET}": "/v1/gpu-hour-rates?…",
    f"/v1/gpu-hour-rates?gpu_type=trn_0123456789abcdef_{SECRET}": (
        "/v1/gpu-hour-rates?gpu_type=trn_0123456789abcdef_…"
    ),
    "/v1/gpu-hour-rates?gpu_type=eyJhbGciOi.eyJzdWIi.c2ln": "/v1/gpu-hour-rates?gpu_type=…",
    f"/v1/gpu-hour-rates/trn_0123456789abcdef_{SECRET}": (
        "/v1/gpu-hour-rates/trn_0123456789abcdef_…"
    ),
    f"/v1/gpu-hour-rates/trn%5F0123456789abcdef%5f{SECRET}": (
        "/v1/gpu-hour-rates/trn_0123456789abcdef_…"
    ),
    "/v1/gpu-hour-rates/é": "/v1/gpu-hour-rates/%C3%A9",
    "/v1/gpu-hour-rates/a%00b%0d%0ac": "/v1/gpu-hour-rates/a%00b%0D%0Ac",
    "/v1/gpu-hour-rates?gpu_type=%ff%00": "/v1/gpu-hour-rates?gpu_type=%EF%BF%BD%00",
}


def test_no_secret_and_no_control_character_is_kept(client: Any, database: Database) -> None:
    viewer = key_of(database, "viewer")
    for path, shown in SHOWN.items():
        assert client.get(path, headers=viewer).status_code == 403
        event = noted(database, "refused")[-1]
        assert event.request == f"GET {shown}"
        kept = " ".join(map(str, [event.request, event.subject, event.detail, event.actor]))
        assert SECRET not in kept
        assert viewer["Authorization"].split("_", 2)[2] not in kept
        assert re.search(r"[\x00-\x1f]", kept) is None
    assert len(noted(database, "refused")) == len(SHOWN)


def test_every_operation_that_can_answer_money_says_so(app: Litestar) -> None:
    """By the schemas: an amount in an answer of anything but the writing of a rate."""
    components = document(app)["components"]

    def holds_money(node: Any, seen: frozenset[str] = frozenset()) -> bool:
        if isinstance(node, list):
            return any(holds_money(part, seen) for part in node)
        if not isinstance(node, dict):
            return False
        *_, kind, name = ("", "", *str(node.get("$ref", "")).split("/"))
        if name in seen:
            return False
        if name == "Money":
            return True
        inner = components[kind][name] if name else list(node.values())
        return holds_money(inner, seen | {name} if name else seen)

    described = {
        operation["operationId"]: operation["responses"]
        for path in document(app)["paths"].values()
        for operation in path.values()
    }
    quiet = set()
    for route in app.routes:
        for handler in route.route_handlers if isinstance(route, HTTPRoute) else ():
            contract = handler.opt.get("contract")
            if isinstance(contract, Contract) and not contract.reveals_costs:
                good = [
                    answer
                    for status, answer in described.get(contract.operation_id, {}).items()
                    if status < "300"
                ]
                if holds_money(good):
                    quiet.add(contract.operation_id)
    assert quiet == {"create_rate", "correct_rate", "approve_rate", "import_rates"}
