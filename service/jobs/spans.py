"""Traces: spans of what this process does, sent to an OpenTelemetry collector when one is named.

OpenTelemetry is an optional extra and is imported only then. All chunks of a batch, whichever
process computes them, have the batch's id as their trace id, and a task the id of its row: so that
they are found together without anything being handed from process to process.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Literal
from uuid import UUID

# A collector that does not answer must hold up neither the requests nor the end of the process.
EXPORT_WITHIN_S = 3.0
STOP_WITHIN_S = 4.0

Attributes = Mapping[str, str | int | float | bool]
Kind = Literal["INTERNAL", "SERVER", "CONSUMER"]


class Span:
    """One piece of work, while it is done; without a collector it takes no time."""

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner

    def rename(self, name: str) -> None:
        """Name it anew, when what it is turns out only later."""
        if self._inner is not None:
            self._inner.update_name(name)

    def note(self, attributes: Attributes) -> None:
        """Add what is known by now."""
        if self._inner is not None:
            self._inner.set_attributes(attributes)

    def fail(self) -> None:
        """Mark it as failed; an exception that leaves it does so by itself."""
        if self._inner is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - an optional extra

            self._inner.set_status(StatusCode.ERROR)


_NOT_TRACED = Span()
_tracer: Any = None
_next_trace_id: ContextVar[int | None] = ContextVar("next_trace_id", default=None)


@contextmanager
def tracing(endpoint: str, *, role: str) -> Iterator[None]:
    """Collect spans meanwhile and send them to `endpoint`/v1/traces; no endpoint: do nothing.

    `role` tells the processes of one service apart. The other `OTEL_…` variables of the
    OpenTelemetry SDK (headers, certificates, sampler, resource attributes) hold.
    """
    global _tracer  # noqa: PLW0603 - one tracer a process, as one log
    if not endpoint:
        yield
        return
    provider = _new_provider(endpoint, role)
    _tracer = provider.get_tracer("trainard", version("trainard"))
    try:
        yield
    finally:
        _tracer = None
        last = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(STOP_WITHIN_S)


@contextmanager
def span(name: str, attributes: Attributes | None = None) -> Iterator[Span]:
    """A part of what is being done in this thread or task; in no trace yet: of a new one."""
    if _tracer is None:
        yield _NOT_TRACED
        return
    with _tracer.start_as_current_span(name, attributes=attributes) as inner:
        yield Span(inner)


@contextmanager
def first_span(
    name: str,
    *,
    trace_id: UUID,
    parent: Mapping[str, str] | None = None,
    kind: Kind = "CONSUMER",
    attributes: Attributes | None = None,
) -> Iterator[Span]:
    """The first span of this process in a trace.

    `parent` are the W3C headers of a caller (`traceparent`, `tracestate`): where they are valid
    its trace goes on, else the one of `trace_id`.
    """
    if _tracer is None:
        yield _NOT_TRACED
        return
    from opentelemetry import trace  # noqa: PLC0415 - an optional extra
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
        TraceContextTextMapPropagator,
    )

    context = TraceContextTextMapPropagator().extract(parent or {}, context=Context())
    wished = _next_trace_id.set(trace_id.int)
    try:
        started = _tracer.start_span(
            name, context=context, kind=trace.SpanKind[kind], attributes=attributes
        )
    finally:
        _next_trace_id.reset(wished)
    with trace.use_span(started, end_on_exit=True) as inner:
        yield Span(inner)


def _new_provider(endpoint: str, role: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator  # noqa: PLC0415

    class _WishedIds(RandomIdGenerator):
        """Random ids, but for the traces that are named after a request, a batch or a row."""

        def generate_trace_id(self) -> int:
            return _next_trace_id.get() or super().generate_trace_id()

        def is_trace_id_random(self) -> bool:
            return False

    provider = TracerProvider(
        resource=Resource.create(
            {
                "service.name": "trainard",
                "service.version": version("trainard"),
                "trainard.role": role,
            }
        ),
        id_generator=_WishedIds(),
        # It is ended by `tracing`, which does not wait for ever.
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(
        endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=EXPORT_WITHIN_S
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
