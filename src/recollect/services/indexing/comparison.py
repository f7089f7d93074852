"""Compare the homes with the index: by a walk, or by checking only known directories and logs.

A walk reads every directory and stores in the index which it visited. As long as none of them gained
or lost a name, the next refresh only checks the logs, which is half the work. In case of doubt (a
directory changed just now, two names lead to one log, something could not be read) nothing is
stored, and the next refresh walks again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.index.database import IndexDatabase
from recollect.index.placed import ScannedLog
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.storage.home_walk import FoundLog, SeenDirectory, have_same_names, look_at, walk

_ROLES = {"session": SESSION, "agent": AGENT, "tool-output": TOOL_OUTPUT}
_NOTE = "directories"

# Device, inode, size and time of a log, by path.
LastSeen = dict[str, tuple[int, int, int, int]]


class HomeChanges(Struct, frozen=True):
    """The logs found, and which of them changed. ``note`` is for ``take_note``; None if nothing is to be stored."""

    there: list[str]
    changed: list[ScannedLog]
    note: str | None = None


def look(
    index: IndexDatabase, homes: Sequence[Path], known: LastSeen, problems: list[tuple[str, str]]
) -> HomeChanges:
    """Every log of the homes. Unreadable ones are added to ``problems``; nothing is written."""
    names = [os.fspath(home) for home in homes]
    return _look_again(index, names, known) or _walk(homes, names, known, problems)


def take_note(index: IndexDatabase, note: str | None) -> None:
    """Store the visited directories, once everything found is in the index."""
    if note is not None and index.meta(_NOTE) != note:
        with index.transaction():
            index.set_meta(_NOTE, note)


# --- check known directories ----------------------------------------------------------------------------


def _look_again(index: IndexDatabase, names: list[str], known: LastSeen) -> HomeChanges | None:
    directories = _noted(index.meta(_NOTE), names)
    if directories is None or not have_same_names(directories):
        return None
    there, changed = [], []
    for path, before in known.items():
        if not before[1]:
            continue  # in the archive
        now = look_at(path)
        if now is None:
            return None
        there.append(path)
        if now != before:
            changed.append(_placed(index, path, now))
    return HomeChanges(there, changed)


def _placed(index: IndexDatabase, path: str, now: tuple[int, int, int, int]) -> ScannedLog:
    ((home, role, session, agent),) = index.rows(
        "SELECT home, role, session, agent FROM files WHERE path = ?", path
    )
    # In the flat layout, only the lines say whose agent a log is, and they may have changed.
    if role == AGENT and os.path.dirname(os.path.dirname(path)) == os.path.join(str(home), "projects"):  # noqa: PTH118, PTH120 - as the walk spells it
        session = None
    return ScannedLog(path, home, role, session, agent, *now)  # type: ignore[arg-type]


def _noted(note: object, names: list[str]) -> list[SeenDirectory] | None:
    """The directories of a stored note, if it is about exactly these homes."""
    parts = note.split("\0") if isinstance(note, str) else []
    if parts[: len(names) + 1] != [str(len(names)), *names]:
        return None
    rest = iter(parts[len(names) + 1 :])
    return [
        SeenDirectory(path, int(device), int(inode), int(mtime))
        for path, device, inode, mtime in zip(rest, rest, rest, rest, strict=True)
    ]


# --- a walk ------------------------------------------------------------------------------------------


def _walk(
    homes: Sequence[Path], names: list[str], known: LastSeen, problems: list[tuple[str, str]]
) -> HomeChanges:
    walks = [walk(home, problems) for home in homes]
    there, changed = [], []
    for name, log in _distinct(zip(names, (one.logs for one in walks), strict=True), problems):
        there.append(log.path)
        if known.get(log.path) != log[4:]:
            changed.append(ScannedLog(log.path, name, _ROLES[log.role], *log[2:]))
    is_certain = not problems and len(there) == sum(len(one.logs) for one in walks)
    return HomeChanges(
        there, changed, _note(names, [one.directories for one in walks]) if is_certain else None
    )


def _distinct(
    found: Iterator[tuple[str, list[FoundLog]]], problems: list[tuple[str, str]]
) -> Iterator[tuple[str, FoundLog]]:
    """Each log with its home, once: two homes may share a directory."""
    seen: set[tuple[int, int]] = set()
    for name, logs in found:
        mine = set()
        for log in logs:
            path = log.path
            if not path.isascii() and not _is_text(path):
                problems.append((path, "its name is not UTF-8, so it is not in the index"))
            elif not seen or (log.device, log.inode) not in seen:
                yield name, log
                mine.add((log.device, log.inode))
        seen |= {identity for identity in mine if identity[1]}


def _note(names: list[str], walked: Sequence[list[SeenDirectory] | None]) -> str | None:
    parts = [str(len(names)), *names]
    for directories in walked:
        if directories is None:
            return None
        parts += [str(part) for seen in directories for part in seen]
    note = "\0".join(parts)
    return note if _is_text(note) else None


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
