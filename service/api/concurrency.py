"""Optimistic concurrency over HTTP: strong entity tags made of version numbers (RFC 9110)."""

import re

from service.api.answers import empty_answer
from service.api.contract import ApiRequest, ApiResponse
from service.errors import PreconditionFailedError, PreconditionRequiredError

_ENTITY_TAG = re.compile(r'(W/)?"([^"]*)"')


def etag_of(version: int | str) -> str:
    """The strong entity tag of a version number (or of a digest)."""
    return f'"{version}"'


def expected_version(request: ApiRequest) -> int:
    """The version that a change is based on, from If-Match.

    Raises `PreconditionRequiredError` (428) without one, and `PreconditionFailedError` (412)
    for a tag that this service never gave. The use case compares the number with the row in its
    own transaction and raises `PreconditionFailedError` too.
    """
    value = request.headers.get("if-match")
    if value is None or value.strip() == "*":
        raise PreconditionRequiredError(
            "send If-Match with the ETag of the version that you have read"
            + ("; * names no version" if value else "")
        )
    found = _ENTITY_TAG.fullmatch(value.strip())
    if found is None or found[1] or not re.fullmatch(r"[0-9]{1,9}", found[2], re.ASCII):
        raise PreconditionFailedError(f"If-Match is {value}, which is no current ETag")
    return int(found[2])


def not_modified(request: ApiRequest, etag: str) -> ApiResponse | None:
    """A 304 when If-None-Match names `etag`, else None."""
    value = request.headers.get("if-none-match")
    if value is None:
        return None
    if value.strip() == "*" or etag in {f'"{found[1]}"' for found in _ENTITY_TAG.findall(value)}:
        return empty_answer(304, headers={"ETag": etag})
    return None
