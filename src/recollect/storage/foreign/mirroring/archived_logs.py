"""Logs of a mirror that only our archive still has: a fork may go on from one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import RecollectError
from recollect.model.damage import Line
from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.storage.archive.archive import Archive
from recollect.storage.foreign.lines import LineFields
from recollect.storage.logs.reader import read_lines


def archived_log(data: Path, mirror: Path, session: str) -> str | None:
    """The compressed log of a session that was archived from this mirror; ``data`` is our own directory."""
    archive = Archive(data / "archive")
    if not is_uuid(session):
        return None
    for project, name in archive.names():
        for manifest in archive.of(project, name) if name == session else ():
            if os.path.realpath(manifest.home) == os.path.realpath(mirror):
                path = archive.log_path(manifest)
                return str(path) if path.is_file() else None
    return None


def archived_lines(log: Path) -> Iterator[LineFields]:
    """Its lines; as many as can be read of one that is damaged."""
    try:
        for line in read_lines(log):
            value = loose_value(line.data) if isinstance(line, Line) else None
            if isinstance(value, dict):
                yield value
    except RecollectError:
        return
