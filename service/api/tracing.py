"""The id of a request: in its log lines, in its answer, in its problem document, in its trace."""

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from service.jobs.spans import Span, first_span

# A key or token that was put into the wrong header must not get into the log.
_LIKE_A_SECRET = re.compile(rb"trn_|eyJ")
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{8,128}")
# W3C trace context: version, trace id, id of the caller's span, flags
_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-.{2}")
# Asked every few seconds by machines: their spans would bury the others.
UNTRACED_PATHS: Final = ("/healthz", "/readyz", "/metrics")


def assign_trace_id(scope: Any) -> str:
    """Keep the caller's X-Request-Id if it is 8 to 128 harmless characters, else its trace's id.

    Without either a new one is made, which is the trace's id as well.
    """
    given = _header(scope, b"x-request-id")
    parent = _TRACEPARENT.match(_header(scope, b"traceparent"))
    if _GIVEN.fullmatch(given) and not _LIKE_A_SECRET.search(given):
        trace_id = given.decode()
    elif parent:
        trace_id = parent[1].decode()
    else:
        trace_id = uuid.uuid4().hex
    scope["trace_id"] = trace_id
    return trace_id


def trace_id_of(scope: Mapping[str, Any]) -> str:
    """The id that was assigned to the request."""
    return str(scope["trace_id"])


@contextmanager
def request_span(scope: Any) -> Iterator[Span]:
    """The span of a request: in the trace of its caller, else in one with the request's own id."""
    if scope["path"] in UNTRACED_PATHS:
        yield Span()
        return
    headers = ("traceparent", "tracestate")
    parent = {name: _header(scope, name.encode()).decode("latin-1") for name in headers}
    attributes = {
        "http.request.method": scope["method"],
        "url.path": scope["path"],
        "trainard.request_id": trace_id_of(scope),
    }
    with first_span(
        scope["method"],
        trace_id=_as_trace_id(trace_id_of(scope)),
        parent=parent,
        kind="SERVER",
        attributes=attributes,
    ) as span:
        yield span


def describe_answer(span: Span, *, method: str, route: str, status: int) -> None:
    """Say which route it was, which is known only when it was answered, and how that ended."""
    span.rename(f"{method} {route}")
    span.note({"http.route": route, "http.response.status_code": status})
    if status >= 500:
        span.fail()


def _as_trace_id(request_id: str) -> uuid.UUID:
    try:
        found = uuid.UUID(request_id)
    except ValueError:
        return uuid.uuid4()
    return found if found.int else uuid.uuid4()


def _header(scope: Any, name: bytes) -> bytes:
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found
