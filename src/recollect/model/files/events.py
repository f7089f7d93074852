"""File events of a log, in the order in which they happened.

Lines are written in batches, and a copied session has its snapshots at the end, so the order of lines is not
the order of events. A backup names the line it was made for: the prompt, or the call that was about to touch
the file. It is placed there. Only if that line is missing does its time decide (S11).

Paths in snapshots are relative to a working directory that the line does not name. The name of a backup is a
hash of the absolute path, so the right one among the session's directories can be recognised.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ntpath
import posixpath
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, UnsetType

from recollect.model.entry import Entry, FileHistoryDelta, FileHistoryNote, FileHistorySnapshot
from recollect.model.files.reports import FileChange, FileNote, FileReading, FileReports, report_context
from recollect.model.json.text import loose_value
from recollect.model.moments import parsed_time

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class FileBackup(Struct, frozen=True):
    """A backup for rewind. ``name`` is None where there was no file to back up."""

    name: str | None
    version: int
    at: dt.datetime | None


class BackedUpFile(Struct, frozen=True):
    """A file that a snapshot or delta names. ``at``: when it had the contents of the backup."""

    tracked: str
    backup: FileBackup
    entry_uuid: str | None
    at: dt.datetime | None


FileEvent: TypeAlias = BackedUpFile | FileChange | FileReading | FileNote


class FileEvents:
    """One pass over a log: events with their places, and the data to resolve their paths."""

    def __init__(self, cwd: str | None) -> None:
        self._events: list[tuple[int, int, FileEvent]] = []
        self._waiting: list[tuple[int, BackedUpFile]] = []
        self._snapshots: dict[str, dict[str, BackedUpFile]] = {}
        self._places: dict[str, int] = {}
        self._times: list[tuple[dt.datetime, int]] = []
        self._cwds: dict[str, None] = {} if cwd is None else {cwd: None}
        self._hashes: dict[str, set[str]] = {}
        self._tracked: dict[str, str] = {}
        self._reports = FileReports()
        self._count = 0

    def add(self, entry: Entry) -> None:
        place, self._count = self._count, self._count + 1
        body, uuid = entry.body, entry.uuid
        if isinstance(body, FileHistorySnapshot):
            self._add_snapshot(place, body)
        elif isinstance(body, FileHistoryDelta):
            self._add_delta(place, body)
        elif isinstance(body, FileHistoryNote):
            self._put(
                place,
                FileNote(path=body.path, context=report_context(entry), deleted=body.operation == "delete"),
            )
        elif uuid is None or uuid not in self._places:  # a repeated line counts once
            if uuid is not None:
                self._places[uuid] = place
            self._add_link(place, entry)

    def _add_link(self, place: int, entry: Entry) -> None:
        if entry.chain is not None and entry.chain.cwd:
            self._cwds.setdefault(entry.chain.cwd)
        at = entry.at
        if at is not None and (not self._times or at >= self._times[-1][0]):
            self._times.append((at, place))
        for report in self._reports.of(entry):
            self._put(place, report)

    def _put(self, place: int, event: FileEvent) -> None:
        self._events.append((place, len(self._events), event))

    def _add_snapshot(self, place: int, body: FileHistorySnapshot) -> None:
        value = loose_value(body.snapshot)
        value = value if isinstance(value, dict) else {}
        tracked = value.get("trackedFileBackups")
        owner, taken = value.get("messageId"), _time(value.get("timestamp"))
        backups = {
            path: _backed_up(path, fields, body.message_id, taken)
            for path, fields in (tracked if isinstance(tracked, dict) else {}).items()
            if isinstance(fields, dict)
        }
        if isinstance(owner, str):
            self._snapshots[owner] = backups
        for backed_up in backups.values():
            self._wait(place, backed_up)

    def _add_delta(self, place: int, body: FileHistoryDelta) -> None:
        fields = None if isinstance(body.backup, UnsetType) else loose_value(body.backup)
        if not isinstance(fields, dict):
            return
        backed_up = _backed_up(body.tracking_path, fields, body.message_id, None)
        if body.snapshot_message_id is not None:
            self._snapshots.setdefault(body.snapshot_message_id, {})[body.tracking_path] = backed_up
        self._wait(place, backed_up)

    def _wait(self, place: int, backed_up: BackedUpFile) -> None:
        """Postpone the event: a snapshot comes before the prompt it is for, so its place is known only at the
        end.
        """
        self._waiting.append((place, backed_up))
        if backed_up.backup.name is not None:
            named = self._hashes.setdefault(backed_up.tracked, set())
            named.add(backed_up.backup.name.partition("@")[0])

    def in_order(self) -> list[FileEvent]:
        """Events as they happened.

        A backup belongs to the line it was made for, independent of where it is written.
        """
        ranked: list[tuple[int, int, int, FileEvent]] = [
            # At the same place the backup comes first: it was made before the call ran.
            (self._place_of(event, place), 0, order, event)
            for order, (place, event) in enumerate(self._waiting)
        ]
        ranked += [(place, 1, order, event) for place, order, event in self._events]
        return [event for *_, event in sorted(ranked, key=lambda item: item[:3])]

    def _place_of(self, event: BackedUpFile, written: int) -> int:
        place = self._places.get(event.entry_uuid or "")
        if place is not None or event.at is None or not self._times:
            return written if place is None else place
        # A copy of a session lacks the lines of dead branches; only the time is available.
        after = bisect_right(self._times, (event.at, self._count))
        return self._times[after - 1][1] if after else 0

    def snapshot_at(self, prompt_uuid: str) -> dict[str, BackedUpFile]:
        """By tracking path: the backup that belongs to the prompt, or else the first later one of the file."""
        owners = list(self._snapshots)
        if prompt_uuid not in self._snapshots:
            return {}
        chosen: dict[str, BackedUpFile] = {}
        for owner in owners[owners.index(prompt_uuid) :]:
            for path, backed_up in self._snapshots[owner].items():
                chosen.setdefault(path, backed_up)
        return chosen

    def path_of(self, event: FileEvent) -> str:
        """The absolute path an event is about."""
        if not isinstance(event, BackedUpFile):
            return absolute(event.path, event.context.cwd or next(iter(self._cwds), ""))
        if event.tracked not in self._tracked:
            self._tracked[event.tracked] = self._tracked_path(event.tracked)
        return self._tracked[event.tracked]

    def _tracked_path(self, tracked: str) -> str:
        """The working directory may have changed; the name of a backup identifies the right one."""
        candidates = [absolute(tracked, cwd) for cwd in self._cwds] or [tracked]
        hashes = self._hashes.get(tracked, set())
        fitting = (path for path in candidates if backup_name(path, 1).partition("@")[0] in hashes)
        return next(fitting, candidates[0])


def backup_name(path: str, version: int) -> str:
    """The client's name for the backup of an absolute path."""
    return f"{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}@v{version}"


def absolute(path: str, cwd: str) -> str:
    """A session's path without ``.`` and ``..``; symbolic links are not resolved."""
    if _WINDOWS_PATH.match(path) or (_WINDOWS_PATH.match(cwd) and not path.startswith("/")):
        return ntpath.normpath(ntpath.join(cwd, path))
    return posixpath.normpath(posixpath.join(cwd, path))


def _backed_up(
    path: str, fields: Mapping[str, object], entry_uuid: str | None, taken: dt.datetime | None
) -> BackedUpFile:
    name, version, made = fields.get("backupFileName"), fields.get("version"), _time(fields.get("backupTime"))
    backup = FileBackup(
        name if isinstance(name, str) else None, version if isinstance(version, int) else 0, made
    )
    # A snapshot that lists an old backup means that the file has that content when the snapshot is taken.
    times = [time for time in (made, taken) if time is not None]
    return BackedUpFile(path, backup, entry_uuid, max(times, default=None))


def _time(value: object) -> dt.datetime | None:
    return parsed_time(value) if isinstance(value, str) else None
