"""The real service as a child process, for the demo: started, waited for, ended."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click

READY = re.compile(r"ready at (http://\S+)")
STOP_WITHIN_S = 20.0
SHOWN_LOG_LINES = 20


@contextmanager
def running_service(database_url: str, *, port: int, log: Path) -> Iterator[str]:
    """Yield the address of a service that answers; it is ended with the block.

    What it logs goes to `log`, and the end of that is shown when it does not start.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = ["serve", "--port", str(port), "--database-url", database_url]
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "service", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield _address(process, log)
        finally:
            _end(process)


def _address(process: subprocess.Popen[str], log: Path) -> str:
    if process.stdout is None:
        raise click.ClickException("the service has no output to read")
    for line in process.stdout:
        if found := READY.search(line):
            return found[1]
    end = "\n".join(log.read_text(encoding="utf-8").splitlines()[-SHOWN_LOG_LINES:])
    raise click.ClickException(f"the service did not start; the end of {log}:\n{end}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
