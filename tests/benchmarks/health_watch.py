"""How fast `/healthz` answers while a service does something else."""

import http.client
import statistics
import threading
import time
from typing import NamedTuple, Self

from tests.benchmarks.processes import Server

ASK_EVERY_S = 0.005
TIMEOUT_S = 30.0


class Latency(NamedTuple):
    """Seconds of many answers."""

    num_answers: int
    p50_s: float
    p99_s: float
    longest_s: float


class HealthWatch:
    """Asks over one kept connection, in a thread that sleeps a fixed period between."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=TIMEOUT_S)
        self._seconds: list[float] = []
        self._fault: Exception | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._connection.close()

    def latency(self) -> Latency:
        """Of all answers so far; raises what went wrong."""
        if self._fault is not None:
            raise self._fault
        taken = self._seconds
        p99 = statistics.quantiles(taken, n=100, method="inclusive")[-1]
        return Latency(len(taken), statistics.median(taken), p99, max(taken))

    def _run(self) -> None:
        try:
            while not self._done.wait(ASK_EVERY_S):
                self._seconds.append(self._ask())
        except Exception as error:  # noqa: BLE001 - raised by `latency`, in the caller's thread
            self._fault = error

    def _ask(self) -> float:
        start = time.perf_counter()
        self._connection.request("GET", "/healthz")
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"/healthz answered {answer.status}")
        return time.perf_counter() - start
