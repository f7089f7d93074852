"""A signal in the middle of appends: each of them is finished or never acknowledged, and the process ends in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from pathlib import Path

import pytest

from recollect.server.run import _GRACE_SECONDS
from recollect.share.sync.wire import POSITION, Position
from tests.server.live import LiveServer
from tests.server.test_live import client_of, token_for
from tests.server.world import after, prompt

_CONNECTIONS, _BEFORE_THE_SIGNAL, _SECONDS = 16, 12, 120


class Writer:
    """One connection that appends to a session of its own until the server ends it."""

    def __init__(self, server: LiveServer, token: str, number: int, *, is_apart: bool) -> None:
        self.session, self.sent, self.acknowledged, self.answers = f"s{number}", b"", b"", 0
        self._server, self._token, self._is_apart = server, token, is_apart

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._append(reader, writer):
                    pass
        finally:
            writer.close()

    async def _append(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the server wants another one on this connection."""
        new, at = prompt(f"line {self.answers}", f"u-{self.answers}"), after(self.acknowledged)
        self.sent = self.acknowledged + new
        head = self._head(new, at)
        if self._is_apart:
            writer.write(head)
            await asyncio.sleep(0)
            head = b""
        writer.write(head + new)
        told = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(told.partition("content-length: ")[2].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        if told.startswith("http/1.1 503"):
            return False
        assert told.startswith("http/1.1 200"), told
        assert body["position"]["hash"] == after(self.sent).hash.hex()
        self.acknowledged, self.answers = self.sent, self.answers + 1
        return "connection: close" not in told

    def _head(self, new: bytes, at: Position) -> bytes:
        lines = (
            f"PUT /v1/sessions/{self.session}/log HTTP/1.1",
            "Host: team",
            f"Authorization: Bearer {self._token}",
            f"Content-Length: {len(new)}",
            f"{POSITION}: {at}",
        )
        return "\r\n".join([*lines, "", ""]).encode()


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of each kind of database in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'team.sqlite'}"
    return str(request.getfixturevalue("postgres"))


async def _interrupted(server: LiveServer, writers: list[Writer], signals: tuple[int, ...]) -> None:
    """Append on all connections, and send the signals once each has answers."""
    running = [asyncio.create_task(one.run()) for one in writers]
    async with asyncio.timeout(_SECONDS):
        while min(one.answers for one in writers) < _BEFORE_THE_SIGNAL:
            assert not any(task.done() for task in running)
            await asyncio.sleep(0.005)
        assert server.process is not None
        for one in signals:
            server.process.send_signal(one)
            await asyncio.sleep(0.02)
        await asyncio.gather(*running)


@pytest.mark.parametrize("is_apart", [False, True], ids=["whole", "apart"])
@pytest.mark.parametrize(
    "signals",
    [(signal.SIGTERM,), (signal.SIGINT,), (signal.SIGINT, signal.SIGINT)],
    ids=["term", "int", "twice"],
)
def test_what_was_acknowledged_before_a_signal_is_there(
    either: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], signals: tuple[int, ...], is_apart: bool
) -> None:
    """And besides it at most the one line that was under way. The process ends by itself, and soon; it writes of no error
    where it was asked once."""
    token = token_for(either, capsys)
    with LiveServer(either, tmp_path) as server:
        writers = [Writer(server, token, n, is_apart=is_apart) for n in range(_CONNECTIONS)]
        asyncio.run(_interrupted(server, writers, signals))
        begun = time.monotonic()
        assert server.process is not None
        assert server.process.wait(_SECONDS) == (0 if signals == (signal.SIGTERM,) else 130)
        assert time.monotonic() - begun < _GRACE_SECONDS / 2
        lines = [json.loads(text) for text in server.log.read_text().splitlines() if text.startswith("{")]
        assert len(signals) > 1 or {line["level"] for line in lines} <= {"info", "warning"}
        server.start()
        with client_of(server, token) as client:
            for one in writers:
                stored = client.get(f"/v1/sessions/{one.session}/log").content
                assert stored in (one.acknowledged, one.sent)
