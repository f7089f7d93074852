"""What all answers of a page share: homes, data directory, open sessions, index, summaries of logs.

Safe for several threads. Caches are bounded, and their entries hold the size and time of the log
they were made from.
"""

from __future__ import annotations

import datetime as dt
import shlex
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, UnsetType, structs

from recollect.ask.archive import archive_at
from recollect.ask.conversation.content import Cache, IndexKeeper, PageSession, signature_of
from recollect.ask.homes import Homes
from recollect.ask.sessions.projects import RepositoryFinder
from recollect.ask.sessions.session import ArchivedSession, Session
from recollect.errors import Busy, NotFound, RecollectError
from recollect.index.database import IndexDatabase
from recollect.model.lines.ids import SessionId
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.home_walk import FoundLog, scan_logs
from recollect.store.logs.conversation_cache import ConversationCache
from recollect.store.logs.summary import LogSummary, glance
from recollect.store.page_files import MarksFile
from recollect.system.paths import CLAUDE

_LISTED_SECONDS = 1.0
_GLANCES = 50_000
# Graphs of open sessions: about 380,000 lines; a session of 50 MB has 20,000.
_OPEN_BYTES = 256 << 20
_OPEN = 4

Mark = tuple[str, int, int]  # path, size and time of a log
_T = TypeVar("_T")


def session_file(seen: FoundLog) -> SessionFile:
    name = SessionId.parse(seen.session or "")
    return SessionFile(Path(seen.path), seen.size, seen.mtime_ns, seen.inode, seen.device, id=name)


def listed(homes: Iterable[ClaudeHome]) -> list[Session]:
    """Every session, newest file first."""
    logs = (
        (home, session_file(log)) for home in homes for log in scan_logs(home.root) if log.role == "session"
    )
    return [Session(home, file) for home, file in sorted(logs, key=lambda pair: -pair[1].mtime_ns)]


def mark_of(session: Session) -> Mark:
    """A value that changes when the log changes, without reading it."""
    return str(session.path), session.file.size, session.file.mtime_ns


class PageBackend:
    """One user's sessions, for as long as the page is open."""

    def __init__(
        self, home: Homes, *, data: Path, cache: Path, words: Sequence[str] = (), is_sample: bool = False
    ) -> None:
        self.home, self.data, self.is_sample = home, data, is_sample
        self.roots = [one.root for one in home.homes]
        self.marks = MarksFile(data)
        self.index = IndexKeeper(self.roots, cache)
        self.graphs, self.open_sessions = ConversationCache(_OPEN_BYTES), Cache(_OPEN)
        # Of one session each; every version of a file is text in memory, so only one session's are kept.
        self.answers = {"agents": Cache(4), "findings": Cache(4), "files": Cache(1)}
        self.lock = threading.RLock()
        self._words = tuple(words)
        self._repositories = RepositoryFinder()
        self._listed: tuple[float, list[Session]] = (0.0, [])
        self._archived_only: tuple[list[Session], list[Session]] | None = None
        self._glances = Cache(_GLANCES)

    @property
    def not_current_since(self) -> dt.datetime | UnsetType | None:
        """Of when everything here is, where that may be long ago."""
        return UNSET

    def command(self, *words: str) -> str:
        """A command line to type, with the global options of the page."""
        return shlex.join(["recollect", *self._words, *words])

    def repository(self, cwd: str) -> str:
        """The repository of a session's directory, without reading its log."""
        return self._repositories.by_directory(cwd)

    def sessions(self, *, fresh: bool = False, any_age: bool = False) -> list[Session]:
        """Every session, newest file first, at most a second old (a few seconds for very many).

        ``any_age`` accepts the last list, to continue paging through it.
        """
        with self.lock:
            until, found = self._listed
            begun = time.monotonic()
            if fresh or not found or (begun > until and not any_age):
                before, found = found, listed(self.home.homes)
                if [one.file for one in found] == [one.file for one in before]:
                    found = before  # what was made of the list is still right
                now = time.monotonic()
                self._listed = (now + max(_LISTED_SECONDS, 10 * (now - begun)), found)
            return found

    def archived_only(self, sessions: list[Session]) -> list[Session]:
        """What only the archive still has; ``sessions`` are those in the homes. The same list as long as they are."""
        with self.lock:
            if self._archived_only is None or self._archived_only[0] is not sessions:
                archive = archive_at(self.data)
                logs = (mark_of(one)[0] for one in sessions)
                found = archive.only_here(self.roots, logs) if archive.root.is_dir() else ()
                self._archived_only = (
                    sessions,
                    [ArchivedSession(archive, manifest) for manifest, _ in found],
                )
            return self._archived_only[1]

    def changed(self) -> None:
        """Drop the cached list after a change."""
        with self.lock:
            self._listed = (0.0, [])
            self._archived_only = None

    def session(self, name: str) -> Session:
        """A session by its full id, the newest of several copies. Archived sessions are found too."""
        for known in (self._listed[1], None):
            # A list of any age is good enough to find a file; only an unknown session needs another walk.
            for session in self.sessions(fresh=True) if known is None else known:
                now = self._as_it_is(session) if session.id == name else None
                if now is not None:
                    return now
        archive = archive_at(self.data)
        for project, session_id in archive.names() if archive.root.is_dir() else ():
            for manifest in archive.of(project, session_id) if session_id == name else ():
                return ArchivedSession(archive, manifest)
        raise NotFound(f"session {name!r}: not found", hint="choose one from the list")

    def reading(self, name: str) -> PageSession:
        """A session to read, in its current state."""
        session = self.session(name)
        log = self.graphs.get(session.path)
        return self.open_sessions.get(session.path, log, lambda: PageSession(session, log))

    def changing(self, name: str) -> Session:
        """A session to change: looked up again, and only in a home."""
        self.require_own()
        session = next((one for one in self.sessions(fresh=True) if one.id == name), None)
        if session is None:
            raise NotFound(f"session {name!r}: not in a home", hint="restore it from the archive first")
        return session

    def require_own(self) -> None:
        """Refuse changes to the built-in sample home."""
        if self.is_sample:
            raise Busy(
                "the built-in sample home cannot be changed", hint="copy it elsewhere and name it with --home"
            )

    def answer(self, what: str, session: PageSession, make: Callable[[], _T]) -> _T:
        """What needs a pass over a whole log, made again when the log changed."""
        return self.answers[what].get(session.path, signature_of(session.path), make)

    @contextmanager
    def copies_known(self, session: PageSession) -> Iterator[IndexDatabase | None]:
        """The index, for a session whose calls may be copies of others'; None where there is none, and for Claude's."""
        if session.agent == CLAUDE:
            yield None
            return
        with self.index.opened() as opened:
            yield opened.database

    def glance(self, session: Session) -> LogSummary | None:
        """Title, tag and times; None if the log cannot be read."""
        path, *state = mark_of(session)

        def look() -> LogSummary | None:
            try:
                return glance(session.path)
            except RecollectError:
                return None

        seen = self._glances.get(path, state, look)
        return None if seen is None else session.among_others(seen)

    def _as_it_is(self, session: Session) -> Session | None:
        """The session with the current size and time of its log; None if it no longer exists."""
        try:
            size, modified, inode = signature_of(session.path)
        except RecollectError:
            return None
        file = structs.replace(session.file, size=size, mtime_ns=modified, inode=inode)
        own = self.home
        return Session(session.home, file, _costs=own._session_costs, _is_shared=own._is_shared)  # noqa: SLF001 - no caller's business
