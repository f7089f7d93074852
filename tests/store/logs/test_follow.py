"""Following a log: what is appended arrives once and whole, and a log that is another one is announced."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines.damage import Damage, DamageCode, Limits
from recollect.store.logs.follow import Followed, Follower, FollowFrom, Reset, follow
from recollect.store.logs.reader import OpenLog


def line(number: int) -> bytes:
    return b'{"type":"user","uuid":"u%d","message":{"content":"hello"}}\n' % number


def lines(*numbers: int) -> bytes:
    return b"".join(line(number) for number in numbers)


def told(items: list[Followed]) -> list[str]:
    """Ids of entries, codes of damage, reasons of resets."""
    return [
        item.reason if isinstance(item, Reset) else item.code if isinstance(item, Damage) else item.uuid or ""
        for item in items
    ]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as log:
        log.write(data)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines(1, 2))
    return path


def test_what_is_there_comes_first_and_then_what_is_appended(log_file: Path) -> None:
    """Each entry is handed out once, in the order of the log; a look without news is empty."""
    with Follower(log_file) as follower:
        seen = [told(follower.look()), told(follower.look())]
        append(log_file, lines(3))
        seen += [told(follower.look()), told(follower.look())]

    assert [["u1", "u2"], [], ["u3"], []] == seen


@pytest.mark.parametrize("offset", [-1, "end"])
def test_from_the_end_only_new_entries_come(log_file: Path, offset: FollowFrom) -> None:
    """A tail that is still being written counts as new once its newline is there."""
    append(log_file, line(3)[:20])
    with Follower(log_file, offset) as follower:
        seen = [told(follower.look())]
        append(log_file, line(3)[20:] + line(4))
        seen.append(told(follower.look()))

    assert [[], ["u3", "u4"]] == seen


def test_following_resumes_at_an_offset(log_file: Path) -> None:
    """The ``end`` of an entry is where a later process goes on; inside a line it means the next one."""
    for offset in (len(line(1)), len(line(1)) - 5):
        with Follower(log_file, offset) as follower:
            seen = [told(follower.look())]
            append(log_file, b"\n")
            seen.append(told(follower.look()))

        assert [["u2"], []] == seen


@given(pieces=st.lists(st.integers(1, 90), min_size=1, max_size=12))
def test_only_whole_lines_come_however_they_are_written(pieces: list[int], tmp_path: Path) -> None:
    """P2: after writes of any lengths, exactly the entries whose last bracket was written have come."""
    data = lines(*range(20))
    log = tmp_path / "pieces.jsonl"
    log.write_bytes(b"")
    seen: list[str] = []
    written = 0
    with Follower(log) as follower:
        for size in pieces:
            append(log, data[written : written + size])
            written = min(written + size, len(data))
            seen += told(follower.look())

            whole = data[:written].count(b"\n") + (data[written : written + 1] == b"\n")
            assert [f"u{number}" for number in range(whole)] == seen


def test_a_truncated_log_is_announced_and_read_from_its_start(log_file: Path) -> None:
    """A log that became shorter is another log."""
    with Follower(log_file) as follower:
        follower.look()
        log_file.write_bytes(lines(7))
        seen = [told(follower.look()), told(follower.look())]

    assert [["truncated"], ["u7"]] == seen


def test_a_truncated_log_that_grew_beyond_our_place_is_noticed(log_file: Path) -> None:
    """The bytes before our place are others, so the size alone does not deceive."""
    with Follower(log_file) as follower:
        follower.look()
        log_file.write_bytes(lines(7, 8, 9))
        seen = [told(follower.look()), told(follower.look())]

    assert [["truncated"], ["u7", "u8", "u9"]] == seen


def test_a_log_overwritten_by_as_many_bytes_is_noticed(log_file: Path) -> None:
    """Same file, same size, other entries."""
    with Follower(log_file) as follower:
        follower.look()
        log_file.write_bytes(lines(7, 8))
        seen = [told(follower.look()), told(follower.look())]

    assert [["truncated"], ["u7", "u8"]] == seen


def test_a_replaced_log_is_drained_first(log_file: Path, tmp_path: Path) -> None:
    """What was appended under the old name up to the rename is handed out before the new log begins."""
    new = tmp_path / "new"
    new.write_bytes(lines(8))
    with Follower(log_file, "end") as follower:
        follower.look()
        append(log_file, lines(3))
        os.replace(new, log_file)
        seen = [told(follower.look()) for _ in range(4)]

    assert [["u3"], ["replaced"], ["u8"], []] == seen


def test_a_line_that_lands_during_the_check_is_not_lost(log_file: Path, tmp_path: Path) -> None:
    """An entry appended after the last look and before the rename is seen all the same."""
    new = tmp_path / "new"
    new.write_bytes(lines(8))
    with Follower(log_file) as follower:
        follower.look()
        find_out = follower._renamed

        def renamed_meanwhile(log: OpenLog) -> str | None:
            if new.exists():
                append(log_file, lines(3))
                os.replace(new, log_file)
            return find_out(log)

        with patch.object(follower, "_renamed", renamed_meanwhile):
            seen = [told(follower.look()) for _ in range(3)]

    assert [["u3"], ["replaced"], ["u8"]] == seen


def test_a_log_may_vanish_and_come_back(log_file: Path) -> None:
    """Deletion is announced once, absence is waited out, a new log is read from its start."""
    with Follower(log_file, "end") as follower:
        seen = [told(follower.look())]
        log_file.unlink()
        seen += [told(follower.look()), told(follower.look())]
        log_file.write_bytes(lines(9))
        seen += [told(follower.look()), told(follower.look())]

    assert [[], ["vanished"], [], ["u9"], []] == seen


def test_a_log_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    """Even from the end: what appears later is new as a whole."""
    with Follower(tmp_path / "later.jsonl", "end") as follower:
        seen = [told(follower.look())]
        append(tmp_path / "later.jsonl", lines(1))
        seen.append(told(follower.look()))

    assert [[], ["u1"]] == seen


def test_resuming_in_a_log_that_is_gone_or_shorter_is_announced(tmp_path: Path, log_file: Path) -> None:
    """An offset from an earlier process is not trusted where the log cannot have it."""
    with Follower(tmp_path / "gone.jsonl", 50) as gone, Follower(log_file, 5000) as shorter:
        seen = [told(gone.look()), told(gone.look()), told(shorter.look()), told(shorter.look())]

    assert [["vanished"], [], ["truncated"], ["u1", "u2"]] == seen


def test_damage_comes_in_its_place(log_file: Path) -> None:
    """Bad and oversize lines are values among the entries, and following goes on behind them."""
    with Follower(log_file, limits=Limits(line_bytes=100)) as follower:
        append(log_file, b"bad\n" + b"x" * 200 + b"\n")
        seen = told(follower.look())
        append(log_file, lines(3))
        seen += told(follower.look())

    assert ["u1", "u2", DamageCode.INVALID_JSON, DamageCode.OVERSIZE, "u3"] == seen


def test_follow_sleeps_by_its_stop_event(log_file: Path) -> None:
    """Without a ``wait`` of our own, setting ``stop`` from another thread ends even a long pause."""
    stop = threading.Event()
    seen: list[str] = []
    items = follow(log_file, poll=600, stop=stop)
    thread = threading.Thread(target=lambda: seen.extend(told(list(items))))

    thread.start()
    stop.set()
    thread.join(60)

    assert not thread.is_alive()
    assert ["u1", "u2"][: len(seen)] == seen
