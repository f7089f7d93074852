"""Logs that are only in the archive, for the index: searched and priced like all others.

A session is archived-only if its log is no longer in the home it came from. Its logs are then read
from the archive. This costs a directory listing; only manifests of such sessions are opened.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from recollect.index.placed import ScannedLog
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT
from recollect.storage.archive.archive import Archive
from recollect.storage.archive.manifest import ArchivedFile, Manifest


def archived_logs(archive: Path, homes: Sequence[Path], there: Collection[str]) -> Iterator[ScannedLog]:
    """The logs of sessions that are no longer in the homes; ``there`` are the paths that are."""
    if not (archive / "sessions").is_dir():
        return
    kept = Archive(archive)
    for manifest, home in kept.only_here(homes, there):
        yield from _placed(kept, manifest, os.fspath(home))


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
