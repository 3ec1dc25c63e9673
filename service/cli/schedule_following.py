"""Runs and backfills that are waited for, with how far they are on a terminal."""

import sys
from collections.abc import Callable
from typing import Final

import httpx
import rich_click as click

from service.cli.asking import until
from service.cli.service_answers import Document

INTERRUPTED: Final = 130
UNFINISHED: Final = ("due", "running", "reporting")
ENDED_BACKFILL: Final = ("ended", "canceled")
PARTLY, FAILED = 3, 4
EXIT_CODES: Final = {"succeeded": 0, "partially_failed": PARTLY}


def follow(
    client: httpx.Client,
    path: str,
    *,
    has_ended: Callable[[Document], bool],
    describe: Callable[[Document], str],
    left: str,
) -> Document:
    """Ask for the document until it has ended; a service that restarts is waited for.

    Interrupted, it says what is `left` and how to go on, and ends the program (code 130).
    """
    try:
        return until(client, path, has_ended, describe)
    except KeyboardInterrupt:
        click.echo(left, err=True)
        sys.exit(INTERRUPTED)


def run_has_ended(run: Document) -> bool:
    """Whether nothing more happens to the run."""
    return run["state"] not in UNFINISHED


def backfill_has_ended(backfill: Document) -> bool:
    """Whether nothing more happens to the runs of the backfill."""
    return backfill["state"] in ENDED_BACKFILL and not any(
        backfill["runs"][state] for state in UNFINISHED
    )


def run_exit_code(run: Document) -> int:
    """0: succeeded, 3: in part, 4: not."""
    return EXIT_CODES.get(run["state"], FAILED)


def backfill_exit_code(backfill: Document) -> int:
    """0: all have succeeded, 3: some, 4: none."""
    runs = backfill["runs"]
    good = runs["succeeded"] + runs["taken_over"]
    if good == backfill["slots"]:
        return 0
    return PARTLY if good or runs["partially_failed"] else FAILED
