"""The list of sessions for a page: the index joined with the current files.

The directories say which sessions exist, the index what a list shows of them. If a log
changed since it was indexed, title, tag and times are read from its ends.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from recollect.agents.homes import agent_of_log
from recollect.ask.archive import archive_at
from recollect.ask.conversation.content import WAIT_SECONDS, Cache, IndexState
from recollect.ask.cost.price import session_sums
from recollect.ask.doctor.home_checks import WITHIN_DAYS
from recollect.ask.list import ListQuery, list_sessions, touches, with_cost
from recollect.ask.protection import expiry_of, is_archived
from recollect.ask.sessions.projects import ProjectFilter
from recollect.ask.sessions.session import Session
from recollect.errors import RecollectError
from recollect.index.access import OpenIndex
from recollect.index.database import Failure
from recollect.model.budget import PICO
from recollect.model.cost.money import Spending, exact
from recollect.model.lines.ids import written_at
from recollect.model.session import SessionSummary
from recollect.model.text import timespan
from recollect.model.text.titles import project_name
from recollect.store.logs.summary import LogSummary
from recollect.system.locations import HomeRoot
from recollect.web.desk import Mark, PageBackend, mark_of
from recollect.web.parameters import SessionFilters, SessionQuery

_FACETS = 100
INDEX_STATE = "SELECT count(*), sum(consumed), max(id), sum(gone) FROM files"


Facet = list[tuple[str, int]]


class FacetsDocument(Struct, frozen=True):
    """Values the list can be filtered by, most frequent first."""

    projects: Facet
    branches: Facet
    models: Facet
    tags: Facet
    repositories: Facet


class SessionListDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A part of the list; the first part has the facets. ``index`` is the state of the index.

    ``unlisted_cost_usd``: what ``cost`` counts beyond all listed sessions, those that were deleted; null with a filter.
    ``unrecorded``: sessions of other agents without any usage, whose cost is unknown and in no sum, which is null where these
    are all; on a team's page those without a counted response.
    """

    sessions: list[SessionSummary]
    from_: int
    total: int
    total_cost_usd: str | None
    unrecorded: int
    unlisted_cost_usd: str | None
    unpriced: list[str]
    index: IndexState
    facets: FacetsDocument | UnsetType = UNSET


class ProjectDocument(Struct, frozen=True, kw_only=True):
    """A project directory."""

    project: str
    cwd: str | None
    sessions: int
    bytes: int
    first_at: dt.datetime | None
    last_at: dt.datetime
    cost_usd: str | None
    known_cost_usd: str | None
    unpriced: list[str]
    live: int


class ProjectsDocument(Struct, frozen=True):
    """All project directories, last used first."""

    projects: list[ProjectDocument]


class IndexedSessions(Struct, frozen=True):
    """What the index knows of all sessions by their logs, at one moment, and what all cost, deleted ones too."""

    sessions: dict[str, SessionSummary]
    pico_usd: int = 0


class PageSessions:
    """All sessions of a backend, for queries."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._archived: dict[Mark, bool] = {}
        self._rows: tuple[list[Session], IndexedSessions, set[str], list[SessionSummary]] | None = None
        self._opened: dict[str, Session] = {}  # by log
        self._nothing = IndexedSessions({})
        self._index_rows = Cache(1)
        self._making = threading.Lock()

    # ---- queries -----------------------------------------------------------------------------------------

    def document(self, query: SessionQuery) -> SessionListDocument:
        """A part of the list."""
        rows = self._chosen(query, self.rows(any_age=query.from_ > 0))
        rows.sort(key=_ORDERS[query.sort], reverse=query.order == "desc")
        listed = sum({row.id: row.pico_usd for row in rows}.values())
        is_all = _is_all(query) and query.text is None
        return SessionListDocument(
            sessions=[self._document(row) for row in rows[query.from_ : query.from_ + query.count]],
            from_=query.from_,
            total=len(rows),
            total_cost_usd=None if rows and all(row.is_unrecorded for row in rows) else exact(listed),
            unrecorded=sum(row.is_unrecorded for row in rows),
            unlisted_cost_usd=exact(self._indexed().pico_usd - listed) if is_all else None,
            unpriced=_unpriced(rows),
            index=self._desk.index.state,
            facets=UNSET if query.from_ else self._facets(rows),
        )

    def ids(self, filters: SessionFilters) -> frozenset[str] | None:
        """The sessions that fit; None: all of them."""
        if _is_all(filters):
            return None
        return frozenset(row.id for row in self._chosen(filters, self.rows(any_age=True)))

    def projects(self) -> list[ProjectDocument]:
        """The project directories, last used first."""
        groups: dict[str, list[SessionSummary]] = {}
        for row in self.rows():
            groups.setdefault(row.cwd or "", []).append(row)
        ordered = sorted(groups.items(), key=lambda pair: max(row.order for row in pair[1]), reverse=True)
        return [_project(cwd, rows) for cwd, rows in ordered]

    def row(self, session: Session) -> SessionSummary:
        return self._made([session], self._indexed(WAIT_SECONDS), self._desk.home.live_ids())[0]

    def is_current(self, session: Session) -> bool:
        """Whether the index has read its log to the end."""
        known = self._indexed().sessions.get(str(session.path))
        return known is not None and _is_of(known, session)

    def rows(self, *, any_age: bool = False) -> list[SessionSummary]:
        """All rows, unordered; the same objects as long as nothing changed."""
        # Requests wait while rows are built: built twice at once, they would take twice as long.
        with self._making:
            sessions = self._desk.sessions(any_age=any_age)
            archived = self._desk.archived_only(sessions)
            indexed, live = self._indexed(), self._desk.home.live_ids()
            known = self._rows
            # Lists and index data are replaced when something changes, never modified.
            if known is None or known[0] is not sessions or known[1] is not indexed or known[2] != live:
                made = self._made([*sessions, *archived], indexed, live)
                self._opened = {str(one.path): one for one in (*sessions, *archived)}
                known = self._rows = (sessions, indexed, live, made)
            return known[3]

    def session_of(self, row: SessionSummary) -> Session:
        """The session of one of ``rows``."""
        return self._opened[row.path]

    def is_archived(self, session: Session) -> bool:
        """Whether the archive has the current state of its log."""
        if session.is_archived:
            return True
        key = mark_of(session)
        if not self._archived.get(key):
            self._archived[key] = self._looked_up(session)
            if len(self._archived) > 100_000:
                self._archived.clear()
        return self._archived.get(key, False)

    # ---- filters -----------------------------------------------------------------------------------------

    def _chosen(self, query: SessionFilters, every: list[SessionSummary]) -> list[SessionSummary]:
        rows = list(every)
        if query.project is not None:
            in_project = ProjectFilter(query.project).fits
            rows = [row for row in rows if in_project(row.cwd or "")]
        if not _is_all(query):
            now = dt.datetime.now(dt.UTC)
            since, until = timespan.bounds(query.since or None, query.until or None, now)
            rows = [row for row in rows if _fits(row, query, now)]
            if since is not None or until is not None:
                rows = [row for row in rows if touches(row.first_at, row.shown_at, since, until)]
        if query.repository is not None:
            rows = [row for row in rows if self._desk.repository(row.cwd or "") == query.repository]
        if isinstance(query, SessionQuery) and query.text is not None:
            words = query.text.casefold().split()
            rows = [row for row in rows if _has_words(row, words)]
        if query.archived is not None:
            rows = [row for row in rows if self.is_archived(self.session_of(row)) == query.archived]
        if query.starred is not None:
            stars = set(self._desk.marks.read().stars)
            rows = [row for row in rows if (row.id in stars) == query.starred]
        return rows

    def _looked_up(self, session: Session) -> bool:
        archive = archive_at(self._desk.data)
        if session.session_id is None or not archive.root.is_dir():
            return False
        try:
            kept = archive.known(session.path.parent.name, session.id, session.home.root)
            return is_archived(kept, session.file)
        except RecollectError:
            return False

    # ---- rows --------------------------------------------------------------------------------------------

    def _made(
        self, sessions: Sequence[Session], indexed: IndexedSessions, live: set[str]
    ) -> list[SessionSummary]:
        expiry = {home.root: expiry_of(home) for home in self._desk.home.homes}
        known = indexed.sessions
        return [
            self._row(one, known.get(str(one.path)), expiry.get(one.home.root), is_live=one.id in live)
            for one in sessions
        ]

    def _row(
        self, session: Session, known: SessionSummary | None, expiry: dt.timedelta | None, *, is_live: bool
    ) -> SessionSummary:
        is_live = is_live and not session.is_archived
        path, size, mtime_ns = mark_of(session)
        modified_at = written_at(mtime_ns)
        expires_at = None if expiry is None or session.is_archived else modified_at + expiry
        if known is not None and _is_of(known, session):
            is_same = (known.live, known.expires_at) == (is_live, expires_at)
            return known if is_same else replace(known, live=is_live, expires_at=expires_at)
        about = glanced(self._desk.glance(session))
        row = known or SessionSummary(
            id=session.id,
            agent=None,
            project="",
            cwd=None,
            title="",
            modified_at=modified_at,
            bytes=size,
            is_archive_only=session.is_archived,
            is_indexed=False,
            home=str(session.home.root),
            path=path,
        )
        return replace(
            row,
            **about,
            project=project_name(about["cwd"] or "", session.path.parent.name),
            modified_at=modified_at,
            bytes=size,
            live=is_live,
            expires_at=expires_at,
        )

    def _indexed(self, wait: float = 0) -> IndexedSessions:
        """From the index, read again only if something changed. The list does not wait for a refresh."""
        with self._desk.index.opened(wait) as opened:
            if opened.is_temporary:
                return self._nothing
            try:
                state = opened.database.rows(INDEX_STATE)
                return self._index_rows.get("rows", state, lambda: _read(opened, self._desk.home.roots))
            except Failure:
                return self._nothing

    # ---- documents ---------------------------------------------------------------------------------------

    def _document(self, row: SessionSummary) -> SessionSummary:
        agent = row.agent or agent_of_log(row.home, row.path)
        return replace(row, agent=agent, is_archived=self.is_archived(self.session_of(row)))

    def _facets(self, rows: Sequence[SessionSummary]) -> FacetsDocument:
        directories = Counter(row.cwd or "" for row in rows)
        repositories = Counter[str]()
        for cwd, sessions in directories.items():  # far fewer than sessions
            repositories[self._desk.repository(cwd)] += sessions
        return FacetsDocument(
            projects=_most(directories),
            branches=_most(Counter(row.branch for row in rows)),
            models=_most(Counter(model for row in rows for model in row.models)),
            tags=_most(Counter(row.tag for row in rows)),
            repositories=_most(repositories),
        )


def _read(opened: OpenIndex, roots: Sequence[HomeRoot]) -> IndexedSessions:
    used = session_sums(opened)
    sessions = list_sessions(roots, opened, ListQuery(with_usage=False, is_recounted=False)).sessions
    rows = {row.path: with_cost(row, used.get(row.id, Spending())) for row in sessions}
    return IndexedSessions(rows, sum(one.pico_usd for one in used.values()))


def _is_of(row: SessionSummary, session: Session) -> bool:
    """Whether it is about the log as it is now."""
    _, size, mtime_ns = mark_of(session)
    return (row.bytes, row.modified_at) == (size, written_at(mtime_ns))


def glanced(seen: LogSummary | None) -> dict[str, Any]:
    """What the ends of a log say, as fields of its session."""
    seen = seen or LogSummary()
    return {
        "title": seen.title or "",
        "tag": seen.tag or None,
        "cwd": seen.cwd or None,
        "branch": seen.git_branch or None,
        "first_prompt": seen.first_prompt,
        "first_at": seen.first_at,
        "last_at": seen.last_at,
    }


def _project(cwd: str, rows: Sequence[SessionSummary]) -> ProjectDocument:
    unpriced = _unpriced(rows)
    firsts = [row.first_at for row in rows if row.first_at is not None]
    known = None if all(row.is_unrecorded for row in rows) else exact(sum(row.pico_usd for row in rows))
    return ProjectDocument(
        project=rows[0].project,
        cwd=cwd or None,
        sessions=len(rows),
        bytes=sum(row.bytes for row in rows),
        first_at=min(firsts, default=None),
        last_at=max(rows, key=lambda row: row.order).shown_at,
        cost_usd=None if unpriced else known,
        known_cost_usd=known,
        unpriced=unpriced,
        live=sum(row.live for row in rows),
    )


def _unpriced(rows: Sequence[SessionSummary]) -> list[str]:
    return sorted({model for row in rows for model in row.unpriced})


def _is_all(filters: SessionFilters) -> bool:
    return all(getattr(filters, name) is None for name in SessionFilters.__struct_fields__)


def _has_words(row: SessionSummary, words: Sequence[str]) -> bool:
    text = "\n".join((row.title, row.id, row.cwd or "", row.branch or "")).casefold()
    return all(word in text for word in words)


def _fits(row: SessionSummary, query: SessionFilters, now: dt.datetime) -> bool:
    """Whether it fits what a row knows by itself."""
    cost, model = row.pico_usd, (query.model or "").casefold()
    soon = row.expires_at is not None and row.expires_at <= now + dt.timedelta(days=WITHIN_DAYS)
    flags = ((query.damaged, bool(row.damaged)), (query.expiring, soon), (query.live, row.live))
    return (
        (query.branch is None or row.branch == query.branch)
        and (not model or any(model in name.casefold() for name in row.models))
        and (query.tag is None or (bool(row.tag) if query.tag == "*" else row.tag == query.tag))
        and (query.min_cost is None or cost >= round(query.min_cost * PICO))
        and (query.max_cost is None or cost <= round(query.max_cost * PICO))
        and all(wanted is None or wanted == flag for wanted, flag in flags)
    )


def _most(found: Counter[str] | Counter[str | None]) -> list[tuple[str, int]]:
    return Counter({name: sessions for name, sessions in found.items() if name}).most_common(_FACETS)


_ORDERS: dict[str, Callable[[SessionSummary], Any]] = {
    "last": lambda row: row.order,
    "first": lambda row: (row.first_at or row.shown_at, row.id),
    "cost": lambda row: (row.pico_usd, row.shown_at),
    "bytes": lambda row: (row.bytes, row.id),
    "lines": lambda row: (row.lines or 0, row.id),
    "messages": lambda row: (row.messages or 0, row.id),
    "title": lambda row: (row.title.casefold(), row.id),
}
