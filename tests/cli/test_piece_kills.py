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
import psutil
import pytest
from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import chunk_piece
from tests.cli.conftest import TIMEOUT_S, environment
from tests.jobs.engine_processes import assert_same_bits

NUM_POINTS = 80
# Some 50 ms each, and one chunk of all of them
SIMULATED: dict[str, Any] = {
    "name": "stale",
    "reuse": False,
    "items": [
        {
            "custom_id": "delays",
            "scenario": {
                "num_gpus": 256,
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
    answer = httpx.post(f"{address}/v1/scenario-batches", json=SIMULATED, timeout=30)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


def wait_for(address: str, location: str, is_met: Callable[[Any], bool]) -> list[int]:
    """Ask for the batch until it is as wanted; each `points_done` that was seen."""
    end = time.monotonic() + TIMEOUT_S
    seen: list[int] = []
    with httpx.Client(base_url=address, timeout=30) as client:
        while True:
            batch = client.get(location).json()
            seen.append(batch["points_done"])
            if is_met(batch):
                return seen
            assert time.monotonic() < end, batch
            time.sleep(0.02)


def test_a_killed_service_goes_on_in_the_middle_of_a_chunk(
    serve: Serve, sqlite_database: Database, tmp_path: Path
) -> None:
    process, address = serve()
    location = post(address)
    wait_for(address, location, lambda batch: batch["points_done"] > 0)
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=TIMEOUT_S)
    _, alive = psutil.wait_procs(family, timeout=TIMEOUT_S)
    assert alive == []
    with sqlite_database.read() as connection:
        pieces = connection.execute(select(chunk_piece)).all()
    kept = sum(piece.num_points for piece in pieces)
    assert 0 < kept < NUM_POINTS

    _, address = serve()
    seen = wait_for(address, location, lambda batch: batch["state"] == "succeeded")
    # What was done is never taken back, and it went on from there.
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (kept, NUM_POINTS)
    assert f'"next_point": {kept}' in (tmp_path / "stderr.log").read_text().replace(
        ":", ": "
    ).replace(":  ", ": ")
    undisturbed = post(address)
    wait_for(address, undisturbed, lambda batch: batch["state"] == "succeeded")
    ids = [UUID(place.rsplit("/", 1)[1]) for place in (location, undisturbed)]
    assert_same_bits(sqlite_database, ids[0], ids[1])
    with sqlite_database.read() as connection:
        assert connection.execute(select(chunk_piece)).all() == []
