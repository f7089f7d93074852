"""Keep deleted sessions in the totals when an index is rebuilt.

A new index looks for its predecessors: the one that was set aside, and those of other versions of
recollect for the same homes. What they know of logs that no longer exist is copied before anything
is read. A predecessor that cannot be read is reported, because its knowledge is lost.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from recollect.index.database import Failure, IndexDatabase
from recollect.index.gone_rows import GoneLog, keep, kept_logs
from recollect.index.schema import SESSION
from recollect.storage.home_walk import scan_logs
from recollect.storage.logs.reader import PACKED

_NAME = re.compile(r"index-v([0-9]{1,9})-([0-9a-f]{8})\.(sqlite|aside)")


class CarriedSessions(NamedTuple):
    """How many deleted sessions were copied, and which predecessors could not be read."""

    sessions: int = 0
    unread: tuple[Path, ...] = ()


def carry_over(index: IndexDatabase, path: Path, homes: Sequence[Path]) -> CarriedSessions:
    """Copy what predecessors of the index at ``path`` know of deleted logs."""
    before = predecessors(path)
    if not before:
        return CarriedSessions()
    there = {log.path for home in homes for log in scan_logs(home)}
    kept: dict[str, GoneLog] = {}
    unread = []
    for old in before:
        found = _kept(old, there)
        if found is None:
            unread.append(old)
        for one in found or ():
            # Archived sessions are not deleted: they are read again.
            if not (one.log.path.endswith(PACKED) and Path(one.log.path).is_file()):
                kept.setdefault(one.log.path, one)
    try:
        keep(index, kept.values())
    except (TypeError, ValueError, OverflowError):  # a damaged file can hold anything
        return CarriedSessions(0, tuple(before))
    return CarriedSessions(sum(one.log.role == SESSION for one in kept.values()), tuple(unread))


def predecessors(path: Path) -> list[Path]:
    """Other indexes of the same homes, the most likely complete and recent first."""
    own = _NAME.fullmatch(path.name)
    if own is None:
        return []
    found = []
    with contextlib.suppress(OSError):
        for name in path.parent.iterdir():
            other = _NAME.fullmatch(name.name)
            if other is None or other[2] != own[2] or name == path:
                continue
            if name.is_file() and name.stat().st_size:
                found.append((int(other[1]) == int(own[1]), int(other[1]), other[3] == "sqlite", name))
    return [name for *_, name in sorted(found, reverse=True)]


def _kept(path: Path, there: set[str]) -> list[GoneLog] | None:
    try:
        with contextlib.closing(IndexDatabase(path, read_only=True)) as old:
            return list(kept_logs(old, there))
    except (Failure, TypeError, ValueError):
        return None
