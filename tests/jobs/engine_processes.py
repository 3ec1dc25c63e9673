"""Starts computing processes for tests, and looks at what they have left behind."""

import os
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, Self
from uuid import UUID

import numpy as np
from sqlalchemy import func, select

from service.db.blocks import read_columns
from service.db.engine import Database
from service.db.tables import batch_item, chunk_ledger, result_block
from service.jobs import batches
from service.jobs.actors import Actor
from service.jobs.chunks import CHUNK_POINTS
from service.settings import Limits
from tests.jobs import engine_process
from tests.jobs.batch_bodies import read

# Each from nothing, as in life: forks of one prepared process start two seconds sooner, but a trial
# with a restored database was once not computed in them.
SPAWNS = get_context("spawn")
BASE: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
COMPARED = ("point", "item", "slow_groups.0.speed_fraction", "step_mean_ms", "gpu_hours_lost")


class Computing:
    """A computing process; its whole group is ended with the block."""

    def __init__(self, database: Database, *options: str, role: str | None = None) -> None:
        url = database.url.render_as_string(hide_password=False)
        role = role or ("embedded" if database.is_sqlite else "worker")
        self._name, named = SPAWNS.Pipe(duplex=False)
        self.process = SPAWNS.Process(
            target=engine_process.main, args=(named, url, role, *options), daemon=False
        )
        self.process.start()
        named.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def name(self) -> str:
        """The engine's name, which the ledger shows; waits until the process is ready."""
        name: str = self._name.recv()
        return name

    def kill(self) -> None:
        """SIGKILL to the process and to its compute processes."""
        if self.process.is_alive():
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                # It has only just begun, and is no leader of a group yet.
                self.process.kill()
        self.process.join()
        self._name.close()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, timeout_s: float = 60) -> int:
        """Wait for its end; its exit code."""
        self.process.join(timeout_s)
        assert self.process.exitcode is not None, "it did not end in time"
        return self.process.exitcode


def submit_grid(database: Database, num_points: int, **changes: Any) -> UUID:
    """Two items, points that are cheap to compute, chunks that both items share."""
    scenario = {**BASE, **changes.pop("scenario", {})}
    half = num_points // 2
    items = [
        {
            "custom_id": name,
            "scenario": scenario,
            "axes": [
                {
                    "path": "slow_groups.0.speed_fraction",
                    "logspace": {"start": start, "stop": 0.99, "num": num},
                }
            ],
        }
        for name, start, num in (("one", 0.4, half + 7), ("two", 0.3, num_points - half - 7))
    ]
    actor = changes.pop("actor", Actor())
    with database.write() as connection:
        return batches.submit(
            connection, actor, {"name": "grid", "reuse": False, "items": items, **changes}, Limits()
        ).id


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def wait_for_end(database: Database, batch_id: UUID, seconds: float = 60) -> str:
    wait_for(lambda: read(database, batch_id).ended_at is not None, seconds)
    return read(database, batch_id).state


def table_of(database: Database, batch_id: UUID) -> dict[str, Any]:
    with database.read() as connection:
        return read_columns(connection, batch_id, COMPARED)


def workers_of(database: Database, batch_id: UUID) -> list[str]:
    """Who recorded the chunks, in the order of the chunks."""
    with database.read() as connection:
        return list(
            connection.scalars(
                select(chunk_ledger.c.worker)
                .where(chunk_ledger.c.batch_id == batch_id)
                .order_by(chunk_ledger.c.chunk)
            )
        )


def assert_whole(database: Database, batch_id: UUID, num_points: int) -> None:
    """Every point is there exactly once, and every count says so."""
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
        rows = connection.scalar(
            select(func.sum(result_block.c.num_rows)).where(
                result_block.c.batch_id == batch_id, result_block.c.column == "failure"
            )
        )
    assert [row.chunk for row in ledger] == list(range(-(-num_points // CHUNK_POINTS)))
    assert sum(row.num_points for row in ledger) == items == rows == num_points
    np.testing.assert_array_equal(table_of(database, batch_id)["point"], np.arange(num_points))


def assert_same_bits(database: Database, batch_id: UUID, undisturbed: UUID) -> None:
    """The stored bytes are those of the other batch."""
    c = result_block.c
    with database.read() as connection:
        found, expected = (
            connection.execute(
                select(c.block, c.column, c.num_rows, c.data)
                .where(c.batch_id == wanted)
                .order_by(c.block, c.column)
            ).all()
            for wanted in (batch_id, undisturbed)
        )
    assert found == expected
