"""Our own durable store of sessions, from first entry to trash.

A store is a directory of logs in one of two layouts. ``create`` starts a session, ``open`` resumes one with
its totals, ``delete`` moves it to the trash with every byte, ``restore`` brings it back. A session's state is
derived from the disk (is there a log, when was its last entry, is it in the trash), so no second file can
disagree with the log.

A new session has no file until its first entry: ``claude --continue`` would choose an empty log and continue
with nothing.

With ``part_bytes`` a log that has grown beyond that many bytes goes on in a further file (``store_layout``). It
stays one session: every method here sees all of its files. Clients and the rest of recollect read one file at a
time and list a part as a log of its own, so this is for stores that only programs read.

One writer per session is a rule of the format, not of the lock: two processes that append to one session lose
nothing, but, as with the client itself, their entries may form two branches.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import threading
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import UNSET, Raw, Struct, UnsetType, structs

from recollect.errors import Ambiguous, IdConflict, InvalidId, NotFound, StorageError, UsageError
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph, Node, node_of
from recollect.model.convert.into_claude import converted_conversation
from recollect.model.cost.money import Spending
from recollect.model.lifecycle import DEFAULT_LIFE, SessionState, has_expired, moved
from recollect.model.lines.codec import changed, decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.draft import Draft, Stamp, claude_lines, flat_lines
from recollect.model.lines.entry import Entry
from recollect.model.lines.ids import AgentId, ProjectKey, SessionId, parsed_time
from recollect.model.lines.json_text import json_of
from recollect.model.views.fact_line import FactLine, fact_line
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.log import Log
from recollect.store.logs.reader import LogReader, read_lines, without_repeats
from recollect.store.logs.summary import glance
from recollect.store.own_settings import price_list
from recollect.store.store_layout import StoredLog, StoreLayout, StorePaths
from recollect.store.turns import take_turn
from recollect.system import fsops, locations
from recollect.system.fsops import as_storage_error
from recollect.system.lock import FileLock

# The client version whose format we write.
FORMAT_VERSION = "2.1.325"
_STEP = dt.timedelta(milliseconds=1)
_LAST_YEAR = 9_000
_DAY_SECONDS = 86_400.0

Clock = Callable[[], dt.datetime]
NewId = Callable[[], str]


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def random_id() -> str:
    return str(uuid.uuid4())


class StoredSession(Struct, frozen=True):
    """One session of the store, as it is on disk."""

    id: SessionId
    key: ProjectKey
    state: SessionState
    path: Path
    size: int
    last_at: dt.datetime | None


class TrashedSession(Struct, frozen=True):
    """A session in the trash; ``batch`` is the id for ``restore``."""

    batch: str
    id: SessionId
    key: ProjectKey
    path: Path


class LogContext(Struct, frozen=True):
    """Which log, and the context fields of its entries."""

    path: Path
    key: ProjectKey
    session: SessionId
    cwd: str
    git_branch: str = ""
    agent: AgentId | None = None


class PlacedDraft(Draft, frozen=True, kw_only=True):
    """A draft with its own parent, time or further fields.

    Without ``parent`` it follows the last entry of the log, with None it follows none; naming an earlier one
    starts a branch there. The parent is not checked to be in the log, and the flat dialect, which has no
    parents, leaves it out. Without ``at`` the store's clock is used, and times increase; a given time is used
    unchanged. ``fields`` stand on its last line, which is the one that completes it; the flat dialect leaves them out.
    """

    draft: Draft
    parent: str | UnsetType | None = UNSET
    at: dt.datetime | None = None
    fields: dict[str, Raw] | None = None


def marked(draft: Draft, **fields: object) -> Draft:
    """The draft with further top-level fields (``toolDenialKind``, ``isApiErrorMessage``); without any, the draft itself."""
    present = {name: json_of(name, value) for name, value in fields.items() if value is not None}
    if not present:
        return draft
    if isinstance(draft, PlacedDraft):
        return structs.replace(draft, fields={**(draft.fields or {}), **present})
    return PlacedDraft(draft=draft, fields=present)


class Store:
    """A directory of sessions.

    Without ``root`` it is ``$XDG_CONFIG_HOME/claude`` for the flat layout, as that dialect says, and ``store`` in
    our own data directory otherwise. ``life`` is how long a session without a new entry lives; ``auto_cleanup``
    runs ``clean_up`` when a session is created, at most once a day.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        layout: StoreLayout | str = StoreLayout.CLAUDE,
        life: dt.timedelta = DEFAULT_LIFE,
        lock_timeout: float = 10.0,
        clock: Clock = utc_now,
        new_id: NewId = random_id,
        part_bytes: int | None = None,
        auto_cleanup: bool = False,
    ) -> None:
        try:
            chosen = StoreLayout(layout)
            self.paths = StorePaths(Path(root or _usual_place(chosen)).absolute(), chosen)
        except ValueError as problem:
            raise UsageError(
                f"store {root}: {problem}",
                hint="layout is 'claude' or 'flat'",
            ) from None
        self.life, self.new_id, self._lock_timeout = life, new_id, lock_timeout
        self.clock: Clock = lambda: _in_utc(clock())
        self.part_bytes, self._auto_cleanup = part_bytes, auto_cleanup

    def __repr__(self) -> str:
        return f"<Store {self.root}, {self.paths.layout.value} layout>"

    @property
    def root(self) -> Path:
        """The store's directory."""
        return self.paths.root

    def create(self, project: str | Path, *, session: str | None = None, git_branch: str = "") -> SessionLog:
        """A new session of the project. Nothing is written before the first entry.

        In the flat layout the day is the session, so creating it again on one day continues the day's log.
        """
        if self._auto_cleanup and take_turn(str(self.root / "cleanup.turn"), _DAY_SECONDS):
            self.clean_up()
        cwd = _directory(project)
        key = self.paths.layout.key(cwd)
        name = self.paths.layout.require_session(SessionId(session or self._fresh_name()))
        place = LogContext(self.paths.log(key, name), key, name, cwd, git_branch)
        if self.paths.require_inside(place.path).exists():
            if self.paths.layout is StoreLayout.FLAT:
                return self._resumed(place)
            raise UsageError(f"session {name}: exists already", hint="open it, or create one without a name")
        return SessionLog(self, place, SessionState.CREATED)

    def open(self, session: str) -> SessionLog:
        """Resume a session by id, or by a unique prefix of one."""
        found = self.find(session)
        seen = glance(found.path)
        return self._resumed(
            LogContext(found.path, found.key, found.id, seen.cwd or "", seen.git_branch or "")
        )

    def find(self, session: str) -> StoredSession:
        """The one session with this id or prefix; ``key/id`` where projects share an id."""
        key, _, name = session.rpartition("/")
        logs = [
            log for log in self.paths.logs() if log.session.startswith(name) and (not key or log.key == key)
        ]
        exact = [log for log in logs if log.session == name] or logs
        if not name or not exact:
            raise NotFound(
                f"session {session!r}: not in the store {self.paths.root}",
                hint="list the store's sessions; a deleted one can be restored",
            )
        if len(exact) > 1:
            places = tuple(f"{log.key}/{log.session}" for log in exact)
            raise Ambiguous("session", session, places)
        return self._stored(exact[0])

    def sessions(self, project: str | Path | None = None) -> list[StoredSession]:
        """Every session, or those of one project, newest entry first."""
        key = None if project is None else self.paths.layout.key(_directory(project))
        found = []
        for log in self.paths.logs(key):
            with contextlib.suppress(NotFound):  # another process may be deleting it
                found.append(self._stored(log))
        long_ago = dt.datetime.min.replace(tzinfo=dt.UTC)
        return sorted(found, key=lambda one: one.last_at or long_ago, reverse=True)

    def delete(self, session: str) -> TrashedSession:
        """Move a session and its side files to the trash, never in the middle of an append."""
        found = self.find(session)
        moved(found.state, SessionState.DELETED, found.id)
        with self._locked(found.path):
            return self._to_trash(found)

    def clean_up(self) -> list[TrashedSession]:
        """Move every expired session to the trash, with all of its bytes; each can be restored by its batch.

        A log without an entry is as old as its file. A session that gets an entry meanwhile stays.
        """
        gone = []
        for one in self.sessions():
            if one.state is SessionState.EXPIRED:
                with self._locked(one.path):
                    now = self.find(f"{one.key}/{one.id}")
                    if now.state is SessionState.EXPIRED:
                        gone.append(self._to_trash(now))
        return gone

    def _locked(self, log: Path) -> FileLock:
        return FileLock(self.paths.lock(log), self._lock_timeout, guards=log)

    def _to_trash(self, found: StoredSession) -> TrashedSession:
        stamp = self.clock().strftime("%Y%m%dT%H%M%S")
        batch = f"{stamp}-{self.new_id()[:8]}"
        with as_storage_error("move to the trash", found.path):
            for source in self._files_of(found.key, found.id):
                target = self.paths.trashed(source, batch)
                fsops.move(self.paths.require_inside(source), self.paths.require_inside(target))
        return TrashedSession(batch, found.id, found.key, self.paths.trashed(found.path, batch))

    def trash(self) -> list[TrashedSession]:
        """What can be restored, oldest first. Foreign names are ignored."""
        found = []
        for path in sorted(self.paths.trash_dir.glob("*/projects/*/*.jsonl")):
            with contextlib.suppress(InvalidId):
                session = self.paths.layout.require_session(SessionId(path.stem))
                found.append(TrashedSession(path.parts[-4], session, ProjectKey(path.parts[-2]), path))
        return found

    def restore(self, batch: str) -> StoredSession:
        """Restore what one ``delete`` removed, byte for byte."""
        found = [one for one in self.trash() if one.batch == batch]
        if not found:
            raise NotFound(f"trash {batch!r}: nothing to restore", hint="trash() lists what there is")
        trashed = found[0]
        log = self.paths.require_inside(self.paths.log(trashed.key, trashed.id))
        in_trash = self.paths.parts(self.paths.trashed(log, batch))
        targets = [log.with_name(part.name) for part in in_trash]
        targets.append(self.paths.session_dir(trashed.key, trashed.id))
        if any(target.exists() and self.paths.trashed(target, batch).exists() for target in targets):
            raise UsageError(
                f"restore {batch}: session {trashed.id} is in the store again",
                hint="delete that one first: both are then in the trash, and this one can be restored",
            )
        with self._locked(log), as_storage_error("restore", log):
            # The log last: while it is in the trash, the batch is listed and can be tried again.
            for target in reversed(targets):
                source = self.paths.trashed(target, batch)
                if source.exists():
                    fsops.move(self.paths.require_inside(source), self.paths.require_inside(target))
        return self.find(f"{trashed.key}/{trashed.id}")

    def log_at(self, path: Path) -> Log:
        """A durable log with this store's settings."""
        self.paths.require_inside(path)
        return Log(path, lock_path=self.paths.lock(path), lock_timeout=self._lock_timeout)

    def _files_of(self, key: ProjectKey, session: SessionId) -> list[Path]:
        side = self.paths.session_dir(key, session)
        return [*self.paths.parts(self.paths.log(key, session)), *([side] if side.exists() else [])]

    def _stored(self, log: StoredLog) -> StoredSession:
        parts = self.paths.parts(log.path)
        try:
            last = glance(parts[-1] if parts else log.path).last_at
        except StorageError:
            last = None  # unreadable, but it must still be listed and deletable
        is_empty = not log.size
        written = dt.datetime.fromtimestamp(log.mtime_ns / 1e9, dt.UTC) if is_empty else last
        state = SessionState.CREATED if is_empty else SessionState.ACTIVE
        if has_expired(written, self.clock(), self.life):
            state = SessionState.EXPIRED
        size = log.size + sum(part.stat().st_size for part in parts[1:])
        return StoredSession(log.session, log.key, state, log.path, size, last)

    def _resumed(self, place: LogContext) -> SessionLog:
        return SessionLog(self, place, moved(SessionState.ACTIVE, SessionState.RESUMED, place.session))

    def _fresh_name(self) -> str:
        if self.paths.layout is StoreLayout.FLAT:
            return self.clock().date().isoformat()
        return self.new_id()


class _SeenPart(Struct):
    """A file of a log, and how far it was read."""

    identity: tuple[int, int]
    end: int = 0

    def is_start_of(self, now: os.stat_result) -> bool:
        return self.identity == (now.st_dev, now.st_ino) and now.st_size >= self.end


class SessionLog:
    """One open session for appending; the store adds ids, links and times."""

    def __init__(self, store: Store, place: LogContext, state: SessionState) -> None:
        self.place, self.state = place, state
        self._store = store
        # Catching up, stamping and writing are one step: two threads must not follow the same entry.
        self._one_at_a_time = threading.Lock()
        self._log = store.log_at(place.path)
        self._start_over()
        self._catch_up()

    def _start_over(self) -> None:
        self._ledger = Ledger()
        self._last_uuid: str | None = None
        self._last_at: dt.datetime | None = None
        # The part and offset of each entry, the first where it was repeated.
        self._places: dict[str, tuple[int, int]] = {}
        self._seen: list[_SeenPart] = []

    def __repr__(self) -> str:
        return f"<SessionLog {self.id}{f' agent {self.place.agent}' if self.place.agent else ''}, {self.state.value}>"

    @property
    def id(self) -> SessionId:
        """The session's id; a sub-agent's log belongs to the same session."""
        return self.place.session

    @property
    def path(self) -> Path:
        """The log file."""
        return self.place.path

    @property
    def is_flat(self) -> bool:
        """Whether it is written in the flat dialect."""
        return self._store.paths.layout is StoreLayout.FLAT

    @property
    def spending(self) -> Spending:
        """Tokens and cost of the whole session, each response counted once."""
        return self._ledger.total(price_list())

    def agent_log(self, agent: str) -> SessionLog:
        """The log of a sub-agent of this session (claude layout)."""
        if self.is_flat:
            raise UsageError("flat layout: has no sub-agents", hint="use a store with layout='claude'")
        agent_id = AgentId(agent)
        path = self._store.paths.agent_log(self.place.key, self.id, agent_id)
        state = SessionState.RESUMED if path.exists() else SessionState.CREATED
        return SessionLog(self._store, structs.replace(self.place, path=path, agent=agent_id), state)

    def append(self, draft: Draft, *, entry_id: str | None = None) -> str:
        """Store one entry and return its id, after the sync.

        ``entry_id`` makes a repeat harmless: an entry already in the log under this id with the same content
        is not stored again. A ``PlacedDraft`` chooses the parent or the time.
        """
        with self._one_at_a_time:
            if entry_id is None:
                return self._append([draft], [self._store.new_id()])[0]
            self._catch_up()
            if not self._complete(entry_id, draft):
                self._append([draft], [entry_id])
            return entry_id

    def append_many(self, drafts: Sequence[Draft]) -> list[str]:
        """Store several entries with one write and one sync; returns their ids."""
        with self._one_at_a_time:
            return self._append(drafts, [self._store.new_id() for _ in drafts])

    def _append(self, drafts: Sequence[Draft], ids: list[str]) -> list[str]:
        self._catch_up()
        self._store_lines(self._stamped(drafts, ids))
        return ids

    def _store_lines(self, lines: Sequence[tuple[bytes, str | None]]) -> None:
        self._open_last_part()
        self._log.append_many(lines)
        self._catch_up()
        self.state = moved(self.state, SessionState.ACTIVE, self.id)

    def _open_last_part(self) -> None:
        """Append to the newest file of the log, or to a further one where that is full."""
        number, limit = max(len(self._seen), 1), self._store.part_bytes
        if limit is not None and self._seen and self._seen[-1].end >= limit and self.place.agent is None:
            number += 1
        part = self._store.paths.part(self.path, number)
        if self._log.path != part:
            self._log.close()
            self._log = self._store.log_at(part)

    def entries(self) -> Iterable[Entry | Damage]:
        """Everything in the log, from the start; an entry that was appended twice is returned once (P9)."""
        parts = self._store.paths.parts(self.path)
        return without_repeats(item for part in parts for item in LogReader(part))

    def conversation(self, *, whole: bool = False) -> Conversation:
        """The conversation over all files of the log, as client 2.1.325 would load it from one.

        Lines of the layout ``flat`` name no parents and follow each other. ``NotFound`` where there is no conversation.
        ``whole`` keeps what compactions hide.
        """
        parts = self._store.paths.parts(self.path)
        starts = list(accumulate((part.stat().st_size for part in parts), initial=0))
        graph = Graph(
            node_of(Line(line.data, start + line.offset))
            for start, part in zip(starts, parts, strict=False)
            for line in read_lines(part)
            if isinstance(line, Line)
        )
        if graph.active_leaf is None:
            converted = converted_conversation(self.entries(), str(self.id))
            if converted is not None:
                return converted
            raise NotFound(f"session {self.id}: there is no conversation", hint=f"its log is {self.path}")

        def load(node: Node) -> Entry | None:
            number = bisect_right(starts, node.offset) - 1
            item = LogReader(parts[number]).entry_at(node.offset - starts[number])
            return item.readable if isinstance(item, Damage) else item

        return Conversation(graph, graph.active_leaf, load, whole=whole)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stamped(self, drafts: Sequence[Draft], ids: Sequence[str]) -> list[tuple[bytes, str | None]]:
        lines: list[tuple[bytes, str | None]] = []
        parent, at = self._last_uuid, self._last_at
        for draft, entry_id in zip(drafts, ids, strict=True):
            now = self._store.clock()
            # Increasing times in file order: older clients choose the leaf by time.
            at = now if at is None or now > at else at + _STEP
            for line in self._lines(draft, entry_id, parent, at):
                seen = fact_line(line) or FactLine()
                lines.append((line, seen.uuid))
                parent, at = seen.uuid or parent, parsed_time(seen.timestamp) or at
        return lines

    def _lines(self, draft: Draft, entry_id: str, parent: str | None, at: dt.datetime) -> list[bytes]:
        if isinstance(draft, PlacedDraft):
            chosen = parent if isinstance(draft.parent, UnsetType) else draft.parent
            lines = self._lines(draft.draft, entry_id, chosen, draft.at or at)
            if draft.fields and not self.is_flat:
                lines[-1] = _with(lines[-1], draft.fields)
            return lines
        stamp = Stamp(
            uuid=entry_id,
            parent_uuid=parent,
            session_id=str(self.id),  # msgspec encodes str itself, not its subclasses
            timestamp=at,
            cwd=self.place.cwd,
            version=FORMAT_VERSION,
            git_branch=self.place.git_branch,
            is_sidechain=self.place.agent is not None,
            agent_id=None if self.place.agent is None else str(self.place.agent),
        )
        return flat_lines(draft, stamp) if self.is_flat else claude_lines(draft, stamp)

    def _complete(self, entry_id: str, draft: Draft) -> bool:
        """Whether the id is already in the log with the same content; lines missing after a crash are added.

        An entry may take several lines. Other content under one id is a conflict.
        """
        first = self._stored(entry_id)
        if first is None:
            return False
        at = first.at or self._store.clock()
        lines = [
            (line, (fact_line(line) or FactLine()).uuid)
            for line in self._lines(draft, entry_id, first.parent_uuid, at)
        ]
        missing = []
        for line, uuid_of_line in lines:
            stored = self._stored(uuid_of_line or "")
            ours = decode(Line(line))
            if stored is None:
                missing.append((line, uuid_of_line))
            elif not isinstance(ours, Entry) or _words(ours) != _words(stored):
                raise IdConflict(self.path, entry_id)
        if missing:
            self._store_lines(missing)
        return True

    def _stored(self, entry_id: str) -> Entry | None:
        part, offset = self._places.get(entry_id, (0, 0))
        item = LogReader(self._store.paths.part(self.path, part)).entry_at(offset) if part else None
        return item if isinstance(item, Entry) and item.uuid == entry_id else None

    def _catch_up(self) -> None:
        """Read what is new in the log, including lines of other processes."""
        parts = self._store.paths.parts(self.path)
        try:
            there = [part.stat() for part in parts]
        except FileNotFoundError:
            self._start_over()
            return
        pairs = zip(there, self._seen, strict=False)
        if len(there) < len(self._seen) or not all(known.is_start_of(now) for now, known in pairs):
            # Deleted, restored or replaced since the last look: our state is about another file.
            self._start_over()
        for number, (part, now) in enumerate(zip(parts, there, strict=True), start=1):
            if number > len(self._seen):
                self._seen.append(_SeenPart((now.st_dev, now.st_ino)))
            known = self._seen[number - 1]
            for item in read_lines(part, known.end) if now.st_size > known.end else ():
                known.end = item.end
                if isinstance(item, Line):
                    self._take_in(item, number)

    def _take_in(self, line: Line, part: int) -> None:
        self._ledger.add(usage_facts(line.data))
        seen = fact_line(line.data)
        if seen is not None and seen.uuid is not None:
            self._places.setdefault(seen.uuid, (part, line.offset))
            self._last_uuid = seen.uuid
            at = parsed_time(seen.timestamp)
            # A time at the end of the calendar leaves no room for a later one.
            self._last_at = at if at is not None and at.year < _LAST_YEAR else self._last_at


def _with(line: bytes, fields: dict[str, Raw]) -> bytes:
    entry = decode(Line(line))
    if not isinstance(entry, Entry):
        raise TypeError("a line we wrote could not be read back")
    return changed(entry, fields).raw


def _words(entry: Entry) -> object:
    """The content of an entry without ids, times and context."""
    chain = entry.chain
    if chain is None:
        return entry.raw
    return structs.replace(
        chain,
        uuid=None,
        parent_uuid=None,
        timestamp=None,
        session_id=None,
        cwd=None,
        git_branch=None,
        version=None,
    )


def _in_utc(moment: dt.datetime) -> dt.datetime:
    """A time without a zone counts as UTC."""
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment.astimezone(dt.UTC)


def _usual_place(layout: StoreLayout) -> Path:
    return locations.flat_store() if layout is StoreLayout.FLAT else locations.data_dir() / "store"


def _directory(project: str | Path) -> str:
    try:
        return str(Path(project).resolve())
    except (OSError, ValueError, RuntimeError) as problem:
        raise UsageError(f"project {str(project)!r}: {problem}", hint="name a directory") from None
