"""A large batch does not hold up other requests: the real server, and a real client."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import httpx

GRID: dict[str, Any] = {
    "name": "large",
    "items": [
        {
            "custom_id": "grid",
            "scenario": {
                "num_gpus": 1024,
                "load_ms": 30,
                "compute_ms": 300,
                "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
                "variability": {"transient": {"kind": "normal", "cv": 0.05}},
            },
            "axes": [
                {
                    "path": "variability.transient.cv",
                    "logspace": {"start": 0.001, "stop": 0.2, "num": 500},
                },
                {
                    "path": "slow_groups.0.speed_fraction",
                    "logspace": {"start": 0.4, "stop": 0.99, "num": 500},
                },
            ],
        }
    ],
}


def test_requests_are_answered_while_a_quarter_of_a_million_points_run(
    start: Callable[..., subprocess.Popen[str]],
) -> None:
    server = start("serve", "--port", "0")
    assert server.stdout is not None
    address = server.stdout.readline().split()[4]
    with httpx.Client(base_url=address, timeout=90) as client:
        accepted = client.post("/v1/scenario-batches", json=GRID)
        assert accepted.status_code == 202, accepted.text
        location = accepted.headers["location"]
        answered, states = 0, set()
        end = time.monotonic() + 120
        while True:
            batch: dict[str, Any] = client.get(location).json()
            states.add(batch["state"])
            if batch["ended_at"] is not None:
                break
            # Other work goes on: a small scenario is computed while the grid is.
            evaluated = client.post(
                "/v1/evaluations", json={"scenario": {"num_gpus": 8, "compute_ms": 1}}
            )
            assert evaluated.status_code == 200
            assert client.get("/healthz").status_code == 200
            if 0 < batch["points_done"] < batch["points_total"]:
                answered += 1
            assert time.monotonic() < end, batch
    assert batch["state"] == "succeeded"
    assert batch["points_done"] == batch["points_total"] == 250_000
    assert "running" in states
    # Several whole rounds were answered between the first chunk and the last.
    assert answered >= 5
