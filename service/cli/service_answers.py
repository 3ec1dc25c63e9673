"""A running service as commands use it: reached or not, and what it refuses, in plain lines."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import rich_click as click

from service.cli.faults import refuse
from service.cli.http_client import open_client
from service.cli.sent_keys import advice
from service.errors import FieldFault

Document = dict[str, Any]


@contextmanager
def reached(address: str) -> Iterator[httpx.Client]:
    """Yield a client of the service; a service that does not answer ends the program (code 1)."""
    try:
        with open_client(address.rstrip("/")) as client:
            yield client
    except httpx.UnsupportedProtocol as error:
        raise click.ClickException(f"{address} is no address: {error}") from error
    except httpx.ConnectError as error:
        raise click.ClickException(
            f"no service answers at {address}: {error}. Start one with trainard serve, or name "
            "another with --url."
        ) from error
    except httpx.TransportError as error:
        raise click.ClickException(
            f"the service at {address} has stopped answering: {error or type(error).__name__}"
        ) from error


def answered(
    response: httpx.Response,
    source: str,
    options: Mapping[str, str] | None = None,
    *,
    outcome: str = "nothing was done",
) -> Document:
    """The answer's document.

    What is wrong with what was sent ends the program with every fault (code 2), anything else
    with the sentence of the problem (code 1). `options` are what fields are called on the command
    line, where that is not their name; `outcome` is what was done all the same.
    """
    called = partial(_called, options or {})
    found = _document(response)
    if response.is_success:
        return found
    faults = [
        FieldFault(
            pointer=called(fault.get("pointer") or fault.get("parameter") or ""),
            code=fault["code"],
            detail=called(fault["detail"]),
        )
        for fault in found.get("errors", [])
    ]
    if response.status_code in {400, 422} and faults:
        refuse(source, faults, outcome=outcome)
    sentence = called(found.get("detail") or f"it answered {response.status_code}")
    raise click.ClickException(f"{response.request.url}: {sentence}{advice(response)}")


def _called(options: Mapping[str, str], text: str) -> str:
    for field, option in options.items():
        text = re.sub(rf"/?\b{field}\b", option, text)
    return text


def _document(response: httpx.Response) -> Document:
    try:
        found = response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        found = None
    if isinstance(found, dict):
        return found
    raise click.ClickException(
        f"{response.request.url} answered {response.status_code} and no JSON: it is no Trainard"
    )
