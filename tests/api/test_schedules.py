"""Schedules over HTTP."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.schedules import SCHEDULE_EXAMPLES
from service.db.engine import Database
from service.jobs.scopes import ROLES
from service.jobs.zone_data import TZDATA_VERSION
from tests.api.access_keys import key_of
from tests.jobs.schedule_bodies import body, money

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
SCHEDULES = "/v1/schedules"
NIGHTLY = f"{SCHEDULES}/nightly"
BEFORE_SPRING = "2027-03-27T00:00:00Z"


@pytest.fixture
def made(client: Client) -> dict[str, Any]:
    answer = client.post(SCHEDULES, json=body())
    assert answer.status_code == 201, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_the_documented_examples_are_taken(client: Client) -> None:
    for example in SCHEDULE_EXAMPLES.values():
        checked = client.post(f"{SCHEDULES}?validate_only=true", json=example)
        assert checked.status_code == 200, checked.text
        assert len(checked.json()["next_occurrences"]) == 5
        assert checked.json()["batch"]["points_total"] == 1
        made = client.post(SCHEDULES, json=example)
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"{SCHEDULES}/{example['slug']}"
        assert made.headers["etag"] == '"1"'
    (first, *_) = SCHEDULE_EXAMPLES.values()
    path = f"{SCHEDULES}/{first['slug']}"
    for version, change in enumerate(({"cron": "30 3 * * *"}, {"budget": None}), start=1):
        changed = client.patch(path, json=change, headers={"If-Match": f'"{version}"'})
        assert changed.status_code == 200, changed.text
    assert changed.json()["budget"] is None


def test_a_schedule_is_made_read_changed_paused_and_deleted(
    client: Client, made: dict[str, Any], problem_of: ProblemOf
) -> None:
    found = client.get(NIGHTLY)
    assert (found.status_code, found.headers["etag"], found.json()) == (200, '"1"', made)
    assert client.get(f"{SCHEDULES}/{made['id']}").json() == made
    next_at = datetime.fromisoformat(made["next_occurrence"]["at"])
    assert next_at > datetime.now(UTC)
    assert made["next_occurrence"]["local"][11:16] in {"02:30", "03:00"}

    assert client.patch(NIGHTLY, json={"name": "x"}).status_code == 428
    changed = client.patch(NIGHTLY, json={"name": "x"}, headers={"If-Match": '"1"'})
    assert (changed.json()["name"], changed.headers["etag"]) == ("x", '"2"')
    stale = client.patch(NIGHTLY, json={"name": "y"}, headers={"If-Match": '"1"'})
    problem_of(stale, "precondition-failed")

    paused = client.post(f"{NIGHTLY}/pause")
    assert (paused.json()["paused"], paused.json()["next_occurrence"]) == (True, None)
    assert client.post(f"{NIGHTLY}/pause").headers["etag"] == paused.headers["etag"] == '"3"'
    assert client.delete(f"{NIGHTLY}/pause").status_code == 428
    resumed = client.delete(f"{NIGHTLY}/pause", headers={"If-Match": '"3"'})
    assert (resumed.json()["paused"], resumed.headers["etag"]) == (False, '"4"')

    assert client.delete(NIGHTLY).status_code == 428
    deleted = client.delete(NIGHTLY, headers={"If-Match": '"4"'})
    assert (deleted.status_code, deleted.content) == (204, b"")
    problem_of(client.get(NIGHTLY), "not-found")
    problem_of(client.get(f"{SCHEDULES}/{'x' * 65}"), "not-found")


def test_the_same_key_makes_one_schedule(client: Client, problem_of: ProblemOf) -> None:
    key = {"Idempotency-Key": "nightly-1"}
    first = client.post(SCHEDULES, json=body(), headers=key)
    again = client.post(SCHEDULES, json=body(), headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotent-replayed"] == "true"
    assert first.json() == again.json()
    problem = problem_of(client.post(SCHEDULES, json=body()), "conflict")
    assert [fault["code"] for fault in problem["errors"]] == ["slug_taken"]


def test_a_check_shows_the_nights_and_stores_nothing(client: Client) -> None:
    answer = client.post(f"{SCHEDULES}?validate_only=true", json=body(cron=" 30 2  * * * "))
    plan = answer.json()
    assert answer.status_code == 200
    assert plan["schedule"]["cron"] == "30 2 * * *"
    assert plan["schedule"]["batch"]["items"][0]["axes"] == []
    assert plan["batch"]["items"][0]["custom_id"] == "one-slow"
    assert client.get(SCHEDULES).json() == {"items": [], "next_page_token": None}


def test_faults_are_told_with_their_places(client: Client, problem_of: ProblemOf) -> None:
    document = body(cron="0 0 30 2 *", zone="EST5EDT4", batch={"items": [{"custom_id": "a"}]})
    problem = problem_of(client.post(SCHEDULES, json=document), "invalid-schedule")
    assert problem["detail"] == "3 values of the schedule are invalid"
    assert [fault["pointer"] for fault in problem["errors"]] == [
        *("/cron", "/zone", "/batch/items/0")
    ]


def test_lists_go_from_page_to_page(client: Client) -> None:
    for slug, zone in (("a", "UTC"), ("b", "Europe/Paris"), ("c", "UTC")):
        assert client.post(SCHEDULES, json=body(slug, zone=zone)).status_code == 201
    first = client.get(SCHEDULES, params={"zone": "UTC", "page_size": 1})
    assert [one["slug"] for one in first.json()["items"]] == ["a"]
    link = first.headers["link"].removeprefix("<").partition(">")[0]
    second = client.get(link).json()
    assert ([one["slug"] for one in second["items"]], second["next_page_token"]) == (["c"], None)
    client.post(f"{SCHEDULES}/b/pause")
    for query, slugs in (
        ("paused=true", ["b"]),
        ("paused=false", ["a", "c"]),
        ("slug_prefix=c", ["c"]),
        ("slug_prefix=", ["a", "b", "c"]),
    ):
        found = client.get(f"{SCHEDULES}?{query}").json()["items"]
        assert [one["slug"] for one in found] == slugs
    assert client.get(f"{SCHEDULES}?paused=maybe").status_code == 400
    assert client.get(f"{SCHEDULES}?colour=red").status_code == 400


@pytest.mark.usefixtures("made")
def test_occurrences_are_shown_in_both_times_with_a_note(client: Client) -> None:
    answer = client.get(f"{NIGHTLY}/occurrences", params={"count": 3, "after": BEFORE_SPRING})
    note = (
        "Clocks go forward: its wall time does not exist on this day, and this is the first "
        "moment after."
    )
    assert answer.json() == {
        "items": [
            {
                "at": "2027-03-27T01:30:00Z",
                "local": "2027-03-27T02:30:00+01:00",
                "dst": None,
                "note": None,
            },
            {
                "at": "2027-03-28T01:00:00Z",
                "local": "2027-03-28T03:00:00+02:00",
                "dst": "gap",
                "note": note,
            },
            {
                "at": "2027-03-29T00:30:00Z",
                "local": "2027-03-29T02:30:00+02:00",
                "dst": None,
                "note": None,
            },
        ],
        "cron": "30 2 * * *",
        "cron_words": {"en": "every day at 02:30", "fr": "chaque jour à 02:30"},
        "zone": "Europe/Paris",
        "paused": False,
        "tzdata_version": TZDATA_VERSION,
    }
    assert len(client.get(f"{NIGHTLY}/occurrences").json()["items"]) == 20
    # With an offset, and at the ends of the calendar
    later = client.get(
        f"{NIGHTLY}/occurrences", params={"count": 1, "after": "2027-10-31T02:29:00+02:00"}
    ).json()["items"]
    assert [(one["local"], one["dst"]) for one in later] == [
        ("2027-10-31T02:30:00+02:00", "overlap")
    ]
    end = client.get(f"{NIGHTLY}/occurrences", params={"after": "9999-12-31T23:59:59Z"})
    assert end.json()["items"] == []
    start = client.get(f"{NIGHTLY}/occurrences", params={"after": "0001-01-01T00:00:00Z"})
    assert len(start.json()["items"]) == 20
    for query in ("count=0", "count=201", "after=2027-01-01", "after=2027-01-01T00:00:00", "n=1"):
        assert client.get(f"{NIGHTLY}/occurrences?{query}").status_code == 400, query


def test_the_release_of_the_zones_is_shown(client: Client) -> None:
    versions = client.get("/v1/meta").json()["versions"]
    assert versions["tzdata"] == TZDATA_VERSION
    assert TZDATA_VERSION[:4].isdecimal()


def test_money_is_withheld_and_its_reading_recorded(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    keys = {role: key_of(sqlite_database, role) for role in ROLES}

    def readings() -> list[str]:
        events = client.get(
            "/v1/audit-events", params={"page_size": 1000}, headers=keys["admin"]
        ).json()["items"]
        return [event["action"] for event in events if event["outcome"] == "read"]

    plain = body("plain")
    assert client.post(SCHEDULES, json=plain, headers=keys["planner"]).status_code == 201
    with_money = body(budget=money("98765.43"))
    refused = client.post(SCHEDULES, json=with_money, headers=keys["planner"])
    assert "costs:read" in problem_of(refused, "missing-scope")["detail"]
    assert client.post(SCHEDULES, json=with_money, headers=keys["finance"]).status_code == 201
    for role in ("viewer", "planner"):
        for path in (NIGHTLY, SCHEDULES):
            answer = client.get(path, headers=keys[role])
            assert answer.status_code == 200
            assert "98765.43" not in answer.text
        shown = client.get(NIGHTLY, headers=keys[role]).json()
        assert (shown["budget"], shown["budget_withheld"]) == (None, True)
    changed = client.patch(
        NIGHTLY, json={"budget": None}, headers={**keys["planner"], "If-Match": '"1"'}
    )
    assert changed.status_code == 200
    seen = client.get(NIGHTLY, headers=keys["finance"]).json()
    assert seen["budget"]["cost_of_loss_per_30_days"]["amount"] == "98765.43"
    assert client.get(f"{SCHEDULES}/plain", headers=keys["finance"]).json()["budget"] is None
    assert sorted(readings()) == ["create_schedule", "get_schedule"]
