"""HTTP by uvicorn and httptools, with limits on the size and time of request headers, for the team server
and the local page.

uvicorn bounds headers only with its slower parser. Without a bound, a client without a token could fill
the memory with one endless request, or keep connections open without end by sending half of one.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES = 64 * 1024
HEADER_SECONDS = 10.0
_JOINED_BYTES = 64 * 1024  # a larger body would be copied for nothing
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 26\r\nconnection: close\r\n\r\nThe headers are too large."
)


class _JoinedWrites:
    """A transport that writes the head of an answer together with its body: each write is a call of the system.

    A head waits for the body only until the loop goes on, so a stream whose first event is late has its head at once.
    """

    def __init__(self, transport: Any, loop: Any) -> None:
        self._transport, self._loop, self._head = transport, loop, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._head and data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        if self._head and len(data) <= _JOINED_BYTES:
            data, self._head = self._head + data, b""
        self._flush()
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose headers are too large or too slow, or whose body goes on after the answer."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._is_head, self._received, self._heads = True, 0, 0
        self._late: Any = None  # a timer of the loop

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # Checked before: the piece that ends a body leaves us waiting for headers, but contains none.
        was_head, heads = self._is_head, self._heads
        super().data_received(data)
        if not was_head or heads != self._heads or self.transport.is_closing():
            return
        self._received += len(data)
        if self._received > HEADER_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._late is None and self._received:
            # Most headers arrive whole: only the others need a timer.
            self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def on_headers_complete(self) -> None:
        """The body that follows is bounded elsewhere."""
        self._is_head, self._received = False, 0
        self._heads += 1
        self._in_time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head = True
        self._in_time()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """What is left of a body that was answered already may still come, but not without end."""
        super().on_response_complete()
        if not self._is_head and self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
