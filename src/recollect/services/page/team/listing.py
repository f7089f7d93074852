"""The list of a team's page: the rows, filters, sums and facets of the local page, over what the server says of each session.

What only a transcript tells (messages, sub-agents, damage, tags, whose client it was) is not known here: it is null,
and no filter or order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from recollect.errors import UsageError
from recollect.index.catalogue import CatalogueRow
from recollect.services.documents import sessions as documents
from recollect.services.documents.cost.spending import counts
from recollect.services.page.listing import WalkedSession, mark_of
from recollect.services.page.sessions import IndexedSessions, SessionList, SessionQuery, SessionRow
from recollect.services.page.team.source import TeamList
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome
from recollect.storage.home_walk import FoundLog
from recollect.sync.wire import RemoteSession

if TYPE_CHECKING:
    from recollect.services.page.members import MirrorBackend

_NOT_LISTED = ("tag", "damaged", "live", "archived", "starred", "repository")


class TeamSessionList(SessionList):
    """The sessions that one member may see."""

    _desk: MirrorBackend

    def __init__(self, desk: MirrorBackend) -> None:
        super().__init__(desk)
        self._known: tuple[TeamList, IndexedSessions] | None = None

    def document(self, query: SessionQuery, start: int, count: int) -> documents.SessionListDocument:
        """A part of the list; a filter that needs transcripts is refused."""
        _require_known(query)
        return super().document(query, start, count)

    def ids(self, query: SessionQuery) -> frozenset[str] | None:
        """The sessions that a query selects; a filter that needs transcripts is refused."""
        _require_known(query)
        return super().ids(query)

    def row(self, session: Session) -> SessionRow:
        """A session that was opened, with what the server says of it."""
        listed = self._desk.listed_session(session.id)
        row = self._made([listed or session], self._indexed(), set())[0]
        row.session = session
        # Which copies count is known to the server; whether there is a call at all, to the log itself.
        is_silent = row.used is not None and not row.used.responses
        row.is_unrecorded = is_silent and Session(session.home, session.file).spending().is_unknown
        return row

    def spending(self, session: Session) -> dict[str, Any]:
        """What a session cost, as members of its head: which copy of a response counts is known to the server alone."""
        row = self.row(session)
        if row.used is None:
            return {}
        return {
            "responses": row.used.responses,
            "cost_usd": row.cost_usd,
            "known_cost_usd": row.known_cost_usd,
            "unpriced": row.unpriced,
            "models": sorted(row.used.spent),
            **counts(row.used.tokens),
            "is_indexed": True,
        }

    def _indexed(self) -> IndexedSessions:
        listed = self._desk.team.listed(any_age=True)
        if self._known is None or self._known[0] is not listed:
            rows = (one.about for one in self._desk.listed_sessions())
            self._known = listed, IndexedSessions({row.path: row for row in rows}, {}, listed.used)
        return self._known[1]

    def _spent(self) -> int:
        """Deleted sessions and those of others too, as in `recollect team cost`."""
        return self._desk.team.listed(any_age=True).pico_usd

    def _made(
        self, sessions: Sequence[Session], indexed: IndexedSessions, live: set[str]
    ) -> list[SessionRow]:
        rows = super()._made(sessions, indexed, live)
        for row in rows:
            row.agents = row.damaged = None
            # Whether its client wrote down no usage, or has not answered yet, only its lines tell.
            row.is_unrecorded = row.used is not None and not row.used.responses
        return rows

    def _document(self, row: SessionRow) -> documents.SessionRowDocument:
        remote = self._desk.team.listed(any_age=True).sessions.get(row.id)
        document = super()._document(row)
        return replace(document, agent=None, person=None if remote is None else remote.person)


class TeamSession(WalkedSession):
    """A session as the server lists it: its copy is, or would be, at ``path``."""

    def __init__(self, home: ClaudeHome, remote: RemoteSession, path: Path) -> None:
        mtime_ns = remote.changed * 1_000_000
        super().__init__(home, FoundLog(str(path), "session", remote.id, None, 0, 0, remote.bytes, mtime_ns))
        self.remote = remote

    @functools.cached_property
    def about(self) -> CatalogueRow:
        """What an index would say of it."""
        path, size, mtime_ns = mark_of(self)
        one = self.remote
        return CatalogueRow(
            file=0,
            path=path,
            home="",
            session=one.id,
            size=size,
            mtime_ns=mtime_ns,
            is_archived=False,
            first_at=one.first_at,
            last_at=one.last_at,
            cwd=one.cwd or one.project,
            branch=one.branch,
            custom_title=one.title,
            ai_title=None,
            last_prompt=None,
            first_prompt=None,
            tag=None,
            continued_in=None,
            lines=one.lines,
            messages=None,
            has_conversation=None,
            damaged=0,
            entries=0,
        )


def _require_known(query: SessionQuery) -> None:
    asked = [name for name in _NOT_LISTED if getattr(query, name) is not None]
    if asked or query.sort == "messages":
        raise unknown_to_the_server(asked[0] if asked else "sort messages")


def unknown_to_the_server(what: str) -> UsageError:
    """A question that only transcripts answer."""
    return UsageError(
        f"{what}: the team's server does not know it without reading transcripts",
        hint="pull the sessions and ask your own machine: recollect sync pull --into-home --apply",
    )
