"""Bad input on the command line: every fault with its pointer on standard error, exit code 2."""

from collections.abc import Iterable
from typing import Final

import rich_click as click

from service.errors import Fault

BAD_INPUT: Final = 2


class BadInputError(click.ClickException):
    """Input that cannot be used; nothing was done."""

    exit_code = BAD_INPUT


def bad_input(source: str, faults: Iterable[Fault]) -> BadInputError:
    """The error that names the source and, one a line, each fault: pointer, sentence, code."""
    lines = [f"  {fault.pointer or '/'}: {fault.detail} [{fault.code}]" for fault in faults]
    what = "1 fault" if len(lines) == 1 else f"{len(lines)} faults"
    return BadInputError("\n".join([f"{source} has {what}, nothing was done", *lines]))
