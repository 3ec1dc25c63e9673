"""Opaque page tokens, bound to the filter and the order that they were made for."""

import base64
import binascii
from typing import Any, TypeVar

import msgspec

from service.errors import MalformedError
from service.jobs.digests import digest

MAX_TOKEN_CHARACTERS = 4_000

T = TypeVar("T")


def make_token(query: Any, position: Any) -> str:
    """A token for the position after which the next page starts."""
    body = msgspec.json.encode([digest(query)[7:23], position])
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def read_token(token: str | None, query: Any, kind: type[T]) -> T | None:
    """The position in the token; raises `MalformedError` when it is not of this query."""
    if token is None:
        return None
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise MalformedError(f"page_token has {len(token)} characters: it is none of ours")
    try:
        padded = token + "=" * (-len(token) % 4)
        bound, position = msgspec.json.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True),
            type=tuple[str, kind],  # type: ignore[valid-type] # known at run time
        )
    except (binascii.Error, msgspec.MsgspecError, ValueError) as error:
        raise MalformedError("page_token is none of ours") from error
    if bound != digest(query)[7:23]:
        raise MalformedError("page_token belongs to another filter or order: start again without")
    return position
