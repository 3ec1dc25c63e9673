"""Following a batch over HTTP until it has ended: server-sent events, else asking now and then."""

import time
from collections.abc import Callable, Iterator

import httpx
import rich_click as click
from httpx_sse import SSEError, connect_sse

from service.cli.http_client import ENDED
from service.cli.service_answers import Document, answered

# Comments come every 15 s: a stream that is silent for longer is broken.
SILENCE_S = 40.0
RECONNECT_S = 1.0
ASK_EVERY_S = 1.0
# A service that is restarted is back before; its batches go on by themselves.
GIVE_UP_S = 120.0

OnProgress = Callable[[Document], None]


def follow(client: httpx.Client, batch: Document, on_progress: OnProgress) -> Document:
    """Return the ended batch, with `on_progress` told of every change.

    A broken connection is taken up again where it was; a service without event streams (too many
    of them, or a proxy that keeps them back) is asked once a second. Raises
    `httpx.TransportError` when nothing answers for 120 s.
    """
    on_progress(batch)
    can_stream = True
    answered_at = time.monotonic()
    while batch["state"] not in ENDED:
        try:
            if can_stream:
                for event in _events(client, batch):
                    batch = event
                    answered_at = time.monotonic()
                    on_progress(batch)
                if batch["state"] in ENDED:
                    break
                # The service has closed the stream: it stops, or restarts.
                time.sleep(RECONNECT_S)
            before = batch["version"]
            batch = _read(client, batch)
            answered_at = time.monotonic()
            if batch["version"] != before:
                on_progress(batch)
            if not can_stream and batch["state"] not in ENDED:
                time.sleep(ASK_EVERY_S)
        except _StreamRefusedError:
            can_stream = False
        except httpx.TransportError as error:
            # Comments would have come: something on the way keeps the events back.
            can_stream = can_stream and not isinstance(error, httpx.ReadTimeout)
            if time.monotonic() - answered_at > GIVE_UP_S:
                raise
            time.sleep(RECONNECT_S)
    return batch


class _StreamRefusedError(Exception):
    """There is no event stream to be had."""


def _events(client: httpx.Client, batch: Document) -> Iterator[Document]:
    """Yield the states of the batch that are newer than `batch`, until the stream closes."""
    timeout = httpx.Timeout(client.timeout.connect, read=SILENCE_S)
    headers = {"Last-Event-ID": str(batch["version"])}
    with connect_sse(
        client, "GET", _path(batch) + "/events", headers=headers, timeout=timeout
    ) as source:
        if source.response.status_code == httpx.codes.NO_CONTENT:
            return
        if not source.response.is_success:
            raise _StreamRefusedError
        try:
            for event in source.iter_sse():
                # Comments come through as events without data.
                if event.data:
                    found: Document = event.json()
                    yield found
        except SSEError as error:
            raise _StreamRefusedError from error


def _read(client: httpx.Client, batch: Document) -> Document:
    response = client.get(_path(batch))
    if (
        response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR
        or response.status_code == httpx.codes.TOO_MANY_REQUESTS
    ):
        # A proxy before a service that restarts, a database that is away, or too many who ask.
        raise httpx.ReadError(f"it answered {response.status_code}")
    if response.status_code == httpx.codes.NOT_FOUND:
        raise click.ClickException(f"batch {batch['id']} is no more: it was deleted meanwhile")
    return answered(response, batch["id"])


def _path(batch: Document) -> str:
    return f"/v1/scenario-batches/{batch['id']}"
