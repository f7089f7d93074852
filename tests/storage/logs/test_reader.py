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

from recollect.errors import NotFound, StorageError, UsageError
from recollect.model import codec, line_split
from recollect.model.damage import Damage, DamageCode, Limits, Line, PendingTail
from recollect.model.entry import Entry
from recollect.model.line_split import BOM
from recollect.storage.logs import reader
from recollect.storage.logs.reader import LogPage, LogReader, OpenLog, read_lines, without_repeats
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


def pages_forward(log: LogReader, limit: int) -> list[LogPage]:
    pages = [log.page_forward(0, limit)]
    while not pages[-1].at_end:
        pages.append(log.page_forward(pages[-1].end, limit))
    return pages


def pages_backward(log: LogReader, limit: int) -> list[LogPage]:
    """In the order of the log."""
    pages = [log.page_backward(None, limit)]
    while not pages[0].at_start:
        pages.insert(0, log.page_backward(pages[0].start, limit))
    return pages


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


@example(data=b'{"a":\n{"a":1}{"b":2}', size=1, limit=1)
@example(data=b'{"a":\n{"a":1},\r}', size=1, limit=1)
@given(data=soup, size=chunk, limit=st.integers(1, 4))
def test_pages_cover_every_byte_once_in_both_directions(
    data: bytes, size: int, limit: int, log_file: Path
) -> None:
    """Pages join without gap or overlap from byte 0 to the last whole line and hold every item once."""
    log_file.write_bytes(data)
    log = LogReader(log_file, SMALL)

    with chunks_of(size):
        both = [pages_forward(log, limit), pages_backward(log, limit)]

    for pages in both:
        assert 0 == pages[0].start
        assert [page.end for page in pages[:-1]] == [page.start for page in pages[1:]]
        assert whole_end(data) == pages[-1].end
        assert told(reference_reader(data)) == told(item for page in pages for item in page.items)


@given(number=st.integers(0, 4), inside=st.integers(0, 71), size=chunk)
def test_an_offset_inside_a_line_moves_to_a_start(
    number: int, inside: int, size: int, log_file: Path
) -> None:
    """Forwards to the next start of a line, backwards to the last one; beyond the end to the end."""
    length = len(entry_line(1))
    log_file.write_bytes(b"".join(entry_line(one) for one in range(5))[:-1])
    log, end = LogReader(log_file, Limits()), 5 * length - 1
    offset = number * length + inside

    with chunks_of(size):
        moved = log.page_forward(offset, 2).start, log.page_backward(offset, 2).end

    # Where an entry ends without its newline, a reader may stop, and read on later.
    own = inside in (0, length - 1) or offset >= end
    after, before = (offset, offset) if own else ((number + 1) * length, number * length)
    assert (min(after, end), min(before, end)) == moved


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


def test_real_logs_stream_and_page_alike(shared: Path) -> None:
    """Every log beside the project, daily each fourth, reads as the reference reader says, streamed or by pages of 50."""
    for path in list(session_logs(shared))[:: 1 if TORTURE else 4]:
        expected = reference_reader(path.read_bytes(), Limits())
        log = LogReader(path)

        assert told(expected) == told(log), path
        assert told(expected) == told(item for page in pages_forward(log, 50) for item in page.items), path
        assert told(expected) == told(item for page in pages_backward(log, 50) for item in page.items), path


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
    items = log.page_backward(None, 3).items if backwards else list(log)
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
    counts = len(list(log)), len(log.tail(5).items), log.pending()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (1, 1, PendingTail(len(entry_line(1)), 24 * MEBI)) == counts
    assert peak < 4 * MEBI


def test_a_line_of_several_chunks_is_read_whole(log_file: Path) -> None:
    """A sound line of 1 MiB comes back byte for byte, from either end."""
    long = entry_line(1, "long " * (200 * KIBI))
    log_file.write_bytes(entry_line(0) + long + entry_line(2))
    log = LogReader(log_file)

    found = [list(log)[1], log.tail(2).items[0]]

    assert [long[:-1], long[:-1]] == [item.raw for item in found if isinstance(item, Entry)]


def test_a_page_costs_a_page(log_file: Path) -> None:
    """50 entries of 1 KiB from the end, or the middle, of a 20 MiB log touch a few hundred KiB of it."""
    line = entry_line(1, "x" * 957)
    assert KIBI == len(line)
    log_file.write_bytes(line * (20 * KIBI))
    log, fetched = LogReader(log_file), []

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = os.pread(fd, size, offset)
        fetched.append(len(data))
        return data

    with patch.object(reader, "_read_at", counted):
        pages = [log.tail(50), log.page_backward(10 * MEBI, 50), log.page_forward(10 * MEBI, 50)]

    assert [50, 50, 50] == [len(page.items) for page in pages]
    assert sum(fetched) < 3 * 200 * KIBI


def test_a_page_and_the_way_back_are_the_same_entries(log_file: Path) -> None:
    """``end`` of a page handed to ``page_backward`` gives that page again."""
    log_file.write_bytes(b"".join(entry_line(number) for number in range(10)))
    log = LogReader(log_file)

    there = log.page_forward(3 * len(entry_line(1)), 4)

    assert there == log.page_backward(there.end, 4)


def test_a_page_knows_both_ends(log_file: Path) -> None:
    """``at_start`` and ``at_end`` are true for the pages that touch the start and the last newline."""
    log_file.write_bytes(entry_line(1) * 4 + b'{"torn')
    log, size = LogReader(log_file), len(entry_line(1))

    ends = [(page.at_start, page.at_end) for page in (log.tail(2), log.tail(4), log.page_forward(size, 1))]

    assert [(False, True), (True, True), (False, False)] == ends


def test_blank_lines_at_the_start_belong_to_the_first_page(log_file: Path) -> None:
    """Nobody has to ask for another page only to find nothing in it."""
    log_file.write_bytes(b"\n\n" + entry_line(1))

    page = LogReader(log_file).tail(5)

    assert (0, True) == (page.start, page.at_start)


def test_a_page_of_nothing_is_refused(log_file: Path) -> None:
    """A page must move the cursor, so it holds at least one entry."""
    log_file.write_bytes(entry_line(1))

    with pytest.raises(UsageError):
        LogReader(log_file).page_forward(0, 0)


@pytest.mark.parametrize("length", [0, 1, 26, 27, 28, 60, 1 << 40])
def test_an_entry_is_the_same_whatever_length_is_expected(log_file: Path, length: int) -> None:
    """The expected length saves reading and decides nothing: not for a value over two lines, nor for the last one."""
    short = b'{"type":"mode","mode":"x"}\n'
    log_file.write_bytes(short + short + b'{"type":"mode",\n"mode":"y"}\n' + short + b"oops\n" + short)
    log, starts = LogReader(log_file), (0, 27, 54, 70, 82, 109, 114)

    assert [log.entry_at(start) for start in starts] == [log.entry_at(start, length) for start in starts]


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


def test_a_log_cut_before_a_page_is_read_gives_an_empty_page(log_file: Path) -> None:
    """A cursor beyond the end of a truncated log stands at its new end."""
    log_file.write_bytes(entry_line(1))

    page = LogReader(log_file).page_forward(9999, 5)

    assert LogPage([], len(entry_line(1)), len(entry_line(1)), False, True) == page


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
    end = log.tail(1).end
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


def test_a_linked_log_is_read(tmp_path: Path, log_file: Path) -> None:
    """The client works with linked logs, so the reader does."""
    log_file.write_bytes(entry_line(7))
    link = tmp_path / "link.jsonl"
    link.symlink_to(log_file)

    assert list(LogReader(log_file)) == list(LogReader(link))


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
    log.page_forward(0, 3)
    log.entry_at(0)
    log.pending()
    left_early = log.entries()
    next(left_early)
    left_early.close()

    assert before == open_descriptors()


def test_a_descriptor_does_not_survive_exec(log_file: Path) -> None:
    """A program started by ours never inherits an open log."""
    log_file.write_bytes(b"")

    with OpenLog(log_file) as log:
        assert not os.get_inheritable(log.fd)


def test_a_borrowed_descriptor_stays_open(log_file: Path) -> None:
    """``read_lines`` takes a descriptor without closing it or moving its position."""
    log_file.write_bytes(entry_line(1))

    with log_file.open("rb") as borrowed:
        lines = list(read_lines(borrowed.fileno()))
        again = borrowed.read()

    assert (entry_line(1), entry_line(1)) == (
        b"".join(line.data for line in lines if isinstance(line, Line)) + b"\n",
        again,
    )


def test_reading_writes_nothing(log_file: Path) -> None:
    """H10: size, times of change, inode and the directory are as before, also where writing is forbidden."""
    log_file.write_bytes(entry_line(1) * 3 + b"torn")
    log_file.chmod(0o400)
    log_file.parent.chmod(0o500)
    before = log_file.stat(), os.listdir(log_file.parent)

    log = LogReader(log_file)
    list(log), log.tail(2), log.page_forward(0, 2), log.pending(), log.entry_at(0)

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
