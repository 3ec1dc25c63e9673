"""Callers who open an export and take nothing of it hold up nobody, and are cut off."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.cli.conftest import TIMEOUT_S, environment
from tests.cli.test_serve import ready_port

STALL_S = 8
READERS = 60


def test_readers_who_take_nothing_hold_up_nobody(tmp_path: Path) -> None:
    limits = {"TRAINARD_MAX_STALL_S": str(STALL_S)}
    service = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "service", "serve", "--port", "0"],
        cwd=tmp_path,
        env={**environment(), **limits},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    readers: list[socket.socket] = []
    try:
        port = ready_port(service)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            batch = posted(client, 100_000)
            path = f"/v1/exports?format=jsonl&batch={batch['id']}"
            readers += [opened(port, path) for _ in range(READERS)]
            wait_for(lambda: client.head(path).status_code == httpx.codes.SERVICE_UNAVAILABLE)
            refused = client.get(path)
            assert refused.json()["type"] == "/problems/too-many-streams"
            assert int(refused.headers["retry-after"]) > 0
            # Others read, post and compute meanwhile.
            assert client.get("/readyz").status_code == httpx.codes.OK
            assert posted(client, 60_000)["state"] == "succeeded"
            # And the places come back although the readers are still there.
            wait_for(lambda: client.head(path).status_code == httpx.codes.OK)
            for reader in readers:
                reader.close()
            whole = client.get(path)
            assert whole.status_code == httpx.codes.OK
            assert len(whole.content.splitlines()) == 100_000
    finally:
        for reader in readers:
            reader.close()
        service.terminate()
        service.communicate(timeout=TIMEOUT_S)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def posted(client: httpx.Client, num_points: int) -> dict[str, Any]:
    axis = {
        "path": "slow_groups.0.speed_fraction",
        "logspace": {"start": 0.4, "stop": 0.99, "num": num_points},
    }
    scenario = {
        "num_gpus": 64,
        "compute_ms": 300,
        "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    }
    body = {"name": "x", "items": [{"custom_id": "a", "scenario": scenario, "axes": [axis]}]}
    answer = client.post("/v1/scenario-batches", json=body, headers={"Prefer": "wait=60"})
    found: dict[str, Any] = answer.json()
    assert answer.status_code == httpx.codes.OK, found
    return found


def opened(port: int, path: str) -> socket.socket:
    """Ask for a file and read nothing of it."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", port))
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return reader
