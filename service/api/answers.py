"""Answers of the API: bytes that are already encoded."""

from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Response

from service.api.contract import JSON, ApiResponse

_encoder = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")


def encode(document: Any) -> bytes:
    """Compact JSON of a document."""
    return _encoder.encode(document)


def json_answer(
    document: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> ApiResponse:
    """Answer with a document."""
    return raw_answer(encode(document), media_type=JSON, status=status, headers=headers)


def raw_answer(
    content: bytes,
    *,
    media_type: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> ApiResponse:
    """Answer with bytes of any media type."""
    return Response(content, status_code=status, media_type=media_type, headers=dict(headers or {}))


def empty_answer(status: int, *, headers: Mapping[str, str] | None = None) -> ApiResponse:
    """Answer without a body: 204, 304."""
    return Response(b"", status_code=status, media_type=JSON, headers=dict(headers or {}))
