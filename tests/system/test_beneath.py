"""Opening below a directory: no link, no way out, nothing but files."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from recollect.errors import NotFound, StorageError, UsageError
from recollect.system.openat import open_beneath


def content(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_a_file_is_opened(tmp_path: Path) -> None:
    """By its path below the directory."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("text")

    assert b"text" == content(open_beneath(tmp_path, "a/b"))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "./a", "a//b", "a/", "a\0b"])
def test_a_path_that_is_not_plain_is_refused(tmp_path: Path, path: str) -> None:
    """Before anything is opened."""
    with pytest.raises(UsageError):
        open_beneath(tmp_path, path)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither as the file nor on the way, not even where they stay below."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    (tmp_path / "file-link").symlink_to("d/f")
    (tmp_path / "dir-link").symlink_to("d")
    (tmp_path / "dangling").symlink_to("/tmp/nowhere")
    for path in ("file-link", "dir-link/f", "dangling"):
        with pytest.raises(StorageError):
            open_beneath(tmp_path, path)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """A FIFO would hang, a socket or a device is nobody's text (C09)."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "socket"))
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "socket", "directory"):
        with pytest.raises(StorageError):
            open_beneath(tmp_path, name)
    with pytest.raises(StorageError):
        open_beneath(Path("/dev"), "null")


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    """And says where it was looked for."""
    with pytest.raises(NotFound, match="a/b"):
        open_beneath(tmp_path, "a/b")
