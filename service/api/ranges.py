"""`Range` and `If-Range` of one range of bytes (RFC 9110, section 14)."""

import re
from typing import Final, NamedTuple

from service.api.contract import ApiRequest, RequestHeader
from service.errors import TrainardError

_RANGE: Final = re.compile(r"bytes=[ \t]*([0-9]{0,190})-([0-9]{0,190})[ \t]*", re.ASCII)
# Any text: a Range that is not understood is ignored, as the RFC demands.
_ANY_TEXT: Final = r"^[\x20-\x7e]{1,200}$"

RANGE: Final = RequestHeader(
    name="Range",
    description="One range of bytes, such as `bytes=1000-`, `bytes=0-999` or `bytes=-500`; "
    "anything else is ignored and the whole file is sent.",
    pattern=_ANY_TEXT,
    example="bytes=0-999",
)
IF_RANGE: Final = RequestHeader(
    name="If-Range",
    description="The ETag of what the caller has a part of: with another one the Range is ignored.",
    pattern=_ANY_TEXT,
    example='"1"',
)


class RangeNotSatisfiableError(TrainardError):
    """The range begins behind the last byte."""

    problem = "range-not-satisfiable"


class Span(NamedTuple):
    """The bytes [first, stop)."""

    first: int
    stop: int


def requested_span(request: ApiRequest, size: int, etag: str) -> Span | None:
    """The bytes that are asked for, None for all of them.

    Raises `RangeNotSatisfiableError` (416) for a range of which there is no byte.
    """
    text = request.headers.get("range")
    if text is None or request.headers.get("if-range", etag).strip() != etag:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:
        span = Span(max(size - int(last), 0), size)
    else:
        span = Span(int(first), min(int(last) + 1, size) if last else size)
        if last and int(last) < int(first):
            return None
    if span.first >= size:
        raise RangeNotSatisfiableError(f"Range is {text}, but the file has {size} bytes")
    return span
