"""The numbers of the last search in this terminal: ``recollect show 3`` after ``recollect search``.

One small file per terminal in the cache directory, readable by its user only, with ids and no text. A terminal is
known by its device and the session of processes that runs in it, so two windows do not disturb each other. Without a
terminal nothing is remembered, and a number is the start of an id as anywhere else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from recollect.system import fsops

_DIRECTORY = "terminals"
_MOST_TERMINALS, _MOST_BYTES, _MOST_DIGITS = 50, 100_000, 3


class NumberedHit(msgspec.Struct, frozen=True, array_like=True):
    """A session of the last search, and its best message."""

    session: str
    agent: str | None = None
    uuid: str | None = None


class LastSearch(msgspec.Struct, frozen=True):
    """What the numbers mean. ``homes`` are those that were named for the search."""

    homes: tuple[str, ...]
    hits: tuple[NumberedHit, ...]


def remember(cache: Path, homes: Sequence[str], hits: Sequence[NumberedHit]) -> bool:
    """Keep the numbers of a search; False without a terminal, or where nothing can be written."""
    name = _terminal()
    if name is None:
        return False
    data = msgspec.json.encode(LastSearch(tuple(map(_lasting, homes)), tuple(hits)))
    if len(data) > _MOST_BYTES:
        return False
    place = cache / _DIRECTORY
    try:
        fsops.make_directories(place)
        # A hint: it may be lost in a crash, so nothing waits for the disk.
        temporary = place / f".{name}.{os.urandom(4).hex()}"
        fd = fsops.create_new(temporary)
        try:
            fsops.write_all(fd, data)
        finally:
            fsops.close_quietly(fd)
        fsops.rename_over(temporary, place / name)
        _forget_old(place)
    except OSError:
        return False
    return True


def _lasting(home: str) -> str:
    """A home under a name that means the same in another directory."""
    return home if home.startswith(":") else str(Path(home).expanduser().absolute())


def numbered(cache: Path, text: str) -> tuple[LastSearch, NumberedHit] | None:
    """What a number meant in the last search here; None if the text is not one of its numbers."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and text[0] != "0"):
        return None
    last = _last_search(cache)
    if last is None or int(text) > len(last.hits):
        return None
    return last, last.hits[int(text) - 1]


def _last_search(cache: Path) -> LastSearch | None:
    name = _terminal()
    if name is None:
        return None
    try:
        fd = fsops.open_nofollow(cache / _DIRECTORY / name)
        try:
            return msgspec.json.decode(fsops.pread(fd, _MOST_BYTES, 0), type=LastSearch)
        finally:
            fsops.close_quietly(fd)
    except (OSError, msgspec.DecodeError):
        return None


def _terminal() -> str | None:
    """A name for this terminal; None where no standard stream is one."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        try:
            if stream is not None and stream.isatty():
                device = os.ttyname(stream.fileno()) if hasattr(os, "ttyname") else "console"
                owner = os.getsid(0) if hasattr(os, "getsid") else os.getppid()
                return f"{device.strip('/').replace('/', '-')}-{owner}"
        except (OSError, ValueError):
            continue
    return None


def _forget_old(place: Path) -> None:
    """Terminals come and go: only the last few are kept."""
    names = os.listdir(place)  # noqa: PTH208 - names are enough
    if len(names) <= _MOST_TERMINALS:
        return
    files = sorted((place / name for name in names), key=lambda path: path.lstat().st_mtime, reverse=True)
    for path in files[_MOST_TERMINALS:]:
        fsops.unlink(path)
