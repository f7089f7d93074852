"""What comes before a body is bounded: headers without end, or that never end, cost one connection and nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from recollect.web import app

Result = TypeVar("Result")
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    """Tells how long the body was."""
    length, is_more = 0, True
    while is_more:
        message = await receive()
        length += len(message.get("body", b""))
        is_more = message.get("more_body", False)
    answer = str(length).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
    )
    await send({"type": "http.response.body", "body": answer})


def talked(scene: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Result]]) -> Result:
    """Play a scene on a connection to a server of this kind."""

    async def play() -> Result:
        config = uvicorn.Config(_app, log_config=None, access_log=False, lifespan="off", ws="none")
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: app.TimedProtocol(config=config, server_state=ServerState(), app_state={}),
            "127.0.0.1",
            0,
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                async with asyncio.timeout(30):
                    return await scene(reader, writer)
            finally:
                writer.close()

    return asyncio.run(play())


@pytest.mark.parametrize("part", [b"X-%d: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000], ids=["many", "one"])
def test_headers_without_end_are_cut_off(part: bytes) -> None:
    """After 64 KiB: 400, and the connection is closed, long before what was to come."""

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[bytes, int]:
        writer.write(GET + (b"X: " if b"\r" not in part else b""))
        sent = 0
        try:
            for number in range(100_000):
                writer.write(part % number if b"%d" in part else part)
                sent += len(part)
                await writer.drain()
        except OSError:
            pass
        try:
            return (await reader.read(12)), sent
        except OSError:
            return b"HTTP/1.1 400", sent  # we were still writing when it closed

    status, sent = talked(scene)
    assert status == b"HTTP/1.1 400"
    assert sent < 50_000_000


def test_requests_with_bodies_are_not_counted_as_headers() -> None:
    """A hundred requests of 100 kB each on one connection, and one of 5 MB, all in one piece."""

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        found = []
        for length in (*[100_000] * 100, 5_000_000):
            writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length + b"x" * length)
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.split(b"content-length: ")[1].split()[0])
            found.append(await reader.readexactly(size))
        return found

    assert talked(scene) == [b"100000"] * 100 + [b"5000000"]


def test_a_body_that_comes_behind_its_head_is_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by its size nor by its time: after its last piece the connection may rest, and be used again."""
    monkeypatch.setattr(app, "HEADER_SECONDS", 1.0)

    async def scene(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        found = []
        for length in (200_000, 10):
            writer.write(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length)
            await writer.drain()
            await asyncio.sleep(0.1)
            writer.write(b"x" * length)
            head = await reader.readuntil(b"\r\n\r\n")
            found.append(await reader.readexactly(int(head.split(b"content-length: ")[1].split()[0])))
        await asyncio.sleep(1.5)
        writer.write(GET + b"\r\n")
        return [*found, (await reader.readuntil(b"\r\n\r\n"))[:12]]

    assert talked(scene) == [b"200000", b"10", b"HTTP/1.1 200"]
