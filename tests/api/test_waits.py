"""`Prefer: wait`: the ended batch with its results in one answer, or the usual 202 in time."""

import threading
import time
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import RequestFactory, TestClient

from service.api.examples import BATCH_EXAMPLES
from service.api.preferences import preferred_wait_s
from service.db.engine import Database
from service.settings import Limits, Settings
from tests.api.served import served, wait_until
from tests.jobs.completed import complete

PATH = "/v1/scenario-batches"
SLOW = next(iter(BATCH_EXAMPLES.values()))


def test_a_batch_that_ends_in_time_is_answered_with_its_results(
    client: TestClient[Litestar],
) -> None:
    answer = client.post(PATH, json=SLOW, headers={"Prefer": "wait=30"})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["state"], found["points_done"]) == ("succeeded", 30)
    assert answer.headers["preference-applied"] == "wait=30"
    assert answer.headers["location"] == f"{PATH}/{found['id']}"
    assert answer.headers["etag"] == f'"{found["version"]}"'
    assert "retry-after" not in answer.headers
    page = client.get(found["results_url"]).json()
    assert found["results"] == page
    assert len(page["items"]) == 30
    del found["results"]
    assert found == client.get(answer.headers["location"]).json()


def test_a_batch_that_does_not_is_answered_202(database: Database) -> None:
    with served(database) as (address, _):
        started = time.monotonic()
        answer = httpx.post(address + PATH, json=SLOW, headers={"Prefer": "wait=1"})
        took_s = time.monotonic() - started
        assert answer.status_code == 202
        assert 1 <= took_s < 4
        assert answer.headers["preference-applied"] == "wait=1"
        assert answer.headers["retry-after"] == "1"
        assert answer.json() == httpx.get(address + answer.headers["location"]).json()
        plain = httpx.post(address + PATH, json=SLOW)
        assert plain.status_code == 202
        assert "preference-applied" not in plain.headers


def test_the_wait_has_a_limit(database: Database) -> None:
    with served(database, Limits(wait_s=1)) as (address, _):
        answer = httpx.post(address + PATH, json=SLOW, headers={"Prefer": "wait=999999999"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=1")


def test_repeating_the_request_waits_too(database: Database) -> None:
    headers = {"Idempotency-Key": "k-1"}
    with served(database) as (address, _):
        first = httpx.post(address + PATH, json=SLOW, headers=headers)
        assert first.status_code == 202
        threading.Timer(0.5, complete, [database]).start()
        again = httpx.post(
            address + PATH, json=SLOW, headers={**headers, "Prefer": "wait=20"}, timeout=30
        )
        assert again.status_code == 200
        assert again.headers["idempotent-replayed"] == "true"
        assert again.json()["id"] == first.json()["id"]
        assert again.json()["counts"]["succeeded"] == len(again.json()["results"]["items"]) / 30
        at_once = httpx.post(address + PATH, json=SLOW, headers={**headers, "Prefer": "wait=0"})
        assert (at_once.status_code, at_once.content) == (200, again.content)
        # What was stored for the key is still what was answered first.
        assert httpx.post(address + PATH, json=SLOW, headers=headers).content == first.content


def test_checking_does_not_wait(database: Database) -> None:
    with served(database) as (address, _):
        started = time.monotonic()
        plan = httpx.post(
            f"{address}{PATH}?validate_only=true", json=SLOW, headers={"Prefer": "wait=20"}
        )
    assert (plan.status_code, plan.json()["points_total"]) == (200, 30)
    assert plan.json()["reused_from"] is None
    assert time.monotonic() - started < 10


def test_waiting_requests_hold_no_threads(database: Database) -> None:
    """More of them than the pool has threads wait together, and others are answered meanwhile."""
    with served(database) as (address, app):
        location = httpx.post(address + PATH, json=SLOW, headers={"Idempotency-Key": "k"}).headers
        statuses: list[int] = []

        def wait() -> None:
            answer = httpx.post(
                address + PATH,
                json=SLOW,
                headers={"Idempotency-Key": "k", "Prefer": "wait=30"},
                timeout=60,
            )
            statuses.append(answer.status_code)

        threads = [threading.Thread(target=wait) for _ in range(60)]
        for thread in threads:
            thread.start()
        watch = app.state.batch_watch
        wait_until(lambda: watch.num_watchers == 60, 40)
        started = time.monotonic()
        assert httpx.get(address + location["location"]).status_code == 200
        assert time.monotonic() - started < 2
        complete(database)
        for thread in threads:
            thread.join(30)
    assert statuses == [200] * 60


def test_a_server_that_stops_ends_the_waits(sqlite_database: Database) -> None:
    answers: list[httpx.Response] = []

    def wait(address: str) -> None:
        answers.append(
            httpx.post(address + PATH, json=SLOW, headers={"Prefer": "wait=50"}, timeout=60)
        )

    with served(sqlite_database) as (address, app):
        thread = threading.Thread(target=wait, args=[address])
        thread.start()
        wait_until(lambda: app.state.batch_watch.num_watchers == 1)
        started = time.monotonic()
    thread.join(20)
    assert time.monotonic() - started < 4
    assert [answer.status_code for answer in answers] == [202]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        (["wait=10"], 10),
        (["WAIT = 10"], 10),
        (['wait="10"'], 10),
        (["respond-async, wait=7"], 7),
        (["respond-async", "wait=8"], 8),
        (["wait=5; foo=bar, wait=9"], 5),
        (["wait=0"], 0),
        (["wait=61"], 60),
        (["wait"], None),
        (["wait=soon"], None),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["await=3"], None),
        (['note="a, wait=3"'], None),
        (['note="a, \\" wait=3", wait=4'], 4),
    ],
)
def test_preferences_are_read_as_the_rfc_says(headers: list[str], expected: int | None) -> None:
    request: Any = RequestFactory().post("/")
    request.scope["headers"] += [(b"prefer", text.encode()) for text in headers]
    request.app.state.settings = Settings()
    assert preferred_wait_s(request) == expected
