"""Compare the homes with the index: by a walk, or by checking only known directories and logs.

A walk reads every directory of the homes and of the archive, whose manifests tell what only it has, and
stores in the index which it visited. As long as none of them gained or lost a name, the next refresh only
checks the logs in the homes, which is half the work, and opens no manifest. A walk opens none either where the
archive is as it was and has nothing of the logs that came or went. In case of doubt (a directory changed just
now, two names lead to one log, something could not be read) nothing is stored, and the next refresh walks again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from recollect.index.database import IndexDatabase
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.storage.known_logs import LogState, PlacedState, changed_logs, have_same_names

# What a walk needs, and what a changed log is, is imported when there is one: mostly there is none.
if TYPE_CHECKING:
    from recollect.index.placed import ScannedLog
    from recollect.storage.home_walk import FoundLog, SeenDirectory

_ROLES = {"session": SESSION, "agent": AGENT, "tool-output": TOOL_OUTPUT}
_NOTE = "walked"  # not "directories": earlier versions cannot read a note about an archive


class HomeChanges(Struct, frozen=True):
    """How many logs there are, archived ones too, which of them changed, and the paths of known ones that are gone.

    ``note`` is for ``take_note``; None if nothing is to be stored.
    """

    logs: int
    changed: list[ScannedLog]
    gone: Sequence[str] = ()
    note: str | None = None


def look(
    index: IndexDatabase,
    homes: Sequence[Path],
    archive: Path | None,
    problems: list[tuple[str, str]],
) -> HomeChanges:
    """Every log of the homes and their archive. Unreadable ones are added to ``problems``; nothing is written."""
    names = [os.fspath(home) for home in homes]
    if archive is not None and not (archive / "sessions").is_dir():
        archive = None
    head = [str(len(names)), *names, "" if archive is None else os.fspath(archive)]
    known = _known_logs(index)
    return _look_again(index, head, known) or _walk(
        index, homes, archive, head, known=known, problems=problems
    )


def take_note(index: IndexDatabase, note: str | None) -> None:
    """Store the visited directories, once everything found is in the index."""
    if note is not None and index.meta(_NOTE) != note:
        with index.transaction():
            index.set_meta(_NOTE, note)


# --- check known directories ----------------------------------------------------------------------------


def _known_logs(index: IndexDatabase) -> list[PlacedState]:
    """Every known log as it was; one that was not read to its end has no valid time."""
    sql = "SELECT path, device, inode, size, mtime FROM files WHERE NOT gone"
    return cast("list[PlacedState]", index.rows(sql))


def _look_again(index: IndexDatabase, head: list[str], known: list[PlacedState]) -> HomeChanges | None:
    directories = _noted(index.meta(_NOTE), head)
    if directories is None or not have_same_names(directories):
        return None
    here = [log for log in known if log[2]]
    if len(here) < len(known) and _is_archive_unread(known):
        return None
    changed = changed_logs(here)
    return None if changed is None else HomeChanges(len(known), [_placed(index, *one) for one in changed])


def _is_archive_unread(known: Iterable[PlacedState]) -> bool:
    """Whether an archived log (it has no inode) was not read to its end. Those that were never change."""
    return any(not inode and mtime < 0 for _, _, inode, _, mtime in known)


def _placed(index: IndexDatabase, path: str, now: LogState) -> ScannedLog:
    from recollect.index.placed import ScannedLog

    ((home, role, session, agent),) = index.rows(
        "SELECT home, role, session, agent FROM files WHERE path = ?", path
    )
    # In the flat layout, only the lines say whose agent a log is, and they may have changed.
    if role == AGENT and os.path.dirname(os.path.dirname(path)) == os.path.join(str(home), "projects"):  # noqa: PTH118, PTH120 - as the walk spells it
        session = None
    return ScannedLog(path, home, role, session, agent, *now)  # type: ignore[arg-type]


def _noted(note: object, head: list[str]) -> Iterator[tuple[str, int, int, int]] | None:
    """The directories of a stored note, if it is about exactly these homes and this archive."""
    parts = note.split("\0") if isinstance(note, str) else []
    if parts[: len(head)] != head:
        return None
    rest = iter(parts[len(head) :])
    return (
        (path, int(device), int(inode), int(mtime))
        for path, device, inode, mtime in zip(rest, rest, rest, rest, strict=True)
    )


# --- a walk ------------------------------------------------------------------------------------------


def _walk(
    index: IndexDatabase,
    homes: Sequence[Path],
    archive: Path | None,
    head: list[str],
    *,
    known: list[PlacedState],
    problems: list[tuple[str, str]],
) -> HomeChanges:
    from recollect.index.placed import ScannedLog
    from recollect.storage.home_walk import walk

    before: dict[str, LogState] = {log[0]: log[1:] for log in known}
    walks = [walk(home, problems) for home in homes]
    there, changed = [], []
    for name, log in _distinct(
        zip(map(os.fspath, homes), (one.logs for one in walks), strict=True), problems
    ):
        there.append(log.path)
        if before.get(log.path) != log[4:]:
            changed.append(ScannedLog(log.path, name, _ROLES[log.role], *log[2:]))
    is_certain = not problems and len(there) == sum(len(one.logs) for one in walks)
    directories = [one.directories for one in walks]
    if archive is not None and (same := _same_archive(index, archive, head, known, there)):
        there += [path for path, _, inode, *_ in known if not inode]
        directories.append(same)
    elif archive is not None:
        from recollect.services.indexing.archived_logs import archived_logs

        kept = archived_logs(archive, homes, there)
        there += [log.path for log in kept.logs]
        changed += [log for log in kept.logs if before.get(log.path) != log[5:]]
        directories.append(kept.directories)
    found = set(there)
    gone = [path for path in before if path not in found]
    return HomeChanges(len(there), changed, gone, _note(head, directories) if is_certain else None)


def _same_archive(
    index: IndexDatabase, archive: Path, head: list[str], known: list[PlacedState], there: Collection[str]
) -> list[SeenDirectory] | None:
    """The directories of the archive, if it has for the homes what it had: it is as noted, and no log that came or went
    is of a session in it.
    """
    from recollect.storage.archive.archive import is_kept
    from recollect.storage.home_walk import LOG, SeenDirectory

    base = os.path.join(archive, "sessions")  # noqa: PTH118 - no Path for thousands of names
    noted = _noted(index.meta(_NOTE), head) or ()
    own = [SeenDirectory(*one) for one in noted if one[0] == base or one[0].startswith(base + os.sep)]
    if not own or _is_archive_unread(known) or not have_same_names(own):
        return None
    before = {path for path, _, inode, *_ in known if inode}
    for path in before.symmetric_difference(there):
        project, name = path.rsplit(os.sep, 2)[-2:]
        if is_kept(base, project, name.removesuffix(LOG)):
            return None
    return own


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


def _note(head: list[str], walked: Sequence[list[SeenDirectory] | None]) -> str | None:
    parts = [*head]
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
