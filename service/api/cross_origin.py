"""What browsers ask before a page of another origin may call the API (CORS, fetch standard).

Closed unless `TRAINARD_CORS_ORIGINS` names the origin. Never with credentials: a page has to hold
a key itself, the browser adds none. Litestar's own middleware sees neither unknown routes nor the
answers of the edge, and names no method.
"""

from typing import Any, Final

from service.settings import Settings

MAX_AGE_S: Final = 600
REQUEST_HEADERS: Final = (
    *("Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match"),
    *("Last-Event-ID", "Prefer", "Range", "X-Request-Id", "traceparent"),
)
EXPOSED_HEADERS: Final = (
    *("Accept-Ranges", "Content-Disposition", "Content-Range", "ETag", "Idempotent-Replayed"),
    *("Link", "Location", "Preference-Applied", "RateLimit", "RateLimit-Policy", "Repr-Digest"),
    *("Retry-After", "WWW-Authenticate", "X-Request-Id"),
)


def allowed_origin(scope: Any, settings: Settings) -> bytes | None:
    """The Origin of the request where pages of it may call the API."""
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if len(origins) != 1 or origins[0].decode("latin-1") not in settings.cors_origins:
        return None
    return bytes(origins[0])


def cross_origin_headers(
    scope: Any, settings: Settings, *, allow: bytes | None
) -> dict[bytes, bytes]:
    """The headers that answers get for pages of other origins.

    `allow` lists the methods of the path in the answer to an OPTIONS request.
    """
    if not settings.cors_origins:
        return {}
    headers = {b"vary": b"Origin"}
    origin = allowed_origin(scope, settings)
    if origin is None:
        return headers
    headers[b"access-control-allow-origin"] = origin
    if allow is None:
        headers[b"access-control-expose-headers"] = ", ".join(EXPOSED_HEADERS).encode()
        return headers
    return {
        **headers,
        b"access-control-allow-methods": allow,
        b"access-control-allow-headers": ", ".join(REQUEST_HEADERS).encode(),
        b"access-control-max-age": str(MAX_AGE_S).encode(),
    }
