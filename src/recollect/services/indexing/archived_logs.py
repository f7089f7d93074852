"""Logs that are only in the archive: searched and priced like all others, with the index and without it.

A session is archived-only if its log is no longer in the home it came from. Its logs are then read
from the archive. This costs a directory listing and the manifests of such sessions, so it is done only if
the archive changed, or a session in it came to the homes or left them (``comparison.py``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.index.placed import ScannedLog
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.storage.archive.archive import Archive
from recollect.storage.archive.manifest import ArchivedFile, Manifest
from recollect.storage.home_walk import FoundLog, Role, SeenDirectory, are_settled

_ROLES: dict[int, Role] = {SESSION: "session", AGENT: "agent", TOOL_OUTPUT: "tool-output"}


class ArchivedLogs(Struct, frozen=True):
    """What only the archive has. ``directories`` is None where they cannot stand for the manifests in them."""

    logs: list[ScannedLog]
    directories: list[SeenDirectory] | None


def archived_logs(archive: Path, homes: Sequence[Path], there: Collection[str]) -> ArchivedLogs:
    """The logs of sessions that are no longer in the homes; ``there`` are the paths that are."""
    kept, began = Archive(archive), time.time_ns()
    directories = kept.directories()
    unread: list[str] = []  # may be mended where it lies, which no directory tells
    found: dict[str, ScannedLog] = {}
    for manifest, home in kept.only_here(homes, there, unread):
        for log in _placed(kept, manifest, os.fspath(home)):
            found.setdefault(log.path, log)  # files of equal bytes are one object
    is_certain = not unread and are_settled(directories, began)
    return ArchivedLogs([*found.values()], directories if is_certain else None)


def found_in_archive(
    archive: Path, homes: Sequence[Path], there: Collection[str]
) -> Iterator[tuple[Path, FoundLog]]:
    """The same with their homes, as a walk through these would tell them."""
    if archive.is_dir():
        for log in archived_logs(archive, homes, there).logs:
            yield Path(log.home), FoundLog(log.path, _ROLES[log.role], *log[3:])


def _placed(archive: Archive, manifest: Manifest, home: str) -> Iterator[ScannedLog]:
    for file in manifest.files:
        role, agent = _role(file)
        if role is not None:
            path = os.fspath(archive.log_path(manifest, file))
            yield ScannedLog(path, home, role, manifest.session, agent, 0, 0, file.stored.size, file.mtime_ns)


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
