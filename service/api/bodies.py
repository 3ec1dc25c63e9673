"""Strict reading of request bodies.

Litestar reads bodies laxly: `"8"` becomes 8, a repeated key silently wins, any Content-Type is
taken for JSON. Here a body is read exactly, and what is wrong with it is said with its place.
"""

import json
import math
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec
from litestar.exceptions import InternalServerException

from service.api.contract import JSON, ApiRequest
from service.api.transactions import in_thread
from service.errors import (
    FieldFault,
    InvalidError,
    MalformedError,
    UnsupportedEncodingError,
    UnsupportedMediaError,
)
from service.jobs.documents import decode_document, escaped, shown

T = TypeVar("T")

# Up to here decoding takes less than a hop to a thread and back; 16 MiB take over a second.
IN_PLACE_BYTES = 64 * 1024
# I-JSON (RFC 7493, section 2.2); digests over canonical JSON (RFC 8785) take no others.
MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 64
_NO_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[^][{}"]+', re.DOTALL)
_PAIR = re.compile(rb"\[\]|\{\}")
# Only bodies with an escaped U+0000 or 16 digits in a row are walked through.
_SUSPICIOUS = re.compile(rb"\\u0000|[0-9]{16}")


async def read_body(request: ApiRequest, kind: type[T]) -> T:
    """The JSON body as a document.

    Raises `UnsupportedMediaError` (415), `TooLargeError` (413), `MalformedError` (400) for what
    is no JSON and `InvalidError` (422) with every fault for what breaks the document's rules.
    """
    return decode_document(await read_json(request), kind)


async def read_optional_body(request: ApiRequest, kind: type[T]) -> T:
    """The JSON body as a document; a request without a body stands for `{}`."""
    if "content-type" not in request.headers and not await _received(request):
        return decode_document({}, kind)
    return await read_body(request, kind)


async def read_json(request: ApiRequest) -> Any:
    """The JSON body as builtins, for documents whose parts are decoded one by one."""
    _require_media_type(request, JSON)
    body = await _received(request)
    if len(body) <= IN_PLACE_BYTES:
        return decode_json(body)
    return await in_thread(partial(decode_json, body))


async def read_text(request: ApiRequest, media_type: str) -> str:
    """A body of text, such as a CSV file, in UTF-8 with or without a byte-order mark."""
    _require_media_type(request, media_type)
    try:
        return (await _received(request)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"the body is not UTF-8: {error.reason} at byte {error.start}"
        ) from None


async def _received(request: ApiRequest) -> bytes:
    """The body; that its sender has gone away is no defect of the service."""
    try:
        return await request.body()
    except InternalServerException:
        raise MalformedError("the body did not arrive whole") from None


def decode_json(body: bytes) -> Any:
    """Builtins of a JSON text; refuses NaN, repeated keys, null characters and unsafe integers."""
    if not body:
        raise MalformedError("the body is empty, but a JSON document is needed")
    try:
        value = msgspec.json.decode(body)
        # Of repeated keys msgspec keeps the last one silently.
        _repeats_finder.decode(body.decode())
    except msgspec.DecodeError as error:
        _refuse_not_finite(body)
        raise MalformedError(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise MalformedError("the body is nested too deeply") from None
    except ValueError as error:
        raise MalformedError(f"the body is no JSON: {error}") from None
    _refuse_deep_nesting(body)
    if _SUSPICIOUS.search(body):
        _refuse_unsafe_values(value)
    return value


def _refuse_not_finite(body: bytes) -> None:
    """Name the NaN and infinities of a body that is no JSON only because of them."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    faults = [
        FieldFault(
            pointer=pointer,
            code="not_finite",
            detail=f"{number} is refused: numbers must be finite",
        )
        for pointer, number in _not_finite(value, "")
    ]
    if faults:
        raise MalformedError("; ".join(fault.detail for fault in faults[:5]), errors=faults)


def _not_finite(value: Any, pointer: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield pointer, value
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _not_finite(part, f"{pointer}/{position}")
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _not_finite(part, f"{pointer}/{escaped(name)}")


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


def _refuse_deep_nesting(body: bytes) -> None:
    """Refuse what code that walks through documents level by level could not end."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return
    brackets = _NO_BRACKETS.sub(b"", body)
    for _ in range(MAX_DEPTH):
        # Each round takes away the innermost level.
        brackets = _PAIR.sub(b"", brackets)
        if not brackets:
            return
    raise MalformedError(f"the body is nested too deeply: at most {MAX_DEPTH} levels are read")


def _refuse_unsafe_values(value: Any) -> None:
    faults = list(_unsafe_values(value, ""))
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)


def _unsafe_values(value: Any, pointer: str) -> Iterator[FieldFault]:
    """Find what the databases cannot store, or other JSON readers cannot read exactly."""
    if isinstance(value, str) and "\0" in value:
        yield _null_character(pointer)
    elif isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        yield FieldFault(
            pointer=pointer,
            code="unsafe_integer",
            detail=f"{shown(value)} is beyond 2^53 - 1, where JSON readers lose digits",
        )
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _unsafe_values(part, f"{pointer}/{position}")
    elif isinstance(value, dict):
        for name, part in value.items():
            place = f"{pointer}/{escaped(name)}"
            if "\0" in name:
                yield _null_character(place)
            yield from _unsafe_values(part, place)


def _null_character(pointer: str) -> FieldFault:
    return FieldFault(
        pointer=pointer, code="null_character", detail="the character U+0000 is refused"
    )


def _require_media_type(request: ApiRequest, media_type: str) -> None:
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise UnsupportedEncodingError(
            f"Content-Encoding is {shown(encoding)}, but bodies are read uncompressed only"
        )
    sent = request.headers.get("content-type")
    if sent is None:
        raise UnsupportedMediaError(f"Content-Type is missing; send {media_type}")
    kind, *parameters = (part.strip().lower() for part in sent.split(";"))
    charsets = [part.removeprefix("charset=").strip('"') for part in parameters if part]
    if kind != media_type or any(charset != "utf-8" for charset in charsets):
        raise UnsupportedMediaError(
            f"Content-Type is {sent}, but this operation reads {media_type} in UTF-8"
        )
