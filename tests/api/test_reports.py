"""Reports over HTTP: asked for, made by the engine, read in every format, deleted."""

import base64
import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.db.engine import Database
from service.reports.report_formats import FORMATS
from tests.api.access_keys import key_of
from tests.jobs.audit_trails import events
from tests.jobs.report_bodies import SLOW, a_profile, a_rate, batch, one

Client = TestClient[Litestar]
Check = Callable[[httpx.Response, str], dict[str, Any]]
WITHIN_S = 60
NOWHERE = "/v1/reports/00000000-0000-7000-8000-000000000001"


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    """One for all: a process has one engine, which makes the reports."""
    return shared_client


@pytest.fixture(scope="module")
def batches(shared_database: Database) -> tuple[str, str]:
    """Two priced batches, one after the other."""
    a_profile(shared_database)
    a_rate(shared_database, "2.00", "2026-10-01")
    past = batch(shared_database, one("a"), start_on="2026-11-01")
    return str(past), str(batch(shared_database, one("a", **SLOW), name="Überblick / Nacht"))


def body(batches: tuple[str, str], **changes: Any) -> dict[str, Any]:
    return {
        "batch_id": batches[1],
        "baseline_batch_id": batches[0],
        "report": {"remedies": False},
        **changes,
    }


@pytest.fixture(scope="module")
def kept(client: Client, batches: tuple[str, str]) -> dict[str, Any]:
    """A report for all tests that only read it."""
    return wait_for(client, client.post("/v1/reports", json=body(batches)))


def wait_for(client: Client, answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    deadline = time.monotonic() + WITHIN_S
    while True:
        found: dict[str, Any] = client.get(answer.headers["location"]).json()
        if found["state"] in {"succeeded", "failed"}:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_report_is_asked_for_and_made(client: Client, batches: tuple[str, str]) -> None:
    budget = {"gpu_hours_lost_per_30_days": 1}
    answer = client.post("/v1/reports", json=body(batches, name="mine", budget=budget))
    asked = answer.json()
    assert (asked["state"], asked["content_url"], asked["name"]) == ("queued", None, "mine")
    assert answer.headers["location"] == f"/v1/reports/{asked['id']}"
    assert (answer.headers["etag"], answer.headers["retry-after"]) == ('"1"', "1")
    found = wait_for(client, answer)
    assert (found["state"], found["version"]) == ("succeeded", 2)
    # 1 slow GPU of 1 024 at 0.7 takes 3/7 of the compute time more: 176 008.488… GPU-hours.
    lost = found["headline"]["gpu_hours_lost_per_30_days"]
    assert lost == pytest.approx(176008.48806366057, rel=1e-12)
    assert found["headline"]["cost_of_loss_per_30_days"] == {
        "amount": "352016.98",
        "currency": "EUR",
    }
    assert found["headline"]["volume"][0]["path"] == "slow_groups"
    assert found["budget"]["status"] == "over"
    assert found["warnings"] == 0


def test_the_same_key_makes_one_report(client: Client, batches: tuple[str, str]) -> None:
    headers = {"idempotency-key": "once"}
    first = client.post("/v1/reports", json=body(batches, name="once"), headers=headers)
    again = client.post("/v1/reports", json=body(batches, name="once"), headers=headers)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    listed = client.get("/v1/reports", params={"page_size": 1000}).json()["items"]
    assert [one["name"] for one in listed].count("once") == 1
    wait_for(client, first)


def test_reports_are_listed_newest_first(
    client: Client, batches: tuple[str, str], kept: dict[str, Any], problem_of: Check
) -> None:
    newer = wait_for(client, client.post("/v1/reports", json=body(batches)))["id"]
    first = client.get("/v1/reports", params={"page_size": 1, "batch": batches[1]})
    assert [one["id"] for one in first.json()["items"]] == [newer]
    assert first.headers["link"].endswith('rel="next"')
    ids = [one["id"] for one in client.get("/v1/reports").json()["items"]]
    assert ids.index(newer) < ids.index(kept["id"])
    assert client.get("/v1/reports", params={"batch": batches[0]}).json()["items"] == []
    assert client.get("/v1/reports", params={"state": "queued"}).json()["items"] == []
    problem_of(client.get("/v1/reports", params={"schedule": "nightly"}), "not-found")
    problem_of(client.get("/v1/reports", params={"state": "lost"}), "malformed-request")


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_a_file_of_its_kind(client: Client, kept: dict[str, Any], name: str) -> None:
    answer = client.get(kept["content_url"], params={"format": name})
    assert answer.status_code == 200, answer.text
    told = answer.headers["content-type"].split("; ")
    assert sorted(told) == sorted(FORMATS[name].media_type.split("; "))
    how = "inline" if name == "html" else "attachment"
    assert answer.headers["content-disposition"] == (
        f'{how}; filename="berblick-Nacht-{kept["id"]}.{FORMATS[name].extension}"'
    )
    assert answer.headers["cache-control"] == "private, no-cache"
    etag = answer.headers["etag"]
    again = client.get(
        kept["content_url"], params={"format": name}, headers={"if-none-match": etag}
    )
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert client.get(kept["content_url"], params={"format": name}).content == answer.content


def test_the_page_may_show_its_own_style_and_nothing_else(
    client: Client, kept: dict[str, Any]
) -> None:
    page = client.get(kept["content_url"])
    styles = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
        for style in styles
    )
    assert hashes
    assert page.headers["content-security-policy"] == (
        f"default-src 'none'; style-src {hashes}; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'; sandbox"
    )
    # By its own service's pages, and by nothing else
    assert page.headers["x-frame-options"] == "SAMEORIGIN"
    assert (
        client.get(kept["content_url"], params={"format": "json"}).headers["x-frame-options"]
        == "DENY"
    )
    assert "<script" not in page.text
    assert 'style="' not in page.text
    assert re.findall(r'(?:src|href)="(?!#)', page.text) == []


def test_the_language_is_the_reports_unless_asked(
    client: Client, batches: tuple[str, str], kept: dict[str, Any]
) -> None:
    settings = {"remedies": False, "language": "fr"}
    french = wait_for(client, client.post("/v1/reports", json=body(batches, report=settings)))
    assert '<html lang="fr"' in client.get(french["content_url"]).text
    assert '<html lang="en"' in client.get(kept["content_url"]).text
    asked = client.get(kept["content_url"], params={"language": "fr"})
    assert '<html lang="fr"' in asked.text
    assert asked.headers["etag"] != client.get(kept["content_url"]).headers["etag"]


def test_money_is_withheld_by_key_and_its_reading_is_recorded(
    client: Client, shared_database: Database, kept: dict[str, Any]
) -> None:
    path, cost = kept["content_url"], "352016.98"
    viewer = key_of(shared_database, "viewer")
    finance = key_of(shared_database, "finance")
    before = len(events(shared_database))
    hidden = client.get(path, params={"format": "json"}, headers=viewer)
    assert hidden.json()["headline"]["cost_status"] == "withheld"
    assert cost not in hidden.text
    assert cost not in client.get(f"/v1/reports/{kept['id']}", headers=viewer).text
    assert len(events(shared_database)) == before
    shown = client.get(path, params={"format": "json"}, headers=finance)
    assert cost in shown.text
    (event,) = events(shared_database)[before:]
    assert event.action == "read_report"
    tagged = {"if-none-match": shown.headers["etag"]}
    assert client.get(path, params={"format": "json"}, headers=viewer | tagged).status_code == 200


def test_a_report_is_deleted_with_its_version(
    client: Client, shared_database: Database, batches: tuple[str, str], problem_of: Check
) -> None:
    admin = key_of(shared_database, "admin")
    asked = client.post("/v1/reports", json=body(batches), headers=admin)
    path = asked.headers["location"]
    deadline = time.monotonic() + WITHIN_S
    while client.get(path, headers=admin).json()["state"] != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    problem_of(client.delete(path, headers=admin), "precondition-required")
    stale = {"if-match": '"1"', **admin}
    problem_of(client.delete(path, headers=stale), "precondition-failed")
    current = {"if-match": client.get(path, headers=admin).headers["etag"], **admin}
    assert client.delete(path, headers=current).status_code == 204
    problem_of(client.get(path, headers=admin), "not-found")
    problem_of(client.get(f"{path}/content", headers=admin), "not-found")
    for unknown in (NOWHERE, "/v1/reports/none"):
        problem_of(client.get(unknown, headers=admin), "not-found")
    wrong = {"format": "pdf"}
    problem_of(client.get(f"{NOWHERE}/content", params=wrong, headers=admin), "malformed-request")
