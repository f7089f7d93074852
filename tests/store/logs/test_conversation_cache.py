"""The conversation cache: never stale, never over its budget, never changing what it handed out."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import NotFound
from recollect.store.logs import reader
from recollect.store.logs.conversation_cache import POINT_BYTES, CacheStatistics, ConversationCache, LogGraph


def line(number: int) -> bytes:
    return b'{"type":"user","uuid":"u%03d","message":{"content":"hello"}}\n' % number


def lines(*numbers: int) -> bytes:
    return b"".join(line(number) for number in numbers)


def cost(count: int) -> int:
    """What a log with so many lines counts as."""
    return (1 + count) * POINT_BYTES


def ids(log: LogGraph) -> list[str]:
    return list(log.graph.nodes)


def later(path: Path) -> None:
    """Move the file's time on, as a write a moment later would."""
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines(1, 2))
    return path


def test_an_unchanged_log_is_read_once(log_file: Path) -> None:
    """The second request hands out the very same graph without opening the log."""
    cache = ConversationCache()

    first = cache.get(log_file)
    with patch.object(reader, "_read_at", side_effect=AssertionError("the log was read again")):
        second = cache.get(log_file)

    assert first is second
    assert CacheStatistics(hits=1, misses=1, bytes=cost(2), logs=1) == cache.statistics


def test_a_grown_log_is_read_from_where_it_ended(log_file: Path) -> None:
    """Only new bytes are read, and the graph handed out before stays as it was."""
    log_file.write_bytes(lines(*range(1000)))
    cache = ConversationCache()
    before = cache.get(log_file)
    fetched = []

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = os.pread(fd, size, offset)
        fetched.append(len(data))
        return data

    with log_file.open("ab") as log:
        log.write(lines(1000))
    with patch.object(reader, "_read_at", counted):
        after = cache.get(log_file)

    assert 1000 == len(before.graph.nodes)
    assert [f"u{number:03d}" for number in range(1001)] == ids(after)
    assert all(after.graph.nodes[uuid] is node for uuid, node in before.graph.nodes.items())
    assert sum(fetched) < 1000
    assert CacheStatistics(misses=1, extended=1, bytes=cost(1001), logs=1) == cache.statistics


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (lines(7), ["u007"]),
        (lines(7, 8), ["u007", "u008"]),
        (lines(7, 8, 9), ["u007", "u008", "u009"]),
        (b"", []),
    ],
    ids=["shorter", "as long", "longer", "empty"],
)
def test_an_overwritten_log_is_read_anew(log_file: Path, content: bytes, found: list[str]) -> None:
    """Whatever its new length, other bytes in the same file are a new log."""
    cache = ConversationCache()
    cache.get(log_file)

    log_file.write_bytes(content)
    later(log_file)

    assert found == ids(cache.get(log_file))
    assert 2 == cache.statistics.misses


def test_a_replaced_log_is_read_anew(log_file: Path, tmp_path: Path) -> None:
    """Another file of the same size and time under the same name is another log."""
    cache = ConversationCache()
    cache.get(log_file)
    status = log_file.stat()
    new = tmp_path / "new"
    new.write_bytes(lines(8, 9))
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))

    os.replace(new, log_file)

    assert ["u008", "u009"] == ids(cache.get(log_file))


def test_a_deleted_log_is_not_found_and_forgotten(log_file: Path) -> None:
    """The cache does not outlive the log."""
    cache = ConversationCache()
    cache.get(log_file)
    log_file.unlink()

    with pytest.raises(NotFound):
        cache.get(log_file)
    assert CacheStatistics(misses=1) == cache.statistics


def test_a_log_growing_while_it_is_read_is_looked_at_again(log_file: Path) -> None:
    """The status is taken before the bytes: what arrives in between is never taken for old."""
    cache = ConversationCache()
    real, pending = os.pread, [lines(3)]

    def grows_meanwhile(fd: int, size: int, offset: int) -> bytes:
        if pending:
            with log_file.open("ab") as log:
                log.write(pending.pop())
        return real(fd, size, offset)

    with patch.object(reader, "_read_at", grows_meanwhile):
        cache.get(log_file)

    assert ["u001", "u002", "u003"] == ids(cache.get(log_file))
    assert 1 == cache.statistics.extended


@given(
    requests=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=25), budget=st.integers(0, 12)
)
def test_bytes_are_always_within_the_budget(
    requests: list[tuple[int, int]], budget: int, tmp_path: Path
) -> None:
    """After any requests, with logs growing in between, the count is exact and below the limit."""
    cache = ConversationCache(budget_bytes=budget * POINT_BYTES)
    paths = [tmp_path / f"{number}.jsonl" for number in range(5)]
    for path in paths:
        path.write_bytes(b"")

    for which, growth in requests:
        with paths[which].open("ab") as log:
            log.write(lines(*range(growth)))
        cache.get(paths[which])

    kept = sum(entry.cost for entry in cache._kept.values())
    assert kept == cache.statistics.bytes
    assert kept <= budget * POINT_BYTES
    assert len(requests) == sum((cache.statistics.hits, cache.statistics.misses, cache.statistics.extended))


def test_threads_may_share_a_cache(tmp_path: Path) -> None:
    """Readers of growing logs in four threads each see a prefix of the log, never less than before."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        path.write_bytes(b"")
    cache = ConversationCache(budget_bytes=2 * cost(100))
    expected = [f"u{number:03d}" for number in range(100)]
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        lengths = dict.fromkeys(paths, 0)
        while not done.is_set():
            for path in paths:
                found = ids(cache.get(path))
                if found != expected[: len(found)] or len(found) < lengths[path]:
                    wrong.append((path, found))
                lengths[path] = len(found)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in readers:
        thread.start()
    for number in range(100):
        for path in paths:
            with path.open("ab") as log:
                log.write(line(number))
    done.set()
    for thread in readers:
        thread.join()

    assert [] == wrong
    assert [expected] * 3 == [ids(cache.get(path)) for path in paths]
