"""Transcripts of the Claude Agent SDK on disk: one log per key.

The main transcript of a session is stored as in a Claude home, its sub-agents below it. Keys are opaque: any text becomes a
safe file name, reversibly, and different texts become different names, also on case-insensitive systems. Only keys that
are paths are written as clients write them, where case is that of the path.

An append returns after the sync. Of entries with one ``uuid`` the first is kept, from any process; entries
without one are stored each time. A session and its sub-agents share one lock, so appends are serialised and
never overlap with a deletion, also across processes. A deletion moves the bytes to the store's trash (law 3).

The types repeat the SDK's field by field, so that nothing has to be imported from it. Nothing here uses an event loop.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict, cast

import msgspec

from recollect.errors import InvalidId, NotFound, UsageError
from recollect.model.lines.damage import DEFAULT_LIMITS, Damage, DamageCode, Line
from recollect.model.views.fact_line import fact_line
from recollect.store.logs.log import Log, OpenLogs
from recollect.store.logs.reader import read_lines
from recollect.store.store_layout import StorePaths
from recollect.system import fsops
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock
from recollect.system.peek import ReadProblems, is_directory, list_directory, open_regular, regular_file

LOG_SUFFIX = ".jsonl"
_LOCK, _SUMMARY = ".transcript.lock", ".summary.json"
_LONGEST = 200
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
# A working directory as clients name it; on case-insensitive systems such paths are equal too.
_PATH_KEY = re.compile(r"(?:-|[A-Za-z]--)[A-Za-z0-9-]*")
_PLAIN = re.compile(r"[a-z0-9-][a-z0-9_-]*")
_DEVICES = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]")
_ESCAPED, _HASHED = "x_", "h_"


class SessionKey(TypedDict):
    """Names one transcript: a session's own, or with ``subpath`` that of a sub-agent."""

    project_key: str
    session_id: str
    subpath: NotRequired[str]


class SessionListSubkeysKey(TypedDict):
    """Names a session."""

    project_key: str
    session_id: str


class SessionStoreEntry(TypedDict, total=False):
    """One line of a transcript; fields that are not named here are stored too."""

    type: Required[str]
    uuid: str
    timestamp: str


class SessionStoreListEntry(TypedDict):
    """A session and when its transcript was last written, in milliseconds."""

    session_id: str
    mtime: int


class SessionSummaryEntry(TypedDict):
    """List information about a session; ``data`` belongs to the SDK."""

    session_id: str
    mtime: int
    data: dict[str, Any]


class TranscriptPlace(msgspec.Struct, frozen=True):
    """The location of one key's transcript, and its lock."""

    key: SessionKey
    log: Path
    session_dir: Path
    is_main: bool

    @property
    def lock(self) -> Path:
        """One for a session and its sub-agents, so that a deletion never overlaps with an append."""
        return self.session_dir.with_name(self.session_dir.name + _LOCK)

    @property
    def summary(self) -> Path:
        """The cache file of the session's summary."""
        return self.session_dir.with_name(self.session_dir.name + _SUMMARY)


def place_of(paths: StorePaths, key: SessionKey) -> TranscriptPlace:
    """The location of a key. Touches no disk."""
    project = paths.projects_dir / project_name(key["project_key"])
    session = project / safe_name("session id", key["session_id"])
    subpath = key.get("subpath")
    if subpath is None:
        return TranscriptPlace(key, session.with_name(session.name + LOG_SUFFIX), session, is_main=True)
    if not subpath:
        raise InvalidId("subpath", "", "is empty; leave it out for the session itself")
    *directories, last = (safe_name("subpath", part) for part in subpath.split("/"))
    return TranscriptPlace(key, session.joinpath(*directories, last + LOG_SUFFIX), session, is_main=False)


def safe_name(what: str, text: str) -> str:
    """A text as one safe file name without a dot; reversible and unique."""
    if _PLAIN.fullmatch(text) and not text.startswith((_ESCAPED, _HASHED)) and not _DEVICES.fullmatch(text):
        name = text
    else:
        raw = text.encode("utf-8", "surrogatepass")
        name = _ESCAPED + "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in raw)
    if len(name) > _LONGEST:
        raise InvalidId(what, text, "is too long for a file name")
    return name


def text_of(name: str) -> str | None:
    """The inverse of ``safe_name``; None for other names."""
    if not name.startswith(_ESCAPED):
        text: str | None = name
    else:
        raw = re.sub(r"_([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), name[len(_ESCAPED) :])
        try:
            text = raw.encode("latin-1").decode("utf-8", "surrogatepass")
        except UnicodeError:
            return None
    try:
        return text if text is not None and safe_name("name", text) == name else None
    except InvalidId:
        return None


def project_name(project_key: str) -> str:
    """A project's directory. It is never decoded, so a long name may become a hash."""
    if _PATH_KEY.fullmatch(project_key) and len(project_key) <= 240:
        return project_key
    try:
        return safe_name("project key", project_key)
    except InvalidId:
        return _HASHED + sha256(project_key.encode("utf-8", "surrogatepass")).hexdigest()


def line_of(entry: Mapping[str, Any]) -> bytes:
    """An entry as one line that reads back equal; anything else is refused."""
    try:
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            line = text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: legal in JSON, but only as an escape
            line = json.dumps(entry, allow_nan=False, separators=(",", ":")).encode()
        same = isinstance(entry, dict) and json.loads(line) == entry
    except (TypeError, ValueError, RecursionError) as problem:
        raise _refused(str(problem)) from None
    if not same:
        raise _refused("it would not read back equal")
    if len(line) > DEFAULT_LIMITS.line_bytes:
        raise _refused(f"{len(line)} bytes; the limit is {DEFAULT_LIMITS.line_bytes}")
    return line


def _refused(reason: str) -> UsageError:
    return UsageError(
        f"entry: {reason}; nothing was stored", hint="use mappings, lists, text and finite numbers"
    )


def uuid_of(entry: Mapping[str, Any]) -> str | None:
    """The id that identifies a repeat; None for an entry without one."""
    name = entry.get("uuid")
    return name if isinstance(name, str) and name else None


def is_first(entry: Mapping[str, Any], seen: set[str]) -> bool:
    """Whether its id is new; adds it to ``seen``."""
    name = uuid_of(entry)
    if name is None:
        return True
    if name in seen:
        return False
    seen.add(name)
    return True


def entry_of(item: Line | Damage) -> dict[str, Any] | Damage | None:
    """A line as the SDK gave it; None for a blank one."""
    if isinstance(item, Damage):
        return item
    if not item.data.strip():
        return None
    try:
        entry = json.loads(item.data)
    except (ValueError, RecursionError) as problem:
        return Damage(DamageCode.INVALID_JSON, item.offset, len(item.data) + 1, str(problem), item.data)
    if isinstance(entry, dict):
        return entry
    return Damage(DamageCode.NOT_AN_OBJECT, item.offset, len(item.data) + 1, "not an object", item.data)


def stored_uuid(item: Line | Damage) -> str | None:
    """The id of a line in the log, read without the rest of the line."""
    if isinstance(item, Damage) or b'"uuid"' not in item.data:
        return None
    seen = fact_line(item.data, with_damage=False)
    if seen is not None:
        return seen.uuid or None
    entry = entry_of(item)  # for lines that the view refuses, such as half a surrogate pair
    return uuid_of(entry) if isinstance(entry, dict) else None


# ---- summaries -------------------------------------------------------------------------------------------

_FOLDED_AT_ONCE = 1_000

FoldCall = Callable[[SessionSummaryEntry | None, SessionKey, list[SessionStoreEntry]], SessionSummaryEntry]


class _SummaryFile(msgspec.Struct):
    """The cache file of a summary: its source, and how far it got."""

    device: int
    inode: int
    folded_to: int
    sdk: str
    data: dict[str, Any]


def summary_of(
    paths: StorePaths, place: TranscriptPlace, fold: FoldCall, sdk: str
) -> SessionSummaryEntry | None:
    """A transcript's current summary; None where it was deleted meanwhile. ``sdk`` is the fold's version."""
    try:
        # Before reading: later changes make this summary look stale, never fresh.
        status = place.log.stat()
        state = _remembered(paths, place, status, sdk)
        before = state.folded_to
        for items in _in_batches(read_lines(place.log, before, status.st_size)):
            state = _folded(state, place.key, items, fold)
    except (FileNotFoundError, NotFound):
        return None
    if state.folded_to > before:
        _remember(place, state)
    mtime = status.st_mtime_ns // 1_000_000
    return {"session_id": place.key["session_id"], "mtime": mtime, "data": state.data}


def _remembered(paths: StorePaths, place: TranscriptPlace, log: os.stat_result, sdk: str) -> _SummaryFile:
    nothing = _SummaryFile(log.st_dev, log.st_ino, 0, sdk, {})
    try:
        with open_regular(paths.require_inside(place.summary)) as file:
            found = msgspec.json.decode(file.read(), type=_SummaryFile)
    except (OSError, msgspec.MsgspecError, ValueError):
        return nothing
    same = (found.device, found.inode, found.sdk) == (log.st_dev, log.st_ino, sdk)
    return found if same and found.folded_to <= log.st_size else nothing


def _remember(place: TranscriptPlace, summary: _SummaryFile) -> None:
    try:
        fsops.replace_file(place.summary, msgspec.json.encode(summary))
    except OSError as cause:  # a full or read-only disk slows down the next listing, but the answer is valid
        _notes.warning("%s: summary not cached: %s", place.summary, cause)


def _folded(state: _SummaryFile, key: SessionKey, items: list[Line | Damage], fold: FoldCall) -> _SummaryFile:
    """The summary after some more lines."""
    entries = [entry for item in items if isinstance(entry := entry_of(item), dict)]
    before: SessionSummaryEntry = {"session_id": key["session_id"], "mtime": 0, "data": state.data}
    summary = fold(before if state.folded_to else None, key, cast("list[SessionStoreEntry]", entries))
    return msgspec.structs.replace(state, folded_to=items[-1].end, data=summary["data"])


def _in_batches(items: Iterator[Line | Damage]) -> Iterator[list[Line | Damage]]:
    while batch := list(itertools.islice(items, _FOLDED_AT_ONCE)):
        yield batch


_OPEN_LOGS = 64
# Named after the public module: users know and configure that name.
_notes = logging.getLogger("recollect.sdk")


class _OpenTranscript:
    """An open transcript: its log, and the ids that are in it."""

    def __init__(self, log: Log) -> None:
        self.log = log
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

    def __init__(self, root: Path, lock_timeout: float) -> None:
        self.paths = StorePaths(root)
        self._lock_timeout = lock_timeout
        self._guard = threading.Lock()
        self._open: OpenLogs[_OpenTranscript] = OpenLogs(_OPEN_LOGS)
        self._locks: weakref.WeakValueDictionary[Path, FileLock] = weakref.WeakValueDictionary()
        self._problems = ReadProblems()

    def place(self, key: SessionKey) -> TranscriptPlace:
        """The location of a key. Touches no disk."""
        return place_of(self.paths, key)

    def append(self, place: TranscriptPlace, entries: Sequence[SessionStoreEntry]) -> None:
        """Store the new ones among the entries."""
        lines = [(line_of(entry), uuid_of(entry)) for entry in entries]
        self.paths.require_inside(place.log)
        with (
            self._session_lock(place),
            self._open.using(
                place.log, lambda: _OpenTranscript(Log(place.log, lock_timeout=self._lock_timeout))
            ) as log,
        ):
            log.append(lines)

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
            below = place.session_dir if place.is_main else place.log
            self._open.close(lambda path: path == place.log or below in path.parents)
            for source in taken:
                if self.paths.require_inside(source).exists():
                    self._to_trash(source, batch)

    def summaries(self, project_key: str, fold: tuple[FoldCall, str]) -> list[SessionSummaryEntry]:
        found = (summary_of(self.paths, place, *fold) for place, _ in self._mains(project_key))
        return [summary for summary in found if summary is not None]

    def close(self) -> None:
        self._open.close()

    # --- files -------------------------------------------------------------------------------

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
