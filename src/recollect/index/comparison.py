"""Compare the homes and their archive with the index: which logs are new, changed or gone.

A session is archived-only if its log is no longer in the home it came from: its logs are then read from the archive. The
manifests say so. They are opened only if the archive changed, or a session in it came to the homes or left them; the index
notes the directories of the archive for that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct

from recollect.index.database import IndexDatabase
from recollect.index.frame import ScannedLog
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.store.archive.archive import Archive, is_kept
from recollect.store.archive.manifest import ArchivedFile
from recollect.store.home_walk import LOG, FoundLog, Role, SeenDirectory, are_settled, scan_logs

# Path, device, inode, size and time of a log.
PlacedState = tuple[str, int, int, int, int]
_ROLES: dict[Role, int] = {"session": SESSION, "agent": AGENT, "tool-output": TOOL_OUTPUT}
_NOTE = "archive"


class HomeChanges(Struct, frozen=True):
    """How many logs there are, archived ones too, which of them changed, and the paths of known ones that are gone.

    ``problems`` says what could not be read; ``note`` is for ``take_note``.
    """

    logs: int
    changed: list[ScannedLog]
    gone: list[str]
    problems: list[tuple[str, str]]
    note: str | None = None


def compare(index: IndexDatabase, homes: Sequence[Path], archive: Path | None = None) -> HomeChanges:
    """Compare the homes and their archive with the index; reads no log and writes nothing."""
    # A log that was not read to its end has no valid time.
    sql = "SELECT path, device, inode, size, mtime FROM files WHERE NOT gone"
    known = cast("list[PlacedState]", index.rows(sql))
    before = {log[0]: log[1:] for log in known}
    problems: list[tuple[str, str]] = []
    logs = list(_walk_homes(homes, problems))
    there = [log.path for _, log in logs]
    changed = [
        ScannedLog(log.path, home, _ROLES[log.role], *log[2:])
        for home, log in logs
        if before.get(log.path) != log[4:]
    ]
    note = None
    if archive is not None and (archive / "sessions").is_dir():
        began = time.time_ns()
        directories = Archive(archive).directories()
        note = _note([*homes, archive], directories)
        if note is not None and note == index.meta(_NOTE) and not _concerns_archive(archive, known, there):
            there += [path for path, _, inode, *_ in known if not inode]
        else:
            archived, is_whole = archived_logs(archive, homes, there)
            changed += [log for log in archived if before.get(log.path) != log[5:9]]
            there += [log.path for log in archived]
            note = note if is_whole and are_settled(directories, began) else None
    present = set(there)
    return HomeChanges(len(there), changed, [path for path in before if path not in present], problems, note)


def take_note(index: IndexDatabase, note: str | None) -> None:
    """Store how the archive was, once everything in it is in the index."""
    if note is not None and index.meta(_NOTE) != note:
        with index.transaction():
            index.set_meta(_NOTE, note)


def _walk_homes(homes: Sequence[Path], problems: list[tuple[str, str]]) -> Iterator[tuple[str, FoundLog]]:
    """Each log with its home, once: two homes may share a directory."""
    seen: set[tuple[int, int]] = set()
    for home in homes:
        own = set()
        for log in scan_logs(home, problems):
            if not _is_text(log.path):
                problems.append((log.path, "its name is not UTF-8, so it is not in the index"))
            elif (log.device, log.inode) not in seen:
                yield os.fspath(home), log
                own.add((log.device, log.inode))
        seen |= {identity for identity in own if identity[1]}


def _concerns_archive(archive: Path, known: Sequence[PlacedState], there: Collection[str]) -> bool:
    """Whether a log that came or went is of a session in the archive, or an archived log was not read to its end."""
    if any(not inode and mtime < 0 for _, _, inode, _, mtime in known):
        return True
    sessions = os.fspath(archive / "sessions")
    for path in {path for path, _, inode, *_ in known if inode}.symmetric_difference(there):
        project, name = path.rsplit(os.sep, 2)[-2:]
        if is_kept(sessions, project, name.removesuffix(LOG)):
            return True
    return False


def _note(places: Sequence[Path], directories: Sequence[SeenDirectory]) -> str | None:
    note = "\0".join([*map(os.fspath, places), *(str(part) for seen in directories for part in seen)])
    return note if _is_text(note) else None


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- logs that are only in the archive ------------------------------------------------------------------


def archived_logs(
    archive: Path, homes: Sequence[Path], there: Collection[str]
) -> tuple[list[ScannedLog], bool]:
    """The logs of sessions that are no longer in the homes, and whether every manifest could be read.

    ``there`` are the paths of the logs in the homes.
    """
    store = Archive(archive)
    unread: list[str] = []  # may be mended where it lies, which no directory tells
    logs: dict[str, ScannedLog] = {}
    for manifest, home in store.only_here(homes, there, unread):
        for file in manifest.files:
            role, agent = _role(file)
            if role is not None:
                path = os.fspath(store.log_path(manifest, file))
                state = (0, 0, file.stored.size, file.mtime_ns)
                # Files of equal bytes are one object.
                logs.setdefault(
                    path, ScannedLog(path, os.fspath(home), role, manifest.session, agent, *state)
                )
    return [*logs.values()], not unread


def _role(file: ArchivedFile) -> tuple[int | None, str | None]:
    parts = file.path.split("/")
    name = parts[-1]
    if parts[0] != "projects":
        return None, None
    if name.startswith("agent-") and name.endswith(".jsonl"):
        return AGENT, name.removeprefix("agent-").removesuffix(".jsonl")
    if len(parts) == 3 and name.endswith(".jsonl"):
        return SESSION, None
    return (TOOL_OUTPUT, None) if "tool-results" in parts else (None, None)
