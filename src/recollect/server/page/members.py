"""Where the documents of a member's page come from.

The server answers for what is about all sessions (``listing.TeamView``). A session that is opened is copied, with its sub-agents
and side files, and read as the local page reads one; the copy is brought up to date while it is looked at. Before every look the
server is asked whether this member may see the session: members share copies, not rights. What needs all transcripts is
not offered.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import shlex
import shutil
import tempfile
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from recollect.ask.conversation.content import IndexKeeper, IndexState
from recollect.ask.homes import Homes
from recollect.ask.sessions.session import Session
from recollect.errors import NoAnswer, NotFound, RecollectError, UsageError
from recollect.model.text.titles import LONGEST_TITLE
from recollect.server.page.access import MemberSource, OrganizationSource
from recollect.server.page.listing import ListTurn, TeamList, TeamSession, TeamView
from recollect.server.page.mirror import Mirror, has_place
from recollect.server.service import Service
from recollect.server.tenancy import Caller
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.wire import plain_text
from recollect.store.home_walk import FoundLog
from recollect.system.locations import is_known_id
from recollect.system.lock import try_lock
from recollect.system.paths import CLAUDE
from recollect.web.desk import PageBackend, session_file

_MOST_ORGANIZATIONS = 32
# How much longer than a list it takes until copies of deleted sessions are looked for: no member is shown them meanwhile.
_GONE_RESTS = 30
_COPIES = "copies-"


class _NoIndex(IndexKeeper):
    """Copies have no index: lists, sums and search are the server's, and one session is searched by reading it."""

    @property
    def state(self) -> IndexState:
        return "ready"


class OrganizationCopies:
    """The copies of an organisation's sessions, and what was read of them: for all its members. Their directory is of this
    process, and goes when no one needs them any more."""

    def __init__(self, place: Path, source: OrganizationSource | HttpRemote, rest: float) -> None:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        root = Path(tempfile.mkdtemp(prefix=_COPIES, dir=place))
        self._in_use = os.open(root, os.O_RDONLY)
        try_lock(self._in_use)
        weakref.finalize(self, _removed, root, self._in_use)
        self.mirror = Mirror(root, source, rest=rest)
        self.read = PageBackend(
            Homes(self.mirror.home, data=root / "data"), data=root / "data", cache=root / "cache"
        )
        self.turn = ListTurn(rest)


def _removed(root: Path, in_use: int) -> None:
    shutil.rmtree(root, ignore_errors=True)
    os.close(in_use)


def remove_left_copies(place: Path) -> None:
    """Copies of processes that were killed."""
    for root in place.glob(f"*/{_COPIES}*"):
        with contextlib.suppress(OSError):
            in_use = os.open(root, os.O_RDONLY)
            try:
                if try_lock(in_use):
                    shutil.rmtree(root, ignore_errors=True)
            finally:
                os.close(in_use)


class MirrorBackend(PageBackend):
    """The sessions of an organisation as one member may see them: listed by the server, copied when they are opened."""

    def __init__(self, copies: OrganizationCopies, source: MemberSource) -> None:
        shared = copies.read
        super().__init__(shared.home, data=shared.data, cache=shared.data)
        self.graphs, self.open_sessions = shared.graphs, shared.open_sessions
        self.answers, self.lock = shared.answers, shared.lock
        self.index = _NoIndex((), shared.data)
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
            home, place = self.home.homes[0], self.mirror.place
            named = {
                name: TeamSession(home, remote, place(remote)) for name, remote in listed.sessions.items()
            }
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
                session = self._as_it_is(Session(self.home.homes[0], session_file(copy)))
                if session is not None:
                    session._is_shared = functools.partial(self._is_no_title, name)  # noqa: SLF001 - as the server chose
                    return session
        raise NotFound(
            f"session {name!r}: not found, or without a line to show", hint="choose one from the list"
        )

    def _is_no_title(self, name: str, prompt: str) -> bool:
        """Whether the server chose another title than the first prompt."""
        listed = self.listed_session(name)
        title = None if listed is None else listed.remote.title
        return title is not None and title != plain_text(prompt, LONGEST_TITLE)


class MirrorBackends:
    """The backends of all members of a server; the copies of each organisation have a directory."""

    def __init__(self, place: Path, service: Service, *, rest: float = 1.0) -> None:
        self._place, self._service, self._rest = place, service, rest
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, OrganizationCopies] = OrderedDict()
        remove_left_copies(place)

    def backend(self, member: Caller) -> MirrorBackend:
        """The backend of a member."""
        copies = self._opened(member.org.id)
        copies.mirror.keep_days(member.org.retention_days)
        return MirrorBackend(copies, MemberSource(self._service, member))

    def tidy(self) -> None:
        """Remove what was deleted, also for organisations without recent requests."""
        for copies in self._all():
            with contextlib.suppress(RecollectError, OSError):
                copies.mirror.remove_gone()

    def stop(self) -> None:
        """Fetch nothing more."""
        for copies in self._all():
            copies.mirror.stop()

    def _all(self) -> list[OrganizationCopies]:
        with self._lock:
            return list(self._kept.values())

    def _opened(self, organization: str) -> OrganizationCopies:
        name = str(uuid.UUID(organization))
        with self._lock:
            copies = self._kept.get(name)
            if copies is None:
                source = OrganizationSource(self._service, name)
                copies = OrganizationCopies(self._place / name, source, self._rest)
                self._kept[name] = copies
            self._kept.move_to_end(name)
            while len(self._kept) > _MOST_ORGANIZATIONS:
                self._kept.popitem(last=False)
            return copies


def resume_command(origin: str, session: str) -> tuple[str, ...]:
    """The command that continues a session on the member's machine: it fetches that session and no other."""
    if not is_known_id(CLAUDE, session):
        raise UsageError(
            f"session {session[:60]!a}: its id is not of the form that clients give; no client is told to go on with it",
            hint="look at it here, or export it",
        )
    return "recollect", "resume", f"{origin}/#/s/{quote(session, safe='')}"


def resume_line(origin: str, session: str) -> str | None:
    """The same, for a shell; None where there is none."""
    return shlex.join(resume_command(origin, session)) if is_known_id(CLAUDE, session) else None
