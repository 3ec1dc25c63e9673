"""Asking a running service again and again, for as long as a service takes to come back."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Final

import httpx
import rich_click as click
from rich.console import Console

from service.cli.service_answers import Document, answered

# Of a service that restarts
GIVE_UP_S: Final = 120.0
# What takes no longer than a few seconds is told at once; many builds may wait for the rest.
_SOON_S: Final = 10.0
_SOON_EVERY_S: Final = 0.25
_LATER_EVERY_S: Final = 1.0
# Builds that say nothing for 10 minutes are ended by some.
TELL_EVERY_S: Final = 60.0


def ask(client: httpx.Client, path: str) -> Document:
    """Read the document; raises `httpx.TransportError` where asking again may help.

    That is where nothing answers, a proxy says so, the database is away, or too much is asked.
    """
    response = client.get(path)
    if (
        response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
        or response.status_code == httpx.codes.TOO_MANY_REQUESTS
    ):
        raise httpx.ReadError(f"it answered {response.status_code}")
    return answered(response, path)


class Patience:
    """How long nothing has answered, and when to ask again."""

    def __init__(self) -> None:
        """Begin to wait."""
        self._began_at = self._answered_at = time.monotonic()

    def answered(self) -> None:
        """Note that the service is there."""
        self._answered_at = time.monotonic()

    @property
    def is_at_its_end(self) -> bool:
        """Whether a service that restarts would be back."""
        return time.monotonic() - self._answered_at > GIVE_UP_S

    def wait(self) -> None:
        """Sleep until it is time to ask again."""
        is_soon = time.monotonic() - self._began_at < _SOON_S
        time.sleep(_SOON_EVERY_S if is_soon else _LATER_EVERY_S)


class ProgressLines:
    """How far something is, once a minute on standard error, for logs that nobody looks at live."""

    def __init__(self) -> None:
        """Say nothing in the first minute."""
        self._told_at = time.monotonic()

    def tell(self, text: str) -> None:
        """Print the line, unless one was printed in the last minute."""
        now = time.monotonic()
        if now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            click.echo(text, err=True)


def until(
    client: httpx.Client,
    path: str,
    has_ended: Callable[[Document], bool],
    describe: Callable[[Document], str],
) -> Document:
    """Ask for the document until it has ended; a service that restarts is waited for.

    `describe` says how far it is: beside a spinner on a terminal, else once a minute. Raises
    `httpx.TransportError` when nothing answers for 120 s.
    """
    console = Console(stderr=True)
    patience, lines = Patience(), ProgressLines()
    with console.status("waiting") if console.is_terminal else nullcontext() as status:
        while True:
            try:
                found = ask(client, path)
                patience.answered()
                if has_ended(found):
                    return found
                if status is None:
                    lines.tell(describe(found))
                else:
                    status.update(describe(found))
            except httpx.TransportError:
                if patience.is_at_its_end:
                    raise
            patience.wait()
