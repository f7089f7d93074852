"""Reading beside an event loop: the same answers, and no descriptor left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from recollect.errors import NotFound, StorageError
from recollect.model.damage import Damage
from recollect.model.entry import Entry
from recollect.model.ids import SessionId
from recollect.storage.logs import reader
from recollect.storage.logs.aio_reader import AsyncConversationLoader, AsyncLogReader, async_follow
from recollect.storage.logs.follow import Followed, Reset
from recollect.storage.logs.loader import ConversationLoader
from recollect.storage.logs.reader import LogReader

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")


def line(number: int) -> bytes:
    return b'{"type":"user","uuid":"u%d","message":{"content":"hello"}}\n' % number


def open_logs(path: Path) -> int:
    """How many descriptors of this process lead to ``path``."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(os.path.realpath(link) == str(path.resolve()) for link in links)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(line(number) for number in range(1000)) + b"bad\n\n" + b"torn")
    return path


async def collected(log: AsyncLogReader) -> list[Entry | Damage]:
    return [item async for item in log]


def test_streaming_gives_what_the_reader_gives(log_file: Path) -> None:
    """Batches come in order, complete, with damage in its place."""
    assert list(LogReader(log_file)) == asyncio.run(collected(AsyncLogReader(log_file)))


def test_pages_are_the_readers_pages(log_file: Path) -> None:
    """Each answer of the asynchronous reader equals its twin's."""
    log, twin = AsyncLogReader(log_file), LogReader(log_file)

    async def ask() -> list[object]:
        return [
            await log.tail(3),
            await log.page_forward(70, 2),
            await log.page_backward(700, 2),
            await log.entry_at(0),
            await log.pending(),
        ]

    expected = [
        twin.tail(3),
        twin.page_forward(70, 2),
        twin.page_backward(700, 2),
        twin.entry_at(0),
        twin.pending(),
    ]
    assert expected == asyncio.run(ask())


def test_the_loader_gives_what_its_twin_gives(log_file: Path) -> None:
    """All three jobs."""
    loader, twin = AsyncConversationLoader(lambda _: log_file), ConversationLoader(lambda _: log_file)
    session = SessionId("s")

    async def ask() -> list[object]:
        streamed = [entry async for entry in loader.stream_messages(session)]
        return [await loader.load_summary(session), await loader.load_messages(session, -5, 2), streamed]

    expected = [
        twin.load_summary(session),
        twin.load_messages(session, -5, 2),
        list(twin.stream_messages(session)),
    ]
    assert expected == asyncio.run(ask())


def test_a_missing_log_is_not_found(tmp_path: Path) -> None:
    """The error of the thread reaches the task as it is."""
    with pytest.raises(NotFound):
        asyncio.run(collected(AsyncLogReader(tmp_path / "no.jsonl")))


def test_items_read_before_an_error_are_not_lost(log_file: Path) -> None:
    """A disk that fails in the middle of a batch costs what follows, as it does for the reader."""
    size = len(line(0))

    def failing(fd: int, count: int, offset: int) -> bytes:
        if offset >= 10 * size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.pread(fd, min(count, 10 * size - offset), offset)

    seen: list[str | None] = []

    async def read() -> None:
        async for item in AsyncLogReader(log_file):
            note(item)

    def note(item: Entry | Damage) -> None:
        seen.append(item.uuid if isinstance(item, Entry) else None)

    with patch.object(reader, "_read_at", failing), pytest.raises(StorageError):
        asyncio.run(read())

    assert [f"u{number}" for number in range(10)] == seen


@needs_proc
def test_leaving_early_closes_the_log(log_file: Path) -> None:
    """After ``aclose`` no descriptor leads to the log."""

    async def leave() -> tuple[int, int]:
        items = AsyncLogReader(log_file).entries()
        await anext(items)
        during = open_logs(log_file)
        await items.aclose()
        return during, open_logs(log_file)

    assert (1, 0) == asyncio.run(leave())


@needs_proc
def test_cancelling_waits_for_the_thread_and_closes_the_log(log_file: Path) -> None:
    """A task cancelled, twice, while a thread reads for it: the descriptor is closed after the read, once."""
    reading, go_on = threading.Event(), threading.Event()

    def slow(fd: int, size: int, offset: int) -> bytes:
        reading.set()
        assert go_on.wait(60)
        return os.pread(fd, size, offset)

    async def cancel() -> tuple[int, int]:
        task = asyncio.ensure_future(collected(AsyncLogReader(log_file)))
        await asyncio.to_thread(reading.wait, 60)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        during = open_logs(log_file)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return during, open_logs(log_file)

    with patch.object(reader, "_read_at", slow):
        assert (1, 0) == asyncio.run(cancel())


def test_the_loop_goes_on_while_a_log_is_read(log_file: Path) -> None:
    """Reading happens in threads other than the loop's."""
    threads = set()

    def noted(fd: int, size: int, offset: int) -> bytes:
        threads.add(threading.get_ident())
        return os.pread(fd, size, offset)

    async def follow_one() -> None:
        following = async_follow(log_file)
        await anext(following)
        await following.aclose()

    with patch.object(reader, "_read_at", noted):
        asyncio.run(collected(AsyncLogReader(log_file)))
        asyncio.run(follow_one())

    assert threads
    assert threading.get_ident() not in threads


def test_following_gives_what_is_appended_and_resets(tmp_path: Path) -> None:
    """Waits only when there is nothing, and ends when told to."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(line(1))
    steps: list[Callable[[], object]] = [
        lambda: log.write_bytes(line(1) + line(2)),
        lambda: log.write_bytes(line(3)),
        log.unlink,
    ]

    async def run() -> list[Followed]:
        stop = asyncio.Event()

        async def wait(_seconds: float) -> None:
            if steps:
                steps.pop(0)()
            else:
                stop.set()

        return [item async for item in async_follow(log, stop=stop, wait=wait)]

    told = [item.reason if isinstance(item, Reset) else item for item in asyncio.run(run())]
    names = [item.uuid if isinstance(item, Entry) else item for item in told]
    assert ["u1", "u2", "truncated", "u3", "vanished"] == names


@needs_proc
def test_following_sleeps_and_wakes_by_its_stop_event(tmp_path: Path) -> None:
    """Without a ``wait`` of our own it pauses between looks; ``stop`` ends the pause and closes the log."""
    log = tmp_path / "log.jsonl"
    log.write_bytes(line(1))

    async def run() -> tuple[int, int]:
        stop = asyncio.Event()
        seen = 0
        async for _ in async_follow(log, poll=0.001, stop=stop):
            seen += 1
            if seen == 1:
                log.write_bytes(line(1) + line(2))
            else:
                asyncio.get_running_loop().call_later(0.005, stop.set)
        return seen, open_logs(log)

    assert (2, 0) == asyncio.run(run())
