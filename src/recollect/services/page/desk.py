"""What all answers of a page share: homes, data directory, open sessions, index, summaries of logs.

Safe for several threads. Caches are bounded, and their entries hold the size and time of the log
they were made from.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shlex
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, UnsetType, structs

from recollect.errors import Busy, NotFound, RecollectError
from recollect.services.archive.archive import archive_at
from recollect.services.archive.session import ArchivedSession
from recollect.services.homes import Home
from recollect.services.page.index import IndexKeeper
from recollect.services.page.listing import WalkedSession, listed, mark_of
from recollect.services.page.log import OpenSessions, PageSession, signature_of
from recollect.services.repositories import RepositoryFinder
from recollect.services.session import Session
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.logs.kept_points import PointsCache
from recollect.storage.logs.log_graph import WORTH_KEEPING, LogGraph
from recollect.storage.logs.reader import OpenLog
from recollect.storage.logs.summary import LogSummary, glance
from recollect.storage.marks import MarksFile

_LISTED_SECONDS = 1.0
_GLANCES = 50_000
# Graphs of open sessions: about 380,000 lines; a session of 50 MB has 20,000.
_OPEN_BYTES = 256 << 20
# Bytes read ahead, newest first: about two seconds once, then only what is new.
_AHEAD_BYTES = 400 << 20
_PAUSE_SECONDS = 0.001


class PageBackend:
    """One user's sessions, for as long as the page is open."""

    def __init__(
        self, home: Home, *, data: Path, cache: Path, words: Sequence[str] = (), is_sample: bool = False
    ) -> None:
        self.home, self.data, self.is_sample = home, data, is_sample
        self.roots = [one.root for one in home.homes]
        self.marks = MarksFile(data)
        self.index = IndexKeeper(self.roots, cache)
        self._kept_points = PointsCache(cache / "points")
        self.cache = ConversationCache(_OPEN_BYTES, _kept=self._kept_points)
        self.open_sessions = OpenSessions(self.cache)
        self.kept: dict[str, object] = {}
        self.lock = threading.RLock()
        self._words = tuple(words)
        self._repositories = RepositoryFinder()
        self._listed: tuple[float, list[Session]] = (0.0, [])
        self._archived_only: tuple[list[Session], list[Session]] | None = None
        self._glances: OrderedDict[str, tuple[int, int, LogSummary | None]] = OrderedDict()

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
                known = {one.seen.path: one for one in found if isinstance(one, WalkedSession)}
                found = listed(self.home.homes, known)
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
        return self.open_sessions.opened(self.session(name))

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

    def glance(self, session: Session) -> LogSummary | None:
        """Title, tag and times; None if the log cannot be read."""
        path, size, modified = mark_of(session)
        with self.lock:
            known = self._glances.get(path)
        if known is not None and known[:2] == (size, modified):
            return known[2]
        try:
            seen: LogSummary | None = glance(session.path)
        except RecollectError:
            seen = None
        with self.lock:
            self._glances[path] = (size, modified, seen)
            while len(self._glances) > _GLANCES:
                self._glances.popitem(last=False)
        return seen

    def read_ahead(self, stop: threading.Event) -> None:
        """Read large logs in advance, so that they open at once. Pauses between them to let requests through."""
        left = _AHEAD_BYTES
        for session in self.sessions():
            if stop.is_set() or left <= 0:
                return
            if mark_of(session)[1] >= WORTH_KEEPING:
                with contextlib.suppress(RecollectError):
                    left -= self._read_ahead(session, stop)

    def _read_ahead(self, session: Session, stop: threading.Event) -> int:
        """Returns the number of bytes read."""
        with OpenLog(session.path) as opened:
            new = opened.size() - self._kept_points.covers(opened)
        if new < WORTH_KEEPING:
            return 0
        log = LogGraph(session.path, _kept=self._kept_points)
        log.read_on(lambda: time.sleep(0 if stop.is_set() else _PAUSE_SECONDS))
        log.keep()
        return new

    def _as_it_is(self, session: Session) -> Session | None:
        """The session with the current size and time of its log; None if it no longer exists."""
        try:
            size, modified, inode = signature_of(session.path)
        except RecollectError:
            return None
        file = structs.replace(session.file, size=size, mtime_ns=modified, inode=inode)
        return Session(session.home, file, _costs=self.home._session_costs)  # noqa: SLF001 - no caller's business
