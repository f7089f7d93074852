"""The line that ties backups to a prompt, as the client writes it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from recollect.model.files.history import FileBackup
from recollect.model.lines.draft import MetadataDraft, iso_time, metadata


def snapshot(message_id: str, at: dt.datetime, backups: Mapping[str, FileBackup]) -> MetadataDraft:
    """Backups by path relative to the working directory."""
    tracked = {
        path: {
            "backupFileName": backup.name,
            "version": backup.version,
            "backupTime": iso_time(backup.at or at),
        }
        for path, backup in backups.items()
    }
    taken = {"messageId": message_id, "trackedFileBackups": tracked, "timestamp": iso_time(at)}
    return metadata("file-history-snapshot", messageId=message_id, snapshot=taken, isSnapshotUpdate=False)
