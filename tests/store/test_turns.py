"""Whoever asks for the turn gets it once in a while, and nobody beside them."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recollect.store.turns import take_turn


def aged(path: Path, seconds: float) -> Path:
    """A marker that was last taken so long ago."""
    path.touch()
    moment = time.time() - seconds
    os.utime(path, (moment, moment))
    return path


def test_the_first_to_ask_has_the_turn_and_the_next_has_not(tmp_path: Path) -> None:
    """The directory is made on the way; what is in it is nobody else's business."""
    marker = tmp_path / "not" / "there" / "marker"

    assert [True, False] == [take_turn(str(marker), 15), take_turn(str(marker), 15)]
    assert (0o600, 0o700) == tuple(
        stat.S_IMODE(path.stat().st_mode) for path in (marker, tmp_path / "not" / "there")
    )


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


def test_where_nothing_can_be_written_nobody_has_the_turn(tmp_path: Path) -> None:
    """A file stands where the directory should be; a link is not followed."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(aged(tmp_path / "elsewhere", 3_600))

    assert [False, False] == [take_turn(str(tmp_path / name), 15) for name in ("file/marker", "link")]
