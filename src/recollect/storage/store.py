"""Our own durable store of sessions, from first entry to trash.

A store is a directory of logs in one of two layouts. ``create`` starts a session, ``open`` resumes one with
its totals, ``delete`` moves it to the trash with every byte, ``restore`` brings it back. A session's state is
derived from the disk (is there a log, when was its last entry, is it in the trash), so no second file can
disagree with the log.

A new session has no file until its first entry: ``claude --continue`` would choose an empty log and continue
with nothing.

One writer per session is a rule of the format, not of the lock: two processes that append to one session lose
nothing, but, as with the client itself, their entries may form two branches.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.errors import Ambiguous, IdConflict, InvalidId, NotFound, StorageError, UsageError
from recollect.model.codec import decode
from recollect.model.cost.ledger import Ledger
from recollect.model.cost.money import Spending
from recollect.model.damage import Damage, Line
from recollect.model.draft import Draft, Stamp, claude_lines, flat_lines
from recollect.model.entry import Entry
from recollect.model.ids import AgentId, ProjectKey, SessionId
from recollect.model.lifecycle import DEFAULT_LIFE, SessionState, has_expired, moved
from recollect.model.line_views.facts import usage_facts
from recollect.model.line_views.links import LineLinks, line_links
from recollect.model.moments import parsed_time
from recollect.storage.config.our_config import price_list
from recollect.storage.logs.log import Log, SyncPolicy
from recollect.storage.logs.reader import LogReader, read_lines, without_repeats
from recollect.storage.logs.summary import glance
from recollect.storage.store_layout import StoredLog, StoreLayout, StorePaths
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.refusals import as_storage_error

# The client version whose format we write.
FORMAT_VERSION = "2.1.325"
_STEP = dt.timedelta(milliseconds=1)
_LAST_YEAR = 9_000

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
    """A draft with its own parent or time.

    Without ``parent`` it follows the last entry of the log, with None it follows none; naming an earlier one
    starts a branch there. The parent is not checked to be in the log, and the flat dialect, which has no
    parents, leaves it out. Without ``at`` the store's clock is used, and times increase; a given time is used
    unchanged.
    """

    draft: Draft
    parent: str | UnsetType | None = UNSET
    at: dt.datetime | None = None


class Store:
    """A directory of sessions."""

    def __init__(
        self,
        root: str | Path,
        *,
        layout: StoreLayout | str = StoreLayout.CLAUDE,
        life: dt.timedelta = DEFAULT_LIFE,
        sync: SyncPolicy | str = SyncPolicy.ALWAYS,
        lock_timeout: float = 10.0,
        clock: Clock = utc_now,
        new_id: NewId = random_id,
    ) -> None:
        try:
            self.paths = StorePaths(Path(root).absolute(), StoreLayout(layout))
            self._sync = SyncPolicy(sync)
        except ValueError as problem:
            raise UsageError(
                f"store {root}: {problem}",
                hint="layout is 'claude' or 'flat', sync is 'always', 'interval' or 'never'",
            ) from None
        self.life, self.new_id, self._lock_timeout = life, new_id, lock_timeout
        self.clock: Clock = lambda: _in_utc(clock())

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
        stamp = self.clock().strftime("%Y%m%dT%H%M%S")
        batch = f"{stamp}-{self.new_id()[:8]}"
        lock = FileLock(self.paths.lock(found.path), self._lock_timeout, guards=found.path)
        with lock, as_storage_error("move to the trash", found.path):
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
        targets = self._files_of(trashed.key, trashed.id, missing=True)
        if any(target.exists() and self.paths.trashed(target, batch).exists() for target in targets):
            raise UsageError(
                f"restore {batch}: session {trashed.id} is in the store again",
                hint="delete that one first: both are then in the trash, and this one can be restored",
            )
        lock = FileLock(self.paths.lock(log), self._lock_timeout, guards=log)
        with lock, as_storage_error("restore", log):
            # The log last: while it is in the trash, the batch is listed and can be tried again.
            for target in reversed(targets):
                source = self.paths.trashed(target, batch)
                if source.exists():
                    fsops.move(self.paths.require_inside(source), self.paths.require_inside(target))
        return self.find(f"{trashed.key}/{trashed.id}")

    def log_at(self, path: Path) -> Log:
        """A durable log with this store's settings."""
        self.paths.require_inside(path)
        return Log(path, lock_path=self.paths.lock(path), sync=self._sync, lock_timeout=self._lock_timeout)

    def _files_of(self, key: ProjectKey, session: SessionId, *, missing: bool = False) -> list[Path]:
        places = [self.paths.log(key, session), self.paths.session_dir(key, session)]
        return [place for place in places if missing or place.exists()]

    def _stored(self, log: StoredLog) -> StoredSession:
        try:
            last = glance(log.path).last_at
        except StorageError:
            last = None  # unreadable, but it must still be listed and deletable
        expired = has_expired(last, self.clock(), self.life)
        state = SessionState.EXPIRED if expired else SessionState.ACTIVE
        return StoredSession(log.session, log.key, state, log.path, log.size, last)

    def _resumed(self, place: LogContext) -> SessionLog:
        return SessionLog(self, place, moved(SessionState.ACTIVE, SessionState.RESUMED, place.session))

    def _fresh_name(self) -> str:
        if self.paths.layout is StoreLayout.FLAT:
            return self.clock().date().isoformat()
        return self.new_id()


class SessionLog:
    """One open session for appending; the store adds ids, links and times."""

    def __init__(self, store: Store, place: LogContext, state: SessionState) -> None:
        self.place, self.state = place, state
        self._store = store
        # Catching up, stamping and writing are one step: two threads must not follow the same entry.
        self._one_at_a_time = threading.Lock()
        self._log = store.log_at(place.path)
        self._start_over(None)
        self._catch_up()

    def _start_over(self, identity: tuple[int, int] | None) -> None:
        self._identity = identity
        self._ledger = Ledger()
        self._last_uuid: str | None = None
        self._last_at: dt.datetime | None = None
        self._places: dict[str, int] = {}  # the offset of each entry, the first where it was repeated
        self._seen = 0

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
    def spending(self) -> Spending:
        """Tokens and cost of the whole session, each response counted once."""
        return self._ledger.total(price_list())

    def agent_log(self, agent: str) -> SessionLog:
        """The log of a sub-agent of this session (claude layout)."""
        if self._store.paths.layout is StoreLayout.FLAT:
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
        self._log.append_many(lines)
        self._catch_up()
        self.state = moved(self.state, SessionState.ACTIVE, self.id)

    def entries(self) -> Iterable[Entry | Damage]:
        """Everything in the log, from the start; an entry that was appended twice is returned once (P9)."""
        return without_repeats(LogReader(self.path)) if self.path.exists() else ()

    def close(self) -> None:
        """Sync the rest and close the file."""
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
                seen = line_links(line) or LineLinks()
                lines.append((line, seen.uuid))
                parent, at = seen.uuid or parent, parsed_time(seen.timestamp) or at
        return lines

    def _lines(self, draft: Draft, entry_id: str, parent: str | None, at: dt.datetime) -> list[bytes]:
        if isinstance(draft, PlacedDraft):
            chosen = parent if isinstance(draft.parent, UnsetType) else draft.parent
            return self._lines(draft.draft, entry_id, chosen, draft.at or at)
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
        is_flat = self._store.paths.layout is StoreLayout.FLAT
        return flat_lines(draft, stamp) if is_flat else claude_lines(draft, stamp)

    def _complete(self, entry_id: str, draft: Draft) -> bool:
        """Whether the id is already in the log with the same content; lines missing after a crash are added.

        An entry may take several lines. Other content under one id is a conflict.
        """
        first = self._stored(entry_id)
        if first is None:
            return False
        at = first.at or self._store.clock()
        lines = [
            (line, (line_links(line) or LineLinks()).uuid)
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
        offset = self._places.get(entry_id)
        item = LogReader(self.path).entry_at(offset) if offset is not None else None
        return item if isinstance(item, Entry) and item.uuid == entry_id else None

    def _catch_up(self) -> None:
        """Read what is new in the log, including lines of other processes."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            self._start_over(None)
            return
        if (there.st_dev, there.st_ino) != self._identity or there.st_size < self._seen:
            # Deleted, restored or replaced since the last look: our state is about another file.
            self._start_over((there.st_dev, there.st_ino))
        if there.st_size <= self._seen:
            return
        for item in read_lines(self.path, self._seen):
            self._seen = item.end
            if isinstance(item, Line):
                self._take_in(item)

    def _take_in(self, line: Line) -> None:
        self._ledger.add(usage_facts(line.data))
        seen = line_links(line.data)
        if seen is not None and seen.uuid is not None:
            self._places.setdefault(seen.uuid, line.offset)
            self._last_uuid = seen.uuid
            at = parsed_time(seen.timestamp)
            # A time at the end of the calendar leaves no room for a later one.
            self._last_at = at if at is not None and at.year < _LAST_YEAR else self._last_at


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


def _directory(project: str | Path) -> str:
    try:
        return str(Path(project).resolve())
    except (OSError, ValueError, RuntimeError) as problem:
        raise UsageError(f"project {str(project)!r}: {problem}", hint="name a directory") from None
