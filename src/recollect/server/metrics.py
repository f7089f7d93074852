"""Counts for Prometheus, in its text format, without names of organisations, users or sessions."""

from __future__ import annotations

import contextlib
import resource
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from recollect.server.database.records import SweepResult
from recollect.version import __version__

_STARTED = time.time()
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts since the process started."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[str, list[float]] = {}
        self._counters: dict[str, int] = {}
        self.gauges: dict[str, int] = {"in_flight": 0}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        row = self._seconds.get(route)
        if row is None:
            row = self._seconds[route] = [0.0] * (len(_BOUNDS) + 2)
        row[bisect_left(_BOUNDS, seconds)] += 1
        row[-1] += seconds

    def count(self, name: str, amount: int = 1) -> None:
        self._counters[name] = self._counters.get(name, 0) + amount

    def move(self, name: str, by: int) -> None:
        """Change a gauge."""
        self.gauges[name] = self.gauges.get(name, 0) + by

    def swept(self, done: SweepResult, seconds: float) -> None:
        """Count what a sweep did; ``sweep_backlog`` is what is still overdue."""
        self.count("sweeps")
        self.count("swept_deleted_sessions", done.deleted)
        self.count("swept_purged_sessions", done.purged)
        self.count("swept_audit_rows", done.audit_rows)
        self.count("swept_usage_rows", done.usage_rows)
        self.gauges |= {"sweep_backlog": done.backlog, "sweep_milliseconds": int(seconds * 1_000)}

    def text(self, batches: tuple[int, int], more: Mapping[str, float] | None = None) -> str:
        """``more``: values that are measured when they are asked for, by name."""
        lines = [
            f'recollect_build_info{{version="{__version__}"}} 1',
            *_process(),
            "# TYPE recollect_requests_total counter",
        ]
        lines += [
            f'recollect_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}'
            for (method, route, status), count in sorted(self._requests.items())
        ]
        lines.append("# TYPE recollect_request_seconds histogram")
        for route, row in sorted(self._seconds.items()):
            lines += _histogram(route, row)
        for name, value in sorted((more or {}).items()):
            lines += [f"# TYPE recollect_{name} gauge", f"recollect_{name} {value:g}"]
        counters = self._counters | {"commits": batches[0], "committed_writes": batches[1]}
        for name, count in sorted(counters.items()):
            lines += [f"# TYPE recollect_{name}_total counter", f"recollect_{name}_total {count}"]
        for name, count in sorted(self.gauges.items()):
            lines += [f"# TYPE recollect_{name} gauge", f"recollect_{name} {count}"]
        return "\n".join(lines) + "\n"


def _process() -> list[str]:
    """What Prometheus' own libraries tell of a process, under their names."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    lines = [
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {usage.ru_utime + usage.ru_stime:.3f}",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {_STARTED:.3f}",
    ]
    with contextlib.suppress(OSError, ValueError, IndexError):  # only where there is /proc
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        files = sum(1 for _ in Path("/proc/self/fd").iterdir())
        lines += [
            "# TYPE process_resident_memory_bytes gauge",
            f"process_resident_memory_bytes {pages * resource.getpagesize()}",
            "# TYPE process_open_fds gauge",
            f"process_open_fds {files}",
        ]
    return lines


def _histogram(route: str, row: list[float]) -> list[str]:
    lines, running = [], 0.0
    for bound, count in zip((*map(str, _BOUNDS), "+Inf"), row[:-1], strict=True):
        running += count
        lines.append(f'recollect_request_seconds_bucket{{route="{route}",le="{bound}"}} {running:g}')
    lines.append(f'recollect_request_seconds_sum{{route="{route}"}} {row[-1]:.6f}')
    lines.append(f'recollect_request_seconds_count{{route="{route}"}} {running:g}')
    return lines


class RequestLine(Struct):
    """The log record of a request; ``at`` in milliseconds since 1970."""

    id: str
    method: str
    route: str = "other"
    status: int = 500
    ms: float = 0.0
    bytes: int = 0
    token: str | None = None
    at: int = 0
    level: str = "info"
    event: str = "request"


class RequestLog:
    """Writes lines about requests to a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, line: RequestLine) -> None:
        line.at = time.time_ns() // 1_000_000
        self._stream.write(msgspec.json.encode(line) + b"\n")
        self._stream.flush()


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
