"""Spans of requests: one each where a provider is set up, through OpenTelemetry's own interface; none otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace

from recollect.server.database.sqlite import SqliteDatabase
from tests.server.conftest import Kind
from tests.server.world import World, in_world, prompt


class SeenSpan(trace.NonRecordingSpan):
    """A span that remembers what it is told."""

    def __init__(self, context: trace.SpanContext) -> None:
        super().__init__(context)
        self.name, self.values, self.status, self.is_over = "", dict[str, Any](), None, False

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, key: str, value: Any) -> None:
        self.values[key] = value

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status

    def end(self, end_time: int | None = None) -> None:
        self.is_over = True


class SeenTracer(trace.NoOpTracer):
    def __init__(self, spans: list[SeenSpan]) -> None:
        self._spans = spans

    def start_as_current_span(  # type: ignore[override]
        self, name: str, context: Any = None, **more: Any
    ) -> Any:
        parent = trace.get_current_span(context).get_span_context()
        self._spans.append(SeenSpan(parent))
        return trace.use_span(self._spans[-1], end_on_exit=True)


class SeenProvider(trace.TracerProvider):
    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return SeenTracer(self.spans)


def kind(tmp_path: Path) -> Kind:
    path = tmp_path / "team.sqlite"
    asyncio.run(SqliteDatabase(path).migrate())
    return Kind("sqlite", str(path))


def test_each_request_is_a_span_below_its_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the route and no session; one that the server could not answer is an error."""
    seen = SeenProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: seen)
    monkeypatch.setattr(trace, "get_tracer", seen.get_tracer)
    caller = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}

    async def scene(made: World) -> None:
        assert (await made.put("s1", prompt("x"), headers=caller)).status_code == 200
        assert (await made.ask("GET", "/v1/sessions/s1")).status_code == 200
        assert (await made.ask("GET", "/v1/sessions/other")).status_code == 404
        await made.database.close()
        assert (await made.ask("GET", "/readyz")).status_code == 503

    in_world(kind(tmp_path), scene)
    found = [(span.name, span.values["http.response.status_code"], span.is_over) for span in seen.spans]
    session = "/v1/sessions/{session_id}"
    assert found == [
        (f"PUT {session}/log", 200, True),
        (f"GET {session}", 200, True),
        (f"GET {session}", 404, True),
        ("GET /readyz", 503, True),
    ]
    assert seen.spans[0].get_span_context().trace_id == int("a" * 32, 16)
    assert [span.status for span in seen.spans] == [None, None, None, trace.StatusCode.ERROR]
    assert not any("s1" in str(span.values) for span in seen.spans)
