"""The list of a team's page: the rows, filters, sums and facets of the local page, over what the server says of each session.

The server decides what a member sees; nothing here knows its rules. A list is read whole, because filters, sums and facets
are about all of it: some hundred bytes a session, and no line of a transcript; it is kept for a moment. What only a
transcript tells (messages, sub-agents, damage, tags, whose client it was) is not known here: it is null, and no filter or
order.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from recollect.ask.list import with_cost
from recollect.ask.sessions.session import Session
from recollect.errors import NoAnswer, UsageError
from recollect.model.cost.money import Spending
from recollect.model.lines.ids import moment_of, written_at
from recollect.model.session import SessionSummary
from recollect.model.text.titles import project_name
from recollect.server.page.mirror import has_place
from recollect.share.sync.wire import RemoteSession
from recollect.store.home import ClaudeHome
from recollect.store.home_walk import FoundLog
from recollect.web.desk import mark_of, session_file
from recollect.web.parameters import SessionFilters, SessionQuery
from recollect.web.sessions import IndexedSessions, PageSessions, SessionListDocument

if TYPE_CHECKING:
    from recollect.server.page.access import MemberSource
    from recollect.server.page.members import MirrorBackend

_NOT_LISTED = ("tag", "damaged", "live", "archived", "starred", "repository")
# A list that takes long is read less often; and those of all members of an organisation take a fifth of the time at most,
# unless one is too old.
_LONGEST_REST = 30.0
_PAUSE = 4
_MOST_SHARED = 200_000
_Shared = TypeVar("_Shared", RemoteSession, Spending)
# How many times longer than a list is good nothing is asked of a server that did not answer.
_SILENT_RESTS = 5


class TeamList(Struct, frozen=True):
    """The sessions a member may see, what they cost, and what everything cost, in pico-dollars.

    ``sealed`` and ``left_out`` count those that no page can show: encrypted ones, and names that no home could have.
    """

    sessions: dict[str, RemoteSession]
    used: dict[str, Spending]
    pico_usd: int
    sealed: int
    left_out: int


class ListTurn:
    """The lists of an organisation's members are read one after another, with pauses. What two of them have in common is
    kept once."""

    def __init__(self, rest: float) -> None:
        self.lock, self.rest, self.free_at = threading.Lock(), rest, 0.0
        self._sessions: dict[str, RemoteSession] = {}
        self._used: dict[str, Spending] = {}

    def shared(self, listed: TeamList) -> TeamList:
        """The same list, of values that other lists have too."""
        _share(self._sessions, listed.sessions)
        _share(self._used, listed.used)
        return listed


class TeamView:
    """What one member sees. Threads may share it.

    While the server does not answer, everything is as it was when it last did: ``not_current_since``.
    """

    def __init__(self, source: MemberSource, turn: ListTurn) -> None:
        self.source, self._turn = source, turn
        self._kept: TeamList | None = None
        self._good_until = self._silent_until = self._old_at = 0.0
        self._read_at: dt.datetime | None = None
        self.not_current_since: dt.datetime | None = None

    def listed(self, *, any_age: bool = False) -> TeamList:
        """The list, the same object as long as nothing changed."""
        if self._kept is not None and (any_age or self._is_good()):
            return self._kept
        with self._turn.lock:
            kept, begun = self._kept, time.monotonic()
            if kept is not None and self._is_good():
                return kept
            try:
                found = _listed(self.source)
            except NoAnswer:
                if kept is None:
                    raise
                self.lost()
                return kept
            self._read_at, self.not_current_since = dt.datetime.now(dt.UTC), None
            if kept is None or found != kept:
                self._kept = kept = self._turn.shared(found)
            self._rest(begun)
            return kept

    def _is_good(self) -> bool:
        now = time.monotonic()
        return now < max(self._good_until, self._silent_until, min(self._turn.free_at, self._old_at))

    def _rest(self, begun: float) -> None:
        now, rest = time.monotonic(), self._turn.rest
        if rest:
            self._good_until = now + max(rest, min(10 * (now - begun), _LONGEST_REST))
            self._turn.free_at, self._old_at = now + _PAUSE * (now - begun), now + _LONGEST_REST

    def may_read(self, session: str) -> bool:
        """Whether the member may see a session; while the server does not answer, whether that was so at last."""
        kept = self._kept
        if kept is None or not self.is_silent:
            try:
                return self.source.may_read(session)
            except NoAnswer:
                if kept is None:
                    raise
                self.lost()
        return session in kept.sessions

    @property
    def is_silent(self) -> bool:
        """Whether the server did not answer a moment ago: each further question may wait long."""
        return time.monotonic() < self._silent_until

    def lost(self) -> None:
        """The server did not answer."""
        self.not_current_since = self._read_at
        self._silent_until = time.monotonic() + _SILENT_RESTS * self._turn.rest

    def forget(self) -> None:
        """Read the list again at the next request."""
        self._good_until = self._old_at = 0.0


def _share(known: dict[str, _Shared], own: dict[str, _Shared]) -> None:
    if len(known) > _MOST_SHARED:
        known.clear()
    for name, one in own.items():
        if known.get(name) == one:
            own[name] = known[name]
        known[name] = own[name]


def _listed(source: MemberSource) -> TeamList:
    every = source.sessions()
    costs = source.cost(("session", "model"))
    used: dict[str, Spending] = {}
    for row in costs.rows:
        model = frozenset([row.keys["model"]])
        unpriced = model if row.unpriced else frozenset()
        spent = Spending(row.tokens, row.pico_usd, unpriced, responses=row.responses, models=model)
        used[row.keys["session"]] = used.get(row.keys["session"], Spending()) + spent
    sessions = {remote.id: remote for remote in every if not remote.encrypted and has_place(remote.id)}
    sealed = sum(remote.encrypted for remote in every)
    return TeamList(sessions, used, costs.total.pico_usd, sealed, len(every) - sealed - len(sessions))


class TeamSessions(PageSessions):
    """The sessions that one member may see."""

    _desk: MirrorBackend

    def __init__(self, desk: MirrorBackend) -> None:
        super().__init__(desk)
        self._known: tuple[TeamList, IndexedSessions] | None = None

    def document(self, query: SessionQuery) -> SessionListDocument:
        """A part of the list; a filter that needs transcripts is refused."""
        _require_known(query)
        return super().document(query)

    def ids(self, filters: SessionFilters) -> frozenset[str] | None:
        """The sessions that fit; a filter that needs transcripts is refused."""
        _require_known(filters)
        return super().ids(filters)

    def row(self, session: Session) -> SessionSummary:
        """A session that was opened, with what the server says of it."""
        listed = self._desk.listed_session(session.id)
        row = self._made([listed or session], self._indexed(), set())[0]
        # Which copies count is known to the server; whether there is a call at all, to the log itself.
        if row.is_unrecorded and not Session(session.home, session.file).spending().is_unknown:
            return replace(row, cost_usd="0", known_cost_usd="0")
        return row

    def _indexed(self, wait: float = 0) -> IndexedSessions:
        """What the server says; all costs, those of deleted sessions and of others too, as in `recollect team cost`."""
        listed = self._desk.team.listed(any_age=True)
        if self._known is None or self._known[0] is not listed:
            rows = [one.summary(listed.used.get(one.id)) for one in self._desk.listed_sessions()]
            self._known = listed, IndexedSessions({row.path: row for row in rows}, listed.pico_usd)
        return self._known[1]

    def _document(self, row: SessionSummary) -> SessionSummary:
        is_archived = self.is_archived(self.session_of(row))
        return replace(row, is_archived=is_archived, home="", path="")  # of the server's copy


class TeamSession(Session):
    """A session as the server lists it: its copy is, or would be, at ``path``."""

    def __init__(self, home: ClaudeHome, remote: RemoteSession, path: Path) -> None:
        mtime_ns = remote.changed * 1_000_000
        log = FoundLog(str(path), "session", remote.id, None, 0, 0, remote.bytes, mtime_ns)
        super().__init__(home, session_file(log))
        self.remote = remote

    def summary(self, used: Spending | None) -> SessionSummary:
        """What an index would say of it. Whether its client wrote down no usage, or has not answered yet, only its lines tell."""
        path, size, mtime_ns = mark_of(self)
        remote = self.remote
        cwd = remote.cwd or remote.project
        row = SessionSummary(
            id=remote.id,
            agent=None,
            project=project_name(cwd or "", self.path.parent.name),
            cwd=cwd,
            title=remote.title or "",
            branch=remote.branch,
            first_at=moment_of(remote.first_at),
            last_at=moment_of(remote.last_at),
            modified_at=written_at(mtime_ns),
            lines=remote.lines,
            bytes=size,
            person=remote.person,
            home="",
            path=path,
        )
        used = used or Spending()
        return with_cost(row, replace(used, is_unknown=not used.responses))


def _require_known(query: SessionFilters) -> None:
    asked = [name for name in _NOT_LISTED if getattr(query, name) is not None]
    if asked or (isinstance(query, SessionQuery) and query.sort == "messages"):
        raise unknown_to_the_server(asked[0] if asked else "sort messages")


def unknown_to_the_server(what: str) -> UsageError:
    """A question that only transcripts answer."""
    return UsageError(
        f"{what}: the team's server does not know it without reading transcripts",
        hint="pull the sessions and ask your own machine: recollect team pull --into-home --apply",
    )
