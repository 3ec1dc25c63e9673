"""Workers that `trainard serve` starts beside itself and starts again when they end."""

import os
import subprocess
import sys
import threading
import time

import structlog

LOOK_EVERY_S = 0.5
LONGEST_PAUSE_S = 30.0
# Longer than a worker's own drain.
STOP_WITHIN_S = 40.0

log = structlog.get_logger()


class WorkerProcesses:
    """Keeps `count` workers of a database running until it is stopped."""

    def __init__(self, database_url: str, count: int) -> None:
        # In the environment, not in the arguments: those can be read by everybody on the machine.
        self._environment = {**os.environ, "TRAINARD_DATABASE_URL": database_url}
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        self._pauses_s = [LOOK_EVERY_S] * count
        self._not_before = [0.0] * count
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)

    def start(self) -> None:
        """Start the workers, and the thread that watches them."""
        self._thread.start()

    def stop(self) -> None:
        """Have the workers drain and end; those that do not are killed."""
        self._stopping.set()
        self._thread.join()
        running = [process for process in self._processes if process is not None]
        for process in running:
            process.terminate()
        end = time.monotonic() + STOP_WITHIN_S
        for process in running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("worker_killed", process=process.pid)
                process.kill()
                process.wait()

    def _watch(self) -> None:
        while not self._stopping.is_set():
            for number, process in enumerate(self._processes):
                if process is None or process.poll() is not None:
                    self._restart(number, process)
            self._stopping.wait(LOOK_EVERY_S)

    def _restart(self, number: int, ended: subprocess.Popen[bytes] | None) -> None:
        now = time.monotonic()
        if ended is not None:
            log.warning("worker_ended", process=ended.pid, code=ended.returncode)
            self._processes[number] = None
            # One that ends again and again is started ever more rarely.
            self._pauses_s[number] = min(self._pauses_s[number] * 2, LONGEST_PAUSE_S)
            self._not_before[number] = now + self._pauses_s[number]
        if now >= self._not_before[number]:
            self._processes[number] = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-m", "service", "worker", "--end-with-parent", str(os.getpid())],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                # Standard output is for the ready line of the service.
                stdout=sys.stderr,
            )
