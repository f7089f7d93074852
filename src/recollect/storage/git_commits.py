"""The commits of a file, with its text in each: read through git, which is told to run and fetch nothing.

Only ``log`` without a diff, or with the names of renamed files, and ``cat-file`` are used: neither runs hooks, filters, text
converters or a pager, and nothing is written, not even the index. Lazy fetching is off. Where git is missing, or the directory is no repository,
there are no commits.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

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
