"""Transcripts of the Claude Agent SDK on disk: one log per key.

An append returns after the sync. Of entries with one ``uuid`` the first is kept, from any process; entries
without one are stored each time. A session and its sub-agents share one lock, so appends are serialised and
never overlap with a deletion, also across processes.

A deletion moves the bytes to the store's trash (law 3). Nothing here uses an event loop, and the SDK itself
is not needed.
"""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from recollect.errors import NotFound
from recollect.model.damage import Damage
from recollect.storage.logs.log import Log, SyncPolicy
from recollect.storage.logs.reader import read_lines
from recollect.storage.sdk.entries import entry_of, is_first, line_of, stored_uuid, uuid_of
from recollect.storage.sdk.keys import (
    LOG_SUFFIX,
    SessionKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    TranscriptPlace,
    place_of,
    project_name,
    text_of,
)
from recollect.storage.sdk.summaries import FoldCall, summary_of
from recollect.storage.store_layout import StorePaths
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.peek import ReadProblems, is_directory, list_directory, regular_file
from recollect.system.refusals import as_storage_error

_OPEN_LOGS = 64
# Named after the public module: users know and configure that name.
_notes = logging.getLogger("recollect.sdk")


class _OpenTranscript:
    """An open transcript: its log, and the ids that are in it."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.busy = threading.Lock()
        self.closed = False
        self._ids: set[str] = set()
        self._file: tuple[int, int] | None = None
        self._seen = 0

    def append(self, lines: Sequence[tuple[bytes, str | None]]) -> None:
        """Store the lines whose id is not in the log, with one write and one sync."""
        self._catch_up()
        fresh: set[str] = set()
        new: list[tuple[bytes, str | None]] = []
        for line, name in lines:
            if name is None or (name not in self._ids and name not in fresh):
                new.append((line, name))
                fresh.add(name or "")
        # The next catch-up reads the ids from the log: a failed write must not look stored.
        self.log.append_many(new)

    def close(self) -> None:
        """Close the file, once it is no longer in use."""
        with self.busy:
            self.closed = True
            self.log.close()

    def _catch_up(self) -> None:
        """Read the ids of new lines, including those of other processes."""
        try:
            found = self.log.path.stat()
            file, size = (found.st_dev, found.st_ino), found.st_size
        except FileNotFoundError:
            file, size = None, 0
        if file != self._file or size < self._seen:
            self._file, self._seen = file, 0
            self._ids.clear()
        if size > self._seen:
            for item in read_lines(self.log.path, self._seen):
                self._seen = item.end
                name = stored_uuid(item)
                if name is not None:
                    self._ids.add(name)


class Transcripts:
    """All transcripts of one store directory. Threads may share it."""

    def __init__(self, root: Path, sync: SyncPolicy, lock_timeout: float) -> None:
        self.paths = StorePaths(root)
        self._sync, self._lock_timeout = sync, lock_timeout
        self._guard = threading.Lock()
        self._open: OrderedDict[Path, _OpenTranscript] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[Path, FileLock] = weakref.WeakValueDictionary()
        self._problems = ReadProblems()

    def place(self, key: SessionKey) -> TranscriptPlace:
        """The location of a key. Touches no disk."""
        return place_of(self.paths, key)

    def append(self, place: TranscriptPlace, entries: Sequence[SessionStoreEntry]) -> None:
        """Store the new ones among the entries."""
        lines = [(line_of(entry), uuid_of(entry)) for entry in entries]
        with self._session_lock(place):
            while True:
                known = self._known(place)
                with known.busy:
                    if known.closed:  # it was dropped from the cache between those two lines
                        continue
                    known.append(lines)
                    return

    def load(self, place: TranscriptPlace) -> list[SessionStoreEntry] | None:
        """The entries of a transcript; of repeats the first."""
        self.paths.require_inside(place.log)
        found: list[SessionStoreEntry] = []
        seen: set[str] = set()
        unreadable = 0
        try:
            for item in read_lines(place.log):
                entry = entry_of(item)
                if isinstance(entry, Damage):
                    unreadable += 1
                elif entry is not None and is_first(entry, seen):
                    found.append(cast("SessionStoreEntry", entry))
        except NotFound:
            return None
        if unreadable:
            _notes.warning("%s: %d lines cannot be read and were left out", place.log, unreadable)
        return found

    def damage(self, place: TranscriptPlace) -> list[Damage]:
        """The lines ``load`` leaves out."""
        self.paths.require_inside(place.log)
        try:
            items = [entry_of(item) for item in read_lines(place.log)]
        except NotFound:
            return []
        return [item for item in items if isinstance(item, Damage)]

    def sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        return [
            {"session_id": place.key["session_id"], "mtime": mtime_ns // 1_000_000}
            for place, mtime_ns in self._mains(project_key)
        ]

    def subkeys(self, place: TranscriptPlace) -> Iterator[str]:
        """Every subpath below a session, by name."""
        self.paths.require_inside(place.session_dir)
        return self._subkeys(place.session_dir, "")

    def delete(self, place: TranscriptPlace) -> None:
        """Move one transcript, or a session with all its files, to the trash."""
        taken = [place.log, place.session_dir, place.summary] if place.is_main else [place.log]
        if not any(path.exists() for path in taken):
            return
        batch = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        with self._session_lock(place):
            self._forget(place)
            for source in taken:
                if self.paths.require_inside(source).exists():
                    self._to_trash(source, batch)

    def summaries(self, project_key: str, fold: tuple[FoldCall, str]) -> list[SessionSummaryEntry]:
        found = (summary_of(self.paths, place, *fold) for place, _ in self._mains(project_key))
        return [summary for summary in found if summary is not None]

    def close(self) -> None:
        with self._guard:
            opened, self._open = list(self._open.values()), OrderedDict()
        for known in opened:
            known.close()

    # --- files -------------------------------------------------------------------------------

    def _known(self, place: TranscriptPlace) -> _OpenTranscript:
        self.paths.require_inside(place.log)
        with self._guard:
            known = self._open.pop(place.log, None)
            if known is None or known.log.failed:
                known = _OpenTranscript(Log(place.log, sync=self._sync, lock_timeout=self._lock_timeout))
            self._open[place.log] = known
            surplus = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - _OPEN_LOGS)]
        for old in surplus:
            old.close()
        return known

    def _forget(self, place: TranscriptPlace) -> None:
        below = place.session_dir if place.is_main else place.log
        with self._guard:
            gone = [path for path in self._open if path == place.log or below in path.parents]
            opened = [self._open.pop(path) for path in gone]
        for known in opened:
            known.close()

    def _session_lock(self, place: TranscriptPlace) -> FileLock:
        path = self.paths.require_inside(place.lock)
        with as_storage_error("create", path.parent):
            fsops.make_directories(path.parent)
        with self._guard:
            # Threads that share the object wait on one lock instead of polling.
            return self._locks.setdefault(path, FileLock(path, self._lock_timeout, guards=place.log))

    def _to_trash(self, source: Path, batch: str) -> None:
        with as_storage_error("move to the trash", source):
            fsops.move(source, self.paths.trashed(source, batch))

    def _mains(self, project_key: str) -> Iterator[tuple[TranscriptPlace, int]]:
        directory = self.paths.require_inside(self.paths.projects_dir / project_name(project_key))
        for entry in list_directory(directory, self._problems):
            session = text_of(entry.name.removesuffix(LOG_SUFFIX))
            if session is None or not entry.name.endswith(LOG_SUFFIX):
                continue
            status = regular_file(entry, self._problems, follow=False)
            if status is not None:
                yield self.place({"project_key": project_key, "session_id": session}), status.st_mtime_ns

    def _subkeys(self, directory: Path, before: str) -> Iterator[str]:
        for entry in list_directory(directory, self._problems):
            part = text_of(entry.name.removesuffix(LOG_SUFFIX))
            if part is None:
                continue
            if entry.name.endswith(LOG_SUFFIX):
                if regular_file(entry, self._problems, follow=False):
                    yield before + part
            elif is_directory(entry, self._problems, follow=False):
                yield from self._subkeys(directory / entry.name, f"{before}{part}/")
