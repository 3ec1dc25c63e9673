"""What surrounds every request: its id, guards, security headers, log line and metrics.

It wraps Litestar from outside, because Litestar's own middleware does not see requests that end
in its router (unknown routes, wrong methods), and because its HEAD is a 405 and its OPTIONS
lists the methods of one handler only.
"""

import time
from typing import Any, Final

import structlog
from litestar import Litestar, Request

from service.api.cross_origin import cross_origin_headers
from service.api.guards import refuse_foreign
from service.api.head_requests import mark_head
from service.api.metrics import Metrics
from service.api.problems import answer_error
from service.api.rate_limits import limit_fields
from service.api.shown_requests import shown_path
from service.api.tracing import assign_trace_id, describe_answer, request_span
from service.api.turns import ClientGone
from service.errors import TrainardError
from service.jobs.spans import Span
from service.settings import Settings

log = structlog.get_logger()

SECURITY_HEADERS: Final = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; "
    b"img-src 'self' data:; connect-src 'self'; font-src 'self'; frame-src 'self'; "
    b"base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    # Entity tags are of use only when a browser asks again; a route may say otherwise.
    b"cache-control": b"private, no-cache",
}
TRANSPORT_SECURITY: Final = {b"strict-transport-security": b"max-age=31536000"}
# Label of requests that match no route: their paths are chosen by callers and have no end.
NO_ROUTE: Final = "(none)"
# A method that no handler has, so that the router answers with the methods that exist.
PROBE_METHOD: Final = "TRACE"
CLIENT_CLOSED: Final = 499


class GuardedApp(Litestar):
    """Litestar behind the edge."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """ASGI entry point."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        # A copy: the server looks at the method in its own scope to know that a HEAD has no body.
        scope = {**scope, "app": self, "litestar_app": self}
        exchange = _Exchange(scope, send, self.state.settings)
        with (
            structlog.contextvars.bound_contextvars(trace_id=exchange.trace_id),
            request_span(scope) as span,
        ):
            try:
                refuse_foreign(scope, self.state.settings)
                await super().__call__(scope, receive, exchange.send)
            except ClientGone:
                # Nobody is there to be answered.
                pass
            except Exception as error:
                if exchange.status:
                    # The answer has begun: only breaking the connection says that it is broken.
                    _log_broken(exchange.path, error)
                    raise
                await exchange.answer_with(error, receive)
            finally:
                exchange.finish(self.state.metrics, span)
                await self.state.gate.authenticator.note_use(scope)


def _log_broken(path: str, error: Exception) -> None:
    if isinstance(error, TrainardError):
        log.warning("answer_broken", path=path, reason=error.detail)
    else:
        log.error("answer_broken", path=path, exc_info=error)


class _Exchange:
    """One request and its answer on their way through the edge."""

    def __init__(self, scope: Any, send: Any, settings: Settings) -> None:
        self.trace_id = assign_trace_id(scope)
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.status = 0
        self._scope = scope
        self._send = send
        self._settings = settings
        self._started = time.perf_counter()
        self._drops_body = self.method == "HEAD"
        self._body_ended = False
        if self.method == "HEAD":
            mark_head(scope)
        elif self.method == "OPTIONS":
            scope["method"] = PROBE_METHOD

    async def send(self, message: Any) -> None:
        """Send on, with the headers of every answer and without the body of a HEAD."""
        if message["type"] == "http.response.start":
            self._start(message)
        elif self._drops_body:
            if self._body_ended:
                return
            self._body_ended = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def answer_with(self, error: Exception, receive: Any) -> None:
        """Answer with the problem document of an error that did not reach Litestar."""
        request: Request[Any, Any, Any] = Request(self._scope)
        answer = answer_error(request, error).to_asgi_response(app=None, request=request)
        await answer(self._scope, receive, self.send)

    def finish(self, metrics: Metrics, span: Span) -> None:
        """Write the log line, count the request and end its span's description."""
        duration_s = time.perf_counter() - self._started
        route = self._scope.get("path_template") or NO_ROUTE
        status = self.status or CLIENT_CLOSED
        metrics.observe(self.method, route, status, duration_s)
        describe_answer(span, method=self.method, route=route, status=status)
        log.info(
            "request",
            method=self.method,
            path=shown_path(self._scope),
            route=route,
            status=status,
            duration_ms=round(duration_s * 1000, 3),
        )

    def _start(self, message: Any) -> None:
        headers: dict[bytes, bytes] = {name.lower(): value for name, value in message["headers"]}
        allow: bytes | None = None
        if self.method == "OPTIONS" and message["status"] == 405:
            message["status"] = 204
            self._drops_body = True
            allow = headers[b"allow"]
            headers = {b"allow": allow}
        self.status = message["status"]
        trace_id = {b"x-request-id": self.trace_id.encode()}
        headers = {
            **SECURITY_HEADERS,
            # The service itself speaks plain HTTP: a trusted proxy has said that it came by TLS.
            **(TRANSPORT_SECURITY if self._scope["scheme"] == "https" else {}),
            **headers,
            **_beside(headers, cross_origin_headers(self._scope, self._settings, allow=allow)),
            **limit_fields(self._scope),
            **trace_id,
        }
        message["headers"] = list(headers.items())


def _beside(headers: dict[bytes, bytes], more: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """The further headers; an answer that varies already varies by both."""
    if b"vary" in headers and b"vary" in more:
        more[b"vary"] = headers[b"vary"] + b", " + more[b"vary"]
    return more
