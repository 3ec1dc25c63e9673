"""Retries, errors of lost chunks, reuse and a full queue, over real HTTP."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from service.api.examples import BATCH_EXAMPLES
from service.db.engine import Database
from service.settings import Limits
from tests.api.served import served
from tests.jobs.batch_bodies import cancel, item, run, speeds, submit
from tests.jobs.chunk_steps import end, record
from tests.jobs.completed import complete

Check = Callable[[httpx.Response, str], dict[str, Any]]
PATH = "/v1/scenario-batches"
SLOW = next(iter(BATCH_EXAMPLES.values()))
LOST = "its process was killed 3 times"


@pytest.fixture
def client(database: Database) -> Iterator[httpx.Client]:
    with (
        served(database) as (address, _),
        httpx.Client(base_url=address, timeout=90, trust_env=False) as opened,
    ):
        yield opened


def test_a_canceled_batch_is_retried(database: Database, client: httpx.Client) -> None:
    batch = submit(database, item(), name="sizing")
    cancel(database, batch.id)
    url = f"{PATH}/{batch.id}/retries"
    answers = [client.post(url, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].content == answers[1].content
    made = answers[0].json()
    assert answers[0].headers["location"] == f"{PATH}/{made['id']}"
    assert (made["retry_of"], made["name"], made["state"]) == (str(batch.id), "sizing", "queued")
    assert client.get(answers[0].headers["location"]).json() == made
    assert len(client.get(PATH).json()["items"]) == 2


def test_a_retry_may_be_urgent_and_waited_for(database: Database, client: httpx.Client) -> None:
    batch = submit(database, item())
    cancel(database, batch.id)
    url = f"{PATH}/{batch.id}/retries"
    body = {"priority": 1, "deadline_at": "2099-01-01T00:00:00Z"}
    made = client.post(url, json=body, headers={"Idempotency-Key": "k"}).json()
    assert (made["priority"], made["deadline_at"]) == (1, "2099-01-01T00:00:00Z")
    complete(database)
    waited = client.post(url, json=body, headers={"Idempotency-Key": "k", "Prefer": "wait=20"})
    assert waited.status_code == 200
    assert waited.json()["id"] == made["id"]
    (result,) = waited.json()["results"]["items"]
    assert round(result["result"]["gpu_hours_lost"]) == 176_008


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"priority": 0}, "/priority"),
        ({"deadline_at": "2026-01-01T00:00:00Z"}, "/deadline_at"),
        ({"name": "other"}, "/name"),
    ],
)
def test_faulty_retries_are_refused(
    database: Database, client: httpx.Client, problem_of: Check, body: Any, pointer: str
) -> None:
    batch = submit(database, item())
    cancel(database, batch.id)
    answer = client.post(f"{PATH}/{batch.id}/retries", json=body)
    assert answer.status_code == 422
    assert problem_of(answer, "invalid-input")["errors"][0]["pointer"] == pointer


def test_what_cannot_be_retried(
    database: Database, client: httpx.Client, problem_of: Check
) -> None:
    whole = run(database, item())
    answer = client.post(f"{PATH}/{whole.id}/retries")
    assert answer.status_code == 409
    assert problem_of(answer, "nothing-to-retry")["errors"][0]["code"] == "nothing_to_retry"
    waiting = submit(database, item(custom_id="waits"))
    answer = client.post(f"{PATH}/{waiting.id}/retries")
    assert answer.status_code == 409
    assert int(answer.headers["retry-after"]) > 0
    problem_of(answer, "batch-not-finished")
    problem_of(client.post(f"{PATH}/nonsense/retries"), "not-found")


def test_errors_of_a_lost_chunk_are_paged(database: Database, client: httpx.Client) -> None:
    batch = submit(database, item(axes=[speeds(50_001)]))
    record(database, batch.id, 0, failure=LOST)
    record(database, batch.id, 1)
    end(database, batch.id)
    page = client.get(f"{PATH}/{batch.id}/errors", params={"page_size": 2})
    found = page.json()
    assert found["errors_total"] == 50_000
    assert [(fault["point"], fault["code"], fault["detail"]) for fault in found["items"]] == [
        (0, "chunk_not_computed", LOST),
        (1, "chunk_not_computed", LOST),
    ]
    link = page.headers["link"]
    following = client.get(link[1 : link.index(">")]).json()
    assert [fault["point"] for fault in following["items"]] == [2, 3]
    last = client.get(f"{PATH}/{batch.id}/results").json()["items"]
    assert [result["point"] for result in last] == [50_000]


def test_reuse_is_shown_before_and_after(database: Database, client: httpx.Client) -> None:
    first = run(database, item())
    body = {"name": "again", "items": [item()]}
    plan = client.post(f"{PATH}?validate_only=true", json=body).json()
    made = client.post(PATH, json=body).json()
    assert plan["reused_from"] == made["reused_from"] == str(first.id)
    assert client.post(PATH, json={**body, "reuse": False}).json()["reused_from"] is None


def test_a_full_queue_says_when_to_come_back(database: Database, problem_of: Check) -> None:
    with served(database, Limits(unfinished_batches=1)) as (address, _):
        assert httpx.post(address + PATH, json=SLOW).status_code == 202
        full = httpx.post(address + PATH, json=SLOW)
        assert full.status_code == 503
        assert int(full.headers["retry-after"]) > 0
        assert "limit is 1" in problem_of(full, "queue-full")["detail"]
        found = httpx.get(f"{address}/v1/meta").json()["limits"]
        assert (found["unfinished_batches"], found["event_streams"], found["wait_s"]) == (
            *(1, 500, 60),
        )
