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
from typing import Any, cast

from msgspec import UNSET, Struct

from recollect.errors import RecollectError
from recollect.index import catalogue
from recollect.index.catalogue import CatalogueRow
from recollect.index.database import Failure
from recollect.model.cost.money import exact
from recollect.model.moments import moment_of
from recollect.services import projects
from recollect.services.archive.archive import archive_at
from recollect.services.archive.expiry import is_archived, retention_days
from recollect.services.check.home_checks import WITHIN_DAYS
from recollect.services.cost.session_sums import NOTHING_USED, SessionSum, session_sums
from recollect.services.documents import sessions as documents
from recollect.services.foreign.unrecorded import agent_of_log
from recollect.services.indexing.access import OpenIndex
from recollect.services.page.desk import PageBackend
from recollect.services.page.listing import Mark, mark_of
from recollect.services.session import Session
from recollect.services.session_order import NewestFirst, newest_first, touches
from recollect.storage.logs.summary import LogSummary
from recollect.system.unwatched import unwatched

_FACETS = 100
_LONGEST_KEPT_DAYS, _USUALLY_KEPT = 36_500.0, dt.timedelta(days=30)
SORTS = ("last", "first", "cost", "bytes", "lines", "messages", "title")

INDEX_STATE = "SELECT count(*), sum(consumed), max(id), sum(gone) FROM files"


class SessionQuery(Struct, frozen=True, kw_only=True):
    """Selects and orders sessions."""

    project: str | None = None
    branch: str | None = None
    model: str | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    min_cost: int | None = None  # pico-dollars
    max_cost: int | None = None
    tag: str | None = None
    text: str | None = None
    damaged: bool | None = None
    expiring: bool | None = None
    live: bool | None = None
    archived: bool | None = None
    starred: bool | None = None
    repository: str | None = None
    sort: str = "last"
    is_ascending: bool = False


class IndexedSessions(Struct, frozen=True):
    """What the index knows of all sessions, at one moment."""

    files: dict[str, CatalogueRow]
    agents: dict[tuple[str, str], int]  # by home and session
    used: dict[str, SessionSum]


class SessionRow(Struct):
    """One session of the list; None means not known yet."""

    session: Session
    # From the index, or from a log that it has not read yet; taken apart when it is shown, for a list shows a hundred.
    about: CatalogueRow | LogSummary | None
    messages: int | None
    lines: int | None
    damaged: int | None
    agents: int | None
    used: SessionSum | None
    is_unrecorded: bool  # its client wrote down no usage at all: what it cost is unknown, not 0
    is_live: bool
    kept_for: dt.timedelta | None  # after the last change of its file; None if only the archive has it

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def title(self) -> str:
        known = self.about
        if isinstance(known, CatalogueRow):
            return known.title
        return "" if known is None else known.title or ""

    @property
    def tag(self) -> str | None:
        return None if self.about is None else self.about.tag or None

    @property
    def cwd(self) -> str:
        return "" if self.about is None else self.about.cwd or ""

    @property
    def branch(self) -> str | None:
        known = self.about
        if isinstance(known, CatalogueRow):
            return known.branch or None
        return None if known is None else known.git_branch or None

    @property
    def first_at(self) -> dt.datetime | None:
        known = self.about
        if isinstance(known, CatalogueRow):
            return moment_of(known.first_at)
        return None if known is None else known.first_at

    @property
    def last_at(self) -> dt.datetime | None:
        known = self.about
        if isinstance(known, CatalogueRow):
            return moment_of(known.last_at)
        return None if known is None else known.last_at

    @property
    def last_ms(self) -> int | None:
        """The time of its last message in milliseconds: ten thousand are ordered by it."""
        if isinstance(self.about, CatalogueRow):
            return self.about.last_at
        return None if self.last_at is None else int(self.last_at.timestamp() * 1000)

    @property
    def modified_at(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(mark_of(self.session)[2] / 1e9, dt.UTC)

    @property
    def expires_at(self) -> dt.datetime | None:
        """When the client deletes it."""
        return None if self.kept_for is None else self.modified_at + self.kept_for

    @property
    def shown_at(self) -> dt.datetime:
        """The time of its last message, or else of its file."""
        return self.last_at or self.modified_at

    @property
    def spent(self) -> dict[str, int | None] | None:
        """What it cost by model, None where that has no price."""
        return None if self.used is None else self.used.spent

    @property
    def agent(self) -> str:
        """Whose session it is."""
        return agent_of_log(str(self.session.home.root), mark_of(self.session)[0])

    @property
    def pico_usd(self) -> int | None:
        """Its cost, without models that have no price; None if unknown."""
        return None if self.used is None or self.is_unrecorded else self.used.pico_usd

    @property
    def unpriced(self) -> list[str]:
        return [] if self.used is None else self.used.unpriced

    @property
    def cost_usd(self) -> str | None:
        """Exact dollars; None if unknown or if a model has no price."""
        return None if self.unpriced else self.known_cost_usd

    @property
    def known_cost_usd(self) -> str | None:
        """Exact dollars of the models that have a price; None if unknown."""
        return None if self.pico_usd is None else exact(self.pico_usd)


class SessionList:
    """All sessions of a backend, for queries."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._archived: dict[Mark, bool] = {}
        self._rows: tuple[list[Session], IndexedSessions, set[str], list[SessionRow]] | None = None
        self._nothing = IndexedSessions({}, {}, {})
        self._last: tuple[list[SessionRow], object, documents.SessionListDocument] | None = None
        self._making = threading.Lock()

    # ---- queries -----------------------------------------------------------------------------------------

    def document(self, query: SessionQuery, start: int, count: int) -> documents.SessionListDocument:
        """A part of the list."""
        every = self.rows(any_age=start > 0)
        asked = (query, start, count, self._desk.index.state)
        last = self._last
        if last is not None and last[0] is every and last[1] == asked:
            return last[2]
        made = self._listed(query, every, start, count)
        if _is_all(query):  # a filter may depend on the time of day, or on stars
            self._last = (every, asked, made)
        return made

    @unwatched()
    def _listed(
        self, query: SessionQuery, every: list[SessionRow], start: int, count: int
    ) -> documents.SessionListDocument:
        rows = self._chosen(query, every)
        shown = rows[start : start + count]
        listed = sum({row.id: row.pico_usd or 0 for row in rows}.values())
        unpriced = sorted(
            {model for row in rows for model, amount in (row.spent or {}).items() if amount is None}
        )
        return documents.SessionListDocument(
            sessions=[self._document(row) for row in shown],
            from_=start,
            total=len(rows),
            total_cost_usd=None if rows and all(row.is_unrecorded for row in rows) else exact(listed),
            unrecorded=sum(row.is_unrecorded for row in rows),
            unlisted_cost_usd=exact(self._spent() - listed) if _is_all(query) else None,
            unpriced=unpriced,
            index=self._desk.index.state,
            facets=self._facets(rows) if start == 0 else UNSET,
        )

    def _spent(self) -> int:
        """What all sessions cost that the index knows, deleted ones too: the total of ``cost``."""
        return sum(one.pico_usd for one in self._indexed().used.values())

    def ids(self, query: SessionQuery) -> frozenset[str] | None:
        """The sessions that a query selects; None: all of them."""
        if _is_all(query):
            return None
        return frozenset(row.id for row in self._chosen(query, self.rows(any_age=True)))

    def projects(self) -> list[documents.ProjectDocument]:
        """The project directories, last used first."""
        groups: dict[str, list[SessionRow]] = {}
        for row in self.rows():
            groups.setdefault(row.cwd, []).append(row)
        ordered = sorted(groups.items(), key=lambda pair: max(map(_newest_first, pair[1])), reverse=True)
        return [self._project(cwd, rows) for cwd, rows in ordered]

    def row(self, session: Session) -> SessionRow:
        return self._made([session], self._indexed(), self._desk.home.live_ids())[0]

    def is_current(self, session: Session) -> bool:
        """Whether the index has read its log to the end."""
        path, *now = mark_of(session)
        known = self._indexed().files.get(path)
        return known is not None and [known.size, known.mtime_ns] == now

    @unwatched()
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

    def title(self, session: Session) -> str:
        """Its title, or ""."""
        return self.row(session).title

    # ---- filters -----------------------------------------------------------------------------------------

    def _chosen(self, query: SessionQuery, every: list[SessionRow]) -> list[SessionRow]:
        in_project = None if query.project is None else projects.ProjectFilter(query.project).fits
        is_all = _is_all(query)
        rows = (
            list(every)
            if is_all
            else [row for row in every if (in_project is None or in_project(row.cwd)) and _fits(row, query)]
        )
        if query.tag is not None:
            rows = [row for row in rows if _has_tag(row, query.tag)]
        if query.repository is not None:
            rows = [row for row in rows if self._desk.repository(row.cwd) == query.repository]
        if query.text is not None:
            words = query.text.casefold().split()
            rows = [row for row in rows if _has_words(row, words)]
        if query.archived is not None:
            rows = [row for row in rows if self.is_archived(row.session) == query.archived]
        if query.starred is not None:
            stars = set(self._desk.marks.read().stars)
            rows = [row for row in rows if (row.id in stars) == query.starred]
        rows.sort(key=_ORDERS[query.sort], reverse=not query.is_ascending)
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
        used = indexed.used.get(name, NOTHING_USED) if known is not None else None
        is_current = known is not None and (known.size, known.mtime_ns) == (size, mtime_ns)
        return SessionRow(
            session,
            known if is_current else self._desk.glance(session),
            *_counts(known),
            indexed.agents.get((known.home, name), 0) if known is not None else None,
            used,
            used is not None and used.is_unknown,
            name in live and not is_archived,
            None if is_archived else kept.get(session.home.root, _USUALLY_KEPT),
        )

    def _indexed(self) -> IndexedSessions:
        """From the index, read again only if something changed. The list does not wait for a refresh."""
        with self._desk.index.opened(wait=0) as opened:
            if opened.database is None:
                return self._nothing
            try:
                state = opened.database.rows(INDEX_STATE)
                with self._desk.lock:
                    known = cast("tuple[object, IndexedSessions] | None", self._desk.kept.get("indexed"))
                    if known is not None and known[0] == state:
                        return known[1]
                    found = _read(opened, self._desk.roots)
                    self._desk.kept["indexed"] = (state, found)
                    return found
            except Failure:
                return self._nothing

    # ---- documents ---------------------------------------------------------------------------------------

    def _document(self, row: SessionRow) -> documents.SessionRowDocument:
        return documents.SessionRowDocument(
            id=row.id,
            agent=row.agent,
            project=project_name(row.cwd, row.session.path),
            cwd=row.cwd or None,
            title=row.title,
            tag=row.tag,
            branch=row.branch,
            first_at=row.first_at,
            last_at=row.last_at,
            messages=row.messages,
            responses=row.used.responses if row.used is not None else None,
            lines=row.lines,
            bytes=row.session.file.size,
            agents=row.agents,
            cost_usd=row.cost_usd,
            known_cost_usd=row.known_cost_usd,
            unpriced=row.unpriced,
            models=sorted(row.spent or ()),
            live=row.is_live,
            damaged=row.damaged,
            expires_at=row.expires_at,
            is_archived=self.is_archived(row.session),
            is_archive_only=row.session.is_archived,
            is_indexed=row.spent is not None,
        )

    def _project(self, cwd: str, rows: Sequence[SessionRow]) -> documents.ProjectDocument:
        unpriced = sorted({model for row in rows for model in row.unpriced})
        firsts = [row.first_at for row in rows if row.first_at is not None]
        unknown = all(row.is_unrecorded for row in rows)
        known = exact(sum(row.pico_usd or 0 for row in rows))
        return documents.ProjectDocument(
            project=project_name(cwd, rows[0].session.path),
            cwd=cwd or None,
            sessions=len(rows),
            bytes=sum(mark_of(row.session)[1] for row in rows),
            first_at=min(firsts, default=None),
            last_at=max(rows, key=_newest_first).shown_at,
            cost_usd=None if unpriced or unknown else known,
            known_cost_usd=None if unknown else known,
            unpriced=unpriced,
            live=sum(row.is_live for row in rows),
        )

    def _facets(self, rows: Sequence[SessionRow]) -> documents.FacetsDocument:
        directories = Counter(row.cwd for row in rows)
        repositories = Counter[str]()
        for cwd, sessions in directories.items():  # far fewer than sessions
            repositories[self._desk.repository(cwd)] += sessions
        return documents.FacetsDocument(
            projects=_most(directories),
            branches=_most(Counter(row.branch for row in rows)),
            models=_most(Counter(model for row in rows for model in row.spent or ())),
            tags=_most(Counter(row.tag for row in rows)),
            repositories=_most(repositories),
        )


def _read(opened: OpenIndex, roots: Sequence[Path]) -> IndexedSessions:
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: the caller has checked
    used = session_sums(opened, roots)
    return IndexedSessions(catalogue.by_path(database), catalogue.agents(database), used)


def _counts(known: CatalogueRow | None) -> tuple[int | None, int | None, int | None]:
    """Messages, lines and damaged lines. Messages are not known where the log would have to be read for them."""
    if known is None:
        return None, None, None
    return (0 if known.lines is None else known.messages), known.lines or 0, known.damaged


def project_name(cwd: str, log: Path) -> str:
    """The name of the session's directory, or else of the log's directory."""
    return projects.project_name(cwd, log.parent.name)


def _is_all(query: SessionQuery) -> bool:
    return query == SessionQuery(sort=query.sort, is_ascending=query.is_ascending)


def _fits(row: SessionRow, query: SessionQuery) -> bool:
    return _fits_place(row, query) and _fits_time(row, query) and _fits_state(row, query)


def _fits_place(row: SessionRow, query: SessionQuery) -> bool:
    if query.branch is not None and row.branch != query.branch:
        return False
    named = (query.model or "").casefold()
    return not named or any(named in model.casefold() for model in row.spent or ())


def _fits_time(row: SessionRow, query: SessionQuery) -> bool:
    if query.since is None and query.until is None:
        return True
    return touches(row.first_at, row.shown_at, query.since, query.until)


def _fits_state(row: SessionRow, query: SessionQuery) -> bool:
    cost = row.pico_usd or 0
    if query.min_cost is not None and cost < query.min_cost:
        return False
    if query.max_cost is not None and cost > query.max_cost:
        return False
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=WITHIN_DAYS)
    soon = row.expires_at is not None and row.expires_at <= end
    asked = ((query.damaged, bool(row.damaged)), (query.expiring, soon), (query.live, row.is_live))
    return all(want is None or want == have for want, have in asked)


def _has_tag(row: SessionRow, tag: str) -> bool:
    return bool(row.tag) if tag == "*" else row.tag == tag


def _has_words(row: SessionRow, words: Sequence[str]) -> bool:
    text = "\n".join((row.title, row.id, row.cwd, row.branch or "")).casefold()
    return all(word in text for word in words)


def _most(found: Counter[str] | Counter[str | None]) -> list[tuple[str, int]]:
    return Counter({name: sessions for name, sessions in found.items() if name}).most_common(_FACETS)


def _newest_first(row: SessionRow) -> NewestFirst:
    known = row.about
    if isinstance(known, CatalogueRow):  # of the log as it is now, so it says all of this by itself
        return newest_first(known.last_at, known.mtime_ns, known.session, known.path)
    path, _, mtime_ns = mark_of(row.session)
    return newest_first(row.last_ms, mtime_ns, row.id, path)


_ORDERS: dict[str, Callable[[SessionRow], Any]] = {
    "last": _newest_first,
    "first": lambda row: (row.first_at or row.shown_at, row.id),
    "cost": lambda row: (row.pico_usd or 0, row.shown_at),
    "bytes": lambda row: (mark_of(row.session)[1], row.id),
    "lines": lambda row: (row.lines or 0, row.id),
    "messages": lambda row: (row.messages or 0, row.id),
    "title": lambda row: (row.title.casefold(), row.id),
}
