"""Bad input on the command line: every fault with its pointer on standard error, exit code 2."""

import sys
from collections.abc import Iterable
from typing import Final, NoReturn

import rich_click as click

from service.errors import Fault

BAD_INPUT: Final = 2


def refuse(source: str, faults: Iterable[Fault]) -> NoReturn:
    """Print the source and, one a line, each fault: pointer, sentence, code. Ends the program.

    Plain lines, not a framed text, so that editors and scripts can read them.
    """
    lines = [f"  {fault.pointer or '/'}: {fault.detail} [{fault.code}]" for fault in faults]
    what = "1 fault" if len(lines) == 1 else f"{len(lines)} faults"
    click.echo("\n".join([f"{source} has {what}, nothing was done:", *lines]), err=True)
    sys.exit(BAD_INPUT)
