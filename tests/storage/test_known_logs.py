"""A known log is unchanged only where device, inode, size and time are all as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.storage.known_logs import PlacedState, changed_logs, have_same_names


def seen(path: Path) -> PlacedState:
    now = path.stat()
    return (str(path), now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"{}\n")
    return path


def test_a_log_as_it_was(log: Path) -> None:
    assert changed_logs([seen(log)]) == []


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_each_of_the_four_tells_of_a_change(log: Path, place: int) -> None:
    """The log is told as it is now."""
    before = list(seen(log))
    before[place] += 1  # type: ignore[operator]

    assert [(str(log), seen(log)[1:])] == changed_logs([tuple(before)])  # type: ignore[list-item]


def test_another_file_of_the_same_size_and_time(log: Path) -> None:
    """Only its inode tells."""
    before = seen(log)
    other = log.with_name("other")
    other.write_bytes(b"[]\n")
    os.utime(other, ns=(before[4], before[4]))
    other.replace(log)

    assert [(str(log), seen(log)[1:])] == changed_logs([before])


def test_one_log_that_is_gone_leaves_all_unknown(log: Path) -> None:
    gone = (*seen(log),)
    log.unlink()

    assert changed_logs([gone]) is None


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_directory_that_is_another_or_has_another_time(tmp_path: Path, place: int) -> None:
    now = tmp_path.stat()
    known = [str(tmp_path), now.st_dev, now.st_ino, now.st_mtime_ns]
    same = have_same_names([tuple(known)])  # type: ignore[list-item]
    known[place] += 1  # type: ignore[operator]

    assert (True, False) == (same, have_same_names([tuple(known)]))  # type: ignore[list-item]
    assert not have_same_names([(str(tmp_path / "gone"), 1, 1, 1)])
