"""The page for members of an organisation: sign-in results, and where the documents of a page come from.

The server answers for what is about all sessions (``team``). A session that is opened is copied, with its sub-agents
and side files, and read as the local page reads one; the copy is brought up to date while it is looked at. Before every look the
server is asked whether this member may see the session: members share copies, not rights. What needs all transcripts is
not offered.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shlex
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

from recollect.errors import NoAnswer, NotFound, RecollectError
from recollect.services.documents.page import IndexState
from recollect.services.homes import Home
from recollect.services.page.desk import PageBackend
from recollect.services.page.index import IndexKeeper
from recollect.services.page.listing import WalkedSession
from recollect.services.page.team.listing import TeamSession
from recollect.services.page.team.source import ListTurn, TeamList, TeamSource, TeamView
from recollect.services.session import Session
from recollect.services.sync.mirror import Mirror, MirrorSource, has_place
from recollect.storage.home_walk import FoundLog
from recollect.sync.wire import RemoteSession
from recollect.system import fsops

_MOST_ORGANIZATIONS, _MOST_NAMED = 32, 200_000
# How much longer than a list it takes until copies of deleted sessions are looked for: no member is shown them meanwhile.
_GONE_RESTS = 30


class Member(Struct, frozen=True):
    """A signed-in member. ``organization`` is the id that separates all data. ``token`` is the id of the session, not a
    secret; ``opened_by`` that of the token it was opened with."""

    organization: str
    organization_name: str
    name: str
    role: str
    token: str
    retention_days: int | None = None
    id: str = ""
    ends: int | None = None
    opened_by: str | None = None


class AccessDenial(Struct, frozen=True):
    """Why a sign-in was refused."""

    status: int
    error: str
    hint: str
    retry_after: str | None = None


class _NoIndex(IndexKeeper):
    """Copies have no index: lists, sums and search are the server's, and one session is searched by reading it."""

    @property
    def state(self) -> IndexState:
        return "ready"


class OrganizationCopies:
    """The copies of an organisation's sessions, and what was read of them: for all its members."""

    def __init__(self, place: Path, source: MirrorSource, rest: float) -> None:
        self.mirror = Mirror(place, source, rest=rest)
        self.cache = place / "cache"
        self.read = PageBackend(
            Home(self.mirror.files.home, data=place / "data"), data=place / "data", cache=self.cache
        )
        # An earlier version had an index of all copies, with the words of sessions that may be gone since.
        for leftover in self.cache.glob("index-v*"):
            fsops.unlink(leftover)
        self.turn = ListTurn(rest)
        self._named: dict[str, TeamSession] = {}

    def named(self, remote: RemoteSession) -> TeamSession:
        """A session of a list, with the place of its copy; the same object in all lists."""
        known = self._named.get(remote.id)
        if known is None or known.remote is not remote:
            if len(self._named) > _MOST_NAMED:
                self._named.clear()
            known = TeamSession(self.read.home.homes[0], remote, self.mirror.place(remote))
            self._named[remote.id] = known
        return known


class MirrorBackend(PageBackend):
    """The sessions of an organisation as one member may see them: listed by the server, copied when they are opened."""

    def __init__(self, copies: OrganizationCopies, source: TeamSource) -> None:
        shared = copies.read
        super().__init__(shared.home, data=shared.data, cache=copies.cache)
        self.cache, self.open_sessions = shared.cache, shared.open_sessions
        self.kept, self.lock = shared.kept, shared.lock
        self.index = _NoIndex((), copies.cache)
        self.mirror, self._gone_rest = copies.mirror, _GONE_RESTS * copies.turn.rest
        self.team = TeamView(source, copies.turn)
        self._copies = copies
        self._named: tuple[TeamList, dict[str, TeamSession], list[Session]] | None = None

    @property
    def not_current_since(self) -> dt.datetime | None:
        """When the server last answered, while it does not."""
        return self.team.not_current_since

    def sessions(self, *, fresh: bool = False, any_age: bool = False) -> list[Session]:
        """Every session that the member may see, newest change first; the same list as long as nothing changed."""
        if fresh:
            self.team.forget()
        listed = self.team.listed(any_age=any_age)
        if not any_age and self.team.not_current_since is None:
            with contextlib.suppress(NoAnswer):  # then nothing can be said of what is gone
                self.mirror.remove_gone(listed.sessions, every=self._gone_rest)
        return self._named_of(listed)[2]

    def listed_sessions(self) -> Iterable[TeamSession]:
        """Those of the last list."""
        return self._named_of(self.team.listed(any_age=True))[1].values()

    def listed_session(self, name: str) -> TeamSession | None:
        """A session of the last list."""
        return self._named_of(self.team.listed(any_age=True))[1].get(name)

    def _named_of(self, listed: TeamList) -> tuple[TeamList, dict[str, TeamSession], list[Session]]:
        known = self._named
        if known is None or known[0] is not listed:
            named = {name: self._copies.named(one) for name, one in listed.sessions.items()}
            known = self._named = listed, named, list(named.values())
        return known

    def archived_only(self, sessions: list[Session]) -> list[Session]:
        """None: an archive is one person's."""
        return []

    def repository(self, cwd: str) -> str:
        """Not known: the directory is on another machine, and a path from elsewhere is not looked up here."""
        return ""

    def session(self, name: str) -> Session:
        """A session as it is on the server now, if the member may see it; its copy, while the server does not answer."""
        if has_place(name) and self.team.may_read(name):
            is_copied = self.mirror.log_of(name) is not None
            try:
                if not (is_copied and self.team.is_silent):
                    self.mirror.look_at(name)
            except NoAnswer:
                if not is_copied:
                    raise
                self.team.lost()
            path = self.mirror.log_of(name)
            if path is not None:
                copy = FoundLog(str(path), "session", name, None, 0, 0, 0, 0)
                found = self._as_it_is(WalkedSession(self.home.homes[0], copy))
                if found is not None:
                    return found
        raise NotFound(
            f"session {name!r}: not found, or without a line to show", hint="choose one from the list"
        )


class MirrorBackends:
    """The backends of all members of a server; the copies of each organisation have a directory."""

    def __init__(
        self,
        place: Path,
        copies_of: Callable[[str], MirrorSource],
        seen_by: Callable[[Member], TeamSource],
        *,
        rest: float = 1.0,
    ) -> None:
        self._place, self._copies_of, self._seen_by, self._rest = place, copies_of, seen_by, rest
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, OrganizationCopies] = OrderedDict()

    def desk(self, member: Member) -> MirrorBackend:
        """The backend of a member."""
        copies = self._opened(member.organization)
        copies.mirror.keep_days(member.retention_days)
        return MirrorBackend(copies, self._seen_by(member))

    def tidy(self) -> None:
        """Remove what was deleted, also for organisations without recent requests."""
        for directory in self._place.iterdir() if self._place.is_dir() else ():
            with contextlib.suppress(RecollectError, ValueError, OSError):
                self._opened(directory.name).mirror.remove_gone()

    def stop(self) -> None:
        """Fetch nothing more."""
        with self._lock:
            for copies in self._kept.values():
                copies.mirror.stop()

    def _opened(self, organization: str) -> OrganizationCopies:
        name = str(uuid.UUID(organization))
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                found = OrganizationCopies(self._place / name, self._copies_of(name), self._rest)
                self._kept[name] = found
            self._kept.move_to_end(name)
            while len(self._kept) > _MOST_ORGANIZATIONS:
                self._kept.popitem(last=False)
            return found


def resume_command(origin: str, session: str) -> tuple[str, ...]:
    """The command that continues a session on the member's machine: it fetches that session and no other."""
    return "recollect", "resume", f"{origin}/#/s/{quote(session, safe='')}"


def resume_line(origin: str, session: str) -> str:
    """The same, for a shell."""
    return shlex.join(resume_command(origin, session))
