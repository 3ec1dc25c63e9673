"""Strict reading of request bodies.

Litestar reads bodies laxly: `"8"` becomes 8, a repeated key silently wins, any Content-Type is
taken for JSON. Here a body is read exactly, and what is wrong with it is said with its place.
"""

import json
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from service.api.contract import JSON, ApiRequest
from service.errors import FieldFault, InvalidError, MalformedError, UnsupportedMediaError
from service.jobs.documents import decode_document, escaped

T = TypeVar("T")


async def read_body(request: ApiRequest, kind: type[T]) -> T:
    """The JSON body as a document.

    Raises `UnsupportedMediaError` (415), `TooLargeError` (413), `MalformedError` (400) for what
    is no JSON and `InvalidError` (422) with every fault for what breaks the document's rules.
    """
    return decode_document(await read_json(request), kind)


async def read_json(request: ApiRequest) -> Any:
    """The JSON body as builtins, for documents whose parts are decoded one by one."""
    _require_media_type(request, JSON)
    return decode_json(await request.body())


async def read_text(request: ApiRequest, media_type: str) -> str:
    """A body of text, such as a CSV file, in UTF-8 with or without a byte-order mark."""
    _require_media_type(request, media_type)
    try:
        return (await request.body()).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"the body is not UTF-8: {error.reason} at byte {error.start}"
        ) from None


def decode_json(body: bytes) -> Any:
    """Builtins of a JSON text; refuses NaN, infinity, repeated keys and null characters."""
    if not body:
        raise MalformedError("the body is empty, but a JSON document is needed")
    try:
        value = msgspec.json.decode(body)
        # Of repeated keys msgspec keeps the last one silently.
        _repeats_finder.decode(body.decode())
    except msgspec.DecodeError as error:
        raise MalformedError(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise MalformedError("the body is nested too deeply") from None
    except ValueError as error:
        raise MalformedError(f"the body is no JSON: {error}") from None
    if b"\\u0000" in body:
        _refuse_null_characters(value)
    return value


def _object_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise MalformedError(f"the key {name!r} stands twice in one object")
            seen.add(name)
    return found


_repeats_finder = json.JSONDecoder(object_pairs_hook=_object_without_repeats)


def _refuse_null_characters(value: Any) -> None:
    """PostgreSQL cannot store the character U+0000 in text or JSON."""
    faults = [
        FieldFault(
            pointer=pointer,
            code="null_character",
            detail="the character U+0000 is refused",
        )
        for pointer in _null_characters(value, "")
    ]
    if faults:
        raise InvalidError("the character U+0000 is refused", errors=faults)


def _null_characters(value: Any, pointer: str) -> Iterator[str]:
    if isinstance(value, str) and "\0" in value:
        yield pointer
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _null_characters(part, f"{pointer}/{position}")
    elif isinstance(value, dict):
        for name, part in value.items():
            place = f"{pointer}/{escaped(name)}"
            if "\0" in name:
                yield place
            yield from _null_characters(part, place)


def _require_media_type(request: ApiRequest, media_type: str) -> None:
    sent = request.headers.get("content-type")
    if sent is None:
        raise UnsupportedMediaError(f"Content-Type is missing; send {media_type}")
    kind, *parameters = (part.strip().lower() for part in sent.split(";"))
    charsets = [part.removeprefix("charset=").strip('"') for part in parameters if part]
    if kind != media_type or any(charset != "utf-8" for charset in charsets):
        raise UnsupportedMediaError(
            f"Content-Type is {sent}, but this operation reads {media_type} in UTF-8"
        )
