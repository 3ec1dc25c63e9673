"""Answers that are given before there is a request that the app could answer."""

from http import HTTPStatus
from typing import Final
from uuid import uuid4

from service.api.answers import encode
from service.api.contract import PROBLEM
from service.api.edge import SECURITY_HEADERS
from service.api.problem_types import PROBLEM_TYPES
from service.api.problems import RETRY_AFTER_S, Problem


def refusal(slug: str, detail: str) -> bytes:
    """A whole HTTP/1.1 answer with a problem document, after which the connection is closed."""
    kind = PROBLEM_TYPES[slug]
    trace_id = uuid4().hex
    body = encode(
        Problem(
            type=kind.uri,
            title=kind.title,
            status=kind.status,
            detail=detail,
            # Nobody knows: its address may not have been read.
            instance="",
            errors=(),
            trace_id=trace_id,
        )
    )
    lines = [
        f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}",
        f"Content-Type: {PROBLEM}",
        f"Content-Length: {len(body)}",
        f"X-Request-Id: {trace_id}",
        *_MORE,
        *(
            [f"Retry-After: {RETRY_AFTER_S}"]
            if kind.status == HTTPStatus.SERVICE_UNAVAILABLE
            else []
        ),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


_MORE: Final = (
    *(
        f"{name.decode()}: {value.decode()}"
        for name, value in {**SECURITY_HEADERS, b"cache-control": b"no-store"}.items()
    ),
    "Connection: close",
)
