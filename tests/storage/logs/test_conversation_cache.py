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
from recollect.services.homes import Home
from recollect.storage.logs import reader
from recollect.storage.logs.conversation_cache import POINT_BYTES, CacheStatistics, ConversationCache
from recollect.storage.logs.log_graph import LogGraph


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


def test_a_pending_tail_appears_once_it_is_whole(log_file: Path) -> None:
    """P2: half a line is not an entry; the other half makes it one."""
    cache = ConversationCache()
    seen = []
    for piece in (b"", line(3)[:10], line(3)[10:]):
        with log_file.open("ab") as log:
            log.write(piece)
        seen.append(ids(cache.get(log_file)))

    assert [["u001", "u002"], ["u001", "u002"], ["u001", "u002", "u003"]] == seen


def test_real_sessions_grow_in_the_cache(shared: Path, tmp_path: Path) -> None:
    """At each stage of a live session the cache holds what reading that stage gives."""
    series = sorted({path.parent for path in shared.glob("corpus/*/growth/*/*.jsonl")})
    assert series
    for number, directory in enumerate(series):
        cache, log = ConversationCache(), tmp_path / f"{number}.jsonl"
        stages = sorted(directory.glob("*.jsonl"))
        for stage in stages:
            with log.open("ab") as growing:
                growing.write(stage.read_bytes()[growing.tell() :])

            assert LogGraph(stage).graph.nodes == cache.get(log).graph.nodes
        assert len(stages) - 1 == cache.statistics.extended


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


def test_a_log_edited_far_from_its_end_is_read_anew(log_file: Path) -> None:
    """Same size, same end, newer time: what lies between may be anything."""
    log_file.write_bytes(lines(*range(20)))
    cache = ConversationCache()
    cache.get(log_file)

    log_file.write_bytes(lines(99, *range(1, 20)))
    later(log_file)

    assert "u099" == ids(cache.get(log_file))[0]


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


def test_the_least_recently_used_log_goes_first(tmp_path: Path) -> None:
    """Using a log keeps it; over the budget the one unused for longest is dropped."""
    logs = [tmp_path / name for name in "abc"]
    for path in logs:
        path.write_bytes(lines(1))
    cache = ConversationCache(budget_bytes=2 * cost(1))

    for path in (logs[0], logs[1], logs[0], logs[2], logs[0], logs[1]):
        cache.get(path)

    assert CacheStatistics(hits=2, misses=4, evictions=2, bytes=2 * cost(1), logs=2) == cache.statistics


def test_a_log_beyond_the_budget_is_read_but_not_kept(log_file: Path) -> None:
    """It is handed out, costs nobody else their place, and leaves nothing behind when it grew too large."""
    cache = ConversationCache(budget_bytes=cost(2))
    small = log_file.with_name("small")
    small.write_bytes(b"")
    cache.get(small)
    log_file.write_bytes(lines(1, 2, 3))

    assert ["u001", "u002", "u003"] == ids(cache.get(log_file))
    assert CacheStatistics(misses=2, bytes=cost(0), logs=1) == cache.statistics
    assert log_file not in cache


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


def test_forgetting_and_clearing_give_bytes_back(log_file: Path, tmp_path: Path) -> None:
    """Either leaves an exact count behind."""
    other = tmp_path / "other.jsonl"
    other.write_bytes(lines(1))
    cache = ConversationCache()
    cache.get(log_file)
    cache.get(other)

    cache.forget(log_file)
    after_one = cache.statistics
    cache.clear()

    assert (cost(1), 1) == (after_one.bytes, after_one.logs)
    assert (0, 0) == (cache.statistics.bytes, cache.statistics.logs)


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


def test_threads_that_miss_the_same_log_read_it_once(log_file: Path) -> None:
    """One reads, the others wait for what it read."""
    log_file.write_bytes(lines(*range(500)))
    cache = ConversationCache()
    found: list[LogGraph] = []
    readers = [threading.Thread(target=lambda: found.append(cache.get(log_file))) for _ in range(4)]
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()

    assert 1 == len({id(one) for one in found})
    assert (1, 3) == (cache.statistics.misses, cache.statistics.hits)


def test_sessions_of_a_home_share_its_cache(tmp_path: Path) -> None:
    """A session asked for again is not read again; one that grew shows what is new; evictions can be seen."""
    project = tmp_path / "home" / "projects" / "-srv-app"
    project.mkdir(parents=True)
    logs = [project / f"0000000{number}-0000-4000-8000-000000000000.jsonl" for number in (1, 2)]
    said = b'{"type":"user","uuid":"u%d","timestamp":"2026-01-01T00:00:00Z","message":{"content":"hi"}}\n'
    for log in logs:
        log.write_bytes(said % 1)
    home = Home(tmp_path / "home", cache=ConversationCache(budget_bytes=3 * POINT_BYTES))

    first = home.session(logs[0].stem).conversation()
    assert home.session(logs[0].stem).conversation() is first
    with logs[0].open("ab") as grown:
        grown.write(said % 2)
    assert ["u1", "u2"] == list(home.session(logs[0].stem).conversation(leaf="u2").graph.nodes)
    home.session(logs[1].stem).conversation()

    assert ["u1"] == list(first.graph.nodes)
    assert CacheStatistics(hits=1, misses=2, extended=1, evictions=1, bytes=2 * POINT_BYTES, logs=1) == (
        home.cache.statistics
    )
