"""SIGTERM while answers are open: event streams and waits end, the server does not hang on them."""

import signal
import threading
import time
from typing import Any

import httpx
from httpx_sse import connect_sse

from tests.cli.conftest import Start
from tests.cli.test_serve import ready_port
from tests.jobs.batch_bodies import SEED, speeds

PATH = "/v1/scenario-batches"
# Minutes of work for two cores.
LONG: dict[str, Any] = {
    "name": "long",
    "items": [
        {
            "custom_id": "a",
            "scenario": {**SEED, "variability": {"transient": {"kind": "normal", "cv": 0.05}}},
            "axes": [speeds(4_999_999)],
        }
    ],
}
TIMEOUT_S = 60


def test_sigterm_ends_open_streams_and_waits(start: Start) -> None:
    process = start("serve", "--port", "0", "--database-url", "sqlite:///served.db")
    address = f"http://127.0.0.1:{ready_port(process)}"
    waited: list[httpx.Response] = []

    def wait() -> None:
        headers = {"Idempotency-Key": "k", "Prefer": "wait=60"}
        waited.append(httpx.post(address + PATH, json=LONG, headers=headers, timeout=TIMEOUT_S))

    with httpx.Client(base_url=address, timeout=TIMEOUT_S, trust_env=False) as client:
        accepted = client.post(PATH, json=LONG, headers={"Idempotency-Key": "k"})
        waiting = threading.Thread(target=wait)
        waiting.start()
        with connect_sse(client, "GET", accepted.json()["events_url"]) as source:
            events = source.iter_sse()
            while next(events).json()["state"] == "queued":
                pass
            process.send_signal(signal.SIGTERM)
            started = time.monotonic()
            assert all(event.event == "progress" for event in events)
            streams_ended_s = time.monotonic() - started
        waiting.join(TIMEOUT_S)
    # The service gives answers 10 s; only then it would break them.
    assert streams_ended_s < 5
    assert [answer.status_code for answer in waited] == [202]
    assert process.wait(timeout=TIMEOUT_S) in {0, -signal.SIGTERM}
