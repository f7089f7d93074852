"""The tolerant reader: whole lines only, one bad line costs itself, and pages cost pages."""

from __future__ import annotations

import errno
import json
import os
import threading
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.errors import NotFound, StorageError
from recollect.model.lines import codec
from recollect.model.lines import damage as line_split
from recollect.model.lines.damage import BOM, Damage, DamageCode, Limits, Line, PendingTail
from recollect.model.lines.entry import Entry
from recollect.store.logs import reader
from recollect.store.logs.reader import LogReader, OpenLog, read_lines, without_repeats
from tests.client_parser import client_lines
from tests.descriptors import open_descriptors
from tests.transcripts import session_logs

SMALL = Limits(line_bytes=60)
KIBI, MEBI = 1024, 1024 * 1024

# Sound, damaged, odd and blank lines; the last but one is as long as SMALL allows, the last too long.
LINES = [
    b'{"type":"user","uuid":"u1","message":{"content":"hi"}}',
    b'{"type":"tag","tag":"x"}\r',
    b'\xef\xbb\xbf{"type":"mode","mode":"normal"}',
    b'\xef\xbb\xbf{"a":1}{"b":2}',
    b" \xef\xbb\xbf",
    '{"type":"summary","summary":"a\u2028b\u0085c"}'.encode(),
    b"",
    b" \t",
    b"\0\0\0\0\0\0",
    b'{"type":"us',
    b'{"a":1}{"b":2}',
    b'{"a":1} and more',
    b'{"a":',
    b'1,"b":[',
    b'{"c":2}',
    b"]}",
    b"[1,2]",
    b'{"a":"\xff\xfe"}',
    b"[" * 60,
    b"[" * 61,
]
soup = st.one_of(
    st.lists(st.one_of(st.sampled_from(LINES), st.binary(max_size=80))).map(b"\n".join),
    st.lists(st.sampled_from([b"\n", b"{", b"}", b'"a":1', b"\r", b"\0", b"x" * 30])).map(b"".join),
)
TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
chunk = st.sampled_from([1, 2, 7, 64, 1000])


def entry_line(number: int, text: str = "hello") -> bytes:
    return b'{"type":"user","uuid":"u%d","message":{"role":"user","content":%s}}\n' % (
        number,
        json.dumps(text).encode(),
    )


def reference_reader(data: bytes, limits: Limits = SMALL) -> list[Entry | Damage]:
    """The same meaning for a log held in memory, by the client's way of reading: it defines what is right."""
    items: list[Entry | Damage] = []
    for line in client_lines(data, limits.line_bytes)[0]:
        text = data[line.start : line.end]
        body = text.removesuffix(b"\n")
        item = codec.decode(Line(body, line.start, text != body), limits)
        if line.start and text.lstrip(b" \t\r").startswith(BOM) and len(body) <= limits.line_bytes:
            item = Damage(DamageCode.INVALID_JSON, line.start, len(text), "", body)
        if item is not None:
            items.append(item)
    return items


def whole_end(data: bytes) -> int:
    return client_lines(data, SMALL.line_bytes)[1]


def told(items: Iterable[Entry | Damage]) -> list[tuple[object, ...]]:
    """Items without the wording of their damage."""
    return [
        (item.offset, item.end, item.raw)
        if isinstance(item, Entry)
        else (item.offset, item.end, item.code, item.data, item.readable)
        for item in items
    ]


@contextmanager
def chunks_of(size: int) -> Iterator[None]:
    """Let the reader fetch so few bytes at a time that every line lies across an edge; a head holds a mark and a sign."""
    with (
        patch.multiple(reader, _PROBE=size, FIRST_READ=size, READ=2 * size),
        patch.multiple(line_split, FIRST_READ=size, READ=2 * size, _HEAD=max(size, 4)),
    ):
        yield


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@given(data=soup, size=chunk)
def test_streaming_agrees_with_the_reference_reader(data: bytes, size: int, log_file: Path) -> None:
    """Whatever the bytes and wherever a chunk ends, the items are those of the reference reader."""
    log_file.write_bytes(data)

    with chunks_of(size):
        found = list(LogReader(log_file, SMALL))

    assert told(reference_reader(data)) == told(found)


@given(data=soup, size=chunk)
def test_lines_read_backwards_are_the_same_lines(data: bytes, size: int, log_file: Path) -> None:
    """Going from the end to the start meets the same lines and oversize damage, in reverse."""
    log_file.write_bytes(data)

    with chunks_of(size), OpenLog(log_file, SMALL) as log:
        forwards = list(log.lines())
        backwards = list(log.lines_backwards(log.whole_end()))

    assert forwards == backwards[::-1]


@example(data=b"x" * 40 + b"\n", cut=30, size=7)
@example(data=b"{}\n" + BOM + b"\n", cut=7, size=1)
@given(data=soup, cut=st.integers(0, 300), size=chunk)
def test_a_window_is_read_as_if_the_log_ended_there(data: bytes, cut: int, size: int, log_file: Path) -> None:
    """``stop`` leaves out the line that reaches beyond it, exactly as a shorter file would."""
    log_file.write_bytes(data)

    with chunks_of(size):
        found = list(LogReader(log_file, SMALL).entries(stop=cut))

    assert told(reference_reader(data[:cut])) == told(found)


@given(cut=st.integers(0, 5 * len(entry_line(1))))
def test_a_cut_log_shows_whole_lines_and_a_pending_tail(cut: int, log_file: Path) -> None:
    """P2, S3: at any length, an object is an entry once it is whole; before that it is pending, and no damage."""
    data = b"".join(entry_line(number) for number in range(5))[:cut]
    log_file.write_bytes(data)
    whole, rest = divmod(len(data) + 1, len(entry_line(1)))

    log = LogReader(log_file)

    assert [f"u{number}" for number in range(whole)] == [item.uuid for item in log if isinstance(item, Entry)]
    assert (PendingTail(whole * len(entry_line(1)), rest - 1) if rest > 1 else None) == log.pending()


@given(place=st.integers(0, 5 * len(entry_line(1)) - 1), byte=st.binary(min_size=1, max_size=1))
def test_one_bad_byte_leaves_all_other_entries_readable(place: int, byte: bytes, log_file: Path) -> None:
    """H4, P3: a mutated byte costs its own line at most, and a mutated newline the two beside it."""
    lines = [entry_line(number) for number in range(5)]
    data = bytearray(b"".join(lines))
    data[place : place + 1] = byte
    log_file.write_bytes(data)
    hit = place // len(lines[0])
    touched = {hit, hit + 1} if place % len(lines[0]) == len(lines[0]) - 1 else {hit}

    found = {(item.offset, item.raw + b"\n") for item in LogReader(log_file) if isinstance(item, Entry)}

    sound = {(number * len(line), line) for number, line in enumerate(lines) if number not in touched}
    assert set() == sound - found


def test_real_logs_read_alike_from_either_end(log_homes: Path) -> None:
    """Every log beside the project, daily each fourth, reads as the reference reader says."""
    for path in list(session_logs(log_homes))[:: 1 if TORTURE else 4]:
        expected = reference_reader(path.read_bytes(), Limits())
        log = LogReader(path)

        assert told(expected) == told(log), path
        assert told(expected) == told(log.tail(len(expected) + 1)), path


def test_only_the_line_feed_ends_a_line(log_file: Path) -> None:
    """U+2028, U+0085, form feed and carriage return inside a line do not split it."""
    text = b'{"type":"summary","summary":"a\xe2\x80\xa8b\xc2\x85c\\fd"}'
    log_file.write_bytes(text + b"\r\n")

    assert [Line(text + b"\r", 0)] == list(read_lines(log_file))


@pytest.mark.parametrize("backwards", [False, True])
def test_an_oversize_line_is_never_held(log_file: Path, backwards: bool) -> None:
    """L3: a 24 MiB line under a limit of 1 MiB is told by place and length, in a few MiB of memory."""
    long = b'{"a":"' + b"x" * (24 * MEBI) + b'"}\n'
    log_file.write_bytes(entry_line(1) + long + entry_line(2))
    expected = [(0, len(entry_line(1))), (len(entry_line(1)), len(long)), (len(entry_line(1) + long), 72)]
    log = LogReader(log_file, Limits(line_bytes=MEBI))
    del long

    tracemalloc.start()
    items = log.tail(3) if backwards else list(log)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert expected == [(item.offset, item.length) for item in items]
    assert isinstance(items[1], Damage)
    assert (DamageCode.OVERSIZE, b"") == (items[1].code, items[1].data)
    assert peak < 4 * MEBI


def test_an_endless_tail_is_never_held(log_file: Path) -> None:
    """24 MiB without a newline are pending; looking for the newline takes little memory."""
    log_file.write_bytes(entry_line(1) + b"x" * (24 * MEBI))
    log = LogReader(log_file)

    tracemalloc.start()
    counts = len(list(log)), len(log.tail(5)), log.pending()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (1, 1, PendingTail(len(entry_line(1)), 24 * MEBI)) == counts
    assert peak < 4 * MEBI


def test_an_entry_is_found_by_its_exact_offset_only(log_file: Path) -> None:
    """An offset inside a line, at a blank line, in the tail or outside the log finds nothing."""
    last = b'{"type":"mode","mode":"x"}'
    log_file.write_bytes(entry_line(1) + b"oops\n" + b"\n" + last + b"\n" + last[:-1])
    log, size = LogReader(log_file), len(entry_line(1))

    found = [log.entry_at(offset) for offset in (0, size, size + 6)]
    nothing = [log.entry_at(offset) for offset in (1, size + 5, size + 7 + len(last), 2**80, -1)]

    assert ["Entry", "Damage", "Entry"] == [type(item).__name__ for item in found]
    assert [None] * 5 == nothing


def test_a_log_cut_while_it_is_read_ends_the_pass(log_file: Path) -> None:
    """A truncation in the middle of an iteration raises nothing and yields no part of a line."""
    log_file.write_bytes(entry_line(1) * 10)

    with chunks_of(100):
        items = iter(LogReader(log_file))
        first = next(items)
        os.truncate(log_file, len(entry_line(1)) + 20)
        rest = list(items)

    assert isinstance(first, Entry)
    assert {entry_line(1)[:-1]} >= {item.raw for item in rest if isinstance(item, Entry)}
    assert [] == [item for item in rest if isinstance(item, Damage)]


@pytest.mark.parametrize("content", [b"", b"x" * 1000], ids=["cut", "overwritten"])
def test_a_log_changed_while_it_is_read_backwards_ends_the_pass(log_file: Path, content: bytes) -> None:
    """No newline where a line was to end: nothing more can be said about what came before."""
    log_file.write_bytes(entry_line(1) * 10)

    with chunks_of(100), OpenLog(log_file) as log:
        lines = log.lines_backwards(log.whole_end())
        first = next(lines)
        log_file.write_bytes(content)
        rest = list(lines)

    assert {entry_line(1)[:-1]} >= {line.data for line in (first, *rest) if isinstance(line, Line)}
    assert len(rest) < 3


def test_a_log_that_grows_while_it_is_read_is_read_on(log_file: Path) -> None:
    """Entries appended during an iteration belong to it."""
    log_file.write_bytes(entry_line(1))
    items = iter(LogReader(log_file))
    next(items)

    with log_file.open("ab") as log:
        log.write(entry_line(2))

    assert [entry_line(2)[:-1]] == [item.raw for item in items if isinstance(item, Entry)]


@pytest.mark.parametrize("before", [b"", b'{"a":\n'], ids=["sound", "an open line before it"])
@pytest.mark.parametrize("rest", [b'{"b":2}', b",x", b"x" * 200], ids=["glued", "cut", "long"])
def test_what_follows_a_last_entry_is_read_on_as_damage(before: bytes, rest: bytes, log_file: Path) -> None:
    """From the end of that entry, where a reader stopped: the rest of its line, then the next entry."""
    log_file.write_bytes(before + entry_line(1)[:-1] + rest[:7])
    log = LogReader(log_file, Limits(line_bytes=100))
    end = log.tail(1)[0].end
    log_file.write_bytes(before + entry_line(1)[:-1] + rest + b"\n" + entry_line(2))
    damage, entry = log.entries(end)

    assert len(before) + len(entry_line(1)) - 1 == end
    assert isinstance(damage, Damage)
    assert (end, end + len(rest) + 1) == (damage.offset, damage.end)
    assert isinstance(entry, Entry)
    assert entry_line(2)[:-1] == entry.raw


def test_a_reader_beside_a_writer_sees_no_torn_line(log_file: Path) -> None:
    """S3: with a writer that stops in the middle of each line, every pass yields a run of whole entries."""
    log_file.write_bytes(b"")
    done = threading.Event()

    def write_in_halves() -> None:
        with log_file.open("ab", buffering=0) as log:
            for number in range(300):
                line = entry_line(number)
                log.write(line[: number % len(line)])
                log.write(line[number % len(line) :])
        done.set()

    writer = threading.Thread(target=write_in_halves)
    writer.start()
    passes: list[list[object]] = []
    while not (passes and done.is_set()):
        passes.append([item.uuid if isinstance(item, Entry) else item for item in LogReader(log_file)])
    writer.join()

    assert [] == [found for found in passes if found != [f"u{number}" for number in range(len(found))]]


def test_a_missing_log_is_not_found(tmp_path: Path) -> None:
    """A name that leads nowhere is our own typed error, at the first item asked for."""
    with pytest.raises(NotFound):
        next(iter(LogReader(tmp_path / "no.jsonl")))
    with pytest.raises(NotFound):
        LogReader(tmp_path / "no.jsonl" / "below.jsonl").tail(1)


def test_pipes_devices_and_directories_are_refused(tmp_path: Path) -> None:
    """None of them is a log, and a pipe without a writer must not hang the reader."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)

    for path in (pipe, Path(os.devnull), tmp_path):
        # Opening some devices does something, so they are not even opened.
        with (
            patch.object(os, "open", side_effect=AssertionError("it was opened")),
            pytest.raises(StorageError, match="not a regular file"),
        ):
            LogReader(path).tail(1)


def test_a_pipe_that_takes_the_place_of_a_log_is_refused(tmp_path: Path) -> None:
    """The check is repeated on the open descriptor, and the descriptor is given back."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    regular = os.stat(__file__)

    with (
        patch.object(Path, "stat", lambda _self: regular),
        pytest.raises(StorageError, match="not a regular file"),
    ):
        OpenLog(pipe)


def test_a_disk_error_is_typed(log_file: Path) -> None:
    """An error of the disk while reading names the log and keeps its cause."""
    log_file.write_bytes(entry_line(1))

    def failing(_fd: int, _size: int, _offset: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with patch.object(reader, "_read_at", failing), pytest.raises(StorageError) as caught:
        list(LogReader(log_file))

    cause = caught.value.__cause__
    assert isinstance(cause, OSError)
    assert (errno.EIO, log_file) == (cause.errno, caught.value.path)


@needs_proc
def test_descriptors_are_given_back(log_file: Path) -> None:
    """After every call, and after an iteration that was left early, no descriptor is open."""
    log_file.write_bytes(entry_line(1) * 10)
    log, before = LogReader(log_file), open_descriptors()

    log.tail(3)
    log.entry_at(0)
    log.pending()
    left_early = log.entries()
    next(left_early)
    left_early.close()

    assert before == open_descriptors()


def test_reading_writes_nothing(log_file: Path) -> None:
    """H10: size, times of change, inode and the directory are as before, also where writing is forbidden."""
    log_file.write_bytes(entry_line(1) * 3 + b"torn")
    log_file.chmod(0o400)
    log_file.parent.chmod(0o500)
    before = log_file.stat(), os.listdir(log_file.parent)

    log = LogReader(log_file)
    list(log), log.tail(2), log.pending(), log.entry_at(0)

    after = log_file.stat(), os.listdir(log_file.parent)
    log_file.parent.chmod(0o700)
    changes = [(s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino) for s in (before[0], after[0])]
    assert changes[0] == changes[1]
    assert before[1] == after[1]


def test_only_exact_repeats_are_left_out(log_file: Path) -> None:
    """P9: an append that was repeated counts once; one id with other bytes, metadata and damage stay."""
    other = entry_line(1, "another text")
    title = b'{"type":"custom-title","customTitle":"t"}\n'
    log_file.write_bytes(entry_line(1) + other + entry_line(1) + other + title + title + b"bad\nbad\n")

    kept = list(without_repeats(LogReader(log_file)))

    bytes_kept = [item.raw + b"\n" if isinstance(item, Entry) else item.data + b"\n" for item in kept]
    assert [entry_line(1), other, title, title, b"bad\n", b"bad\n"] == bytes_kept
    assert [0, len(entry_line(1))] == [item.offset for item in kept[:2]]
