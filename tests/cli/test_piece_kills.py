"""`kill -9` of the real program in the middle of a chunk whose points are simulated: it goes on."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec
import numpy as np
import psutil
import pytest

from service.db import batches
from service.db.blocks import read_columns
from service.db.engine import Database, Row
from service.jobs.chunks import ItemSpan, compute_piece, one_piece
from service.jobs.kept_pieces import decoded
from tests.cli.conftest import TIMEOUT_S, environment
from tests.jobs.piece_steps import pieces_of

NUM_POINTS = 20
# Some 0.2 s each, and one chunk of all of them
SIMULATED: dict[str, Any] = {
    "name": "stale",
    "reuse": False,
    "items": [
        {
            "custom_id": "delays",
            "scenario": {
                "num_gpus": 1024,
                "load_ms": 30,
                "compute_ms": 300,
                "variability": {"transient": {"kind": "normal", "cv": 0.05}},
                "synchronization": {"kind": "bounded_staleness", "staleness": 1},
                "draws": 16,
            },
            "axes": [
                {
                    "path": "synchronization.delay_ms",
                    "logspace": {"start": 1, "stop": 100, "num": NUM_POINTS},
                }
            ],
        }
    ],
}

Serve = Callable[[], tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def serve(sqlite_url: str, tmp_path: Path) -> Iterator[Serve]:
    """Start the service with one compute process."""
    settings = {"TRAINARD_COMPUTE_PROCESSES": "1", "TRAINARD_DATABASE_URL": sqlite_url}
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


def post(address: str) -> str:
    answer = httpx.post(f"{address}/v1/scenario-batches", json=SIMULATED, timeout=TIMEOUT_S)
    assert answer.status_code == 202, answer.text
    location: str = answer.headers["location"]
    return location


def wait_for(address: str, location: str, is_met: Callable[[Any], bool]) -> list[int]:
    """Ask for the batch until it is as wanted; each `points_done` that was seen."""
    end = time.monotonic() + TIMEOUT_S
    seen: list[int] = []
    with httpx.Client(base_url=address, timeout=TIMEOUT_S) as client:
        while True:
            batch = client.get(location).json()
            seen.append(batch["points_done"])
            if is_met(batch):
                return seen
            assert time.monotonic() < end, batch
            time.sleep(0.05)


def assert_whole(database: Database, batch_id: UUID, pieces: list[Row[Any]]) -> None:
    """The stored columns begin with the bits that were kept; the rest is what is computed alone."""
    kept = one_piece([decoded(piece.payload, piece.num_points) for piece in pieces])
    with database.read() as connection:
        found = read_columns(connection, batch_id, list(kept.table))
        work = batches.items_of_points(connection, batch_id, 0, NUM_POINTS)[0]
    for name, values in kept.table.items():
        assert len(found[name]) == NUM_POINTS
        assert found[name][: kept.num_points].tobytes() == values.tobytes(), name
    span = ItemSpan(
        position=0,
        scenario=msgspec.json.encode(work.scenario),
        axes=msgspec.json.encode(work.axes),
        first_point=0,
        num_points=NUM_POINTS,
    )
    last = compute_piece([span], [], NUM_POINTS - 1, NUM_POINTS)
    for name, values in last.table.items():
        # The last digits of a standard error hang on what is simulated together.
        np.testing.assert_allclose(found[name][-1:], values, rtol=1e-9, err_msg=name)


def test_a_killed_service_goes_on_in_the_middle_of_a_chunk(
    serve: Serve, sqlite_database: Database
) -> None:
    process, address = serve()
    location = post(address)
    batch_id = UUID(location.rsplit("/", 1)[1])
    wait_for(address, location, lambda batch: batch["points_done"] > 0)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=TIMEOUT_S)
    _, alive = psutil.wait_procs(family, timeout=TIMEOUT_S)
    assert alive == []
    pieces = pieces_of(sqlite_database, batch_id)
    kept = sum(piece.num_points for piece in pieces)
    assert 0 < kept < NUM_POINTS

    _, address = serve()
    seen = wait_for(address, location, lambda batch: batch["state"] == "succeeded")
    # What was done is never taken back, and it went on from there.
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (kept, NUM_POINTS)
    assert pieces_of(sqlite_database, batch_id) == []
    assert_whole(sqlite_database, batch_id, pieces)
