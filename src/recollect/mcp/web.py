"""Servers by URL: the SDK's streamable HTTP and SSE, over restricted connections.

Each request goes to the configured origin at a checked address; a redirect elsewhere is not followed.
Only the configured headers are sent: no tokens of ours, no cookies, no proxy from the environment.
Answers are not decompressed, and are bounded before they are parsed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from recollect.mcp.addresses import AddressRefused, UrlOrigin, usable_address
from recollect.mcp.fault import ConnectionFault
from recollect.mcp.framing import BrokenFrame, require_small
from recollect.mcp.limits import McpLimits
from recollect.model.settings.mcp_config import ServerConfig, ServerTransport

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

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
    return UrlOrigin(parsed.scheme, parsed.host, port)


@asynccontextmanager
async def web_streams(
    config: ServerConfig, limits: McpLimits, fault: ConnectionFault, *, private_allowed: bool
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
        from mcp.client.sse import sse_client

        async with sse_client(config.url, httpx_client_factory=client) as streams:
            yield streams
    else:
        from mcp.client.streamable_http import streamable_http_client

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
        self, origin: UrlOrigin, limits: McpLimits, fault: ConnectionFault, *, private_allowed: bool
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
        extensions: dict[str, Any] = {**request.extensions, "sni_hostname": self._origin.host}
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


def _bounded(response: httpx2.Response, limits: McpLimits, fault: ConnectionFault) -> httpx2.Response:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    stream: httpx2.AsyncByteStream
    if encoding not in ("", "identity"):
        stream = _RefusingStream(response, "a compressed answer that was not requested", fault)
    else:
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        stream = _BoundedStream(response, limits, fault, is_events=is_events)
    headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
    return httpx2.Response(
        response.status_code, headers=headers, stream=stream, extensions=response.extensions
    )


class _BoundedStream(httpx2.AsyncByteStream):
    """Passes on whole answers, or whole events, after checking that they are small enough to parse."""

    def __init__(
        self, response: httpx2.Response, limits: McpLimits, fault: ConnectionFault, *, is_events: bool
    ) -> None:
        self._response, self._limits, self._is_events = response, limits, is_events
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._small():
                yield piece
        except BrokenFrame as broken:
            # Recorded here: the SDK would replace the error by one of its own.
            self._fault.note(f"it sent {broken}")
            raise

    async def _small(self) -> AsyncIterator[bytes]:
        waiting = b""
        async for chunk in self._pieces():
            waiting += chunk
            if self._is_events and (end := _end_of_events(waiting)):
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


class _RefusingStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, why: str, fault: ConnectionFault) -> None:
        self._response, self._why, self._fault = response, why, fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._fault.note(f"it sent {self._why}")
        raise BrokenFrame(self._why)
        yield b""

    async def aclose(self) -> None:
        await self._response.aclose()


def _end_of_events(waiting: bytes) -> int:
    """Where the last complete event ends; 0 when none is complete."""
    ends = [waiting.rfind(blank) + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if blank in waiting]
    return max(ends, default=0)
