"""The handlers of what is about all sessions: lists, money, statistics, health, marks."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from recollect.ask.conversation.content import IndexKeeper, IndexState
from recollect.ask.cost.report import costs, zone_of
from recollect.ask.report.behind import Figure, StatSessionsDocument, sessions_behind
from recollect.ask.report.stats import StatsDocument
from recollect.ask.report.stats import stats as statistics
from recollect.errors import NotFound, UsageError
from recollect.model.cost.report import CostReport
from recollect.model.text import timespan
from recollect.store.page_files import Marks
from recollect.web.health import HealthDocument, SecretsDocument, health_document
from recollect.web.page import AT, Page, RecentEditsDocument, Routes
from recollect.web.parameters import (
    CostQuery,
    Id,
    Name,
    PathText,
    Place,
    SessionQuery,
    Short,
    Since,
    StatsQuery,
    Text,
    Until,
    Zone,
)
from recollect.web.search import check_ready
from recollect.web.sessions import ProjectsDocument, SessionListDocument

routes = Routes()
_MOST_DIRECTORIES = 500

PathPart = Annotated[Text, Meta(description="part of a file's path")]
Nearest = Annotated[bool, Meta(description="or the closest one that exists and can be written to")]


class ServedHomeDocument(Struct, frozen=True):
    """A home that the page shows."""

    path: str
    exists: bool


class IndexProgress(Struct, frozen=True):
    """Whether the index can be queried, and the progress of a build."""

    state: IndexState
    done: int
    total: int
    refreshed_at: dt.datetime | None
    notes: list[str]

    @classmethod
    def of(cls, index: IndexKeeper) -> IndexProgress:
        return cls(index.state, index.done, index.total, index.refreshed_at, index.notes)


class MemberDocument(Struct, frozen=True, kw_only=True):
    """A member of a team. ``sealed`` and ``left_out`` count sessions that the page cannot show. ``ends``: of this session, in
    milliseconds; ``token_ends``: of the token it was opened with, where that is soon. ``not_current_since``: the server's database does
    not answer, and this is from when it last did."""

    name: str
    role: str
    organization: str
    sealed: int
    left_out: int
    not_current_since: dt.datetime | None
    ends: int | None
    token_ends: int | None


class MeDocument(Struct, frozen=True, kw_only=True):
    """What the page needs at start. ``is_remembered``: address and cookie outlive the server (``web --remember``)."""

    token: str
    version: str
    homes: list[ServedHomeDocument]
    is_sample: bool
    index: IndexProgress
    exports: list[str]
    is_remembered: bool = False
    is_read_only: bool | UnsetType = UNSET
    member: MemberDocument | UnsetType = UNSET


@routes.get("/api/me")
def me(page: Page) -> MeDocument:
    """Token, version and homes."""
    backend = page.backend
    return MeDocument(
        token=page.token,
        version=page.version,
        homes=[ServedHomeDocument(str(root.path), root.exists) for root in backend.home.roots],
        is_sample=backend.is_sample,
        index=IndexProgress.of(backend.index),
        exports=list(page.exports),
        is_remembered=page.is_remembered,
    )


@routes.get("/api/sessions")
def sessions(page: Page, query: SessionQuery) -> SessionListDocument:
    """Sessions, filtered and sorted."""
    return page.listed.document(query)


@routes.get("/api/projects")
def projects(page: Page) -> ProjectsDocument:
    """The directories of all sessions."""
    return ProjectsDocument(page.listed.projects())


@routes.post("/api/index/refresh")
def refresh_index(page: Page) -> IndexProgress:
    """Bring the index up to date."""
    page.backend.index.refresh()
    return IndexProgress.of(page.backend.index)


# ---- money and work --------------------------------------------------------------------------------------


@routes.get("/api/cost")
def cost(page: Page, query: CostQuery) -> CostReport:
    """What `recollect cost --json` prints."""
    backend, now = page.backend, dt.datetime.now(dt.UTC)
    first, end = timespan.bounds(query.since, query.until, now, zone_of(query.timezone))
    with backend.index.opened() as opened:
        check_ready(opened)
        return costs(
            [key for key in query.by.split(",") if key],
            opened=opened,
            since=first,
            until=end,
            timezone=query.timezone,
            project=query.project,
            model=query.model,
            session=query.session,
            mode=query.mode,
            explain=query.explain,
            now=now,
        )


@routes.get("/api/stats")
def stats(page: Page, query: StatsQuery) -> StatsDocument:
    """What `recollect report --json` prints."""
    backend, now = page.backend, dt.datetime.now(dt.UTC)
    first, end = timespan.bounds(query.since, query.until, now, zone_of(query.timezone))
    with backend.index.opened() as opened:
        return statistics(
            opened,
            since=first,
            until=end,
            project=query.project,
            timezone=query.timezone,
            now=now,
            data=backend.data,
        )


@routes.get("/api/stats/sessions")
def stat_sessions(
    page: Page,
    query: Figure,
    *,
    since: Since | None = None,
    until: Until | None = None,
    timezone: Zone | None = None,
    project: Text | None = None,
) -> StatSessionsDocument:
    """The sessions behind a figure of the statistics."""
    first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC), zone_of(timezone))
    with page.backend.index.opened() as opened:
        return sessions_behind(opened, query, since=first, until=end, project=project, timezone=timezone)


@routes.get("/api/edits")
def edits(
    page: Page,
    project: Text | None = None,
    text: PathPart | None = None,
    from_: Place = 0,
    count: Annotated[int, Meta(ge=1, le=200)] = 100,
) -> RecentEditsDocument:
    """The newest edits of files, of all sessions."""
    return page.edits.document(project, text, from_, count)


# ---- this machine ----------------------------------------------------------------------------------------


@routes.get("/api/health")
def health(page: Page) -> HealthDocument:
    """Sessions that need attention: expiring, damaged, old, with secrets."""
    return health_document(page.backend, page.listed, page.secrets)


@routes.post("/api/health/secrets")
def look_for_secrets(page: Page) -> SecretsDocument:
    """Start a scan for secrets."""
    page.secrets.start()
    return page.secrets.document()


@routes.get("/api/marks")
def marks(page: Page) -> Marks:
    """Starred sessions and pinned messages."""
    return page.backend.marks.read()


@routes.post(f"{AT}/star")
def star(page: Page, session: Name, on: bool = True) -> Marks:
    """Star it, or not."""
    return page.backend.marks.star(page.backend.session(session).id, on=on)


@routes.post(f"{AT}/pin")
def pin(page: Page, session: Name, uuid: Id, on: bool = True, text: Short | None = None) -> Marks:
    """Pin a message, or not."""
    name, now = page.backend.session(session).id, dt.datetime.now(dt.UTC)
    return page.backend.marks.pin(name, uuid, on=on, text=text or "", now=now)


class DirectoryDocument(Struct, frozen=True, kw_only=True):
    """A directory of this machine and those in it, without hidden ones. ``parent`` is null at the root."""

    path: str
    parent: str | None
    directories: list[str]
    total: int
    is_writable: bool


@routes.get("/api/directories")
def directories(page: Page, path: PathText | None = None, nearest: Nearest = False) -> DirectoryDocument:
    """Directories of this machine, to choose where a file is restored. Without a path: those of the user's own."""
    place = Path(path) if path else Path.home()
    if not place.is_absolute():
        raise UsageError(f"directory {path!a}: not an absolute path", hint="write it from the root")
    place = Path(os.path.normpath(place))
    if nearest and not place.is_dir():
        above = next(one for one in (*place.parents, Path("/")) if one.is_dir())
        place = above if os.access(above, os.W_OK) and above.parent != above else Path.home()
    try:
        with os.scandir(place) as found:
            names = sorted(one.name for one in found if not one.name.startswith(".") and _is_directory(one))
    except FileNotFoundError as cause:
        raise NotFound(f"no directory at {place}", hint="choose one that exists") from cause
    except OSError as cause:
        raise UsageError(
            f"directory {place}: {(cause.strerror or 'it cannot be read').lower()}", hint="choose another one"
        ) from cause
    shown = [name for name in names if name.isprintable()]
    return DirectoryDocument(
        path=str(place),
        parent=None if place.parent == place else str(place.parent),
        directories=shown[:_MOST_DIRECTORIES],
        total=len(names),
        is_writable=os.access(place, os.W_OK | os.X_OK),
    )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
