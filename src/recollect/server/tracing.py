"""Spans of requests for OpenTelemetry, where a program set it up; nothing otherwise.

Only the interface is used (``opentelemetry-api``): which exporter, which sampling and which service name are decided by
who starts the server, with ``opentelemetry-instrument recollect serve``. A span has the route, never a session, a
query or a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any

_HEADERS = (b"traceparent", b"tracestate")


class RequestSpans:
    """Starts a span for a request. Without a provider of spans it costs one comparison."""

    def __init__(self) -> None:
        self._trace: Any = None
        try:
            trace = import_module("opentelemetry.trace")
            self._extract: Any = import_module("opentelemetry.propagate").extract
        except ImportError:
            return
        # The provider that comes with the interface does nothing; a set-up one replaces it before the server starts.
        if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider):
            self._trace, self._tracer = trace, trace.get_tracer("recollect.server")

    @property
    def is_on(self) -> bool:
        return self._trace is not None

    def start(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[Any]:
        if self._trace is None:
            return nullcontext()
        carrier = {str(name, "latin-1"): str(value, "latin-1") for name, value in headers if name in _HEADERS}
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            method, context=self._extract(carrier), kind=self._trace.SpanKind.SERVER
        )
        return span

    def end(self, span: Any, method: str, route: str, status: int) -> None:
        """What is known of a request at its end."""
        if self._trace is None:
            return
        span.update_name(f"{method} {route}")
        values = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        for name, value in values.items():
            span.set_attribute(name, value)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)
