"""Runs and backfills over HTTP."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import update

from service.api.backfills import BACKFILL_EXAMPLES
from service.db import schedules
from service.db.engine import Database
from service.db.schedule_tables import schedule_run
from service.jobs import runs
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.reports.loss_report import BudgetOutcome
from service.reports.money import Money
from tests.api.access_keys import key_of
from tests.jobs.batch_bodies import item
from tests.jobs.ledger_bodies import add_schedule, ledger

Client = TestClient[Litestar]
ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
NIGHTLY = "/v1/schedules/nightly"
RUNS = f"{NIGHTLY}/runs"
BACKFILLS = f"{NIGHTLY}/backfills"
UNKNOWN = "01a22869-6f4e-72c6-8158-fe19e726e3f8"
LONG = {
    "path": "slow_groups.0.speed_fraction",
    "logspace": {"start": 0.4, "stop": 0.99, "num": 2_000_000},
}
FIVE = {"first_on": "2026-11-01", "last_on": "2026-11-05"}


def add(database: Database, **changes: Any) -> UUID:
    """A nightly schedule with slots in the past, and none to come while the test runs."""
    added = add_schedule(database, datetime(2026, 11, 28, tzinfo=UTC), **changes)
    with database.write() as connection:
        schedules.set_next(connection, added, datetime(2099, 1, 1, tzinfo=UTC))
    return added


def set_run(database: Database, schedule_id: UUID, **values: Any) -> None:
    with database.write() as connection:
        connection.execute(
            update(schedule_run).where(schedule_run.c.schedule_id == schedule_id).values(**values)
        )


def wait_for(client: Client, path: str, *states: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (found := client.get(path).json())["state"] not in states:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    document: dict[str, Any] = found
    return document


def test_a_run_of_now_is_computed_and_reported_on(
    client: Client, sqlite_database: Database
) -> None:
    add(sqlite_database)
    answer = client.post(RUNS)
    assert answer.status_code == 202, answer.text
    run = answer.json()
    path = f"{RUNS}/{run['id']}"
    assert (answer.headers["location"], answer.headers["retry-after"]) == (path, "1")
    assert (run["kind"], run["state"], run["schedule"], run["attempt"]) == (
        "manual",
        "due",
        "nightly",
        1,
    )
    assert abs(datetime.fromisoformat(run["scheduled_for"]) - datetime.now(UTC)) < timedelta(
        seconds=30
    )
    assert run["local_time"][-6:] in {"+01:00", "+02:00"}
    found = wait_for(client, path, "succeeded")
    assert found["batch_url"] == f"/v1/scenario-batches/{found['batch_id']}"
    assert found["report_url"] == f"/v1/reports/{found['report_id']}"
    assert found["batch"] == {
        "state": "succeeded",
        "counts": {
            "total": 1,
            "pending": 0,
            "running": 0,
            "succeeded": 1,
            "failed": 0,
            "canceled": 0,
        },
        "points_done": 1,
        "points_failed": 0,
        "points_total": 1,
    }
    assert (found["baseline_run_id"], found["baseline_missing"]) == (None, "no_earlier_run")
    assert found["schedule_version"] == 1
    assert client.get(found["batch_url"]).json()["metadata"]["run"] == run["id"]
    assert client.get(found["report_url"]).json()["state"] == "succeeded"
    assert client.get(path).headers["etag"] == f'"{found["version"]}"'
    assert client.get(RUNS).json()["items"] == [found]


def test_a_repeated_request_is_one_run(client: Client, sqlite_database: Database) -> None:
    added = add(sqlite_database, paused=True)
    headers = {"Idempotency-Key": "tonight"}
    first, again = (client.post(RUNS, headers=headers) for _ in range(2))
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert len(ledger(sqlite_database, added)) == 1


def test_a_run_that_computes_is_canceled(client: Client, sqlite_database: Database) -> None:
    add(sqlite_database, batch={"items": [item(axes=[LONG])]})
    path = f"{RUNS}/{client.post(RUNS).json()['id']}"
    wait_for(client, path, "running")
    canceled = client.post(f"{path}/cancellation")
    assert canceled.status_code == 202, canceled.text
    assert canceled.json()["reason"] == "it was canceled by local"
    assert canceled.json()["batch"]["state"] in {"canceling", "canceled"}
    assert client.post(f"{path}/cancellation").status_code == 202
    found = wait_for(client, path, "canceled")
    assert found["batch"]["state"] == "canceled"
    assert client.post(f"{path}/cancellation").json() == found


def test_a_run_that_is_over_is_not_canceled(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    add(sqlite_database)
    path = f"{RUNS}/{client.post(RUNS).json()['id']}"
    wait_for(client, path, "succeeded")
    problem = problem_of(client.post(f"{path}/cancellation"), "conflict")
    assert problem["detail"].endswith("has been computed already: it is succeeded")


def test_a_backfill_is_planned_made_watched_and_listed(
    client: Client, sqlite_database: Database
) -> None:
    add(sqlite_database)
    plan = client.post(f"{BACKFILLS}?validate_only=true", json=FIVE)
    assert plan.status_code == 200, plan.text
    assert [slot["local_time"] for slot in plan.json()["slots"]] == [
        f"2026-11-0{day}T02:30:00+01:00" for day in range(1, 6)
    ]
    assert (plan.json()["slots_run"], plan.json()["points_total"]) == (5, 5)
    assert client.get(RUNS).json()["items"] == []
    answer = client.post(BACKFILLS, json=FIVE)
    assert answer.status_code == 202, answer.text
    made = answer.json()
    path = f"{BACKFILLS}/{made['id']}"
    assert answer.headers["location"] == path
    assert (made["slots"], made["runs"]["due"], made["state"]) == (5, 5, "running")
    ended = wait_for(client, path, "ended")
    assert ended["runs"] == {
        "due": 0,
        "running": 0,
        "reporting": 0,
        "succeeded": 5,
        "partially_failed": 0,
        "failed": 0,
        "canceled": 0,
        "taken_over": 0,
    }
    assert client.get(BACKFILLS).json() == {"items": [ended], "next_page_token": None}
    runs = client.get(ended["runs_url"]).json()["items"]
    assert [run["scheduled_for"] for run in runs] == [
        f"2026-11-0{day}T01:30:00Z" for day in range(5, 0, -1)
    ]
    assert [run["baseline_run_id"] for run in runs] == [*(run["id"] for run in runs[1:]), None]


def test_the_documented_examples_are_taken(client: Client, sqlite_database: Database) -> None:
    add(sqlite_database, paused=True)
    for example in BACKFILL_EXAMPLES.values():
        checked = client.post(f"{BACKFILLS}?validate_only=true", json=example)
        assert checked.status_code == 200, checked.text
        made = client.post(BACKFILLS, json=example)
        assert made.status_code == 202, made.text
        assert made.json()["held"] == "the schedule is paused"


def test_a_backfill_is_canceled(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    add(sqlite_database, paused=True)
    path = client.post(BACKFILLS, json=FIVE).headers["location"]
    canceled = client.post(f"{path}/cancellation")
    assert (canceled.status_code, canceled.json()["state"]) == (202, "canceled")
    assert client.post(f"{path}/cancellation").json() == canceled.json()
    assert client.get(path).json() == canceled.json()
    other = client.post(BACKFILLS, json=FIVE)
    problem = problem_of(other, "invalid-input")
    assert [fault["code"] for fault in problem["errors"]] == ["nothing_to_run"]
    dry = client.post(BACKFILLS, params={"validate_only": "true"}, json=FIVE)
    assert (dry.status_code, dry.json()["slots_left"], len(dry.json()["slots"])) == (200, 5, 5)
    again = client.post(BACKFILLS, json={**FIVE, "reprocess": "failed"}).json()
    assert (again["runs"]["due"], client.get(path).json()["runs"]["taken_over"]) == (5, 5)


def test_the_ledger_is_filtered_and_paged(client: Client, sqlite_database: Database) -> None:
    added = add(sqlite_database, paused=True)
    backfill = client.post(BACKFILLS, json=FIVE).json()["id"]
    set_run(sqlite_database, added, state="misfired", kind="scheduled")
    asked = client.post(RUNS).json()["id"]

    def ids(query: str) -> list[str]:
        return [run["id"] for run in client.get(f"{RUNS}?{query}").json()["items"]]

    everything = ids("")
    assert everything == [str(run.id) for run in ledger(sqlite_database, added)[::-1]]
    assert (len(everything), everything[0]) == (6, asked)
    assert ids("kind=manual") == [asked]
    assert ids("state=misfired") == ids("kind=scheduled") == everything[1:]
    assert ids(f"backfill={backfill}") == everything[1:]
    assert ids(f"backfill={UNKNOWN}") == []
    between = "scheduled_after=2026-11-01T01:30:00Z&scheduled_before=2026-11-04T02:30:00%2B01:00"
    assert ids(between) == everything[3:5]
    first = client.get(f"{RUNS}?page_size=4")
    assert [run["id"] for run in first.json()["items"]] == everything[:4]
    assert first.links["next"]["url"].startswith(RUNS)
    last = client.get(first.links["next"]["url"]).json()
    assert [run["id"] for run in last["items"]] == everything[4:]
    assert last["next_page_token"] is None
    foreign = client.get(f"{RUNS}?state=due&page_token={first.json()['next_page_token']}")
    assert foreign.status_code == 400


def test_the_ledger_of_a_deleted_schedule_is_read_by_its_id(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    added = add(sqlite_database, paused=True)
    client.post(BACKFILLS, json=FIVE)
    client.delete(NIGHTLY, headers={"If-Match": client.get(NIGHTLY).headers["etag"]})
    problem_of(client.get(RUNS), "not-found")
    found = client.get(f"/v1/schedules/{added}/runs").json()["items"]
    assert [run["state"] for run in found] == ["canceled"] * 5
    one = client.get(f"/v1/schedules/{added}/runs/{found[0]['id']}")
    assert (one.status_code, one.json()) == (200, found[0])
    # Nothing new is asked of it.
    problem_of(client.post(f"/v1/schedules/{added}/runs"), "not-found")
    problem_of(client.post(f"/v1/schedules/{added}/backfills", json=FIVE), "not-found")


def test_a_run_is_found_beneath_its_own_schedule_only(
    client: Client, sqlite_database: Database, problem_of: ProblemOf
) -> None:
    add(sqlite_database, paused=True)
    add(sqlite_database, slug="other", paused=True)
    run = client.post(BACKFILLS, json=FIVE).json()["runs_url"]
    run_id = client.get(run).json()["items"][0]["id"]
    backfill_id = client.get(BACKFILLS).json()["items"][0]["id"]
    assert client.get(f"{RUNS}/{run_id}").status_code == 200
    for path in (
        f"/v1/schedules/other/runs/{run_id}",
        f"/v1/schedules/other/backfills/{backfill_id}",
        f"{RUNS}/{UNKNOWN}",
        f"{BACKFILLS}/{UNKNOWN}",
        f"{RUNS}/nonsense",
        f"{BACKFILLS}/nonsense",
        "/v1/schedules/unknown/runs",
    ):
        problem_of(client.get(path), "not-found")
    for path in (
        f"/v1/schedules/other/runs/{run_id}/cancellation",
        f"/v1/schedules/other/backfills/{backfill_id}/cancellation",
    ):
        problem_of(client.post(path), "not-found")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/first_on"),
        ({**FIVE, "max_running": 0}, "/max_running"),
        ({**FIVE, "max_running": 51}, "/max_running"),
        ({**FIVE, "reprocess": "some"}, "/reprocess"),
        ({**FIVE, "last_on": "2026-11-31"}, "/last_on"),
        ({**FIVE, "last_on": "2199-01-01"}, "/last_on"),
        ({**FIVE, "unknown": 1}, "/unknown"),
    ],
)
def test_faulty_bodies_are_refused_with_the_place(
    client: Client,
    sqlite_database: Database,
    problem_of: ProblemOf,
    body: dict[str, Any],
    pointer: str,
) -> None:
    added = add(sqlite_database)
    problem = problem_of(client.post(BACKFILLS, json=body), "invalid-input")
    assert pointer in [fault["pointer"] for fault in problem["errors"]]
    assert ledger(sqlite_database, added) == []


def test_whether_a_budget_of_money_is_passed_is_told_to_those_who_see_money(
    client: Client, sqlite_database: Database
) -> None:
    added = add(sqlite_database, paused=True)
    headers = {role: key_of(sqlite_database, role) for role in ("viewer", "finance")}
    client.post(BACKFILLS, json={**FIVE, "last_on": "2026-11-01"}, headers=headers["finance"])
    money: dict[str, Any] = {"cost_of_loss_per_30_days": {"amount": "10.00", "currency": "EUR"}}
    hours = {"gpu_hours_lost_per_30_days": 10}
    told = {}
    kept = {"gpu_hours_lost_per_30_days": 30, **money}
    budgets = {"money": money, "hours": hours, "both": {**money, **hours}, "kept": kept}
    for name, budget in budgets.items():
        set_run(
            sqlite_database,
            added,
            state="succeeded",
            budget_status="over",
            settings={"budget": budget},
            budget=msgspec.to_builtins(
                BudgetOutcome(
                    status="over",
                    gpu_hours_lost_per_30_days=20.0,
                    gpu_hours_budget_per_30_days=budget.get("gpu_hours_lost_per_30_days"),
                    cost_of_loss_per_30_days=None,
                    cost_budget_per_30_days=msgspec.convert(
                        budget.get("cost_of_loss_per_30_days"), Money | None
                    ),
                )
            ),
        )
        told[name] = [
            client.get(RUNS, headers=headers[role]).json()["items"][0]["budget_status"]
            for role in ("viewer", "finance")
        ]
    assert told == {
        "money": ["withheld", "over"],
        "hours": ["over", "over"],
        # GPU-hours alone say so: as the report itself does
        "both": ["over", "over"],
        "kept": ["withheld", "over"],
    }


def test_runs_that_wait_for_long_are_told_to_operators(
    client: Client, sqlite_database: Database
) -> None:
    added = add(sqlite_database, paused=True)
    run = new_due_run(sqlite_database, added)
    assert client.get("/readyz").json()["warnings"] == []
    with sqlite_database.write() as connection:
        row = schedules.get_schedule(connection, DEFAULT_TEAM_ID, added)
        assert row is not None
        schedules.change_schedule(
            connection, added, version=row.version, values={"paused_at": None}
        )
    time.sleep(1.1)
    assert client.get("/readyz").json()["warnings"] == [
        "a run of a schedule is due for 20 min and has not begun: see its reason"
    ]
    metrics = client.get("/metrics").text
    assert 'trainard_schedule_runs{state="due"} 1.0' in metrics
    assert "trainard_schedule_runs_due_age_seconds 120" in metrics
    assert "trainard_schedule_slots_missed 0.0" in metrics
    assert run in client.get(RUNS).text


def new_due_run(database: Database, schedule_id: UUID) -> str:
    """A run that is due for 20 minutes, and is tried again in a year; its id."""
    now = datetime.now(UTC)
    with database.write() as connection:
        run = runs.run_now(connection, Actor(), "nightly", now)
        # In one transaction: the service begins what is due within a second.
        connection.execute(
            update(schedule_run)
            .where(schedule_run.c.schedule_id == schedule_id)
            .values(created_at=now - timedelta(minutes=20), not_before=now + timedelta(days=365))
        )
    return str(run.id)
