"""Posting to webhooks: to the checked address only, within a total time, reading little.

The one module of this room that speaks HTTP.
"""

import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

import certifi
import httpx
from msgspec import Struct

from service.jobs.egress import (
    Address,
    EgressError,
    Place,
    Resolver,
    checked_addresses,
    place_of,
)
from service.jobs.reason_sentences import say

# An answer is success within so long, from the look-up of the name to the end of the answer.
TOTAL_S: Final = 15.0
CONNECT_S: Final = 5.0
MAX_ADDRESSES: Final = 4
READ_BYTES: Final = 65_536
KEPT_BYTES: Final = 1_000
USER_AGENT: Final = "Trainard-Webhook/1"


class Posted(Struct, frozen=True, kw_only=True):
    """What came of one attempt; without a status there was no answer, and `error` says why."""

    status: int | None = None
    error: str | None = None
    answer: str | None = None
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether it was answered with 2xx, in time."""
        return self.error is None and self.status is not None and 200 <= self.status < 300


def post(
    url: str,
    payload: bytes,
    headers: Mapping[str, str],
    *,
    networks: Sequence[str] = (),
    resolve: Resolver | None = None,
    total_s: float = TOTAL_S,
) -> Posted:
    """Post the bytes once; whatever goes wrong is said in the answer, nothing is raised for it.

    Redirects are not followed, proxies of the environment not asked, cookies not kept.
    """
    end = time.monotonic() + total_s
    try:
        place = place_of(url, networks)
        addresses = checked_addresses(place, networks, resolve=resolve)
    except EgressError as error:
        return Posted(error=str(error))
    failure = Posted(error=say("not_tried"))
    for address in addresses[:MAX_ADDRESSES]:
        if time.monotonic() >= end:
            break
        try:
            return _post(place, address, payload, headers, end)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            # Nothing was sent: the next address of the name may be alive.
            failure = Posted(error=say("no_connection", host=place.host, detail=_sentence(error)))
        except httpx.HTTPError as error:
            return Posted(error=_lost(error, end, total_s))
    return failure


def _post(
    place: Place, address: Address, payload: bytes, headers: Mapping[str, str], end: float
) -> Posted:
    host = f"[{address}]" if address.version == 6 else str(address)
    url = httpx.URL(f"{place.scheme}://{host}:{place.port}{place.target}")
    left = max(0.01, end - time.monotonic())
    transport = httpx.HTTPTransport(
        verify=_trust(), trust_env=False, limits=httpx.Limits(max_connections=1), retries=0
    )
    with transport, _watched(end) as watch:
        request = httpx.Request(
            "POST",
            url,
            content=payload,
            headers={
                **headers,
                # The address stands in the URL, so that no name is looked up again; the server
                # and its certificate are asked for by name.
                "Host": place.authority,
                "Content-Type": "application/json",
                "User-Agent": USER_AGENT,
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "Connection": "close",
            },
            extensions={
                "sni_hostname": place.host,
                "trace": watch,
                "timeout": {"connect": min(CONNECT_S, left), "read": left, "write": left},
            },
        )
        response = transport.handle_request(request)
        try:
            body = _beginning(response)
        finally:
            response.close()
        if time.monotonic() >= end:
            return Posted(status=response.status_code, error=say("answered_late"))
    error = None
    if not 200 <= response.status_code < 300:
        code = "redirected" if response.has_redirect_location else "answered"
        error = say(code, status=response.status_code)
    return Posted(
        status=response.status_code,
        error=error,
        answer=_text(body),
        retry_after_s=None if error is None else _retry_after(response.headers),
    )


def _beginning(response: httpx.Response) -> bytes:
    """The first bytes of the body; the rest of a long one is not read."""
    body = bytearray()
    num_read = 0
    for chunk in response.iter_raw():
        num_read += len(chunk)
        body += chunk[: KEPT_BYTES - len(body)]
        if num_read >= READ_BYTES:
            break
    return bytes(body)


@contextmanager
def _watched(end: float) -> Iterator[Any]:
    """A trace of the request that ends its connection when the time is over.

    Timeouts of a socket begin anew with every byte: a slow answer could hold a thread for hours.
    """
    sockets: list[socket.socket] = []

    def stop() -> None:
        for opened in sockets:
            # It may be gone already.
            try:
                opened.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def trace(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            # A copy: TLS takes the socket itself over.
            sockets.append(info["return_value"].get_extra_info("socket").dup())
            if time.monotonic() >= end:
                # The timer may have found no connection yet.
                stop()

    timer = threading.Timer(max(0.0, end - time.monotonic()), stop)
    timer.daemon = True
    timer.start()
    try:
        yield trace
    finally:
        timer.cancel()
        timer.join()
        for opened in sockets:
            opened.close()


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """The system's authorities (or those of SSL_CERT_FILE), and certifi's."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _lost(error: httpx.HTTPError, end: float, total_s: float) -> str:
    if isinstance(error, httpx.TimeoutException) or time.monotonic() >= end:
        return say("no_answer", pause=f"{total_s:g}")
    return say("connection_broke", detail=_sentence(error))


def _sentence(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return " ".join(text.split())[:300]


def _text(body: bytes) -> str | None:
    """As every database takes it: no U+0000."""
    return body.decode("utf-8", "replace").replace("\0", "\ufffd") or None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds of the header Retry-After: a number, or a moment; whatever else is ignored."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal() and value.isascii():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        # Also a moment without a zone, and one beyond the calendar
        return None
