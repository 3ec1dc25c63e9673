"""The program as a person starts it: called in this process, or as a process of its own."""

import io
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import structlog
from click.testing import CliRunner

from service.cli.program import program

EXAMPLE = Path(__file__).parents[2] / "service" / "cli" / "example"
TIMEOUT_S = 120
# So that what is shown has the same width and no colours everywhere
SHOWN = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}


class Program(Protocol):
    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]: ...


class Start(Protocol):
    def __call__(self, *arguments: str) -> subprocess.Popen[str]: ...


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINARD_")}
    return {**kept, **SHOWN}


class Input(io.BytesIO):
    """Standard input, with its name as a real one has it."""

    name = "<stdin>"


@pytest.fixture
def trainard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """Call `trainard` in an empty folder, in this process: starting one takes a second or two.

    Not `serve` and `worker`, which leave it to their process's end to close what they have opened.
    """
    monkeypatch.chdir(tmp_path)
    unset = {name: None for name in os.environ if name.startswith("TRAINARD_")}

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        runner = CliRunner(env={**unset, **SHOWN})
        done = runner.invoke(program, arguments, input=Input(stdin.encode()), prog_name="trainard")
        said = done.stderr
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            said += "".join(traceback.format_exception(done.exception))
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, said)

    yield run
    # A command writes its log to the standard error of the moment, which is gone.
    structlog.reset_defaults()


@pytest.fixture
def trainard_process(tmp_path: Path) -> Program:
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
