"""What goes wrong inside: poisoned chunks, a full disk, defects; each ends in a clear state."""

import os
import shutil
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from sqlalchemy import update

from service.db import batches as batch_rows
from service.db import workers
from service.db.engine import Database
from service.db.job_engine import job_file
from service.db.tables import scenario_batch
from service.jobs import point_faults, workflows
from service.jobs import runtime as runtime_module
from service.jobs.actors import Actor
from service.jobs.chunks import CHUNK_POINTS
from service.jobs.compute_pool import ComputePool
from service.jobs.engine import Engine
from service.jobs.runtime import Runtime
from service.model import kernel
from service.settings import Settings
from tests.jobs.batch_bodies import cancel, read
from tests.jobs.completed import complete
from tests.jobs.engine_processes import (
    Computing,
    assert_same_bits,
    assert_whole,
    submit_grid,
    table_of,
    wait_for,
    wait_for_end,
)


def test_a_poisoned_chunk_fails_alone(database: Database) -> None:
    """Chunk 1 kills its process whenever it is computed: the others and other batches go on."""
    with Computing(database, "poison=1"):
        batch_id = submit_grid(database, 260_000, scenario={"seed": 666})
        sound = submit_grid(database, 260_000)
        assert wait_for_end(database, batch_id, 120) == "partially_failed"
        wait_for_end(database, sound, 120)
    batch = read(database, batch_id)
    assert (batch.points_done, batch.points_failed) == (260_000, CHUNK_POINTS)
    assert len(table_of(database, batch_id)["point"]) == 260_000 - CHUNK_POINTS
    with database.read() as connection:
        page = point_faults.list_faults(connection, Actor(), batch_id, page_size=2, page_token=None)
    assert page.errors_total == CHUNK_POINTS
    assert [row.point for row in page.items] == [CHUNK_POINTS, CHUNK_POINTS + 1]
    assert {row.code for row in page.items} == {"chunk_not_computed"}
    assert "killed its process" in page.items[0].detail
    assert_whole(database, sound, 260_000)


def test_a_full_disk_fails_the_batch_and_the_next_one_has_room_again(
    sqlite_database: Database,
) -> None:
    batch_id = submit_grid(sqlite_database, 260_000)
    # Room for the ledger rows, not for the blocks of 6 chunks
    with Computing(sqlite_database, "pages=1200", "pause_s=0.02"):
        state = wait_for_end(sqlite_database, batch_id, 120)
    assert state in {"failed", "partially_failed"}
    batch = read(sqlite_database, batch_id)
    assert batch.points_done == 260_000
    assert batch.points_failed % 10_000 == 0
    assert batch.points_failed >= CHUNK_POINTS
    with sqlite_database.read() as connection:
        page = point_faults.list_faults(connection, Actor(), batch_id, page_size=1, page_token=None)
    assert "database or disk is full" in page.items[0].detail
    again = submit_grid(sqlite_database, 260_000)
    with Computing(sqlite_database):
        wait_for_end(sqlite_database, again)
    assert_whole(sqlite_database, again, 260_000)


def test_compute_processes_end_with_a_killed_server(sqlite_database: Database) -> None:
    batch_id = submit_grid(sqlite_database, 400_000)
    with Computing(sqlite_database, "slow_s=0.2") as server:
        wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
        children = psutil.Process(server.pid).children(recursive=True)
        assert children
        # Only the server: its compute processes have to find out by themselves.
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
        _, alive = psutil.wait_procs(children, timeout=90)
        assert alive == []


def test_a_compute_process_that_dies_is_replaced(sqlite_database: Database) -> None:
    batch_id = submit_grid(sqlite_database, 400_000)
    with Computing(sqlite_database, "slow_s=0.1") as server:
        wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
        for child in psutil.Process(server.pid).children(recursive=True):
            child.kill()
        wait_for_end(sqlite_database, batch_id)
    assert_whole(sqlite_database, batch_id, 400_000)


def test_the_first_process_of_a_file_computes_and_the_next_takes_over(
    sqlite_database: Database,
) -> None:
    def holder() -> list[int]:
        with sqlite_database.read() as connection:
            return [row.process for row in workers.list_workers(connection)]

    with Computing(sqlite_database, "slow_s=0.3") as first:
        wait_for(lambda: holder() == [first.pid])
        with Computing(sqlite_database) as second:
            assert [first.name, second.name] == ["local", "local"]
            batch_id = submit_grid(sqlite_database, 300_000)
            wait_for(lambda: read(sqlite_database, batch_id).points_done > 0)
            assert not psutil.Process(second.pid).children(recursive=True)
            first.kill()
            wait_for_end(sqlite_database, batch_id)
    assert_whole(sqlite_database, batch_id, 300_000)


@pytest.mark.parametrize("lost", ["file", "older copy of ours"])
def test_the_engines_file_may_be_lost_or_too_new(
    sqlite_database: Database, tmp_path: Path, lost: str
) -> None:
    undisturbed = submit_grid(sqlite_database, 120_000)
    complete(sqlite_database)
    batch_id = submit_grid(sqlite_database, 120_000)
    ours = Path(str(sqlite_database.url.database))
    sqlite_database.close()
    with (
        closing(sqlite3.connect(ours)) as source,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        source.backup(copy)
    with Computing(sqlite_database):
        wait_for_end(sqlite_database, batch_id)
    sqlite_database.close()
    for path in ours.parent.glob(f"{ours.name}-*"):
        path.unlink()
    shutil.copyfile(tmp_path / "copy.db", ours)
    if lost == "file":
        for path in ours.parent.glob(f"{job_file(sqlite_database).stem}*"):
            path.unlink()
    assert read(sqlite_database, batch_id).state == "queued"
    with Computing(sqlite_database):
        wait_for_end(sqlite_database, batch_id)
    assert_whole(sqlite_database, batch_id, 120_000)
    assert_same_bits(sqlite_database, batch_id, undisturbed)


def test_both_files_are_in_wal_mode(sqlite_database: Database) -> None:
    batch_id = submit_grid(sqlite_database, 100)
    runtime = Runtime(sqlite_database, processes=1)
    runtime.start()
    wait_for_end(sqlite_database, batch_id)
    runtime.stop()
    for path in (sqlite_database.url.database, job_file(sqlite_database)):
        with closing(sqlite3.connect(str(path))) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_idle_service_makes_no_engine(sqlite_database: Database) -> None:
    runtime = Runtime(sqlite_database)
    runtime.start()
    wait_for(lambda: runtime._is_holder)
    alive = [runtime.is_alive]
    runtime.stop()
    assert [*alive, runtime.is_alive] == [True, False]
    assert not job_file(sqlite_database).exists()


def test_a_defect_while_computing_fails_the_batch_and_not_the_engine(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = submit_grid(sqlite_database, 100)
    evaluate = kernel.evaluate

    def defective(columns: Any) -> Any:
        if read(sqlite_database, broken).ended_at is None:
            raise ArithmeticError("planted")
        return evaluate(columns)

    monkeypatch.setattr("service.jobs.chunks.evaluate", defective)
    runtime = Runtime(sqlite_database)
    runtime.start()
    assert wait_for_end(sqlite_database, broken) == "failed"
    sound = submit_grid(sqlite_database, 100)
    runtime.wake()
    wait_for_end(sqlite_database, sound)
    runtime.stop()
    batch = read(sqlite_database, broken)
    assert batch.counts.failed == 2
    assert batch.failure is not None
    assert "ArithmeticError" in batch.failure
    assert "planted" not in batch.failure
    assert_whole(sqlite_database, sound, 100)


def test_what_the_engine_gives_up_becomes_a_failed_chunk(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workflow that ends with an error of the engine's own is no batch that hangs for ever."""
    batch_id = submit_grid(sqlite_database, 100)

    def lost(*_: Any) -> None:
        raise LookupError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(workflows.Workflows, "_begin", lost)
        runtime = Runtime(sqlite_database)
        runtime.start()
        assert wait_for_end(sqlite_database, batch_id) == "failed"
        runtime.stop()
    assert "see the log" in str(read(sqlite_database, batch_id).failure)


def test_a_pool_that_is_closed_computes_again(sqlite_database: Database) -> None:
    pool = ComputePool(1)
    pool.close()
    pool.close()
    engine = Engine(sqlite_database)
    engine.stop()
    assert engine.workflows.is_stopping


def test_what_the_engine_has_lost_sight_of_is_taken_up_again(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a full disk keeps it from recording how a workflow has ended."""
    monkeypatch.setattr(runtime_module, "REAP_EVERY_S", 0.2)
    batch_id = submit_grid(sqlite_database, 100)
    begin = workflows.Workflows._begin
    lost: list[int] = []

    def lose_once(self: workflows.Workflows, batch: UUID, chunk: int) -> Any:
        if not lost:
            lost.append(chunk)
            raise workflows.HandedOverError
        return begin(self, batch, chunk)

    monkeypatch.setattr(workflows.Workflows, "_begin", lose_once)
    runtime = Runtime(sqlite_database)
    runtime.start()
    wait_for_end(sqlite_database, batch_id)
    runtime.stop()
    assert lost == [0]
    assert_whole(sqlite_database, batch_id, 100)


def test_the_chunks_of_a_canceled_batch_hold_up_nobody(sqlite_database: Database) -> None:
    with Computing(sqlite_database, "slow_s=0.2"):
        large = submit_grid(sqlite_database, 5_000_000)
        wait_for(lambda: read(sqlite_database, large).points_done > 0)
        cancel(sqlite_database, large)
        wait_for_end(sqlite_database, large)
        small = submit_grid(sqlite_database, 100)
        wait_for_end(sqlite_database, small)
        batch = read(sqlite_database, small)
    assert batch.ended_at is not None
    # 100 chunks that do nothing took 6 s when each had its turn.
    assert (batch.ended_at - batch.created_at).total_seconds() < 4


def test_an_idle_service_deletes_what_is_past_its_retention(sqlite_database: Database) -> None:
    batch_id = submit_grid(sqlite_database, 100)
    complete(sqlite_database)
    long_ago = datetime.now(UTC) - timedelta(days=31)
    with sqlite_database.write() as connection:
        connection.execute(update(scenario_batch).values(ended_at=long_ago))
    kept = submit_grid(sqlite_database, 100)
    complete(sqlite_database)
    runtime = Runtime(sqlite_database, settings=Settings(retention_days=30))
    runtime.start()

    def is_gone() -> bool:
        with sqlite_database.read() as connection:
            return batch_rows.find_batch(connection, batch_id) is None

    wait_for(is_gone)
    runtime.stop()
    assert_whole(sqlite_database, kept, 100)


def test_workflows_that_ended_long_ago_are_forgotten(sqlite_database: Database) -> None:
    batch_id = submit_grid(sqlite_database, 100)
    runtime = Runtime(sqlite_database)
    runtime.start()
    wait_for_end(sqlite_database, batch_id)
    engine, now = runtime.engine, datetime.now(UTC)
    wait_for(lambda: len(engine.done_before(now + timedelta(minutes=1), 10)) == 1)
    assert engine.done_before(now - timedelta(minutes=1), 10) == []
    engine.forget(engine.done_before(now + timedelta(minutes=1), 10))
    assert engine.done_before(now + timedelta(minutes=1), 10) == []
    runtime.stop()
    assert_whole(sqlite_database, batch_id, 100)


def test_a_restarted_service_is_listed_with_its_own_number(sqlite_database: Database) -> None:
    def listed() -> list[int]:
        with sqlite_database.read() as connection:
            return [row.process for row in workers.list_workers(connection)]

    with Computing(sqlite_database) as killed:
        wait_for(lambda: listed() == [killed.pid])
    with Computing(sqlite_database) as server:
        wait_for(lambda: listed() == [server.pid])
        os.kill(server.pid, signal.SIGTERM)
        server.wait()
    assert listed() == []
