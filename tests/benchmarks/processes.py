"""Servers as real processes, and the memory that they and their children use together."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import psutil

SAMPLE_EVERY_S = 0.05
# A worker drains for some seconds.
END_WITHIN_S = 15.0
MEGABYTE = 1e6


class Server(NamedTuple):
    """A process that answers at `address`."""

    process: "subprocess.Popen[str]"
    address: str

    @property
    def host(self) -> str:
        return urlsplit(self.address).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0


@contextmanager
def trainard(database_url: str) -> Iterator[Server]:
    """The service on a free port, with the log level of a production run."""
    arguments = ["-m", "service", "serve", "--port", "0", "--database-url", database_url]
    with _process([sys.executable, *arguments]) as process:
        yield Server(process, _printed_address(process))


@contextmanager
def bare_echo() -> Iterator[Server]:
    """The Litestar application of echo_app.py on the same server and event loop."""
    with _process([sys.executable, "-m", "tests.benchmarks.echo_app"]) as process:
        yield Server(process, _printed_address(process))


@contextmanager
def _process(arguments: Sequence[str]) -> "Iterator[subprocess.Popen[str]]":
    """A process that is ended with all that it has started, so that the next has the machine."""
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            started = started_by(process.pid)
            process.terminate()
            process.wait()
            _, left = psutil.wait_procs(started, timeout=END_WITHIN_S)
            for child in left:
                child.kill()


def _printed_address(process: "subprocess.Popen[str]") -> str:
    if process.stdout is None:
        raise RuntimeError("no output")
    for line in process.stdout:
        for word in line.split():
            if word.startswith("http://"):
                return word
    raise RuntimeError(f"{process.args!r} ended before it was ready")


def tree(process_id: int) -> list[psutil.Process]:
    """A process and all that it has started."""
    root = psutil.Process(process_id)
    return [root, *root.children(recursive=True)]


def alone(process_id: int) -> list[psutil.Process]:
    """The process without those that it has started."""
    return [psutil.Process(process_id)]


def started_by(process_id: int) -> list[psutil.Process]:
    """All that the process has started, without itself."""
    return psutil.Process(process_id).children(recursive=True)


class MemoryWatch:
    """Peak of the proportional memory of processes together, sampled in a thread.

    `processes` is asked at every sample for those of a process id.
    """

    def __init__(
        self, process_id: int, processes: Callable[[int], list[psutil.Process]] = tree
    ) -> None:
        self.peak_bytes = 0
        self._process_id = process_id
        self._processes = processes
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, self.used_bytes())

    def used_bytes(self) -> int:
        total = 0
        for process in self._processes(self._process_id):
            try:
                # Shared pages are counted once over all processes that share them.
                total += process.memory_full_info().pss
            except psutil.NoSuchProcess:
                continue
        return total
