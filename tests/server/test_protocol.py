"""What comes before a body is bounded: headers without end, or that never end, cost one connection and nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from recollect.services.page import http_protocol as protocol

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
            lambda: protocol.BoundedProtocol(config=config, server_state=ServerState(), app_state={}),
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
    """After 64 KiB: 431, and the connection is closed, long before what was to come."""

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
            return b"HTTP/1.1 431", sent  # we were still writing when it closed

    status, sent = talked(scene)
    assert status == b"HTTP/1.1 431"
    assert sent < 50_000_000


def test_headers_that_do_not_end_in_time_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nothing came, or a part: for the first request and for a later one."""
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 0.2)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> bytes:
        return await reader.read()

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET + b"\r\n")
        whole = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(1)
        writer.write(GET)
        return whole[:12] + await reader.read()

    assert [talked(silent), talked(half)] == [b"", b"HTTP/1.1 200"]


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
    monkeypatch.setattr(protocol, "HEADER_SECONDS", 1.0)

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


def written(*messages: bytes | None) -> list[bytes]:
    """What reaches the system of an answer that is written in these pieces; None: the loop goes on in between."""
    reached: list[bytes] = []

    class Written:
        def write(self, data: bytes) -> None:
            reached.append(data)

        def close(self) -> None:
            reached.append(b"closed")

    async def play() -> None:
        joined = protocol._JoinedWrites(Written(), asyncio.get_running_loop())
        for one in messages:
            if one is None:
                await asyncio.sleep(0)
            elif one == b"close":
                joined.close()
            else:
                joined.write(one)
        await asyncio.sleep(0)

    asyncio.run(play())
    return reached


def test_an_answer_is_one_write_unless_it_is_long_or_late() -> None:
    """The order stays, and nothing waits for a body that has not come when the loop goes on."""
    head, long = b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 70_000

    assert [head + b"body", b"more"] == written(head, b"body", b"more")
    assert [head, b"late"] == written(head, None, b"late")
    assert [head] == written(head)
    assert [head, long] == written(head, long)
    assert [head, b"closed"] == written(head, b"close")
    assert [head + head] == written(head, head)
