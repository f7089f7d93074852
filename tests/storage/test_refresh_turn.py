"""Whoever asks for the turn gets it once in a while, and nobody beside them."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recollect.storage import refresh_turn
from recollect.storage.refresh_turn import is_recent, take_turn


def aged(path: Path, seconds: float) -> Path:
    """A marker that was last taken so long ago."""
    path.touch()
    moment = time.time() - seconds
    os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize(
    ("seconds", "recent"), [(0, True), (14, True), (16, False), (-14, True), (-3_600, False)]
)
def test_recent_is_what_was_changed_a_moment_ago(tmp_path: Path, seconds: float, recent: bool) -> None:
    """A time far in the future is left from a clock that was set back: it must not stop us for long."""
    assert recent == is_recent(str(aged(tmp_path / "marker", seconds)), 15)


def test_the_first_to_ask_has_the_turn_and_the_next_has_not(tmp_path: Path) -> None:
    """The directory is made on the way; what is in it is nobody else's business."""
    marker = tmp_path / "not" / "there" / "marker"

    assert [True, False] == [take_turn(str(marker), 15), take_turn(str(marker), 15)]
    assert (0o600, 0o700) == tuple(
        stat.S_IMODE(path.stat().st_mode) for path in (marker, tmp_path / "not" / "there")
    )


def test_after_a_while_the_turn_can_be_had_again(tmp_path: Path) -> None:
    """Once; then it is as young as if it had just been made."""
    marker = aged(tmp_path / "marker", 16)

    assert [True, False] == [take_turn(str(marker), 15), take_turn(str(marker), 15)]


@pytest.mark.parametrize("is_there", [False, True])
def test_of_many_who_ask_at_once_one_has_the_turn(tmp_path: Path, is_there: bool) -> None:
    """Sixteen at the same moment, thirty times, with an old marker and with none."""
    winners = []
    with ThreadPoolExecutor(16) as pool:
        for number in range(30):
            marker = tmp_path / f"marker{number}"
            if is_there:
                aged(marker, 3_600)
            start = threading.Barrier(16)

            def ask(marker: Path = marker, start: threading.Barrier = start) -> bool:
                start.wait()
                return take_turn(str(marker), 15)

            winners.append(sum(future.result() for future in [pool.submit(ask) for _ in range(16)]))

    assert [1] * 30 == winners


def test_who_is_kept_waiting_by_another_goes_on_at_once(tmp_path: Path) -> None:
    """Somebody holds the lock on an old marker: no turn, and no waiting for it."""
    fcntl = pytest.importorskip("fcntl")
    marker = aged(tmp_path / "marker", 3_600)
    with marker.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        assert not take_turn(str(marker), 15)


def test_a_file_system_without_locks_has_the_time_to_go_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn can be had; twice at the same moment at worst."""
    fcntl = pytest.importorskip("fcntl")

    def refuse(fd: int, operation: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    marker = aged(tmp_path / "marker", 3_600)

    assert [True, False] == [take_turn(str(marker), 15), take_turn(str(marker), 15)]


def test_where_there_are_no_locks_at_all_the_time_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Windows."""
    monkeypatch.setattr(refresh_turn, "fcntl", None)
    marker = aged(tmp_path / "marker", 3_600)

    assert [True, False] == [take_turn(str(marker), 15), take_turn(str(marker), 15)]


def test_where_nothing_can_be_written_nobody_has_the_turn(tmp_path: Path) -> None:
    """A file stands where the directory should be; a link is not followed."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(aged(tmp_path / "elsewhere", 3_600))

    assert [False, False] == [take_turn(str(tmp_path / name), 15) for name in ("file/marker", "link")]
