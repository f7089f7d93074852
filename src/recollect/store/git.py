"""The commits of a file, with its text in each: read through git, which is told to run and fetch nothing.

Only ``log`` without a diff, or with the names of renamed files, and ``cat-file`` are used: neither runs hooks, filters, text
converters or a pager, and nothing is written, not even the index. Lazy fetching is off. Where git is missing, or the directory is no repository,
there are no commits.
"""

from __future__ import annotations

import datetime as dt
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.system.peek import open_regular

_OPTIONS = (
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "log.showSignature=false",
)
_FORMAT = "--format=%H%x1f%ct%x1f%s"
_SECONDS = 30


class FileCommit(Struct, frozen=True):
    """A commit that changed the file; ``text`` is the file in it and ``before`` in its first parent, None for none."""

    id: str
    at: dt.datetime
    subject: str
    text: bytes | None
    before: bytes | None


def file_commits(path: Path, limit: int) -> list[FileCommit]:
    """The newest commits that changed a file, newest first."""
    name = path.name
    if "\n" in name or not path.parent.is_dir():
        return []
    listed = _git(path.parent, ["log", f"--max-count={limit}", "-z", _FORMAT, "--", name])
    rows = [row.split("\x1f", 2) for row in listed.decode("utf-8", "replace").split("\0") if row]
    rows = [row for row in rows if len(row) == 3 and row[1].isdigit()]
    wanted = [f"{row[0]}{parent}:./{name}" for row in rows for parent in ("", "^")]
    asked = "".join(f"{one}\n" for one in wanted).encode("utf-8", "surrogateescape")
    texts = list(_objects(_git(path.parent, ["cat-file", "--batch"], asked), len(wanted))) if rows else []
    if len(texts) != len(wanted):
        return []
    return [
        FileCommit(
            row[0],
            dt.datetime.fromtimestamp(int(row[1]), dt.UTC),
            row[2],
            texts[2 * number],
            texts[2 * number + 1],
        )
        for number, row in enumerate(rows)
    ]


def former_names(path: Path) -> list[Path]:
    """The paths that a file had before commits renamed it, newest first, as git sees it by content."""
    if "\n" in path.name or not path.parent.is_dir():
        return []
    words = ["log", "--follow", "--diff-filter=R", "--name-status", "-M", "-z", "--format="]
    listed = _git(path.parent, [*words, "--no-ext-diff", "--no-textconv", "--", path.name])
    names = [part for part in listed.split(b"\0") if part]
    if not names:
        return []
    root = os.fsdecode(_git(path.parent, ["rev-parse", "--show-toplevel"]).rstrip(b"\n"))
    return [Path(root, os.fsdecode(old)) for _, old, _ in zip(*[iter(names)] * 3, strict=False)]


def _objects(answer: bytes, count: int) -> Iterator[bytes | None]:
    """The objects of ``cat-file --batch``, None for each that is missing."""
    at = 0
    for _ in range(count):
        end = answer.find(b"\n", at)
        if end < 0:
            return
        head = answer[at:end].split(b" ")
        at = end + 1
        if len(head) == 3 and head[1] == b"blob" and head[2].isdigit():
            size = int(head[2])
            yield answer[at : at + size]
            at += size + 1
        elif head[-1] in (b"missing", b"ambiguous"):
            yield None
        else:
            return


def _git(directory: Path, words: Sequence[str], given: bytes = b"") -> bytes:
    """What git prints; nothing where it cannot answer."""
    import subprocess  # most who look for a repository run no git

    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in os.environ
    }
    environment |= {
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "",
        "LC_ALL": "C.UTF-8",
    }
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *words],  # noqa: S607 - the user's own git, by their PATH
            cwd=directory,
            env=environment,
            input=given,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return done.stdout if done.returncode == 0 else b""


_LONGEST = 1 << 16


def repository_of(directory: str) -> str | None:
    """The repository of a directory, which need not exist any more: that of the nearest parent that has one."""
    if "\0" in directory or not Path(directory).is_absolute():
        return None
    try:
        here = Path(os.path.realpath(directory))
        for place in (here, *here.parents):
            found = _described(place / ".git")
            if found is not None:
                return found
    except OSError:
        return None
    return None


def _described(git: Path) -> str | None:
    try:
        kind = git.stat().st_mode
    except OSError:
        return None
    if stat.S_ISDIR(kind):
        return str(git.parent)
    named = _text(git)
    if named is None or not named.startswith("gitdir:"):
        return None
    own = _beside(git.parent, named.removeprefix("gitdir:").strip())
    shared = _text(own / "commondir")
    if shared is None:
        return str(git.parent)
    common = _beside(own, shared.strip())
    # A bare repository has no working directory: its own path is its name.
    return str(common.parent if common.name == ".git" else common)


def _beside(place: Path, named: str) -> Path:
    return Path(os.path.realpath(place / named))


def _text(file: Path) -> str | None:
    try:
        with open_regular(file) as opened:
            text = os.fsdecode(opened.read(_LONGEST))
    except (OSError, ValueError):
        return None
    return text if "\0" not in text else None


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
