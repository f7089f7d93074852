"""Everything that could fill a server's memory, before each database: at most 64 MiB more, and others are served.

What comes in: bombs, bodies of ten times the limit, bodies that never come, lines of any depth, all at once. What goes
out: readers that take nothing. ``RECOLLECT_TORTURE=1`` does it with 500 slow ones and bombs of 256 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os
import random
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import zstandard

from recollect.share.sync.wire import POSITION, START
from tests.server.live import ImpatientServer, LiveServer, until
from tests.server.test_hostile import gzip_bomb, zstd_bomb
from tests.server.test_live import address, client_of, either, put, token_for
from tests.server.world import line, prompt

__all__ = ["address", "either"]  # fixtures
MIB = 1 << 20
TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
SLOW, BOMB = (500, 256 * MIB) if TORTURE else (60, 64 * MIB)
MOST = 64 * MIB
FURNISHING = 16  # reads, before anything is measured


def opened(port: int, token: str, request: str, *headers: str, body: bytes = b"") -> socket.socket:
    """A connection on which something was asked, and then nothing is read."""
    one = socket.create_connection(("127.0.0.1", port))
    head = "\r\n".join((f"{request} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *headers))
    one.sendall(f"{head}\r\n\r\n".encode() + body)
    return one


def senders(port: int, token: str) -> list[socket.socket]:
    """Large bodies of which only the beginning comes."""
    told = (f"{POSITION}: {START}", "Content-Length: 1000000")
    return [
        opened(port, token, f"PUT /v1/sessions/slow{number}/log", *told, body=b"x" * 10_000)
        for number in range(SLOW)
    ]


def readers(port: int, token: str) -> list[socket.socket]:
    """Large answers that nobody takes."""
    paths = [f"/v1/sessions/big/{rest}" for rest in ("log", "log?after=1", "file?key=f")]
    return [opened(port, token, f"GET {paths[number % 3]}") for number in range(SLOW)]


async def ten_times() -> AsyncIterator[bytes]:
    for _ in range(160):
        yield b"x" * MIB


def bodies() -> list[tuple[str, bytes | None]]:
    """What is sent, packed; None: a body of ten times the limit, without a length."""
    deep = zstandard.compress(b"[" * (15 * MIB) + b"\n")
    bombs = [("gzip", gzip_bomb(BOMB)), ("zstd", zstd_bomb(BOMB))]
    nested = [("zstd", zstandard.compress(bombs[0][1])), ("gzip", gzip.compress(bombs[1][1]))]
    return [*bombs, *nested, ("zstd", deep), ("identity", None)] * (4 if TORTURE else 1)


async def attacked(url: str, token: str) -> Counter[int]:
    """The statuses of all these bodies, sent at the same time."""

    async def one(client: httpx.AsyncClient, encoding: str, data: bytes | None) -> int:
        headers = {POSITION: str(START), "Authorization": f"Bearer {token}", "Content-Encoding": encoding}
        try:
            content = ten_times() if data is None else data
            answer = await client.put(f"{url}/v1/sessions/bomb/log", content=content, headers=headers)
        except httpx.TransportError:
            return 413  # the server answered and closed before we had sent all of it
        return answer.status_code

    async with httpx.AsyncClient(timeout=120) as client:
        return Counter(await asyncio.gather(*(one(client, *body) for body in bodies())))


def furnished(client: httpx.Client) -> tuple[bytes, int]:
    """A log and a file of large lines that are small where they are stored: SQLite keeps pages of what it read, up to 80 MB.

    Gives the log, and how often something was read: on a busy machine we may be let go ourselves, or told that
    too much is read at once, and ask again.
    """
    asked: list[str] = []

    def read(path: str) -> bytes:
        while True:
            asked.append(path)
            with contextlib.suppress(httpx.TransportError):
                answer = client.get(path)
                if answer.status_code != 503:
                    return answer.content
            time.sleep(0.05)

    text = random.Random(1).randbytes(32 * 1024).hex() * 160
    large = line(type="user", uuid="u-1", message={"role": "user", "content": text})
    assert put(client, "big", large).status_code == 200
    assert put(client, "big", large, large).status_code == 200
    assert client.put("/v1/sessions/big/file?key=f", content=large).status_code == 200
    paths = [f"/v1/sessions/big/{rest}" for rest in ("log", "file?key=f") * (FURNISHING // 2)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(read, paths))
    assert answers == [2 * large, large] * (FURNISHING // 2)
    return 2 * large, len(asked)


def ended(server: LiveServer) -> int:
    """How many readers were given all, or let go: a line is written about each then."""
    return sum(line["method"] == "GET" and "session_id" in str(line["route"]) for line in server.requests())


# What comes in is held back before any database, so it is tried daily before one; what goes out comes from there.
@pytest.mark.parametrize(
    ("either", "way"),
    [(kind, way) for kind in ("sqlite", "postgres") for way in ("in", "out")]
    if TORTURE
    else [("sqlite", "in"), ("postgres", "out")],
    indirect=["either"],
)
def test_memory_stays_bounded_while_others_are_served(
    either: str,
    way: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """At most 64 MiB more, nothing but refusals, appends are answered meanwhile, and afterwards everything is."""
    token = token_for(either, capsys)
    statuses = Counter[int]()
    server = LiveServer(either, tmp_path, "--quiet") if way == "in" else ImpatientServer(either, tmp_path)
    with server, client_of(server, token) as client:
        log, asked = furnished(client)
        server.forget_peak()
        before = server.memory()
        if way == "in":
            held = senders(server.port, token)
            statuses = asyncio.run(attacked(server.url, token))
        else:
            held = readers(server.port, token)
            until(lambda: ended(server) == asked + SLOW, 600)  # all of them were let go
        served = [put(client, f"s{number}", prompt("still served")).status_code for number in range(20)]
        grown = server.memory() - before
        for one in held:
            one.close()
        stored = client.get("/v1/sessions/bomb").status_code
        until(lambda: _reads(client, log))
    if report := os.environ.get("RECOLLECT_REPORT"):
        with Path(report).open("a") as file:
            file.write(f"{either.partition(':')[0]} {way}: {grown / MIB:.0f} MiB more, {dict(statuses)}\n")
    assert set(statuses) <= {400, 413, 503}
    assert stored == 404
    assert served == [200] * 20
    assert grown <= MOST


def _reads(client: httpx.Client, log: bytes) -> bool:
    try:
        return client.get("/v1/sessions/big/log").content == log
    except httpx.TransportError:
        return False  # there was no room for it yet
