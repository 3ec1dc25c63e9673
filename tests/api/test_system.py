import os
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient
from sqlalchemy import text

from service.api.authentication import OPEN_CHECK_S
from service.api.queue_watch import KEEP_S, PATIENCE_S, QueueWatch
from service.app import create_app
from service.db import migrate, workers
from service.db.engine import Database
from service.jobs.queue_state import QueueState
from service.jobs.zone_data import TZDATA_VERSION
from service.model import MODEL_VERSION
from service.settings import Limits, Settings
from tests.jobs.batch_bodies import item, read, speeds, submit

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]


@pytest.fixture
def limits() -> Limits:
    return Limits(items_per_batch=17)


def test_health_needs_nothing(client: Client) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}


def test_a_served_and_migrated_database_is_ready(client: Client) -> None:
    assert client.get("/readyz").json() == {
        "status": "ok",
        "database": "sqlite",
        "migration": migrate.head(),
        "engine": "embedded",
        "workers_alive": 1,
        "queue_age_s": 0.0,
        "warnings": [],
    }


def test_tables_of_another_version_are_not_ready(
    client: Client, problem_of: ProblemOf, sqlite_database: Database
) -> None:
    with sqlite_database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'older'")
    answer = client.get("/readyz")
    detail = problem_of(answer, "not-ready")["detail"]
    assert "older" in detail
    assert migrate.head() in detail
    assert answer.headers["retry-after"]


def test_a_disk_with_little_room_is_not_ready(
    client: Client, problem_of: ProblemOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told of the disk is that of the folder with the file."""
    asked: list[Path] = []

    def found(path: Path) -> os.statvfs_result:
        asked.append(path)
        # Blocks of 1024 bytes, of which 4095 are free for others than root.
        return os.statvfs_result((4096, 1024, 99_999, 5_000, 4_095, 0, 0, 0, 0, 255))

    monkeypatch.setattr("service.db.disk_space.os.statvfs", found)
    detail = problem_of(client.get("/readyz"), "not-ready")["detail"]
    assert detail == ("the database's disk is full but for 4.0 MiB; at least 4 MiB must be free")
    assert asked == [Path(client.app.state.database.url.database).parent]


def test_a_database_that_was_never_migrated_is_not_ready(
    empty_url: str, problem_of: ProblemOf
) -> None:
    app = create_app(Settings(database_url=empty_url))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert "none" in problem_of(client.get("/readyz"), "not-ready")["detail"]


def test_a_service_whose_engine_has_ended_is_not_ready(
    app: Litestar, problem_of: ProblemOf
) -> None:
    with TestClient(app, base_url="http://127.0.0.1") as client:
        app.state.engine.stop()
        assert "engine" in problem_of(client.get("/readyz"), "not-ready")["detail"]


@pytest.mark.postgres
def test_a_client_without_workers_is_ready_with_a_warning(postgres_url: str) -> None:
    app = create_app(Settings(database_url=postgres_url))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        found = client.get("/readyz").json()
        assert (found["status"], found["database"], found["engine"]) == (
            *("ok", "postgresql", "client"),
        )
        assert found["workers_alive"] == 0
        assert ["no worker" in warning for warning in found["warnings"]] == [True]
        assert client.get("/v1/workers").json() == {"items": []}
        seen = datetime.now(UTC)
        with app.state.database.write() as connection:
            workers.record_worker(
                connection,
                name="a/1/x",
                role="worker",
                host="a",
                process=1,
                compute_processes=2,
                now=seen,
            )
        (worker,) = client.get("/v1/workers").json()["items"]
        assert datetime.fromisoformat(worker.pop("seen_at")) == seen
        assert datetime.fromisoformat(worker.pop("started_at")) == seen
        assert worker == {
            "id": "a/1/x",
            "role": "worker",
            "host": "a",
            "process": 1,
            "compute_processes": 2,
            "alive": True,
        }
        time.sleep(KEEP_S)
        found = client.get("/readyz").json()
        assert (found["workers_alive"], found["warnings"]) == (1, [])


def test_meta_shows_versions_and_limits(client: Client) -> None:
    found = client.get("/v1/meta").json()
    assert found["versions"]["model"] == MODEL_VERSION
    assert found["versions"]["numpy"] == version("numpy")
    assert found["versions"]["tzdata"] == TZDATA_VERSION
    assert found["limits"]["items_per_batch"] == 17
    assert found["limits"]["body_bytes"] == 16 * 1024 * 1024
    assert found["limits"]["draws_per_batch"] == 2_000_000_000
    assert found["migration"] == migrate.head()


def test_requests_are_counted_by_route_and_not_by_path(client: Client) -> None:
    for path in ("/problems/conflict", "/problems/too-large", "/nope/1", "/nope/2"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    counted = 'trainard_http_requests_total{method="GET",route="%s",status="%d"} 2.0'
    assert counted % ("/problems/{slug}", 200) in lines
    assert counted % ("(none)", 404) in lines
    assert "trainard_batch_points_computed 0.0" in lines
    assert any(line.startswith("trainard_http_request_duration_seconds_bucket") for line in lines)


def test_the_state_of_the_queue_is_scraped(client: Client, sqlite_database: Database) -> None:
    lines = client.get("/metrics").text.splitlines()
    for line in (
        "trainard_database_up 1.0",
        "trainard_queue_age_seconds 0.0",
        'trainard_batches{state="queued"} 0.0',
        'trainard_batches{state="running"} 0.0',
        'trainard_batches{state="canceling"} 0.0',
        "trainard_chunks_waiting 0.0",
        "trainard_chunks_failed 0.0",
        "trainard_points_total 0.0",
        "trainard_points_per_second 0.0",
        "trainard_workers_alive 1.0",
        'trainard_tasks_waiting{task="deletion"} 0.0',
    ):
        assert line in lines
    batch = submit(sqlite_database, item(axes=[speeds(600)]))
    client.app.state.engine.wake()
    end = time.monotonic() + 60
    while read(sqlite_database, batch.id).state != "succeeded":
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(KEEP_S)
    lines = client.get("/metrics").text.splitlines()
    for line in (
        "trainard_points_total 600.0",
        "trainard_points_per_second 10.0",
        "trainard_workers_alive 1.0",
        'trainard_batches{state="running"} 0.0',
    ):
        assert line in lines
    (worker,) = client.get("/v1/workers").json()["items"]
    assert (worker["id"], worker["role"], worker["alive"]) == ("local", "embedded", True)


def test_a_scrape_is_answered_while_the_database_is_away(
    empty_url: str, problem_of: ProblemOf
) -> None:
    """It has no tables: one kind says so with an operational error, the other with another.

    Where a key is demanded nobody can be known then: only public metrics are answered.
    """
    app = create_app(Settings(database_url=empty_url, public_metrics=True))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/metrics")
        assert answer.status_code == 200
        lines = answer.text.splitlines()
        assert "trainard_database_up 0.0" in lines
        assert "trainard_points_total 0.0" in lines
        assert not any(line.startswith("trainard_queue_age_seconds") for line in lines)
        problem_of(client.get("/readyz"), "not-ready")


def test_an_open_service_goes_on_to_show_its_metrics(sqlite_database: Database) -> None:
    app = create_app(Settings(), sqlite_database)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/metrics").status_code == 200
        time.sleep(OPEN_CHECK_S)
        with sqlite_database.write() as connection:
            connection.execute(text("DROP TABLE api_key"))
        answer = client.get("/metrics")
        assert answer.status_code == 200


def test_a_scrape_does_not_wait_for_a_database_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        watched = Database(f"postgresql://nobody@127.0.0.1:{port}/none?connect_timeout=8")

        async def ask() -> list[QueueState | None]:
            watch = QueueWatch(watched)
            return [await watch.current() for _ in range(2)]

        started = time.monotonic()
        assert anyio.run(ask) == [None, None]
        assert time.monotonic() - started < 2 * PATIENCE_S + 1


def test_many_who_ask_share_one_read(sqlite_database: Database) -> None:
    async def ask() -> list[QueueState | None]:
        watch = QueueWatch(sqlite_database)
        found: list[QueueState | None] = []

        async def one() -> None:
            found.append(await watch.current())

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
        return found

    found = anyio.run(ask)
    assert len(found) == 20
    assert found[0] is not None
    assert all(state is found[0] for state in found)


def test_two_apps_count_apart(client: Client, sqlite_database: Database) -> None:
    client.get("/healthz")
    other = create_app(Settings(), sqlite_database)
    assert b'route="/healthz"' not in other.state.metrics.render()
