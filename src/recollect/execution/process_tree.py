"""The descendants of a process, and how much memory they use together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

_PROC = Path("/proc")


def descendants(pid: int) -> list[int]:
    if (_PROC / str(pid) / "task" / str(pid) / "children").exists():
        return _below(pid, _children)
    below: dict[int, list[int]] = {}
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            parent = _parent(entry.name)
            if parent is not None:
                below.setdefault(parent, []).append(int(entry.name))
    return _below(pid, lambda parent: below.get(parent, []))


def _below(pid: int, children_of: Callable[[int], list[int]]) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = children_of(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    """From the children lists in /proc, where the kernel has them."""
    found: list[int] = []
    try:
        for task in (_PROC / str(pid) / "task").iterdir():
            found += map(int, (task / "children").read_bytes().split())
    except OSError:
        return found
    return found


def _parent(name: str) -> int | None:
    try:
        fields = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if len(fields) > 1 else None


def own_memory(pids: list[int]) -> int:
    """Bytes of anonymous and shared memory of these processes; file pages are not counted."""
    return sum(map(_own_memory, pids))


def _own_memory(pid: int) -> int:
    try:
        text = (_PROC / str(pid) / "status").read_bytes()
    except OSError:
        return 0
    kib = 0
    for line in text.splitlines():
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            kib += int(line.split()[1])
    return kib * 1024


def tasks_of(user: int) -> int:
    """How many threads a user runs, as RLIMIT_NPROC counts them."""
    count = 0
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit():
            continue
        try:
            status = os.stat(f"/proc/{entry.name}/task")  # noqa: PTH116 - asked of every process, for every run
        except OSError:
            continue
        if status.st_uid == user:
            count += max(status.st_nlink - 2, 1)  # this directory has two links plus one per thread
    return count
