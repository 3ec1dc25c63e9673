"""The API key that commands send: from the environment, never from the command line."""

import ipaddress
import os
import re
from collections.abc import Generator
from typing import Final

import httpx
import rich_click as click

VARIABLE: Final = "TRAINARD_API_KEY"
# What can stand in a header: keys of ours, and tokens of an issuer
_SENDABLE: Final = re.compile(r"[\x21-\x7e]{1,16384}")


class SentKey(httpx.Auth):
    """Sends the key to the service alone, wherever its answers lead."""

    def __init__(self, key: str, service: httpx.URL) -> None:
        self._key = key
        self._service = service

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header to a request for the service's own origin."""
        url = request.url
        if (url.scheme, url.host, url.port) == (
            self._service.scheme,
            self._service.host,
            self._service.port,
        ):
            request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


def key_for(address: str) -> SentKey | None:
    """The key in `TRAINARD_API_KEY` for the service at the address; None when there is none."""
    key = os.environ.get(VARIABLE, "").strip()
    if not key:
        return None
    if not _SENDABLE.fullmatch(key):
        # Not shown: it is a secret, if a broken one.
        raise click.ClickException(f"{VARIABLE} holds no key: it has blanks or other characters")
    service = httpx.URL(address)
    if service.scheme == "http" and not _is_loopback(service.host):
        click.echo(
            f"WARNING: the key in {VARIABLE} is sent to {service.host} without encryption: "
            "use its https address.",
            err=True,
        )
    return SentKey(key, service)


def advice(response: httpx.Response) -> str:
    """What to do about a refusal, as a further sentence; empty for other answers."""
    given = response.request.headers.get("Authorization") is not None
    if response.status_code == httpx.codes.UNAUTHORIZED and not given:
        return (
            f". Set {VARIABLE} to an API key of the service: an administrator makes one with "
            "trainard key create"
        )
    if response.status_code == httpx.codes.UNAUTHORIZED:
        return f". It is the key in {VARIABLE} that is refused"
    if response.status_code == httpx.codes.FORBIDDEN and given:
        return f". The key in {VARIABLE} may not do this"
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
