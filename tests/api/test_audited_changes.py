"""Every changing operation of the OpenAPI document leaves exactly one event, on both databases.

A new operation fails here until it is in `CHANGES`, and there until it records itself.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import httpx
import pytest
import structlog
from litestar.testing import TestClient
from sqlalchemy import select

from service.api.openapi import document
from service.db.engine import Database
from service.db.job_engine import job_file
from service.db.process_locks import FileLock
from service.db.tables import web_session
from service.jobs.actors import Actor
from service.jobs.audit_checks import check
from service.jobs.audit_documents import AuditEventOut
from service.settings import Settings
from tests.api.access_keys import key_of
from tests.api.access_requests import CSV_HEADER
from tests.api.access_world import SCENARIO
from tests.api.calibration_tables import stored, table
from tests.api.conftest import BASE_URL
from tests.api.reused_apps import app_over
from tests.jobs.audit_trails import events
from tests.jobs.batch_bodies import item, run
from tests.jobs.completed import complete

READING = ("get", "head", "options")
# Whose POSTs compute and store nothing.
COMPUTING = {"Evaluations", "Communication"}
PREVIEWING = {"preview_occurrences", "audit_overlap", "audit_overlap_of_files", "start_coarsely"}
POSTGRES_ONLY = {"publish_batch", "unpublish_batch"}
PROFILES = "/v1/cluster-profiles"
RATES = "/v1/gpu-hour-rates"
BATCHES = "/v1/scenario-batches"


class Place:
    """A service that computes nothing by itself, and what is needed before a change of it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.headers = key_of(database, "admin", recorded=True)
        self.other = key_of(database, "admin", recorded=True)
        self._stack = ExitStack()
        if database.is_sqlite:
            # The process that computes for the file is another one.
            lock = FileLock(job_file(database).with_suffix(".lock"))
            assert lock.acquire()
            self._stack.callback(lock.close)
        app = self._stack.enter_context(app_over(Settings(), database))
        self.client: Any = self._stack.enter_context(TestClient(app, base_url=BASE_URL))
        self._num = 0

    def close(self) -> None:
        self._stack.close()
        structlog.reset_defaults()

    def send(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {**self.headers, **arguments.pop("headers", {})}
        answer: httpx.Response = self.client.request(method, path, headers=headers, **arguments)
        return answer

    def unique(self, what: str) -> str:
        self._num += 1
        return f"{what}-{self._num}"

    def etag(self, path: str) -> dict[str, str]:
        return {"If-Match": self.send("GET", path).headers["etag"]}

    def profile(self) -> str:
        slug = self.unique("profile")
        body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SCENARIO}
        assert self.send("POST", PROFILES, json=body).status_code == 201
        return slug

    def rate_body(self) -> dict[str, Any]:
        return {
            "gpu_type": self.unique("H100"),
            "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
            "valid_from": "2026-10-01",
            "source": "example amount",
        }

    def rate(self) -> str:
        rate_id: str = self.send("POST", RATES, json=self.rate_body()).json()["id"]
        return rate_id

    def batch_body(self) -> dict[str, Any]:
        return {"name": self.unique("batch"), "currency": "EUR", "items": [item()]}

    def batch(self, *, ended: bool = True) -> str:
        if ended:
            return str(run(self.database, item(), currency="EUR").id)
        batch_id: str = self.send("POST", BATCHES, json=self.batch_body()).json()["id"]
        return batch_id

    def export(self) -> str:
        export_id: str = self.send("POST", "/v1/exports", json={"format": "csv"}).json()["id"]
        return export_id

    def key(self) -> dict[str, Any]:
        body = {"name": self.unique("key"), "role": "viewer"}
        made: dict[str, Any] = self.send("POST", "/v1/api-keys", json=body).json()
        return made


# The answer, and the subject that its event must have; `{id}` is that of the answer.
Change = Callable[[Place], tuple[httpx.Response, str]]


def create_profile(place: Place) -> tuple[httpx.Response, str]:
    slug = place.unique("profile")
    body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SCENARIO}
    return place.send("POST", PROFILES, json=body), f"cluster-profile/{slug}"


def revise_profile(place: Place) -> tuple[httpx.Response, str]:
    slug = place.profile()
    path = f"{PROFILES}/{slug}"
    body = {"name": "revised", "gpu_type": "H100", "defaults": SCENARIO}
    answer = place.send("POST", f"{path}/revisions", json=body, headers=place.etag(path))
    return answer, f"cluster-profile/{slug}"


def archive_profile(place: Place, method: str = "POST") -> tuple[httpx.Response, str]:
    slug = place.profile()
    path = f"{PROFILES}/{slug}"
    if method == "DELETE":
        place.send("POST", f"{path}/archival", headers=place.etag(path))
    answer = place.send(method, f"{path}/archival", headers=place.etag(path))
    return answer, f"cluster-profile/{slug}"


def create_calibration(place: Place) -> tuple[httpx.Response, str]:
    files = [("file", ("timings.csv", table()))]
    return place.send("POST", "/v1/calibrations", files=files), "calibration/{id}"


def stored_calibration(place: Place) -> str:
    """Past the API: each upload has a process of its own."""
    return f"/v1/calibrations/{stored(place.database, Actor()).id}"


def accept_calibration(place: Place) -> tuple[httpx.Response, str]:
    slug = place.profile()
    body = {"profile": slug, "profile_version": 1}
    path = f"{stored_calibration(place)}/acceptance"
    return place.send("POST", path, json=body), f"cluster-profile/{slug}"


def delete_calibration(place: Place) -> tuple[httpx.Response, str]:
    path = stored_calibration(place)
    answer = place.send("DELETE", path, headers=place.etag(path))
    return answer, f"calibration/{path.rpartition('/')[2]}"


def create_back_test(place: Place) -> tuple[httpx.Response, str]:
    run = {"name": place.unique("run"), "num_steps": 1000, "step_mean_ms": 550}
    body = {"profile": place.profile(), "run": run}
    return place.send("POST", "/v1/back-tests", json=body), "back-test/{id}"


def delete_back_test(place: Place) -> tuple[httpx.Response, str]:
    made, _ = create_back_test(place)
    path = made.headers["location"]
    answer = place.send("DELETE", path, headers=place.etag(path))
    return answer, f"back-test/{made.json()['id']}"


def correct_rate(place: Place) -> tuple[httpx.Response, str]:
    rate = place.rate()
    path = f"{RATES}/{rate}"
    body = {"valid_until": "2027-01-01", "reason": "it ends"}
    answer = place.send("POST", f"{path}/corrections", json=body, headers=place.etag(path))
    return answer, f"gpu-hour-rate/{rate}"


def approve_rate(place: Place) -> tuple[httpx.Response, str]:
    made = place.client.post(RATES, json=place.rate_body(), headers=place.other).json()
    path = f"{RATES}/{made['id']}"
    answer = place.send("POST", f"{path}/approval", headers=place.etag(path))
    return answer, f"gpu-hour-rate/{made['id']}"


def import_rates(place: Place, query: str = "") -> tuple[httpx.Response, str]:
    text = f"{CSV_HEADER}{place.unique('H200')},EUR,1.00,2026-01-01,memo\n"
    sent = {"content": text, "headers": {"Content-Type": "text/csv"}}
    return place.send("POST", f"{RATES}/imports{query}", **sent), "gpu-hour-rates"


def of_batch(
    place: Place, method: str, suffix: str, *, ended: bool = True, **arguments: Any
) -> tuple[httpx.Response, str]:
    batch = place.batch(ended=ended)
    path = f"{BATCHES}/{batch}"
    if method == "DELETE":
        arguments["headers"] = place.etag(path)
    return place.send(method, path + suffix, **arguments), f"scenario-batch/{batch}"


def retry_batch(place: Place) -> tuple[httpx.Response, str]:
    path = f"{BATCHES}/{place.batch(ended=False)}"
    assert place.send("POST", f"{path}/cancellation").status_code == 202
    return place.send("POST", f"{path}/retries"), "scenario-batch/{id}"


def publish_batch(place: Place) -> tuple[httpx.Response, str]:
    answer, subject = of_batch(place, "POST", "/publication")
    return answer, f"{subject}/publication"


def unpublish_batch(place: Place) -> tuple[httpx.Response, str]:
    batch = place.batch()
    path = f"{BATCHES}/{batch}/publication"
    assert place.send("POST", path).status_code == 202
    answer = place.send("DELETE", path, headers=place.etag(path))
    return answer, f"scenario-batch/{batch}/publication"


def delete_export(place: Place) -> tuple[httpx.Response, str]:
    export = place.export()
    path = f"/v1/exports/{export}"
    return place.send("DELETE", path, headers=place.etag(path)), f"export/{export}"


def schedule_body(place: Place) -> dict[str, Any]:
    slug = place.unique("schedule")
    return {
        "slug": slug,
        "name": slug,
        "cron": "0 0 29 2 *",
        "zone": "UTC",
        "batch": {"items": [item()]},
    }


def create_schedule(place: Place) -> tuple[httpx.Response, str]:
    body = schedule_body(place)
    return place.send("POST", "/v1/schedules", json=body), f"schedule/{body['slug']}"


def of_schedule(
    place: Place, method: str, suffix: str, *, paused: bool = False, **arguments: Any
) -> tuple[httpx.Response, str]:
    body = {**schedule_body(place), "paused": paused}
    path = place.send("POST", "/v1/schedules", json=body).headers["location"]
    answer = place.send(method, path + suffix, headers=place.etag(path), **arguments)
    return answer, f"schedule/{body['slug']}"


def create_run(place: Place) -> tuple[httpx.Response, str]:
    # Of a profile that takes no new work: no batch, and so no event, follows.
    slug = place.profile()
    body = {**schedule_body(place), "batch": {"items": [{"custom_id": "a", "profile": slug}]}}
    path = place.send("POST", "/v1/schedules", json=body).headers["location"]
    profile = f"{PROFILES}/{slug}"
    assert place.send("POST", f"{profile}/archival", headers=place.etag(profile)).is_success
    return place.send("POST", f"{path}/runs"), "schedule-run/{id}"


def of_backfill(place: Place, what: str) -> tuple[httpx.Response, str]:
    """`create` makes one that waits, as its schedule is paused; others cancel it or its run."""
    body = {**schedule_body(place), "paused": True}
    path = place.send("POST", "/v1/schedules", json=body).headers["location"]
    days = {"first_on": "2024-02-01", "last_on": "2024-03-01"}
    made = place.send("POST", f"{path}/backfills", json=days)
    if what == "create":
        return made, "schedule-backfill/{id}"
    if what == "cancel":
        cancellation = f"{made.headers['location']}/cancellation"
        return place.send("POST", cancellation), "schedule-backfill/{id}"
    (run,) = place.send("GET", f"{path}/runs").json()["items"]
    return place.send("POST", f"{path}/runs/{run['id']}/cancellation"), "schedule-run/{id}"


def report_body(place: Place) -> dict[str, Any]:
    return {"batch_id": place.batch(), "name": place.unique("report")}


def delete_report(place: Place) -> tuple[httpx.Response, str]:
    report = place.send("POST", "/v1/reports", json=report_body(place)).json()["id"]
    path = f"/v1/reports/{report}"
    return place.send("DELETE", path, headers=place.etag(path)), f"report/{report}"


def create_api_key(place: Place) -> tuple[httpx.Response, str]:
    body = {"name": place.unique("key"), "role": "viewer"}
    return place.send("POST", "/v1/api-keys", json=body), "api-key/{public_id}"


def of_key(place: Place, method: str, suffix: str, **arguments: Any) -> tuple[httpx.Response, str]:
    made = place.key()
    path = f"/v1/api-keys/{made['id']}"
    answer = place.send(method, path + suffix, headers=place.etag(path), **arguments)
    return answer, f"api-key/{made['public_id']}"


def of_session(place: Place, what: str) -> tuple[httpx.Response, str]:
    """The browser gives back its cookie, which the client keeps."""
    headers = {"Sec-Fetch-Site": "same-origin"}
    key = place.headers["Authorization"].removeprefix("Bearer ")
    answer = place.send("POST", "/v1/session", json={"key": key}, headers=headers)
    with place.database.read() as connection:
        newest = select(web_session.c.id).order_by(web_session.c.id.desc()).limit(1)
        session_id = connection.scalars(newest).one()
    if what == "sign_out":
        answer = place.send("DELETE", "/v1/session", headers=headers)
    else:
        place.client.cookies.clear()
    return answer, f"web-session/{session_id}"


ENDPOINTS, DELIVERIES = "/v1/webhook-endpoints", "/v1/deliveries"


def endpoint_body(place: Place) -> dict[str, Any]:
    # Nothing is ever reached under such a name.
    return {"name": place.unique("hook"), "url": "https://hooks.invalid/x"}


def of_endpoint(
    place: Place, method: str, suffix: str, **arguments: Any
) -> tuple[httpx.Response, str]:
    made = place.send("POST", ENDPOINTS, json=endpoint_body(place)).json()
    path = f"{ENDPOINTS}/{made['id']}"
    answer = place.send(method, path + suffix, headers=place.etag(path), **arguments)
    return answer, f"webhook-endpoint/{made['id']}"


def of_delivery(place: Place, *suffixes: str) -> tuple[httpx.Response, str]:
    answer, _ = of_endpoint(place, "POST", "/test")
    path = f"{DELIVERIES}/{answer.json()['id']}"
    for suffix in suffixes:
        answer = place.send("POST", path + suffix)
    return answer, "delivery/{id}"


CHANGES: dict[str, Change] = {
    "create_webhook_endpoint": lambda place: (
        place.send("POST", ENDPOINTS, json=endpoint_body(place)),
        "webhook-endpoint/{id}",
    ),
    "change_webhook_endpoint": lambda place: of_endpoint(
        place, "PATCH", "", json={"enabled": False}
    ),
    "delete_webhook_endpoint": lambda place: of_endpoint(place, "DELETE", ""),
    "rotate_webhook_secret": lambda place: of_endpoint(place, "POST", "/secret-rotation"),
    "test_webhook_endpoint": lambda place: of_endpoint(place, "POST", "/test"),
    "cancel_delivery": lambda place: of_delivery(place, "/cancellation"),
    "replay_delivery": lambda place: of_delivery(place, "/cancellation", "/replay"),
    "create_profile": create_profile,
    "revise_profile": revise_profile,
    "archive_profile": archive_profile,
    "restore_profile": lambda place: archive_profile(place, "DELETE"),
    "create_rate": lambda place: (
        place.send("POST", RATES, json=place.rate_body()),
        "gpu-hour-rate/{id}",
    ),
    "correct_rate": correct_rate,
    "approve_rate": approve_rate,
    "import_rates": import_rates,
    "submit_batch": lambda place: (
        place.send("POST", BATCHES, json=place.batch_body()),
        "scenario-batch/{id}",
    ),
    "cancel_batch": lambda place: of_batch(place, "POST", "/cancellation", ended=False),
    "retry_batch": retry_batch,
    "reprice_batch": lambda place: of_batch(place, "POST", "/repricings", json={}),
    "publish_batch": publish_batch,
    "unpublish_batch": unpublish_batch,
    "delete_batch": lambda place: of_batch(place, "DELETE", ""),
    "create_export": lambda place: (
        place.send("POST", "/v1/exports", json={"format": "csv"}),
        "export/{id}",
    ),
    "delete_export": delete_export,
    "create_schedule": create_schedule,
    "change_schedule": lambda place: of_schedule(place, "PATCH", "", json={"name": "renamed"}),
    "pause_schedule": lambda place: of_schedule(place, "POST", "/pause"),
    "resume_schedule": lambda place: of_schedule(place, "DELETE", "/pause", paused=True),
    "delete_schedule": lambda place: of_schedule(place, "DELETE", ""),
    "reprice_schedule": lambda place: of_schedule(
        place, "POST", "/repricings", json={"from": "2026-12-01", "until": "2027-01-01"}
    ),
    "create_run": create_run,
    "cancel_run": lambda place: of_backfill(place, "cancel its run"),
    "create_backfill": lambda place: of_backfill(place, "create"),
    "cancel_backfill": lambda place: of_backfill(place, "cancel"),
    "create_calibration": create_calibration,
    "accept_calibration": accept_calibration,
    "delete_calibration": delete_calibration,
    "create_back_test": create_back_test,
    "delete_back_test": delete_back_test,
    "create_report": lambda place: (
        place.send("POST", "/v1/reports", json=report_body(place)),
        "report/{id}",
    ),
    "delete_report": delete_report,
    "sign_in": lambda place: of_session(place, "sign_in"),
    "sign_out": lambda place: of_session(place, "sign_out"),
    "create_api_key": create_api_key,
    "change_api_key": lambda place: of_key(place, "PATCH", "", json={"name": "renamed"}),
    "revoke_api_key": lambda place: of_key(place, "POST", "/revocation"),
}
DOCUMENT_CHANGES = {
    "change_webhook_endpoint": "enabled",
    "cancel_delivery": "state",
    "replay_delivery": "state",
    "revise_profile": "name",
    "accept_calibration": "provenance",
    "archive_profile": "archived_at",
    "restore_profile": "archived_at",
    "correct_rate": "valid_until",
    "approve_rate": "approved_by",
    "cancel_batch": "state",
    "change_schedule": "name",
    "pause_schedule": "paused_at",
    "resume_schedule": "paused_at",
    "cancel_run": "state",
    "cancel_backfill": "state",
    "sign_out": "ended_at",
    "change_api_key": "name",
    "revoke_api_key": "revoked_at",
}


@pytest.fixture
def place(database: Database) -> Iterator[Place]:
    made = Place(database)
    yield made
    made.close()


def done(place: Place, since: int = 0) -> list[AuditEventOut]:
    return [event for event in events(place.database)[since:] if event.outcome == "done"]


def test_every_change_leaves_one_event(place: Place) -> None:
    changing = {
        operation["operationId"]
        for methods in document(place.client.app)["paths"].values()
        for method, operation in methods.items()
        if method not in READING and not COMPUTING & set(operation["tags"])
    }
    changing -= PREVIEWING
    assert changing == set(CHANGES)
    possible = changing - POSTGRES_ONLY if place.database.is_sqlite else changing
    for operation in sorted(possible):
        answer, subject = CHANGES[operation](place)
        assert answer.is_success, (operation, answer.text)
        # What came before it was recorded too; its own event is the last, and the only one.
        found = done(place)
        mine = [event for event in found if event.action == operation]
        fields = answer.json() if answer.content else {}
        assert mine[-1] == found[-1], operation
        assert mine[-1].subject == subject.format(**fields), operation
        assert sum(event.subject == mine[-1].subject for event in mine) == 1, operation
        event = mine[-1]
        assert event.principal == "key:" + place.headers["Authorization"].split("_")[1]
        assert event.trace_id == answer.headers["x-request-id"]
        assert event.request is not None
        assert event.request.split(" ")[0] == answer.request.method
        assert (event.before_digest or event.after_digest) is not None, operation
        if operation in DOCUMENT_CHANGES:
            assert DOCUMENT_CHANGES[operation] in event.changed, operation
    assert [found.findings for found in check(place.database)] == [[]]


def test_what_changes_nothing_leaves_none(place: Place) -> None:
    slug, batch, rate = place.profile(), place.batch(ended=False), place.rate()
    profile = f"{PROFILES}/{slug}"
    assert place.send("POST", f"{BATCHES}/{batch}/cancellation").status_code == 202
    assert place.send("POST", f"{profile}/archival", headers=place.etag(profile)).is_success
    key = {"Idempotency-Key": "the-same"}
    body = place.batch_body()
    assert place.send("POST", BATCHES, json=body, headers=key).status_code == 202
    before = len(events(place.database))
    # Refused
    stale = {"If-Match": '"99"'}
    assert place.send("DELETE", f"{profile}/archival", headers=stale).status_code == 412
    assert place.send("DELETE", f"{profile}/archival").status_code == 428
    assert place.send("POST", BATCHES, json={**body, "items": []}).status_code == 422
    taken = {"slug": slug, "name": "x", "gpu_type": "H100", "defaults": SCENARIO}
    assert place.send("POST", PROFILES, json=taken).status_code == 409
    path = f"{RATES}/{rate}/corrections"
    assert place.send("POST", path, json={"reason": "x"}, headers=stale).status_code == 412
    # Only checked
    assert place.send("POST", f"{BATCHES}?validate_only=true", json=body).status_code == 200
    assert import_rates(place, "?validate_only=true")[0].status_code == 200
    # Repeated
    again = place.send("POST", BATCHES, json=body, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    assert place.send("POST", f"{BATCHES}/{batch}/cancellation").status_code == 202
    assert place.send("POST", f"{profile}/archival", headers=place.etag(profile)).is_success
    assert len(events(place.database)) == before


def test_a_failure_after_the_event_takes_it_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer cannot be stored: neither the profile nor its event is there."""
    slug = place.unique("profile")
    body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SCENARIO}

    def fail(_: object) -> bytes:
        raise ZeroDivisionError

    before = len(events(place.database))
    monkeypatch.setattr("service.api.idempotency.encode", fail)
    place.client.raise_server_exceptions = False
    answer = place.send("POST", PROFILES, json=body, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 500
    monkeypatch.undo()
    assert len(events(place.database)) == before
    assert place.send("GET", f"{PROFILES}/{slug}").status_code == 404
    assert place.send("POST", PROFILES, json=body, headers={"Idempotency-Key": "once"}).is_success
    assert len(events(place.database)) == before + 1


def test_another_principal_with_the_same_key_gets_its_own_answer(place: Place) -> None:
    key = {"Idempotency-Key": "the-same"}
    body = place.batch_body()
    ours = place.send("POST", BATCHES, json=body, headers=key)
    theirs = place.client.post(BATCHES, json=body, headers={**key, **place.other})
    assert "idempotent-replayed" not in theirs.headers
    assert UUID(ours.json()["id"]) != UUID(theirs.json()["id"])
    again = place.client.post(BATCHES, json=body, headers={**key, **place.other})
    assert (again.json(), again.headers["idempotent-replayed"]) == (theirs.json(), "true")
    complete(place.database)


def test_a_price_that_is_answered_again_is_a_reading(place: Place) -> None:
    path = f"{RATES}/{place.rate()}"
    body = {"valid_until": "2027-01-01", "reason": "it ends"}
    headers = {**place.etag(path), "Idempotency-Key": "once-more"}
    for outcomes in (["done"], ["done", "read"]):
        answer = place.send("POST", f"{path}/corrections", json=body, headers=headers)
        assert answer.status_code == 201
        found = [event for event in events(place.database) if event.action == "correct_rate"]
        assert sorted(event.outcome for event in found) == outcomes
