"""Workers as real programs: started by the service or alone, drained, restarted, orphaned."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest

from service.db import migrate
from tests.cli.conftest import Program, Start
from tests.conftest import PostgresServer

SMALL = {
    "name": "small",
    "items": [{"custom_id": "a", "scenario": {"num_gpus": 8, "compute_ms": 1}}],
    "reuse": False,
}
TIMEOUT_S = 60


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def address_of(service: subprocess.Popen[str]) -> str:
    assert service.stdout is not None
    return service.stdout.readline().split()[4]


def workers_beside(service: subprocess.Popen[str]) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(service.pid).children():
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
            if "worker" in child.cmdline():
                found.append(child)
    return found


def ended(address: str) -> dict[str, Any]:
    """Post a batch and wait for its end."""
    answer = httpx.post(
        f"{address}/v1/scenario-batches", json=SMALL, headers={"Prefer": "wait=60"}, timeout=90
    )
    found: dict[str, Any] = answer.json()
    assert answer.status_code == 200, found
    return found


@pytest.mark.postgres
def test_a_service_keeps_its_worker_running_and_drains_it(start: Start, postgres_url: str) -> None:
    service = start("serve", "--port", "0", "--database-url", postgres_url)
    address = address_of(service)
    assert ended(address)["state"] == "succeeded"
    (first,) = workers_beside(service)
    first.kill()
    wait_for(lambda: workers_beside(service) not in ([], [first]))
    assert ended(address)["state"] == "succeeded"
    (second,) = workers_beside(service)
    service.send_signal(signal.SIGTERM)
    assert service.wait(TIMEOUT_S) == 0
    # It has waited for the worker: nobody else would drain it.
    assert not second.is_running()


@pytest.mark.postgres
def test_a_worker_ends_when_its_service_is_killed(start: Start, postgres_url: str) -> None:
    service = start("serve", "--port", "0", "--database-url", postgres_url)
    address = address_of(service)
    assert ended(address)["state"] == "succeeded"
    workers = workers_beside(service)
    os.kill(service.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=90)
    assert alive == []


@pytest.mark.postgres
def test_a_worker_alone_waits_for_the_tables_and_starts_anew_after_a_crash(
    start: Start, own_server: PostgresServer
) -> None:
    url = own_server.url("postgres")
    worker = start("worker", "--database-url", url, "--processes", "1")
    time.sleep(2)
    assert worker.poll() is None
    migrate.upgrade(url)
    assert worker.stdout is not None
    assert "takes work from" in worker.stdout.readline()
    own_server.stop()
    own_server.start()
    # The same process, with a new name and a new lock
    assert "takes work from" in worker.stdout.readline()
    service = start("serve", "--port", "0", "--workers", "0", "--database-url", url)
    assert ended(address_of(service))["state"] == "succeeded"
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT_S) == 0


def test_a_sqlite_file_takes_no_workers(trainard_process: Program) -> None:
    for arguments in (("worker",), ("serve", "--workers", "2", "--port", "0")):
        refused = trainard_process(*arguments)
        assert refused.returncode == 2
        assert "SQLite file" in refused.stderr
