"""What is said when a command cannot go on: bad input (exit code 2), or the system refuses (1)."""

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

import rich_click as click

from service.errors import Fault

BAD_INPUT: Final = 2


def refuse(source: str, faults: Iterable[Fault], *, outcome: str = "nothing was done") -> NoReturn:
    """Print the source and, one a line, each fault: pointer, sentence, code. Ends the program.

    Plain lines, not a framed text, so that editors and scripts can read them.
    """
    lines = [f"  {fault.pointer or '/'}: {fault.detail} [{fault.code}]" for fault in faults]
    what = "1 fault" if len(lines) == 1 else f"{len(lines)} faults"
    click.echo("\n".join([f"{source} has {what}, {outcome}:", *lines]), err=True)
    sys.exit(BAD_INPUT)


@contextmanager
def system_refusals() -> Iterator[None]:
    """Say what the system refused (no such folder, a full disk) in one sentence.

    Only what carries the system's own number: any other `OSError` is a fault of this program and
    keeps its traceback. A reader that went away is click's, which ends without a word.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno == errno.EPIPE:
            raise
        abandon_output()
        reason = error.strerror or str(error)
        place = (
            f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        )
        raise click.ClickException(f"{place}{reason}") from error


def abandon_output() -> None:
    """Give up what standard output could not take: its end would try again, and say so at length.

    It does nothing to an output that is still fine.
    """
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
