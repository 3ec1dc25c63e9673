"""The runner: killed, cancelled, doubled, broken and stopped; nothing is lost or counted twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psutil
import pytest
from sqlalchemy import func, select, update

from service.db.blocks import read_columns
from service.db.engine import Database, OperationalError
from service.db.tables import batch_item, chunk_ledger, result_block, scenario_batch
from service.jobs import batch_runs, batches
from service.jobs import runner as runner_module
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.planning import CHUNK_POINTS
from service.jobs.runner import Runner
from service.model import kernel
from service.settings import Limits

SCRIPT = Path(__file__).with_name("runner_process.py")
ACTOR = Actor()
BASE: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}


def submit(database: Database, *, speeds: int, cvs: int) -> UUID:
    axes: list[dict[str, Any]] = [
        {"path": "variability.transient.cv", "logspace": {"start": 0.001, "stop": 0.2, "num": cvs}},
        {
            "path": "slow_groups.0.speed_fraction",
            "logspace": {"start": 0.4, "stop": 0.99, "num": speeds},
        },
    ]
    items: list[dict[str, Any]] = [
        {"custom_id": name, "scenario": {**BASE, "num_gpus": size}, "axes": axes}
        for name, size in (("large", 1024), ("small", 64))
    ]
    with database.write() as connection:
        return batches.submit(connection, ACTOR, {"name": "x", "items": items}, Limits()).id


def read(database: Database, batch_id: UUID) -> BatchOut:
    with database.read() as connection:
        return batches.get(connection, ACTOR, batch_id)


def table_of(database: Database, batch_id: UUID) -> dict[str, Any]:
    with database.read() as connection:
        return read_columns(
            connection, batch_id, ("point", "item", "step_mean_ms", "step_p99_ms", "gpu_hours_lost")
        )


def assert_whole(database: Database, batch_id: UUID, num_points: int) -> None:
    batch = read(database, batch_id)
    assert (batch.state, batch.points_done, batch.points_failed) == ("succeeded", num_points, 0)
    with database.read() as connection:
        ledger = list(
            connection.execute(
                select(chunk_ledger.c.chunk, chunk_ledger.c.num_points)
                .where(chunk_ledger.c.batch_id == batch_id)
                .order_by(chunk_ledger.c.chunk)
            )
        )
        items = connection.scalar(
            select(func.sum(batch_item.c.points_done)).where(batch_item.c.batch_id == batch_id)
        )
    assert [row.chunk for row in ledger] == list(range(-(-num_points // CHUNK_POINTS)))
    assert sum(row.num_points for row in ledger) == items == num_points
    np.testing.assert_array_equal(table_of(database, batch_id)["point"], np.arange(num_points))


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def start_process(database: Database) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), database.url.render_as_string(hide_password=False)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_process_leaves_a_batch_that_the_next_one_completes(database: Database) -> None:
    undisturbed = submit(database, speeds=250, cvs=400)
    runner = Runner(database, processes=1)
    assert runner.run_pending() == 1
    runner.stop()
    batch_id = submit(database, speeds=250, cvs=400)
    for done in (1, 2, 3):
        process = start_process(database)
        wait_for(lambda: read(database, batch_id).points_done >= done * CHUNK_POINTS)  # noqa: B023
        kill(process)
        assert read(database, batch_id).state == "running"
        # The lease of the killed process has to end before another may take the batch.
        time.sleep(2.1)
    process = start_process(database)
    wait_for(lambda: read(database, batch_id).state == "succeeded")
    process.wait(timeout=30)
    assert process.stdout is not None
    process.stdout.close()
    assert_whole(database, batch_id, 200_000)
    expected, found = table_of(database, undisturbed), table_of(database, batch_id)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def test_compute_processes_end_with_a_killed_server(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, speeds=250, cvs=400)
    process = start_process(sqlite_database)
    wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
    children = children_of(process)
    assert children
    # Only the server: its compute processes have to find out by themselves.
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_a_dead_runners_batch_is_taken_up_at_once(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, speeds=2, cvs=2)
    dead = subprocess.Popen(["true"])
    dead.wait()
    now = datetime.now(UTC)
    for name, taken in (
        (f"elsewhere/{dead.pid}/a", 0),
        (f"{os.uname().nodename}/{os.getppid()}/b", 0),
        (f"{os.uname().nodename}/{dead.pid}/c", 1),
    ):
        with sqlite_database.write() as connection:
            connection.execute(
                update(scenario_batch).values(
                    state="running", runner=name, lease_until=now + timedelta(minutes=5)
                )
            )
        runner = Runner(sqlite_database)
        runner.release_dead()
        assert runner.run_pending() == taken
    assert_whole(sqlite_database, batch_id, 8)


def test_a_batch_of_a_live_runner_is_left_alone(database: Database) -> None:
    batch_id = submit(database, speeds=2, cvs=2)
    now = datetime.now(UTC)
    with database.write() as connection:
        run = batch_runs.claim(
            connection, runner="other", now=now, lease_until=now + timedelta(minutes=1)
        )
    assert run is not None
    assert Runner(database).run_pending() == 0
    with database.write() as connection:
        connection.execute(
            update(scenario_batch).values(lease_until=datetime.now(UTC) - timedelta(seconds=1))
        )
    assert Runner(database).run_pending() == 1
    assert_whole(database, batch_id, 8)


def test_a_runner_that_lost_its_lease_writes_nothing_more(database: Database) -> None:
    batch_id = submit(database, speeds=2, cvs=2)
    now = datetime.now(UTC)
    with database.write() as connection:
        old = batch_runs.claim(connection, runner="old", now=now, lease_until=now)
        assert old is not None
    assert Runner(database).run_pending() == 1
    before = read(database, batch_id)
    with database.write() as connection:
        assert batch_runs.hold(connection, old, runner="old", lease_until=now) is None
        batch_runs.finish(connection, old, runner="old", now=now, failure="late")
    assert read(database, batch_id) == before
    assert_whole(database, batch_id, 8)


def test_two_runners_share_the_batches_and_double_none(database: Database) -> None:
    made = [submit(database, speeds=20, cvs=20) for _ in range(6)]
    runners = [Runner(database) for _ in range(3)]
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda r=runner: done.append(r.run_pending())) for runner in runners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done) == 6
    for batch_id in made:
        assert_whole(database, batch_id, 800)


def test_cancelling_a_running_batch_keeps_what_is_stored(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, speeds=500, cvs=500)
    runner = Runner(sqlite_database, processes=1)
    runner.start()
    wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
    with sqlite_database.write() as connection:
        assert batches.cancel(connection, ACTOR, batch_id).state == "canceling"
    wait_for(lambda: read(sqlite_database, batch_id).state == "canceled")
    runner.stop()
    batch = read(sqlite_database, batch_id)
    assert 0 < batch.points_done < batch.points_total
    assert batch.counts.canceled >= 1
    assert len(table_of(sqlite_database, batch_id)["point"]) == batch.points_done


def test_a_stopped_runner_gives_its_batch_back_at_once(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, speeds=500, cvs=500)
    runner = Runner(sqlite_database, processes=1)
    runner.start()
    wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
    alive = [runner.is_alive]
    runner.stop()
    assert [*alive, runner.is_alive] == [True, False]
    assert read(sqlite_database, batch_id).state == "running"
    successor = Runner(sqlite_database, processes=2)
    assert successor.run_pending() == 1
    successor.stop()
    assert_whole(sqlite_database, batch_id, 500_000)


def test_a_compute_process_that_dies_is_replaced(sqlite_database: Database) -> None:
    batch_id = submit(sqlite_database, speeds=250, cvs=400)
    runner = Runner(sqlite_database, processes=1)
    runner.start()
    wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
    pool = runner._pool
    assert pool is not None
    for process in list(pool._processes.values()):
        process.kill()
    wait_for(lambda: read(sqlite_database, batch_id).state == "succeeded")
    runner.stop()
    assert_whole(sqlite_database, batch_id, 200_000)


def test_a_defect_while_computing_fails_the_batch_and_not_the_runner(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = submit(sqlite_database, speeds=2, cvs=2)
    evaluate = kernel.evaluate

    def defective(columns: Any) -> Any:
        if read(sqlite_database, broken).state == "running":
            raise ArithmeticError("planted")
        return evaluate(columns)

    monkeypatch.setattr("service.jobs.chunks.evaluate", defective)
    sound = submit(sqlite_database, speeds=2, cvs=2)
    assert Runner(sqlite_database).run_pending() == 2
    batch = read(sqlite_database, broken)
    assert (batch.state, batch.counts.failed) == ("failed", 2)
    assert batch.failure is not None
    assert "planted" not in batch.failure
    assert_whole(sqlite_database, sound, 8)


def test_a_chunk_and_its_ledger_row_are_written_together_or_not_at_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = submit(database, speeds=2, cvs=2)

    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is gone", None, Exception())

    with monkeypatch.context() as patch:
        patch.setattr("service.db.batches.record_chunk", away)
        with pytest.raises(OperationalError):
            Runner(database).run_pending()
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(result_block)) == 0
        assert connection.scalar(select(func.count()).select_from(chunk_ledger)) == 0
    assert read(database, batch_id).state == "running"


def test_a_runner_survives_a_database_that_is_away(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "IDLE_POLL_S", 0.05)
    attempts = []
    claim = batch_runs.claim

    def away_twice(*arguments: Any, **named: Any) -> Any:
        attempts.append(1)
        if len(attempts) < 3:
            raise OperationalError("the database is away", None, Exception())
        return claim(*arguments, **named)

    monkeypatch.setattr(batch_runs, "claim", away_twice)
    batch_id = submit(sqlite_database, speeds=2, cvs=2)
    runner = Runner(sqlite_database)
    runner.start()
    runner.wake()
    wait_for(lambda: read(sqlite_database, batch_id).state == "succeeded")
    runner.stop()
    assert len(attempts) >= 3
