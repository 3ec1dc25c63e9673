"""Opaque page tokens, bound to the filter and the order that they were made for."""

import base64
import binascii
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from service.errors import MalformedError
from service.jobs.digests import digest

MAX_TOKEN_CHARACTERS = 4_000
# Within these every zone's time has one in UTC.
FIRST_MOMENT = datetime(2, 1, 1, tzinfo=UTC)
LAST_MOMENT = datetime(9998, 12, 31, tzinfo=UTC)
MAX_INTEGER = 2**63 - 2

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
    if not _is_ours(position):
        raise MalformedError("page_token is none of ours")
    return position


def _is_ours(position: Any) -> bool:
    """Whether the databases can compare with all parts: a token can be made by hand."""
    if isinstance(position, datetime):
        return position.tzinfo is not None and FIRST_MOMENT <= position <= LAST_MOMENT
    if isinstance(position, int):
        return abs(position) <= MAX_INTEGER
    if isinstance(position, msgspec.Struct):
        return _is_ours(msgspec.structs.astuple(position))
    if isinstance(position, tuple | list):
        return all(_is_ours(part) for part in position)
    return True
