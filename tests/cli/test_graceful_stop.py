"""SIGTERM in the middle of a batch: the real program drains, ends, and goes on when it is back."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import pytest
from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import chunk_ledger, result_block, worker
from service.jobs.engine import DRAIN_S
from tests.cli.conftest import TIMEOUT_S, environment
from tests.cli.test_liveness import GRID

NUM_POINTS = 300_000
NUM_CHUNKS = 6
# Beside the drain: the last requests and the end of the compute processes.
END_S = 15


Serve = Callable[[], tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def serve(database_url: str, tmp_path: Path) -> Iterator[Serve]:
    """Start the service: with two compute processes, so that not all chunks are in hand at once."""
    settings = {"TRAINARD_COMPUTE_PROCESSES": "2", "TRAINARD_DATABASE_URL": database_url}
    processes: list[subprocess.Popen[str]] = []

    def start() -> tuple["subprocess.Popen[str]", str]:
        with (tmp_path / "stderr.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "service", "serve", "--port", "0"],
                cwd=tmp_path,
                env={**environment(), **settings},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        processes.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().split()[4]

    yield start
    for process in processes:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


def post(address: str) -> tuple[str, UUID]:
    """Post part of the grid as a batch that takes over nothing; its address and its id."""
    (item,) = GRID["items"]
    variability, speed = item["axes"]
    fewer = {**variability, "logspace": {**variability["logspace"], "num": NUM_POINTS // 500}}
    body = {**GRID, "reuse": False, "items": [{**item, "axes": [fewer, speed]}]}
    answer = httpx.post(f"{address}/v1/scenario-batches", json=body, timeout=TIMEOUT_S)
    assert answer.status_code == 202, answer.text
    location = answer.headers["location"]
    return location, UUID(location.rsplit("/", 1)[1])


def wait_for(address: str, location: str, *, points: int = 0, state: str = "") -> dict[str, Any]:
    """Ask for the batch until it has so many points and, where given, the state."""
    end = time.monotonic() + TIMEOUT_S
    with httpx.Client(base_url=address, timeout=TIMEOUT_S) as client:
        while True:
            batch: dict[str, Any] = client.get(location).json()
            if batch["points_done"] >= points and state in {"", batch["state"]}:
                return batch
            assert time.monotonic() < end, batch
            time.sleep(0.05)


def ledger(database: Database, batch_id: UUID) -> list[tuple[Any, ...]]:
    c = chunk_ledger.c
    query = select(c.chunk, c.num_points, c.points_failed, c.created_at, c.failure)
    with database.read() as connection:
        rows = connection.execute(query.where(c.batch_id == batch_id).order_by(c.chunk))
        return [tuple(row) for row in rows]


def blocks(database: Database, batch_id: UUID) -> dict[tuple[int, str], bytes]:
    c = result_block.c
    query = select(c.block, c.column, c.data).where(c.batch_id == batch_id)
    with database.read() as connection:
        return {(row.block, row.column): bytes(row.data) for row in connection.execute(query)}


def test_a_batch_is_drained_and_goes_on_at_the_next_start(serve: Serve, database: Database) -> None:
    process, address = serve()
    location, batch_id = post(address)
    wait_for(address, location, points=50_000)
    family = psutil.Process(process.pid).children(recursive=True)
    stopped_at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=TIMEOUT_S)
    assert time.monotonic() - stopped_at < DRAIN_S + END_S
    assert process.returncode == 0
    assert family
    _, alive = psutil.wait_procs(family, timeout=END_S)
    assert alive == []

    before = ledger(database, batch_id)
    # In the middle; what is recorded is whole.
    assert 0 < len(before) < NUM_CHUNKS
    assert all(num_points == 50_000 for _, num_points, *_ in before)
    stored = blocks(database, batch_id)
    assert {block // 5 for block, _ in stored} == {chunk for chunk, *_ in before}
    with database.read() as connection:
        assert connection.execute(select(worker)).all() == []

    _, address = serve()
    batch = wait_for(address, location, state="succeeded")
    assert (batch["points_done"], batch["points_failed"]) == (NUM_POINTS, 0)
    after = ledger(database, batch_id)
    assert [chunk for chunk, *_ in after] == list(range(NUM_CHUNKS))
    # What was recorded before was neither computed nor written again.
    assert [row for row in after if row[0] in {chunk for chunk, *_ in before}] == before
    assert {row[4] for row in after} == {None}
    # And the numbers are those of a batch that nobody disturbed.
    undisturbed, undisturbed_id = post(address)
    wait_for(address, undisturbed, state="succeeded")
    assert blocks(database, batch_id) == blocks(database, undisturbed_id)
    assert len(blocks(database, batch_id)) == NUM_POINTS // 10_000 * len(
        {column for _, column in stored}
    )
