"""Whether a repository tracks a file, read from ``.git/index`` itself.

No program is started: git runs hooks and filters that the repository names, and this runs before the
repository is trusted (E03). Only the list of names is read. If the index has an unknown version, is split
over files or cannot be read, the file counts as tracked, which is the safe answer.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from recollect.system.peek import open_regular

_LARGEST = 512 << 20
_HEADER = struct.Struct(">4sII")
_STAT_BYTES = 40
_EXTENDED = 0x4000


class UnknownIndex(ValueError):
    """An index in a format that is not supported."""


def is_tracked(file: Path) -> bool:
    """Whether any repository around ``file`` tracks it, or may track it."""
    file = Path(os.path.realpath(file.parent), file.name)
    return any(_tracks(root, file) for root in file.parents)


def _tracks(root: Path, file: Path) -> bool:
    try:
        index = _index_of(root)
        if index is None:
            return False
        with open_regular(index) as opened:
            data = opened.read(_LARGEST + 1)
    except FileNotFoundError:
        return False  # a repository without an index tracks nothing yet
    except (OSError, ValueError):
        return True
    wanted = os.fsencode(file.relative_to(root).as_posix()).lower()
    try:
        # Case-insensitive: on some systems two spellings are one file.
        return any(name.lower() == wanted for name in tracked_names(data))
    except UnknownIndex:
        return True


def _index_of(root: Path) -> Path | None:
    """The index of the repository at ``root``; None if there is none."""
    git = root / ".git"
    try:
        is_directory = git.is_dir()
        if is_directory:
            return git / "index"
        if not os.path.lexists(git):
            return None
    except OSError:
        return None
    with open_regular(git) as opened:  # a worktree or a submodule: the file names the directory
        words = opened.read(1 << 16).decode(errors="strict").strip()
    if not words.startswith("gitdir:"):
        raise UnknownIndex("no gitdir")
    return root / words.removeprefix("gitdir:").strip() / "index"


def tracked_names(data: bytes) -> list[bytes]:
    """The names in an index of version 2, 3 or 4, with object ids of either length."""
    if len(data) > _LARGEST or len(data) < _HEADER.size:
        raise UnknownIndex("size")
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        raise UnknownIndex("version")
    for id_bytes in (20, 32):
        try:
            return _names(data, version, count, id_bytes)
        except _WrongLength:
            continue
    raise UnknownIndex("cut off")


class _WrongLength(ValueError):
    """The entries do not end where the rest of the file begins."""


def _names(data: bytes, version: int, count: int, id_bytes: int) -> list[bytes]:
    position, name, names = _HEADER.size, b"", list[bytes]()
    fixed = _STAT_BYTES + id_bytes + 2
    for _ in range(count):
        start = position
        if len(data) < start + fixed:
            raise _WrongLength
        flags = int.from_bytes(data[start + fixed - 2 : start + fixed], "big")
        position = start + fixed + (2 if flags & _EXTENDED else 0)
        kept = b""
        if version == 4:
            removed, position = _offset(data, position)
            if removed > len(name):
                raise _WrongLength
            kept = name[: len(name) - removed]
        end = data.find(b"\0", position)
        if end < 0:
            raise _WrongLength
        name = kept + data[position:end]
        names.append(name)
        position = end + 1 if version == 4 else start + ((end - start) // 8 + 1) * 8
    _check_rest(data, position, len(data) - id_bytes)
    return names


def _check_rest(data: bytes, position: int, end: int) -> None:
    """Extensions must fill the file up to its checksum; references to another file are not followed."""
    while position < end:
        if data[position : position + 4] == b"link":
            raise UnknownIndex("split over two files")
        position += 8 + int.from_bytes(data[position + 4 : position + 8], "big")
    if position != end:
        raise _WrongLength


def _offset(data: bytes, position: int) -> tuple[int, int]:
    """Git's number of variable length: how much of the last name is dropped."""
    if position >= len(data):
        raise _WrongLength
    byte = data[position]
    value, position = byte & 0x7F, position + 1
    while byte & 0x80:
        if position >= len(data) or value > _LARGEST:
            raise _WrongLength
        byte = data[position]
        value, position = ((value + 1) << 7) | (byte & 0x7F), position + 1
    return value, position
