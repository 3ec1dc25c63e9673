"""A small OpenTelemetry collector: takes OTLP over HTTP, decodes it and keeps the spans."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

WAIT_S = 20


class ReceivedSpan(Struct, frozen=True, kw_only=True):
    """What the tests look at; ids in hexadecimal, no parent is an empty text."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    failed: bool
    duration_ms: float
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Receiver:
    """Collects at `endpoint` until the test ends."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.paths: set[str] = set()
        self._spans: list[ReceivedSpan] = []
        self._lock = threading.Lock()

    def keep(self, path: str, body: bytes) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        found = [
            _received(span, resource.resource)
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._lock:
            self.paths.add(path)
            self._spans += found

    def spans(self) -> list[ReceivedSpan]:
        with self._lock:
            return list(self._spans)

    def named(self, name: str, *, number: int = 1) -> list[ReceivedSpan]:
        """Wait for so many spans of the name: they are sent every few seconds."""
        end = time.monotonic() + WAIT_S
        while True:
            found = [span for span in self.spans() if span.name == name]
            if len(found) >= number:
                return found
            assert time.monotonic() < end, [span.name for span in self.spans()]
            time.sleep(0.05)


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.keep(self.path, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver = Receiver(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def _received(span: Any, resource: Any) -> ReceivedSpan:
    return ReceivedSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        failed=span.status.code == 2,
        duration_ms=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e6,
        attributes=_values(span.attributes),
        resource=_values(resource.attributes),
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
