"""The list of sessions for a page: the index joined with the current files.

The directories say which sessions exist, the index's catalogue their titles, counts and costs. If a log
changed since it was indexed, title, tag and times are read from its ends.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, structs

from recollect.agents.homes import agent_of_log
from recollect.ask import session_documents as documents
from recollect.ask.archive import archive_at
from recollect.ask.conversation.content import Cache
from recollect.ask.cost.price import session_sums
from recollect.ask.cost.report import costs
from recollect.ask.doctor.home_checks import WITHIN_DAYS
from recollect.ask.list import NewestFirst, newest_first, touches
from recollect.ask.protection import is_archived, retention_days
from recollect.ask.sessions import projects
from recollect.ask.sessions.session import Session
from recollect.errors import NotFound, RecollectError
from recollect.index import catalogue
from recollect.index.access import OpenIndex
from recollect.index.catalogue import CatalogueRow
from recollect.index.database import Failure
from recollect.model.budget import PICO
from recollect.model.cost.money import Spending, exact, members_of
from recollect.model.lines.ids import moment_of
from recollect.model.text import timespan
from recollect.store.logs.summary import LogSummary
from recollect.web.desk import Mark, PageBackend, mark_of
from recollect.web.parameters import SessionFilters, SessionQuery

_FACETS = 100
_LONGEST_KEPT_DAYS, _USUALLY_KEPT = 36_500.0, dt.timedelta(days=30)
INDEX_STATE = "SELECT count(*), sum(consumed), max(id), sum(gone) FROM files"


class IndexedSessions(Struct, frozen=True):
    """What the index knows of all sessions, at one moment."""

    files: dict[str, CatalogueRow]
    agents: dict[tuple[str, str], int]  # by home and session
    used: dict[str, Spending]


class SessionRow(Struct, frozen=True):
    """One session of the list: what is shown of it, without ``agent`` and ``is_archived``, which are looked up when it is."""

    session: Session
    shown: documents.SessionRowDocument
    place: NewestFirst
    shown_at: dt.datetime  # its last message, or else its file
    pico_usd: int = 0  # what it cost, as far as that is known
    used: Spending | None = None
    is_unrecorded: bool = False  # its client wrote down no usage at all: what it cost is unknown, not 0

    @property
    def id(self) -> str:
        return self.shown.id

    @property
    def words(self) -> str:
        """What a filter by text looks in."""
        shown = self.shown
        return "\n".join((shown.title, shown.id, shown.cwd or "", shown.branch or "")).casefold()


class SessionList:
    """All sessions of a backend, for queries."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._archived: dict[Mark, bool] = {}
        self._rows: tuple[list[Session], IndexedSessions, set[str], list[SessionRow]] | None = None
        self._nothing = IndexedSessions({}, {}, {})
        self._index_rows = Cache(1)
        self._making = threading.Lock()

    # ---- queries -----------------------------------------------------------------------------------------

    def document(self, query: SessionQuery) -> documents.SessionListDocument:
        """A part of the list."""
        rows = self._chosen(query, self.rows(any_age=query.from_ > 0))
        rows.sort(key=_ORDERS[query.sort], reverse=query.order == "desc")
        listed = sum({row.id: row.pico_usd for row in rows}.values())
        is_all = _is_all(query) and query.text is None
        return documents.SessionListDocument(
            sessions=[self._document(row) for row in rows[query.from_ : query.from_ + query.count]],
            from_=query.from_,
            total=len(rows),
            total_cost_usd=None if rows and all(row.is_unrecorded for row in rows) else exact(listed),
            unrecorded=sum(row.is_unrecorded for row in rows),
            unlisted_cost_usd=exact(self._spent() - listed) if is_all else None,
            unpriced=_unpriced(rows),
            index=self._desk.index.state,
            facets=UNSET if query.from_ else self._facets(rows),
        )

    def _spent(self) -> int:
        """What all sessions cost that the index knows, deleted ones too: the total of ``cost``."""
        return sum(one.pico_usd for one in self._indexed().used.values())

    def ids(self, filters: SessionFilters) -> frozenset[str] | None:
        """The sessions that fit; None: all of them."""
        if _is_all(filters):
            return None
        return frozenset(row.id for row in self._chosen(filters, self.rows(any_age=True)))

    def projects(self) -> list[documents.ProjectDocument]:
        """The project directories, last used first."""
        groups: dict[str, list[SessionRow]] = {}
        for row in self.rows():
            groups.setdefault(row.shown.cwd or "", []).append(row)
        ordered = sorted(groups.items(), key=lambda pair: max(row.place for row in pair[1]), reverse=True)
        return [self._project(cwd, rows) for cwd, rows in ordered]

    def row(self, session: Session) -> SessionRow:
        return self._made([session], self._indexed(), self._desk.home.live_ids())[0]

    def spending(self, session: Session) -> dict[str, Any]:
        """What `recollect cost --session` reports, as members of its head; nothing until the index is built."""
        with self._desk.index.opened() as opened:
            if opened.is_temporary:
                return {}
            try:
                report = costs(["model"], opened=opened, session=session.id)
            except NotFound:
                return {}
        unpriced = [one.model for one in report.unpriced]
        known = None if report.is_unknown else exact(report.totals.pico_usd)
        return {
            "responses": report.totals.responses,
            "cost_usd": None if unpriced else known,
            "known_cost_usd": known,
            "unpriced": unpriced,
            "models": [row.keys["model"] for row in report.rows],
            **members_of(report.totals.tokens),
            "is_indexed": True,
        }

    def is_current(self, session: Session) -> bool:
        """Whether the index has read its log to the end."""
        path, *now = mark_of(session)
        known = self._indexed().files.get(path)
        return known is not None and [known.size, known.mtime_ns] == now

    def rows(self, *, any_age: bool = False) -> list[SessionRow]:
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
                known = self._rows = (sessions, indexed, live, made)
            return known[3]

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

    def _chosen(self, query: SessionFilters, every: list[SessionRow]) -> list[SessionRow]:
        rows = list(every)
        if query.project is not None:
            in_project = projects.ProjectFilter(query.project).fits
            rows = [row for row in rows if in_project(row.shown.cwd or "")]
        if not _is_all(query):
            now = dt.datetime.now(dt.UTC)
            since, until = timespan.bounds(query.since or None, query.until or None, now)
            rows = [row for row in rows if _fits(row, query, now)]
            if since is not None or until is not None:
                rows = [row for row in rows if touches(row.shown.first_at, row.shown_at, since, until)]
        if query.repository is not None:
            rows = [row for row in rows if self._desk.repository(row.shown.cwd or "") == query.repository]
        if isinstance(query, SessionQuery) and query.text is not None:
            for word in query.text.casefold().split():
                rows = [row for row in rows if word in row.words]
        if query.archived is not None:
            rows = [row for row in rows if self.is_archived(row.session) == query.archived]
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
    ) -> list[SessionRow]:
        kept = {
            home.root: dt.timedelta(days=min(retention_days(home), _LONGEST_KEPT_DAYS))
            for home in self._desk.home.homes
        }
        return [self._row(one, indexed, live, kept) for one in sessions]

    def _row(
        self,
        session: Session,
        indexed: IndexedSessions,
        live: set[str],
        kept: Mapping[Path, dt.timedelta],
    ) -> SessionRow:
        path, size, mtime_ns = mark_of(session)
        name, is_archived = session.id, session.is_archived
        known = indexed.files.get(path)
        used = indexed.used.get(name, Spending()) if known is not None else None
        is_current = known is not None and (known.size, known.mtime_ns) == (size, mtime_ns)
        about = _about(known) if known is not None and is_current else glanced(self._desk.glance(session))
        messages, lines, damaged = _counts(known)
        modified_at = dt.datetime.fromtimestamp(mtime_ns / 1e9, dt.UTC)
        shown = documents.SessionRowDocument(
            id=name,
            agent=None,
            project=project_name(about.cwd or "", session.path),
            **structs.asdict(about),
            messages=messages,
            lines=lines,
            bytes=size,
            agents=indexed.agents.get((known.home, name), 0) if known is not None else None,
            damaged=damaged,
            live=name in live and not is_archived,
            expires_at=None if is_archived else modified_at + kept.get(session.home.root, _USUALLY_KEPT),
            is_archived=is_archived,
            is_archive_only=is_archived,
        )
        last_ms = None if about.last_at is None else round(about.last_at.timestamp() * 1000)
        place = newest_first(last_ms, mtime_ns, name, path)
        row = SessionRow(session, shown, place, about.last_at or modified_at)
        return row if used is None else with_cost(row, used, is_unrecorded=used.is_unknown)

    def _indexed(self) -> IndexedSessions:
        """From the index, read again only if something changed. The list does not wait for a refresh."""
        with self._desk.index.opened(wait=0) as opened:
            if opened.is_temporary:
                return self._nothing
            try:
                state = opened.database.rows(INDEX_STATE)
                return self._index_rows.get("rows", state, lambda: _read(opened, self._desk.roots))
            except Failure:
                return self._nothing

    # ---- documents ---------------------------------------------------------------------------------------

    def _document(self, row: SessionRow) -> documents.SessionRowDocument:
        agent = agent_of_log(str(row.session.home.root), mark_of(row.session)[0])
        return structs.replace(row.shown, agent=agent, is_archived=self.is_archived(row.session))

    def _project(self, cwd: str, rows: Sequence[SessionRow]) -> documents.ProjectDocument:
        unpriced = _unpriced(rows)
        firsts = [row.shown.first_at for row in rows if row.shown.first_at is not None]
        known = None if all(row.is_unrecorded for row in rows) else exact(sum(row.pico_usd for row in rows))
        return documents.ProjectDocument(
            project=rows[0].shown.project,
            cwd=cwd or None,
            sessions=len(rows),
            bytes=sum(row.shown.bytes for row in rows),
            first_at=min(firsts, default=None),
            last_at=max(rows, key=lambda row: row.place).shown_at,
            cost_usd=None if unpriced else known,
            known_cost_usd=known,
            unpriced=unpriced,
            live=sum(row.shown.live for row in rows),
        )

    def _facets(self, rows: Sequence[SessionRow]) -> documents.FacetsDocument:
        directories = Counter(row.shown.cwd or "" for row in rows)
        repositories = Counter[str]()
        for cwd, sessions in directories.items():  # far fewer than sessions
            repositories[self._desk.repository(cwd)] += sessions
        return documents.FacetsDocument(
            projects=_most(directories),
            branches=_most(Counter(row.shown.branch for row in rows)),
            models=_most(Counter(model for row in rows for model in row.shown.models)),
            tags=_most(Counter(row.shown.tag for row in rows)),
            repositories=_most(repositories),
        )


def _read(opened: OpenIndex, roots: Sequence[Path]) -> IndexedSessions:
    database = opened.database
    used = session_sums(opened)
    return IndexedSessions(catalogue.by_path(database), catalogue.agents(database), used)


class _AboutSession(Struct, frozen=True):
    """What its lines say of a session."""

    title: str = ""
    tag: str | None = None
    cwd: str | None = None
    branch: str | None = None
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None


def _about(known: CatalogueRow) -> _AboutSession:
    times = moment_of(known.first_at), moment_of(known.last_at)
    return _AboutSession(known.title, known.tag or None, known.cwd or None, known.branch or None, *times)


def glanced(seen: LogSummary | None) -> _AboutSession:
    """Of a log that the index has not read yet."""
    if seen is None:
        return _AboutSession()
    labels = seen.title or "", seen.tag or None, seen.cwd or None, seen.git_branch or None
    return _AboutSession(*labels, seen.first_at, seen.last_at)


def with_cost(row: SessionRow, used: Spending, *, is_unrecorded: bool) -> SessionRow:
    """A row with what the session cost."""
    known, unpriced = None if is_unrecorded else exact(used.pico_usd), sorted(used.unpriced)
    shown = structs.replace(
        row.shown,
        responses=used.responses,
        cost_usd=None if unpriced else known,
        known_cost_usd=known,
        unpriced=unpriced,
        models=sorted(used.models),
        is_indexed=True,
    )
    pico = 0 if is_unrecorded else used.pico_usd
    return structs.replace(row, shown=shown, used=used, pico_usd=pico, is_unrecorded=is_unrecorded)


def _unpriced(rows: Sequence[SessionRow]) -> list[str]:
    return sorted({model for row in rows for model in row.shown.unpriced})


def _counts(known: CatalogueRow | None) -> tuple[int | None, int | None, int | None]:
    """Messages, lines and damaged lines. Messages are not known where the log would have to be read for them."""
    if known is None:
        return None, None, None
    return (0 if known.lines is None else known.messages), known.lines or 0, known.damaged


def project_name(cwd: str, log: Path) -> str:
    """The name of the session's directory, or else of the log's directory."""
    return projects.project_name(cwd, log.parent.name)


def _is_all(filters: SessionFilters) -> bool:
    return all(getattr(filters, name) is None for name in SessionFilters.__struct_fields__)


def _fits(row: SessionRow, query: SessionFilters, now: dt.datetime) -> bool:
    """Whether it fits what a row knows by itself."""
    shown, cost, model = row.shown, row.pico_usd, (query.model or "").casefold()
    soon = shown.expires_at is not None and shown.expires_at <= now + dt.timedelta(days=WITHIN_DAYS)
    flags = ((query.damaged, bool(shown.damaged)), (query.expiring, soon), (query.live, shown.live))
    return (
        (query.branch is None or shown.branch == query.branch)
        and (not model or any(model in name.casefold() for name in shown.models))
        and (query.tag is None or (bool(shown.tag) if query.tag == "*" else shown.tag == query.tag))
        and (query.min_cost is None or cost >= round(query.min_cost * PICO))
        and (query.max_cost is None or cost <= round(query.max_cost * PICO))
        and all(wanted is None or wanted == flag for wanted, flag in flags)
    )


def _most(found: Counter[str] | Counter[str | None]) -> list[tuple[str, int]]:
    return Counter({name: sessions for name, sessions in found.items() if name}).most_common(_FACETS)


_ORDERS: dict[str, Callable[[SessionRow], Any]] = {
    "last": lambda row: row.place,
    "first": lambda row: (row.shown.first_at or row.shown_at, row.id),
    "cost": lambda row: (row.pico_usd, row.shown_at),
    "bytes": lambda row: (row.shown.bytes, row.id),
    "lines": lambda row: (row.shown.lines or 0, row.id),
    "messages": lambda row: (row.shown.messages or 0, row.id),
    "title": lambda row: (row.shown.title.casefold(), row.id),
}
