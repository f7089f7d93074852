"""Backups of files before a turn changes them, in the client's layout, so that a rewind finds them.

At each prompt a ``file-history-snapshot`` names every file this session has changed, with a backup of
its current content. A file first changed during a turn is added by a second snapshot of the same
prompt, which both client lines understand (2.0.76 knows no deltas). The bytes are stored before the
line that names them, and both before the file is changed.

Paths in an old log are not trusted: only files inside the working directories are backed up again.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterable
from pathlib import Path

from msgspec import UnsetType

from recollect.errors import RecollectError
from recollect.model import draft
from recollect.model.damage import Damage, readable_entries
from recollect.model.draft import iso_time
from recollect.model.entry import Entry, FileHistoryDelta, FileHistorySnapshot
from recollect.model.files.events import FileBackup
from recollect.model.json.text import loose_value
from recollect.runtime import guarded_files
from recollect.runtime.agent_log import put
from recollect.runtime.gate import PermissionGate
from recollect.runtime.outcome import ToolFailed
from recollect.storage.file_backups import backup_body, store_backup
from recollect.storage.home import ClaudeHome
from recollect.storage.store import SessionLog


class FileHistory:
    """The backups of one session. Before the first ``at_prompt`` nothing is backed up."""

    def __init__(self, log: SessionLog, home: ClaudeHome, gate: PermissionGate) -> None:
        self._log, self._home, self._gate = log, home, gate
        self._tracked = _tracked_in(log.entries())
        self._prompt: str | None = None
        self._taken_at = ""
        self._noting = threading.Lock()  # a sub-agent in the background changes files too

    def at_prompt(self, prompt: str) -> None:
        """A new turn begins: every file changed before is backed up if it differs."""
        now = _now()
        with self._noting:
            for name, backup in list(self._tracked.items()):
                self._tracked[name] = self._renewed(name, backup, now)
            self._prompt, self._taken_at = prompt, iso_time(now)
            self._note(prompt, is_update=False)

    def before_change(self, path: str, data: bytes | None, asked_by: str | None) -> None:
        """Back up a file before this turn changes it; ``data`` is None where there is no file yet."""
        name = self._name(path)
        with self._noting:
            if self._prompt is None or name in self._tracked:
                return
            self._tracked[name] = self._stored(path, data, 1, _now())
            self._note(asked_by or self._prompt, is_update=True)

    def _renewed(self, name: str, backup: FileBackup, now: dt.datetime) -> FileBackup:
        path = str(Path(self._gate.root) / name)
        if not self._gate.holds_directory(path):
            return backup
        try:
            seen = guarded_files.read(self._gate.world.resolved(path))
            data = None if seen is None else seen.data
            if data == self._body(backup):
                return backup
            return self._stored(path, data, backup.version + 1, now)
        except (ToolFailed, RecollectError):  # a file that cannot be read keeps its last backup
            return backup

    def _body(self, backup: FileBackup) -> bytes | None:
        return None if backup.name is None else backup_body(self._home, self._log.id, backup.name)

    def _stored(self, path: str, data: bytes | None, version: int, at: dt.datetime) -> FileBackup:
        if data is None:
            return FileBackup(None, version, at)
        return store_backup(self._home, self._log.id, path, data, version=version, at=at)

    def _note(self, message: str, *, is_update: bool) -> None:
        tracked = {
            name: {
                "backupFileName": backup.name,
                "version": backup.version,
                "backupTime": iso_time(backup.at) if backup.at else self._taken_at,
            }
            for name, backup in self._tracked.items()
        }
        taken = {"messageId": self._prompt, "trackedFileBackups": tracked, "timestamp": self._taken_at}
        put(
            self._log,
            draft.metadata(
                "file-history-snapshot", messageId=message, snapshot=taken, isSnapshotUpdate=is_update
            ),
        )

    def _name(self, path: str) -> str:
        """As the client names it: relative to the session's directory where it is inside."""
        try:
            return str(Path(path).relative_to(self._gate.root))
        except ValueError:
            return path


def _tracked_in(entries: Iterable[Entry | Damage]) -> dict[str, FileBackup]:
    """The newest backup of every file named in the log."""
    found: dict[str, FileBackup] = {}
    for entry in readable_entries(entries):
        body = entry.body
        if isinstance(body, FileHistorySnapshot):
            value = loose_value(body.snapshot)
            named = value.get("trackedFileBackups") if isinstance(value, dict) else None
            found |= {name: _backup(record) for name, record in _items(named)}
        elif isinstance(body, FileHistoryDelta) and not isinstance(body.backup, UnsetType):
            found |= {
                name: _backup(record)
                for name, record in _items({body.tracking_path: loose_value(body.backup)})
            }
    return found


def _items(value: object) -> list[tuple[str, dict[str, object]]]:
    items = value.items() if isinstance(value, dict) else ()
    return [(name, record) for name, record in items if isinstance(name, str) and isinstance(record, dict)]


def _backup(record: dict[str, object]) -> FileBackup:
    name, version = record.get("backupFileName"), record.get("version")
    number = version if isinstance(version, int) and version > 0 else 1
    return FileBackup(name if isinstance(name, str) else None, number, None)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
