"""The real program in processes that the soak may kill, stop and start."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx

ROOT = Path(__file__).parents[2]
READY = re.compile(r"ready at (http://\S+)")
ENDED = {"succeeded", "partially_failed", "failed", "canceled", "expired"}


class Program:
    """`trainard` with arguments, in a process group of its own; ended with the block."""

    def __init__(self, url: str, *arguments: str, log: Path) -> None:
        environment = {"TRAINARD_DATABASE_URL": url, "TRAINARD_MAX_EVENT_STREAMS": "10"}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "service", *arguments],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def address(self) -> str:
        """Where a service answers; waits for its ready line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := READY.search(line):
                return found[1]
        raise RuntimeError("the service did not start")

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def send(self, number: int) -> None:
        """A signal to the process alone."""
        os.kill(self.process.pid, number)


def grid(num_points: int, *, kind: str = "gamma", seed: int = 0) -> dict[str, Any]:
    """A batch of one grid; the gamma distribution makes its points costly."""
    return {
        "name": f"soak {kind}",
        "reuse": False,
        "items": [
            {
                "custom_id": "grid",
                "scenario": {
                    "num_gpus": 1024,
                    "load_ms": 30,
                    "compute_ms": 300,
                    "communication": {"kind": "fixed", "allreduce_ms": 80},
                    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
                    "variability": {"transient": {"kind": kind, "cv": 0.05}},
                    "seed": seed,
                },
                "axes": [
                    {
                        "path": "slow_groups.0.speed_fraction",
                        "logspace": {"start": 0.5, "stop": 0.999, "num": num_points // 1000},
                    },
                    {
                        "path": "variability.transient.cv",
                        "logspace": {"start": 0.01, "stop": 0.3, "num": 1000},
                    },
                ],
            }
        ],
    }


def post(address: str, body: dict[str, Any]) -> str:
    """Post a batch; its id."""
    answer = httpx.post(f"{address}/v1/scenario-batches", json=body, timeout=60)
    answer.raise_for_status()
    made: str = answer.json()["id"]
    return made


def wait_for_end(address: str, batch_id: str, seconds: float = 1800) -> dict[str, Any]:
    """Ask until the batch has ended; the batch."""
    end = time.monotonic() + seconds
    while True:
        batch: dict[str, Any] = httpx.get(
            f"{address}/v1/scenario-batches/{batch_id}", timeout=60
        ).json()
        if batch["state"] in ENDED:
            return batch
        if time.monotonic() > end:
            raise TimeoutError(f"not ended: {batch}")
        time.sleep(0.2)
