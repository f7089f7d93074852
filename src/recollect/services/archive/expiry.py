"""Which sessions the client is about to delete, and which of them are archived.

Imports little, because the overview calls it each time.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from recollect.storage.home import ClaudeHome, SessionFile
from recollect.system.locations import agent_of
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular

if TYPE_CHECKING:
    from recollect.storage.archive.manifest import Manifest

DEFAULT_DAYS = 30
RENEWED_DAYS = 7
_FOR_EVER_DAYS = 36_500
_LARGEST_SETTINGS = 4 << 20


class ExpiringSession(Struct, frozen=True):
    """A session that the client will delete."""

    session: str
    path: Path
    expires_at: dt.datetime
    is_archived: bool


class _CleanupSettings(Struct, rename="camel"):
    cleanup_period_days: float | int | None = None


def is_archived(manifest: Manifest | None, log: SessionFile) -> bool:
    """Whether the archive has the current state of this log."""
    if manifest is None:
        return False
    kept = manifest.log
    return kept.stored.size == log.size and kept.mtime_ns == log.mtime_ns


def retention_days(home: ClaudeHome) -> float:
    """After how many days without a change the client deletes a session; from a mirror it deletes nothing."""
    if agent_of(str(home.root)) != CLAUDE:
        return _FOR_EVER_DAYS
    try:
        with open_regular(home.settings_file) as file:
            found = msgspec.json.decode(
                file.read(_LARGEST_SETTINGS), type=_CleanupSettings
            ).cleanup_period_days
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        # The client ignores a file it cannot read, and uses its default.
        return DEFAULT_DAYS
    return found if found is not None and found > 0 else DEFAULT_DAYS


def renewed_before(home: ClaudeHome) -> int:
    """Files older than this (in nanoseconds) would be deleted within a week of being put back: they get a new time."""
    seconds = max(retention_days(home) - RENEWED_DAYS, 0) * 86_400
    return time.time_ns() - int(seconds * 1e9)


class ExpirySummary(Struct, frozen=True):
    """How many sessions the client deletes within this many days, and how many of them are not archived.

    ``overdue`` are those whose time is up: the client deletes them when it starts next.
    """

    within_days: int
    sessions: int = 0
    not_archived: int = 0
    first_at: dt.datetime | None = None
    overdue: int = 0

    def __str__(self) -> str:
        soon = self.sessions - self.overdue
        verb = "session expires" if soon == 1 else "sessions expire"
        parts = [f"{soon:,} {verb} within {self.within_days} days"] if soon or not self.overdue else []
        if self.overdue:
            late = "session is overdue" if self.overdue == 1 else "sessions are overdue"
            them = "it" if self.overdue == 1 else "them"
            parts.insert(0, f"{self.overdue:,} {late}: Claude's next start may delete {them}")
        return f"{'; '.join(parts)}, {self.not_archived:,} of them not archived"


def expiring(
    homes: Sequence[ClaudeHome],
    data: Path,
    now: dt.datetime,
    days: float = 7,
    listed: Mapping[Path, Sequence[SessionFile]] | None = None,
) -> list[ExpiringSession]:
    """Sessions the client deletes within this many days, soonest first. It uses the file's time.

    ``listed`` are the logs of each home, by its root, where the caller has them already.
    """
    found = []
    for home in homes:
        keep = dt.timedelta(days=retention_days(home))
        for log in home.sessions() if listed is None else listed[home.root]:
            expires = dt.datetime.fromtimestamp(log.mtime_ns / 1e9, dt.UTC) + keep
            if expires <= now + dt.timedelta(days=days):
                found.append((expires, home.root, log))
    kept = _archived([(home, log) for _, home, log in found], data)
    return sorted(
        (
            ExpiringSession(str(log.id) if log.id else log.path.stem, log.path, expires, log.path in kept)
            for expires, _, log in found
        ),
        key=lambda one: one.expires_at,
    )


def _archived(logs: Sequence[tuple[Path, SessionFile]], data: Path) -> set[Path]:
    """The logs, each with its home, whose current state is archived."""
    if not (data / "archive").is_dir():
        return set()
    from recollect.storage.archive.archive import Archive

    archive = Archive(data / "archive")
    return {
        log.path
        for home, log in logs
        if log.id is not None and is_archived(archive.known(log.path.parent.name, str(log.id), home), log)
    }
