"""The SDK's streams with every limit in between: over a program's pipes, and over HTTP.

The SDK's own stdio transport is not used: it starts the process itself, outside any sandbox, and reads lines of any
length. A line that is not a JSON-RPC message is dropped; one that breaks a limit ends the connection.

Over HTTP each request goes to the configured origin at a checked address; a redirect elsewhere is not followed. Only
the configured headers are sent: no tokens of ours, no cookies, no proxy from the environment. Answers are not
decompressed, and are bounded before they are parsed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from recollect.guard.mcp.limits import (
    AddressRefused,
    BrokenFrame,
    Connection,
    LineSplitter,
    McpLimits,
    MessageRateLimit,
    UrlOrigin,
    require_few_tools,
    require_small,
    usable_address,
)
from recollect.guard.mcp.servers import ServerConfig, ServerTransport

_CHUNK = 65_536
# Bounded: a server that does not read would make messages pile up here.
_WRITE_SECONDS = 10.0


@asynccontextmanager
async def pipe_streams(
    stdin: int, stdout: int, limits: McpLimits, fault: Connection
) -> AsyncIterator[TransportStreams]:
    """The streams over a running program's pipes; its end is the end of the read stream."""
    os.set_blocking(stdin, False)
    os.set_blocking(stdout, False)
    to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pass_on, _messages(stdout, limits), to_session, limits, fault, "it ended")
        tasks.start_soon(_write, stdin, from_session, to_session, fault)
        try:
            yield received, sent
        finally:
            tasks.cancel_scope.cancel()
            for stream in (to_session, received, sent, from_session):
                stream.close()


async def _messages(stdout: int, limits: McpLimits) -> AsyncIterator[SessionMessage | None]:
    """The messages of a program; None for a line that is none."""
    lines = LineSplitter(limits)
    while True:
        await anyio.wait_readable(stdout)
        try:
            data = os.read(stdout, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not data:
            return
        for line in lines.feed(data):
            require_small(line, limits)
            yield _parsed(line)


async def _pass_on(
    source: AsyncIterable[SessionMessage | Exception | None],
    sink: MemoryObjectSendStream[SessionMessage | Exception],
    limits: McpLimits,
    fault: Connection,
    ending: str,
) -> None:
    """Hand on what comes, until there are too many messages, or tools in one."""
    rate = MessageRateLimit(limits)
    async with sink:
        try:
            async for message in source:
                rate.count(anyio.current_time())
                if isinstance(message, SessionMessage):
                    require_few_tools(getattr(message.message, "result", None), limits)
                if message is not None:
                    await sink.send(message)
            fault.note(ending)
        except BrokenFrame as broken:
            fault.note(f"it sent {broken}")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass


def _parsed(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _write(
    stdin: int,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    fault: Connection,
) -> None:
    async with from_session:
        try:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                with anyio.fail_after(_WRITE_SECONDS):
                    await _write_all(stdin, text.encode("utf-8", "replace") + b"\n")
        except TimeoutError:
            fault.note("it does not read its input")
            to_session.close()
        except OSError:
            fault.note("it closed its input")
            to_session.close()


async def _write_all(stdin: int, data: bytes) -> None:
    rest = memoryview(data)
    with os.fdopen(stdin, "wb", buffering=0, closefd=False) as pipe:
        while rest:
            await anyio.wait_writable(stdin)
            rest = rest[pipe.write(rest[:_CHUNK]) or 0 :]  # None where nothing fits


@asynccontextmanager
async def limit_messages(
    streams: TransportStreams, limits: McpLimits, fault: Connection
) -> AsyncIterator[TransportStreams]:
    """The same streams; a server that sends too much ends its own connection."""
    source, sink = streams
    forward, received = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_pass_on, source, forward, limits, fault, "it closed the connection")
        try:
            yield received, sink
        finally:
            tasks.cancel_scope.cancel()
            forward.close()
            received.close()


_PORTS = {"http": 80, "https": 443}
_CONNECT_SECONDS = 15.0
_IDLE_SECONDS = 300.0


def origin_of(url: str) -> UrlOrigin:
    """Scheme, host and port of a configured URL, or an error."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, UnicodeError) as cause:
        raise AddressRefused("its url cannot be parsed") from cause
    if parsed.scheme not in _PORTS or not parsed.host:
        raise AddressRefused("its url is not an http or https address")
    if parsed.userinfo:
        raise AddressRefused("its url contains a login; use headers")
    port = parsed.port or _PORTS[parsed.scheme]
    if not 0 < port < 65_536:
        raise AddressRefused("its port is invalid")
    return parsed.scheme, parsed.host, port


@asynccontextmanager
async def web_streams(
    config: ServerConfig, limits: McpLimits, fault: Connection, *, private_allowed: bool
) -> AsyncIterator[TransportStreams]:
    origin = origin_of(config.url)
    # Refuse before the SDK starts its tasks, so that the reason is not wrapped in exception groups.
    await usable_address(origin, private_allowed=private_allowed)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=_GuardedTransport(origin, limits, fault, private_allowed=private_allowed),
            headers={**dict(config.headers), "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_CONNECT_SECONDS, read=_IDLE_SECONDS),
            follow_redirects=False,
            trust_env=False,
        )

    if config.kind is ServerTransport.SSE:
        async with sse_client(config.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        async with (
            client() as http,
            streamable_http_client(
                config.url, http_client=http, max_sse_event_size=limits.message_bytes
            ) as streams,
        ):
            yield streams


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to a checked address of one origin, and bounds the answers."""

    def __init__(
        self, origin: UrlOrigin, limits: McpLimits, fault: Connection, *, private_allowed: bool
    ) -> None:
        self._origin, self._limits, self._private_allowed = origin, limits, private_allowed
        self._fault = fault
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if origin_of(str(request.url)) != self._origin:
            raise httpx2.ConnectError("the request would leave the configured origin", request=request)
        try:
            address = await usable_address(self._origin, private_allowed=self._private_allowed)
        except AddressRefused as refused:
            raise httpx2.ConnectError(str(refused), request=request) from refused
        extensions: dict[str, Any] = {**request.extensions, "sni_hostname": self._origin[1]}
        pinned = httpx2.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # Host is included, and still the configured one
            stream=request.stream,
            extensions=extensions,
        )
        response = await self._inner.handle_async_request(pinned)
        return _bounded(response, self._limits, self._fault)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _bounded(response: httpx2.Response, limits: McpLimits, fault: Connection) -> httpx2.Response:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    stream = _BoundedStream(response, limits, fault, is_compressed=encoding not in ("", "identity"))
    headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx2.Response(
        response.status_code, headers=headers, stream=stream, extensions=response.extensions
    )


class _BoundedStream(httpx2.AsyncByteStream):
    """Passes on whole answers, or whole events, after checking that they are small enough to parse."""

    def __init__(
        self, response: httpx2.Response, limits: McpLimits, fault: Connection, *, is_compressed: bool
    ) -> None:
        self._response, self._limits, self._fault = response, limits, fault
        self._is_compressed = is_compressed
        kind = response.headers.get("content-type", "").lower()
        self._is_events = kind.startswith("text/event-stream")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._small():
                yield piece
        except BrokenFrame as broken:
            # Recorded here: the SDK would replace the error by one of its own.
            self._fault.note(f"it sent {broken}")
            raise

    async def _small(self) -> AsyncIterator[bytes]:
        if self._is_compressed:
            raise BrokenFrame("a compressed answer that was not requested")
        waiting = b""
        async for chunk in self._pieces():
            waiting += chunk
            # Where the last complete event ends; 0 when none is complete.
            blanks = (b"\n\n", b"\r\n\r\n")
            end = max(waiting.rfind(blank) + len(blank) if blank in waiting else 0 for blank in blanks)
            if self._is_events and end:
                require_small(waiting[:end], self._limits)
                yield waiting[:end]
                waiting = waiting[end:]
            if len(waiting) > self._limits.message_bytes:
                raise BrokenFrame(f"an answer of more than {self._limits.message_bytes:,} bytes")
        require_small(waiting, self._limits)
        if waiting:
            yield waiting

    async def _pieces(self) -> AsyncIterator[bytes]:
        stream = self._response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise BrokenFrame("an answer that is not a stream")
        async for chunk in stream:
            # Large chunks are split: the bound must hold for what is built from them.
            for start in range(0, len(chunk), 65_536):
                yield chunk[start : start + 65_536]

    async def aclose(self) -> None:
        await self._response.aclose()
