"""The public keys of the token issuer: fetched when they are needed, kept, renewed when one is new.

PyJWT's own client reads answers of any size, and refuses everybody once its copy is old and the
issuer is away.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpx
import jwt
import msgspec
import structlog

from service.errors import UnauthenticatedError, UnavailableError
from service.settings import Oidc

# A key that the issuer has withdrawn is believed so long
LIFETIME_S: Final = 300.0
# Between two questions, whatever tokens name; and while no key is known
ASK_EVERY_S: Final = 30.0
ASK_FIRST_EVERY_S: Final = 5.0
STEP_TIMEOUT_S: Final = 5.0
WHOLE_TIMEOUT_S: Final = 10.0
MAX_BYTES: Final = 512 * 1024
DISCOVERY: Final = "/.well-known/openid-configuration"

log = structlog.get_logger()


class IssuerError(Exception):
    """The issuer's answer cannot be used."""


class IssuerKeys:
    """Finds the key that a token says it is signed with."""

    def __init__(self, oidc: Oidc) -> None:
        self._oidc = oidc
        self._jwks_url = oidc.jwks_url
        self._keys: list[Mapping[str, Any]] = []
        self._fetched_at: float | None = None
        self._asked_at: float | None = None
        self._turn = asyncio.Lock()

    async def key(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        """The key of this id, or the only one where a token names none.

        Raises `UnauthenticatedError` when there is none for the algorithm, and `UnavailableError`
        while the issuer was never reached.
        """
        if self._is_due():
            await self._renew()
        found = self._find(key_id)
        if found is None and self._may_ask():
            # It may have been rotated a moment ago.
            await self._renew()
            found = self._find(key_id)
        if found is not None:
            return _usable(found, algorithm)
        if self._fetched_at is None:
            raise UnavailableError("the keys of the token issuer cannot be read now")
        raise UnauthenticatedError("the bearer token is signed with a key the issuer has not")

    def _find(self, key_id: str | None) -> Mapping[str, Any] | None:
        if key_id is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.get("kid") == key_id), None)

    def _is_due(self) -> bool:
        if self._fetched_at is None:
            return self._may_ask()
        old = time.monotonic() - self._fetched_at >= LIFETIME_S
        # While one request renews them, the others go on with what is known.
        return old and self._may_ask() and not self._turn.locked()

    def _may_ask(self) -> bool:
        pause_s = ASK_FIRST_EVERY_S if self._fetched_at is None else ASK_EVERY_S
        return self._asked_at is None or time.monotonic() - self._asked_at >= pause_s

    async def _renew(self) -> None:
        """Ask the issuer once; what is known stays when it does not answer."""
        async with self._turn:
            if not self._may_ask():
                return
            try:
                with anyio.fail_after(WHOLE_TIMEOUT_S):
                    self._keys = await self._fetch()
                self._fetched_at = time.monotonic()
            except (httpx.HTTPError, httpx.InvalidURL, IssuerError, TimeoutError) as error:
                log.warning("issuer_unusable", issuer=self._oidc.issuer, reason=repr(error))
            # Only now: those who wait in the meantime are to find what was fetched.
            self._asked_at = time.monotonic()

    async def _fetch(self) -> list[Mapping[str, Any]]:
        async with httpx.AsyncClient(timeout=STEP_TIMEOUT_S, follow_redirects=False) as client:
            if not self._jwks_url:
                self._jwks_url = await self._discovered(client)
            keys = (await _document(client, self._jwks_url)).get("keys")
        if not isinstance(keys, list):
            raise IssuerError("the key set has no list of keys")
        found: list[Mapping[str, Any]] = [
            key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig"
        ]
        if not found:
            raise IssuerError("the key set has no key for signatures")
        return found

    async def _discovered(self, client: httpx.AsyncClient) -> str:
        found = await _document(client, self._oidc.issuer.rstrip("/") + DISCOVERY)
        if found.get("issuer") != self._oidc.issuer:
            raise IssuerError("the configuration is that of another issuer")
        url = found.get("jwks_uri")
        own_scheme = urlsplit(self._oidc.issuer).scheme
        if not isinstance(url, str) or urlsplit(url).scheme not in {"https", own_scheme}:
            raise IssuerError("the configuration names no usable jwks_uri")
        return url


async def _document(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """The JSON object at an address, of a bounded size."""
    content = bytearray()
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != httpx.codes.OK:
            raise IssuerError(f"{url} answered {response.status_code}")
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MAX_BYTES:
                raise IssuerError(f"{url} answered more than {MAX_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(content), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise IssuerError(f"{url} answered no JSON object") from error


def _usable(found: Mapping[str, Any], algorithm: str) -> jwt.PyJWK:
    try:
        if found.get("alg", algorithm) != algorithm:
            raise jwt.InvalidKeyError("the key is for another algorithm")
        return jwt.PyJWK.from_dict(dict(found), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        # Not the reason: it may show the key.
        raise UnauthenticatedError(
            f"the bearer token is signed by {algorithm} with a key that is not for it"
        ) from None
