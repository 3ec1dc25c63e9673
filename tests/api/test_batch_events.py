"""Server-sent events over real HTTP: progress, the end, reconnecting, limits, several processes."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import httpx
import pytest
from httpx_sse import ServerSentEvent, connect_sse
from litestar import Litestar
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from service.api import batch_events, batch_watch
from service.db.engine import Database
from service.db.tables import scenario_batch
from service.settings import Limits
from tests.api.served import served, wait_until
from tests.jobs.batch_bodies import cancel, item, read, speeds, submit
from tests.jobs.chunk_steps import end, record

Check = Callable[[httpx.Response, str], dict[str, Any]]
Served = tuple[str, Litestar]
TIMEOUT_S = 20


@pytest.fixture
def service(database: Database) -> Iterator[Served]:
    with served(database) as running:
        yield running


def address_of(batch_id: UUID) -> str:
    return f"/v1/scenario-batches/{batch_id}/events"


@contextmanager
def watching(
    service: Served, batch_id: UUID, last_event_id: int | None = None
) -> Iterator[Iterator[ServerSentEvent]]:
    headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
    with (
        httpx.Client(base_url=service[0], timeout=TIMEOUT_S, trust_env=False) as client,
        connect_sse(client, "GET", address_of(batch_id), headers=headers) as source,
    ):
        assert source.response.status_code == 200
        yield source.iter_sse()


def test_from_the_queue_to_the_end(database: Database, service: Served) -> None:
    batch_id = submit(database, item(axes=[speeds(60_000)])).id
    seen = []
    with watching(service, batch_id) as events:
        seen.append(next(events))
        assert (seen[0].event, seen[0].json()["state"], seen[0].retry) == (
            "progress",
            "queued",
            2000,
        )
        record(database, batch_id, 0)
        while seen[-1].json()["points_done"] < 50_000:
            seen.append(next(events))
        assert (seen[-1].event, seen[-1].json()["state"]) == ("progress", "running")
        record(database, batch_id, 1)
        end(database, batch_id)
        seen += list(events)
    last = seen[-1].json()
    assert [event.event for event in seen] == ["progress"] * (len(seen) - 1) + ["ended"]
    assert (last["state"], last["points_done"]) == ("succeeded", 60_000)
    assert last == httpx.get(f"{service[0]}/v1/scenario-batches/{batch_id}").json()
    ids = [int(event.id) for event in seen]
    assert ids == sorted(set(ids)) == [event.json()["version"] for event in seen]


def test_nothing_on_the_way_may_hold_the_events_back(database: Database, service: Served) -> None:
    batch_id = submit(database, item()).id
    cancel(database, batch_id)
    answer = httpx.get(service[0] + address_of(batch_id), headers={"Accept-Encoding": "gzip, br"})
    assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in answer.headers
    assert "content-length" not in answer.headers


def test_a_broken_connection_is_taken_up_with_what_is_newer(
    database: Database, service: Served
) -> None:
    batch_id = submit(database, item(axes=[speeds(60_000)])).id
    with watching(service, batch_id) as events:
        first = int(next(events).id)
    with watching(service, batch_id, first) as events:
        threading.Timer(0.4, lambda: record(database, batch_id, 0)).start()
        newer = next(events)
        assert int(newer.id) > first
        assert newer.json()["state"] == "running"
    record(database, batch_id, 1)
    end(database, batch_id)
    with watching(service, batch_id, first) as events:
        (only,) = events
    assert (only.event, only.json()["state"]) == ("ended", "succeeded")
    with watching(service, batch_id, 10**9) as events:
        assert [event.id for event in events] == [only.id]
    over = httpx.get(service[0] + address_of(batch_id), headers={"Last-Event-ID": only.id})
    assert (over.status_code, over.content) == (204, b"")
    priced = httpx.post(
        f"{service[0]}/v1/scenario-batches/{batch_id}/repricings", json={"currency": "EUR"}
    )
    assert priced.status_code == 201
    # Its document has changed: the end is told once more, as it is now.
    with watching(service, batch_id, int(only.id)) as events:
        (again,) = events
    assert (again.event, int(again.id)) == ("ended", int(only.id) + 1)
    assert again.json()["rates_as_of"] == priced.json()["rates_as_of"]


def test_every_process_on_the_database_tells_the_same(database: Database) -> None:
    batch_id = submit(database, item()).id
    with (
        served(database) as one,
        served(database) as other,
        watching(one, batch_id) as here,
        watching(other, batch_id) as there,
    ):
        assert next(here).json() == next(there).json()
        httpx.post(f"{one[0]}/v1/scenario-batches/{batch_id}/cancellation").raise_for_status()
        ended = [list(here), list(there)]
    assert [[event.event for event in events] for events in ended] == [["ended"], ["ended"]]
    assert ended[0][0].json() == ended[1][0].json()
    assert ended[0][0].json()["state"] == "canceled"


def test_comments_keep_a_quiet_connection_open(
    database: Database, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_events, "HEARTBEAT_S", 0.1)
    batch_id = submit(database, item()).id
    with httpx.stream("GET", service[0] + address_of(batch_id), timeout=TIMEOUT_S) as answer:
        lines = answer.iter_lines()
        comments = 0
        while comments < 3:
            comments += next(lines).startswith(": ")


def test_a_batch_that_is_deleted_ends_the_stream_without_an_end(
    database: Database, service: Served, problem_of: Check
) -> None:
    batch = submit(database, item())
    with watching(service, batch.id) as events:
        next(events)
        with database.write() as connection:
            connection.execute(
                update(scenario_batch)
                .where(scenario_batch.c.id == batch.id)
                .values(deleted_at=batch.created_at)
            )
        assert list(events) == []
    gone = httpx.get(service[0] + address_of(batch.id))
    assert gone.status_code == 404
    problem_of(gone, "not-found")


def test_only_so_many_streams_and_a_client_that_goes_frees_its_place(
    database: Database, problem_of: Check
) -> None:
    batch_id = submit(database, item()).id
    with (
        served(database, Limits(event_streams=2)) as running,
        ExitStack() as one,
        ExitStack() as two,
    ):
        first = one.enter_context(watching(running, batch_id))
        second = two.enter_context(watching(running, batch_id))
        next(first)
        next(second)
        refused = httpx.get(running[0] + address_of(batch_id))
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "limit is 2" in problem_of(refused, "too-many-streams")["detail"]
        one.close()
        wait_until(lambda: running[1].state.batch_watch.num_streams == 1)
        third = one.enter_context(watching(running, batch_id))
        next(third)
        two.close()
        one.close()
        wait_until(lambda: running[1].state.batch_watch.num_streams == 0)
        assert running[1].state.batch_watch.num_watchers == 0


def test_a_head_request_keeps_no_stream(database: Database, service: Served) -> None:
    batch_id = submit(database, item()).id
    answer = httpx.head(service[0] + address_of(batch_id))
    assert (answer.status_code, answer.content) == (200, b"")
    wait_until(lambda: bool(service[1].state.batch_watch.num_streams == 0))


@pytest.mark.parametrize(
    ("path", "headers", "slug"),
    [
        ("01a22869-6f4e-72c6-8158-fe19e726e3f8/events", {}, "not-found"),
        ("nonsense/events", {}, "not-found"),
        ("01a22869-6f4e-72c6-8158-fe19e726e3f8/events?a=1", {}, "malformed-request"),
        (
            "01a22869-6f4e-72c6-8158-fe19e726e3f8/events",
            {"Last-Event-ID": "x"},
            "malformed-request",
        ),
    ],
)
def test_what_cannot_be_watched(
    service: Served, problem_of: Check, path: str, headers: dict[str, str], slug: str
) -> None:
    problem_of(httpx.get(f"{service[0]}/v1/scenario-batches/{path}", headers=headers), slug)


def test_one_query_a_tick_serves_all_watchers(
    database: Database, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    plain = batch_watch._read

    def counted(opened: Database, known: dict[UUID, int]) -> Any:
        asked.append(len(known))
        return plain(opened, known)

    ids = [submit(database, item(custom_id=f"b{number}")).id for number in range(3)]
    monkeypatch.setattr(batch_watch, "_read", counted)
    with ExitStack() as stack:
        streams = [stack.enter_context(watching(service, ids[number % 3])) for number in range(12)]
        for stream in streams:
            next(stream)
        asked.clear()
        time.sleep(1.5)
        assert set(asked) == {3}
        # Ticks grow from 0.05 s to 0.5 s.
        assert 2 <= len(asked) <= 12


def test_streams_outlast_a_database_that_is_away(
    database: Database, service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = submit(database, item()).id
    plain = batch_watch._read
    failed: list[int] = []

    def away(opened: Database, known: dict[UUID, int]) -> Any:
        if len(failed) < 3:
            failed.append(1)
            raise (OperationalError("SELECT", {}, Exception("gone")), ValueError())[len(failed) % 2]
        return plain(opened, known)

    with watching(service, batch_id) as events:
        next(events)
        monkeypatch.setattr(batch_watch, "_read", away)
        cancel(database, batch_id)
        (last,) = events
    assert len(failed) == 3
    assert last.json()["version"] == read(database, batch_id).version


def test_a_server_that_stops_ends_its_streams(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, item()).id
    with ExitStack() as client, served(sqlite_database) as running:
        events = client.enter_context(watching(running, batch_id))
        next(events)
        started = time.monotonic()
        running[1].state.batch_watch.stop()
        assert list(events) == []
    # uvicorn would have waited for 5 s, and then broken the connection.
    assert time.monotonic() - started < 3
