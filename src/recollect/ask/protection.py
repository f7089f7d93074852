"""Whether homes are protected: what was set up, and how the last run went.

Both are in our own directory, in ``protect/``: ``installed.json``, ``last-run.json`` and ``log``, one line a run. A run
that finds no home or no session, or fails, is recorded as a failure with its reason: the overview says so until
a run succeeds. Imports little, because the overview calls it each time.
"""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec
from msgspec import Struct

from recollect.store.home import ClaudeHome, SessionFile
from recollect.system import fsops
from recollect.system.locations import HomeRoot, agent_of, data_dir
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular

if TYPE_CHECKING:
    from recollect.store.archive.manifest import Manifest


ProtectionState = Literal["protected", "in part", "off", "other home", "never ran", "failed", "overdue"]
# A laptop sleeps at night; a day without a run is no accident any more.
_OVERDUE = dt.timedelta(days=1)
_LOG_BYTES = 64 << 10
_LARGEST = 1 << 20
_T = TypeVar("_T")


class ProtectInstall(Struct, frozen=True):
    """What was set up. ``changes`` are the settings that were raised, by the ids that take them back."""

    at: dt.datetime
    scheduler: str
    name: str
    command: tuple[str, ...]
    homes: tuple[str, ...]
    changes: tuple[str, ...] = ()


class ProtectRun(Struct, frozen=True):
    """One run: how many sessions there are, how many of them are archived now, and what went wrong."""

    at: dt.datetime
    sessions: int = 0
    archived: int = 0
    new_bytes: int = 0
    reason: str = ""
    is_complete: bool = True


class Protection(Struct, frozen=True):
    """Whether homes are protected, and why not."""

    state: ProtectionState
    reason: str = ""
    installed: ProtectInstall | None = None
    last_run: ProtectRun | None = None


def read_protection(data: Path, homes: Sequence[HomeRoot], now: dt.datetime) -> Protection:
    """The state of the protection of these homes, of every agent, from two small files."""
    installed = _read(data, "installed.json", ProtectInstall)
    last = _read(data, "last-run.json", ProtectRun)
    if installed is None:
        return Protection("off", "no scheduled archive (recollect protect)")
    covered = {Path(home).resolve() for home in installed.homes}
    missing = [home for home in homes if home.path.resolve() not in covered]
    if missing:
        return Protection("other home", _missing_homes(data, missing, installed), installed, last)
    if last is None:
        return Protection("never ran", "it was set up, and never ran", installed)
    if not last.is_complete:
        state: ProtectionState = "in part" if last.archived else "failed"
        return Protection(state, last.reason, installed, last)
    if now - last.at > _OVERDUE:
        return Protection(
            "overdue", f"the scheduler ({installed.scheduler}) does not run it", installed, last
        )
    return Protection("protected", "", installed, last)


def _missing_homes(data: Path, missing: Sequence[HomeRoot], installed: ProtectInstall) -> str:
    """Which homes no run archives, each where its client keeps it, and the command that adds them."""
    shown = [str(home.source or home.path) for home in missing]
    words = ["recollect"]
    if any(home.origin == "--home" for home in missing):
        # What is set up replaces what was: the homes that are part of it are named too.
        words += [word for home in (*installed.homes, *shown) for word in ("--home", home)]
    if data.resolve() != data_dir().resolve():
        words += ["--data", str(data)]
    verb = "is" if len(shown) == 1 else "are"
    return f"{', '.join(shown)} {verb} not part of it ({shlex.join([*words, 'protect', '--apply'])})"


def record(data: Path, done: ProtectRun) -> None:
    """Keep the outcome, and add a line to the log; old lines go."""
    root = data / "protect"
    fsops.make_directories(root)
    fsops.replace_file(root / "last-run.json", msgspec.json.encode(done) + b"\n")
    state = "ok" if done.is_complete else f"FAILED: {done.reason}"
    line = f"{done.at:%Y-%m-%dT%H:%M:%SZ} {done.archived} of {done.sessions} sessions archived, {state}\n"
    before = _bytes(root / "log")
    kept = before[-_LOG_BYTES:].partition(b"\n")[2] if len(before) > _LOG_BYTES else before
    fsops.replace_file(root / "log", kept + line.encode("utf-8", "backslashreplace"))


# ---- what was set up -------------------------------------------------------------------------------------


def remember(data: Path, installed: ProtectInstall) -> None:
    fsops.make_directories(data / "protect")
    fsops.replace_file(data / "protect" / "installed.json", msgspec.json.encode(installed) + b"\n")


def forget(data: Path) -> None:
    """Nothing is set up any more. The log stays."""
    for name in ("installed.json", "last-run.json"):
        (data / "protect" / name).unlink(missing_ok=True)


def _read(data: Path, name: str, kind: type[_T]) -> _T | None:
    """A record of ours; one that cannot be read counts as none."""
    try:
        return msgspec.json.decode(_bytes(data / "protect" / name), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


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


def expiry_of(home: ClaudeHome) -> dt.timedelta | None:
    """How long after its last change the client deletes a session; None if never."""
    days = retention_days(home)
    return dt.timedelta(days=days) if days < _FOR_EVER_DAYS else None


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
    homes: Sequence[ClaudeHome], data: Path, now: dt.datetime, days: float = 7
) -> list[ExpiringSession]:
    """Sessions the client deletes within this many days, soonest first. It uses the file's time."""
    found = []
    for home in homes:
        keep = dt.timedelta(days=retention_days(home))
        for log in home.sessions():
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
    from recollect.store.archive.archive import Archive

    archive = Archive(data / "archive")
    return {
        log.path
        for home, log in logs
        if log.id is not None and is_archived(archive.known(log.path.parent.name, str(log.id), home), log)
    }
