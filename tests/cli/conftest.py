"""The real program in a process of its own, as a person starts it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

EXAMPLE = Path(__file__).parents[2] / "service" / "cli" / "example"
TIMEOUT_S = 120


class Program(Protocol):
    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...


class Start(Protocol):
    def __call__(self, *arguments: str) -> subprocess.Popen[str]: ...


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINARD_")}
    return {**kept, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}


@pytest.fixture
def trainard(tmp_path: Path) -> Program:
    """Run `trainard` to its end, in an empty folder; warnings are errors there too."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "service", *arguments],
            cwd=tmp_path,
            env=environment(),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `trainard` in an empty folder; it is ended with the test."""
    processes: list[subprocess.Popen[str]] = []

    def start_one(*arguments: str) -> subprocess.Popen[str]:
        with (tmp_path / "stderr.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "service", *arguments],
                cwd=tmp_path,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        processes.append(process)
        return process

    yield start_one
    for process in processes:
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)


@pytest.fixture
def example() -> Path:
    """The folder of the packaged example."""
    return EXAMPLE
