"""The log's twin for event loops."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from recollect.errors import LogUnusable
from recollect.store.logs.aio_log import AsyncLog
from recollect.store.logs.log import AppendResult
from recollect.system import fsops


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One item for each sync of the file's bytes."""
    asked: list[int] = []
    monkeypatch.setattr(fsops, "sync_data", asked.append)
    return asked


class Gate:
    """Holds up the first sync until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        monkeypatch.setattr(fsops, "sync_data", self._wait)

    def _wait(self, fd: int) -> None:
        self.reached.set()
        self.open.wait(120)


def test_an_append_is_answered_as_by_the_log(path: Path) -> None:
    """Places and bytes are those of the log it is the twin of."""

    async def act() -> list[AppendResult]:
        async with AsyncLog(path) as log:
            return [await log.append(b"hello"), *await log.append_many([(b"a", None), (b"b", "id")])]

    assert (
        [AppendResult(0, 6, False), AppendResult(6, 2, False), AppendResult(8, 2, False)],
        b"hello\na\nb\n",
    ) == (
        asyncio.run(act()),
        path.read_bytes(),
    )


def test_pending_appends_are_one_batch(path: Path, syncs: list[int]) -> None:
    """A hundred appends that wait together cost one sync, and keep their order (S13)."""

    async def act() -> list[AppendResult]:
        async with AsyncLog(path) as log:
            return await asyncio.gather(*[log.append(b"%02d" % number) for number in range(100)])

    answers = asyncio.run(act())

    assert (1, [number * 3 for number in range(100)]) == (len(syncs), [answer.offset for answer in answers])


def test_a_cancelled_append_that_waits_is_not_stored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling takes a line out of the queue; the one being written and the other one are stored."""
    gate = Gate(monkeypatch)

    async def act() -> None:
        async with AsyncLog(path) as log:
            first = asyncio.create_task(log.append(b"one"))
            await asyncio.to_thread(gate.reached.wait, 10)
            cancelled = asyncio.create_task(log.append(b"two"))
            kept = asyncio.create_task(log.append(b"three"))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.sleep(0)
            gate.open.set()
            await asyncio.gather(first, kept)

    asyncio.run(act())

    assert b"one\nthree\n" == path.read_bytes()


def test_a_cancelled_append_that_is_being_written_is_finished(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelling cannot stop the worker; the log goes on working, and the line may be repeated (P9)."""
    gate = Gate(monkeypatch)

    async def act() -> AppendResult:
        async with AsyncLog(path) as log:
            first = asyncio.create_task(log.append(b"one", "id"))
            await asyncio.to_thread(gate.reached.wait, 10)
            first.cancel()
            gate.open.set()
            return await log.append(b"one", "id")

    assert (AppendResult(0, 4, True), b"one\n") == (asyncio.run(act()), path.read_bytes())


def test_close_waits_for_pending_appends(path: Path) -> None:
    """What was handed over before the close is stored by the time it returns."""

    async def act() -> bytes:
        log = AsyncLog(path)
        pending = [asyncio.create_task(log.append(line)) for line in (b"one", b"two")]
        await asyncio.sleep(0)
        await log.close()
        stored = path.read_bytes()
        await asyncio.gather(*pending)
        return stored

    assert b"one\ntwo\n" == asyncio.run(act())


def test_a_closed_log_refuses(path: Path) -> None:
    """After close everything but another close is an error."""

    async def act() -> None:
        log = AsyncLog(path)
        await log.close()
        await log.close()
        with pytest.raises(LogUnusable):
            await log.append(b"x")

    asyncio.run(act())


def test_an_unexpected_error_of_the_worker_reaches_the_caller(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for ever, even for a failure this module does not know."""

    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fsops, "write_all", breaks)

    async def act() -> None:
        async with AsyncLog(path) as log:
            await log.append(b"x")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(act())
