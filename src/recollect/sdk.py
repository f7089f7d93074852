"""Our store as the ``SessionStore`` of the Claude Agent SDK (extra ``[sdk]``).

    options = ClaudeAgentOptions(session_store=recollect.sdk.SessionStore("logs/"))

The SDK hands over every transcript line a second time and asks for it back to
resume elsewhere. Here each key is one log: the main transcript of a session lies
where a Claude home would have it, its sub-agents below it, so everything else of
recollect reads what the SDK stored. An append returns after the sync; entries
come back deep-equal and in order, or the append is refused.

Repeats are harmless: of entries with one ``uuid`` the first is kept, whichever
process wrote it; entries without one are stored each time, as the SDK asks.
Appends to one session come one at a time, also from several processes.

Summaries are derived from the log and can always be made again. A small file
remembers how far the last one got; it is never believed for a log it was not
made from. They need the SDK itself, which is imported for them and for nothing else.

A deletion moves to the store's trash, with every byte (law 3): who has to
*erase* empties the trash. Keys are opaque: any text is a safe name on disk, and
different texts are different names, also where upper and lower case are one.
Only keys that are paths are spelt as clients spell them: there case is the path's.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import logging
import re
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict, cast

import msgspec

from recollect.aio import InOrder, in_thread
from recollect.errors import InvalidId, NotFound, StorageError, UsageError
from recollect.model.damage import DEFAULT_LIMITS, Damage, DamageCode, Line
from recollect.storage import fsops
from recollect.storage.lock import FileLock
from recollect.storage.log import Log, SyncPolicy
from recollect.storage.peek import Problems, is_directory, list_directory, open_regular, regular_file
from recollect.storage.places import data_dir
from recollect.storage.reader import read_lines
from recollect.storage.store_layout import StorePaths

__all__ = [
    "SessionKey",
    "SessionListSubkeysKey",
    "SessionStore",
    "SessionStoreEntry",
    "SessionStoreListEntry",
    "SessionSummaryEntry",
]

_LOG, _LOCK, _SUMMARY = ".jsonl", ".transcript.lock", ".summary.json"
_OPEN_LOGS = 64
_LONGEST = 200
_FOLDED_AT_ONCE = 1_000
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-")
# A working directory as clients name it; on systems where case does not count, such paths are one too.
_PATH_KEY = re.compile(r"(?:-|[A-Za-z]--)[A-Za-z0-9-]*")
_PLAIN = re.compile(r"[a-z0-9-][a-z0-9_-]*")
_DEVICES = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]")
_ESCAPED, _HASHED = "x_", "h_"
_notes = logging.getLogger(__name__)


# ---- the SDK's types, field by field, so that nothing has to be imported from it ---------------------------


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
    """One line of a transcript; fields that are not named here are kept too."""

    type: Required[str]
    uuid: str
    timestamp: str


class SessionStoreListEntry(TypedDict):
    """A session and when its transcript was last written, in milliseconds."""

    session_id: str
    mtime: int


class SessionSummaryEntry(TypedDict):
    """What a list shows of a session; ``data`` belongs to the SDK."""

    session_id: str
    mtime: int
    data: dict[str, Any]


# ---- the store ----------------------------------------------------------------------------------------------


class SessionStore:
    """Implements all six methods of the SDK's protocol over one store directory.

    Without ``root`` it is the store in our own data directory. One object may
    serve many sessions and several event loops; ``close`` lets go of its files.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        sync: SyncPolicy = SyncPolicy.ALWAYS,
        lock_timeout: float = 10.0,
    ) -> None:
        directory = data_dir() / "store" if root is None else Path(root).expanduser()
        self._transcripts = _Transcripts(directory.absolute(), sync, lock_timeout)
        self._turns = InOrder()

    @property
    def root(self) -> Path:
        """The store's directory."""
        return self._transcripts.paths.root

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries, durably and in the order of the calls; those whose uuid is stored are left out."""
        place = self._transcripts.place(key)
        if entries:
            await self._turns.run(place.log, lambda: self._transcripts.append(place, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every entry of a transcript; None for a key that was never written. See ``damage``."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.load(place))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project that have a transcript of their own."""
        return await in_thread(lambda: self._transcripts.sessions(project_key))

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of every session of a project, up to date with its transcript."""
        # Found in the thread too: the first import of the SDK takes longer than a loop should stand still.
        return await in_thread(lambda: self._transcripts.summaries(project_key, _sdk_fold()))

    async def delete(self, key: SessionKey) -> None:
        """Move a transcript to the trash, a session's with those of its sub-agents. Nothing there is no error."""
        place = self._transcripts.place(key)
        await self._turns.run(place.log, lambda: self._transcripts.delete(place))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session that have a transcript."""
        place = self._transcripts.place({"project_key": key["project_key"], "session_id": key["session_id"]})
        return await in_thread(lambda: list(self._transcripts.subkeys(place)))

    async def damage(self, key: SessionKey) -> list[Damage]:
        """Lines of a transcript that ``load`` could not give back: torn by a crash, or changed by others."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.damage(place))

    async def close(self) -> None:
        """Let go of the files. The store can be used again afterwards."""
        await in_thread(self._transcripts.close)


# ---- names --------------------------------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """Where the transcript of one key lies, and what guards it."""

    key: SessionKey
    log: Path
    session_dir: Path
    is_main: bool

    @property
    def lock(self) -> Path:
        """One for a session and its sub-agents, so that a deletion meets no append."""
        return self.session_dir.with_name(self.session_dir.name + _LOCK)

    @property
    def summary(self) -> Path:
        return self.session_dir.with_name(self.session_dir.name + _SUMMARY)


def _name(what: str, text: str) -> str:
    """A text as one safe file name without a dot, reversible, its own for every text."""
    if _PLAIN.fullmatch(text) and not text.startswith((_ESCAPED, _HASHED)) and not _DEVICES.fullmatch(text):
        name = text
    else:
        raw = text.encode("utf-8", "surrogatepass")
        name = _ESCAPED + "".join(chr(byte) if byte in _KEPT else f"_{byte:02x}" for byte in raw)
    if len(name) > _LONGEST:
        raise InvalidId(what, text, "is too long for a file name")
    return name


def _text(name: str) -> str | None:
    """What ``_name`` made a name of; None for a name it does not make."""
    if not name.startswith(_ESCAPED):
        text: str | None = name
    else:
        raw = re.sub(r"_([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), name[len(_ESCAPED) :])
        try:
            text = raw.encode("latin-1").decode("utf-8", "surrogatepass")
        except UnicodeError:
            return None
    try:
        return text if text is not None and _name("name", text) == name else None
    except InvalidId:
        return None


def _project_name(project_key: str) -> str:
    """A project's directory. It is never turned back, so what is too long may become a hash."""
    if _PATH_KEY.fullmatch(project_key) and len(project_key) <= 240:
        return project_key
    try:
        return _name("project key", project_key)
    except InvalidId:
        return _HASHED + sha256(project_key.encode("utf-8", "surrogatepass")).hexdigest()


# ---- transcripts on disk ------------------------------------------------------------------------------------


class _Identified(msgspec.Struct):
    uuid: Any = None


_identified = msgspec.json.Decoder(_Identified)


class _Known:
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
        # The ids are learnt from the log by the next catch-up: a write that failed must not look stored.
        self.log.append_many(new)

    def close(self) -> None:
        """Let go of the file, once nobody is writing to it."""
        with self.busy:
            self.closed = True
            self.log.close()

    def _catch_up(self) -> None:
        """Learn the ids of lines that are new, also of those another process wrote."""
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
                name = _stored_uuid(item)
                if name is not None:
                    self._ids.add(name)


def _stored_uuid(item: Line | Damage) -> str | None:
    if isinstance(item, Damage) or b'"uuid"' not in item.data:
        return None
    try:
        name = _identified.decode(item.data).uuid
    except (msgspec.MsgspecError, ValueError, RecursionError):
        entry = _entry_of(item)  # what the quick look refuses, such as half a surrogate pair
        name = entry.get("uuid") if isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else None


class _Fold(msgspec.Struct):
    """The file that remembers a summary: what it was made of, and how far."""

    device: int
    inode: int
    folded_to: int
    sdk: str
    data: dict[str, Any]


_FoldCall = Callable[[SessionSummaryEntry | None, SessionKey, list[SessionStoreEntry]], SessionSummaryEntry]


def _folded(state: _Fold, key: SessionKey, items: list[Line | Damage], fold: _FoldCall) -> _Fold:
    """The summary after some more lines."""
    entries = [entry for item in items if isinstance(entry := _entry_of(item), dict)]
    before: SessionSummaryEntry = {"session_id": key["session_id"], "mtime": 0, "data": state.data}
    summary = fold(before if state.folded_to else None, key, cast("list[SessionStoreEntry]", entries))
    return msgspec.structs.replace(state, folded_to=items[-1].end, data=summary["data"])


def _in_batches(items: Iterator[Line | Damage]) -> Iterator[list[Line | Damage]]:
    while batch := list(itertools.islice(items, _FOLDED_AT_ONCE)):
        yield batch


class _Transcripts:
    """The synchronous core. Threads may share it."""

    def __init__(self, root: Path, sync: SyncPolicy, lock_timeout: float) -> None:
        self.paths = StorePaths(root)
        self._sync, self._lock_timeout = sync, lock_timeout
        self._guard = threading.Lock()
        self._open: OrderedDict[Path, _Known] = OrderedDict()
        self._locks: weakref.WeakValueDictionary[Path, FileLock] = weakref.WeakValueDictionary()
        self._problems = Problems()

    def place(self, key: SessionKey) -> _Place:
        """Where a key lies. Touches no disk."""
        project = self.paths.projects_dir / _project_name(key["project_key"])
        session = project / _name("session id", key["session_id"])
        subpath = key.get("subpath")
        if subpath is None:
            return _Place(key, session.with_name(session.name + _LOG), session, is_main=True)
        if not subpath:
            raise InvalidId("subpath", "", "is empty; leave it out for the session itself")
        *directories, last = (_name("subpath", part) for part in subpath.split("/"))
        return _Place(key, session.joinpath(*directories, last + _LOG), session, is_main=False)

    def append(self, place: _Place, entries: Sequence[SessionStoreEntry]) -> None:
        """Store what is new among the entries."""
        lines = [(_line_of(entry), _uuid_of(entry)) for entry in entries]
        with self._session_lock(place):
            while True:
                known = self._known(place)
                with known.busy:
                    if known.closed:  # it fell out of the cache between those two lines
                        continue
                    known.append(lines)
                    return

    def load(self, place: _Place) -> list[SessionStoreEntry] | None:
        """The entries of a transcript, of repeats the first."""
        self.paths.require_inside(place.log)
        found: list[SessionStoreEntry] = []
        seen: set[str] = set()
        unreadable = 0
        try:
            for item in read_lines(place.log):
                entry = _entry_of(item)
                if isinstance(entry, Damage):
                    unreadable += 1
                elif entry is not None and _is_first(entry, seen):
                    found.append(cast("SessionStoreEntry", entry))
        except NotFound:
            return None
        if unreadable:
            _notes.warning("%s: %d lines cannot be read and were left out", place.log, unreadable)
        return found

    def damage(self, place: _Place) -> list[Damage]:
        """The lines ``load`` leaves out."""
        self.paths.require_inside(place.log)
        try:
            items = [_entry_of(item) for item in read_lines(place.log)]
        except NotFound:
            return []
        return [item for item in items if isinstance(item, Damage)]

    def sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Main transcripts and their times."""
        return [
            {"session_id": place.key["session_id"], "mtime": mtime_ns // 1_000_000}
            for place, mtime_ns in self._mains(project_key)
        ]

    def subkeys(self, place: _Place) -> Iterator[str]:
        """Every subpath below a session, by name."""
        self.paths.require_inside(place.session_dir)
        return self._subkeys(place.session_dir, "")

    def delete(self, place: _Place) -> None:
        """To the trash: one transcript, or a session with all it has."""
        taken = [place.log, place.session_dir, place.summary] if place.is_main else [place.log]
        if not any(path.exists() for path in taken):
            return
        batch = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        with self._session_lock(place):
            self._forget(place)
            for source in taken:
                if self.paths.require_inside(source).exists():
                    self._to_trash(source, batch)

    def summaries(self, project_key: str, fold: tuple[_FoldCall, str]) -> list[SessionSummaryEntry]:
        """One summary for each main transcript."""
        found = (self._summary(place, *fold) for place, _ in self._mains(project_key))
        return [summary for summary in found if summary is not None]

    def close(self) -> None:
        """Close every log."""
        with self._guard:
            opened, self._open = list(self._open.values()), OrderedDict()
        for known in opened:
            known.close()

    # --- summaries ---------------------------------------------------------------------------

    def _summary(self, place: _Place, fold: _FoldCall, sdk: str) -> SessionSummaryEntry | None:
        try:
            # Before reading: what comes later makes this summary look stale, never fresh.
            status = place.log.stat()
            state = self._remembered(place, status.st_dev, status.st_ino, status.st_size, sdk)
            before = state.folded_to
            for items in _in_batches(read_lines(place.log, before, status.st_size)):
                state = _folded(state, place.key, items, fold)
        except (FileNotFoundError, NotFound):  # deleted meanwhile
            return None
        if state.folded_to > before:
            self._remember(place, state)
        mtime = status.st_mtime_ns // 1_000_000
        return {"session_id": place.key["session_id"], "mtime": mtime, "data": state.data}

    def _remembered(self, place: _Place, device: int, inode: int, size: int, sdk: str) -> _Fold:
        nothing = _Fold(device, inode, 0, sdk, {})
        try:
            with open_regular(self.paths.require_inside(place.summary)) as file:
                found = msgspec.json.decode(file.read(), type=_Fold)
        except (OSError, msgspec.MsgspecError, ValueError):
            return nothing
        same = (found.device, found.inode, found.sdk) == (device, inode, sdk) and found.folded_to <= size
        return found if same else nothing

    def _remember(self, place: _Place, summary: _Fold) -> None:
        try:
            fsops.replace_file(place.summary, msgspec.json.encode(summary))
        except OSError as cause:  # a full or read-only disk costs time at the next listing, not the answer
            _notes.warning("%s: summary not kept: %s", place.summary, cause)

    # --- files -------------------------------------------------------------------------------

    def _known(self, place: _Place) -> _Known:
        self.paths.require_inside(place.log)
        with self._guard:
            known = self._open.pop(place.log, None)
            if known is None or known.log.failed:
                known = _Known(Log(place.log, sync=self._sync, lock_timeout=self._lock_timeout))
            self._open[place.log] = known
            surplus = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - _OPEN_LOGS)]
        for old in surplus:
            old.close()
        return known

    def _forget(self, place: _Place) -> None:
        below = place.session_dir if place.is_main else place.log
        with self._guard:
            gone = [path for path in self._open if path == place.log or below in path.parents]
            opened = [self._open.pop(path) for path in gone]
        for known in opened:
            known.close()

    def _session_lock(self, place: _Place) -> FileLock:
        path = self.paths.require_inside(place.lock)
        with _as_storage_error("create", path.parent):
            fsops.make_directories(path.parent)
        with self._guard:
            # Threads that share the object queue up at once instead of looking again and again.
            return self._locks.setdefault(path, FileLock(path, self._lock_timeout, guards=place.log))

    def _to_trash(self, source: Path, batch: str) -> None:
        with _as_storage_error("move to the trash", source):
            fsops.move(source, self.paths.trashed(source, batch))

    def _mains(self, project_key: str) -> Iterator[tuple[_Place, int]]:
        directory = self.paths.require_inside(self.paths.projects_dir / _project_name(project_key))
        for entry in list_directory(directory, self._problems):
            session = _text(entry.name.removesuffix(_LOG)) if entry.name.endswith(_LOG) else None
            status = None if session is None else regular_file(entry, self._problems, follow=False)
            if session is not None and status is not None:
                yield self.place({"project_key": project_key, "session_id": session}), status.st_mtime_ns

    def _subkeys(self, directory: Path, before: str) -> Iterator[str]:
        for entry in list_directory(directory, self._problems):
            part = _text(entry.name.removesuffix(_LOG))
            if part is None:
                continue
            if entry.name.endswith(_LOG):
                if regular_file(entry, self._problems, follow=False):
                    yield before + part
            elif is_directory(entry, self._problems, follow=False):
                yield from self._subkeys(directory / entry.name, f"{before}{part}/")


@contextlib.contextmanager
def _as_storage_error(operation: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        hint = "check the disk and who may write there, then try again"
        raise StorageError(operation, path, cause, hint=hint) from cause


# ---- entries ------------------------------------------------------------------------------------------------


def _line_of(entry: Mapping[str, Any]) -> bytes:
    """An entry as one line that reads back equal; anything that would not is refused."""
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
        raise _refused("it would not come back as it is")
    if len(line) > DEFAULT_LIMITS.line_bytes:
        raise _refused(f"{len(line)} bytes, and no reader takes more than {DEFAULT_LIMITS.line_bytes}")
    return line


def _refused(reason: str) -> UsageError:
    return UsageError(
        f"entry: {reason}; nothing was stored", hint="use mappings, lists, text and finite numbers"
    )


def _uuid_of(entry: Mapping[str, Any]) -> str | None:
    name = entry.get("uuid")
    return name if isinstance(name, str) and name else None


def _is_first(entry: Mapping[str, Any], seen: set[str]) -> bool:
    name = _uuid_of(entry)
    if name is None:
        return True
    if name in seen:
        return False
    seen.add(name)
    return True


def _entry_of(item: Line | Damage) -> dict[str, Any] | Damage | None:
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


def _sdk_fold() -> tuple[_FoldCall, str]:
    """The SDK's own fold, and which version of it."""
    try:
        sdk = importlib.import_module("claude_agent_sdk")
    except ImportError as cause:
        raise UsageError(
            "list_session_summaries: the Claude Agent SDK is not installed",
            hint="pip install 'recollect[sdk]'",
        ) from cause
    return cast("_FoldCall", sdk.fold_session_summary), str(sdk.__version__)
