"""Options of the commands that post a batch, and what they send."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import rich_click as click

from service.cli.service_answers import Document, answered

Function = TypeVar("Function", bound=Callable[..., object])

DEFAULT_URL = "http://127.0.0.1:8000"
TRIES = 3


def url_option(function: Function) -> Function:
    """Add `--url` to a command."""
    return click.option(
        "--url",
        default=DEFAULT_URL,
        show_default=True,
        help="Address of the service. The key in `TRAINARD_API_KEY` is sent to it.",
    )(function)


def submission_options(function: Function) -> Function:
    """Add the options that every new batch has."""
    options = (
        url_option,
        click.option(
            "--wait", "waits", is_flag=True, help="Follow it to its end and print what is lost."
        ),
        click.option(
            "--priority",
            type=click.IntRange(1, 9),
            help="1 is computed first, 9 last. Default: 5, or what is written in the body.",
        ),
        click.option(
            "--deadline",
            callback=moment_option,
            metavar="MOMENT",
            help="End it by then, finished or not, e.g. `2026-12-01T06:00:00Z`.",
        ),
        click.option(
            "--idempotency-key",
            metavar="KEY",
            help="The same key and body make one batch, however often they are sent. "
            "Default: a new one.",
        ),
        click.option(
            "--format",
            "output_format",
            type=click.Choice(["table", "json"]),
            default="table",
            show_default=True,
            help="`table` to read, `json` for a program: the batch, and its results if waited for.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def wishes(priority: int | None, deadline: datetime | None) -> dict[str, Any]:
    """The part of a body that the options say."""
    said: dict[str, Any] = {}
    if priority is not None:
        said["priority"] = priority
    if deadline is not None:
        said["deadline_at"] = deadline.isoformat()
    return said


def post_once(
    client: httpx.Client, path: str, body: bytes, *, source: str, key: str | None
) -> Document:
    """POST a body and give back the batch as it is now.

    A connection that breaks is tried again: the key makes that harmless.
    """
    headers = {"Idempotency-Key": key or str(uuid4()), "Content-Type": "application/json"}
    for _ in range(TRIES - 1):
        try:
            response = client.post(path, content=body, headers=headers)
            break
        except (httpx.ReadError, httpx.RemoteProtocolError):
            continue
    else:
        response = client.post(path, content=body, headers=headers)
    accepted = answered(response, source)
    if "location" not in response.headers:
        return accepted
    # A repeated key is answered with the batch as it was.
    return answered(client.get(response.headers["location"]), source)


def moment_option(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> datetime | None:
    """What an option says as a moment with its zone; for `callback`."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no moment such as 2026-12-01T06:00:00Z") from error
    if moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone: write {text}Z for UTC")
    return moment
