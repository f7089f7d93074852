"""Lists of sessions: for the page and for ``list --json``; and the project directories."""

from __future__ import annotations

import datetime as dt

from msgspec import UNSET, Struct, UnsetType

from recollect.model.cost.money import exact
from recollect.services.documents.page import IndexState
from recollect.services.list import ListedSession

Facet = list[tuple[str, int]]


class SessionRowDocument(Struct, frozen=True, kw_only=True):
    """One session of the page's list. Null means not known yet; on a team's page also what only its transcript tells, as
    whose session it is (``agent``). ``person``, who sent it, is set there.

    ``cost_usd`` is null where a model has no price; ``known_cost_usd`` is the cost of the others.
    ``is_archive_only``: its log is no longer in a home, so it does not expire.
    """

    id: str
    agent: str | None
    project: str
    cwd: str | None
    title: str
    tag: str | None
    branch: str | None
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    messages: int | None
    responses: int | None
    lines: int | None
    bytes: int
    agents: int | None
    cost_usd: str | None
    known_cost_usd: str | None
    unpriced: list[str]
    models: list[str]
    live: bool
    damaged: int | None
    expires_at: dt.datetime | None
    is_archived: bool
    is_archive_only: bool
    is_indexed: bool
    person: str | UnsetType | None = UNSET


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

    sessions: list[SessionRowDocument]
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


class ListedSessionDocument(Struct, frozen=True, kw_only=True):
    """One session of ``list --json``. ``agent``: whose session it is. ``archived``: only the archive has it. Counts are null if a log cannot
    be read, ``responses`` and ``cost_usd`` if unknown. ``repo`` comes with ``--by repo``, ``unpriced`` and ``known_cost_usd`` if a model has no price,
    ``continued_in`` if another session took over, ``lost_beginning`` (the session that has it) if a fork of Codex lacks the history it goes on from.
    """

    id: str
    agent: str
    project: str
    cwd: str | None
    title: str
    tag: str | None
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    messages: int | None
    responses: int | None
    lines: int | None
    bytes: int
    agents: int
    damaged: int | None
    cost_usd: str | None
    live: bool
    archived: bool
    continued_in: str | UnsetType = UNSET
    lost_beginning: str | UnsetType = UNSET
    known_cost_usd: str | UnsetType = UNSET
    unpriced: list[str] | UnsetType = UNSET
    repo: str | UnsetType = UNSET


class RepositoryDocument(Struct, frozen=True):
    """A repository, with the worktrees of its sessions."""

    repo: str
    sessions: int
    directories: list[str]


class ListDocument(Struct, frozen=True):
    """What ``list --json`` prints; ``total`` counts all matching sessions."""

    sessions: list[ListedSessionDocument]
    total: int
    repositories: list[RepositoryDocument] | UnsetType = UNSET


def listed_session(one: ListedSession) -> ListedSessionDocument:
    used = one.used
    unpriced = used.unpriced if used is not None else []
    return ListedSessionDocument(
        id=one.id,
        agent=one.agent,
        project=one.project,
        cwd=one.cwd or None,
        title=one.title,
        tag=one.tag,
        first_at=one.first_at,
        last_at=one.last_at,
        messages=one.messages,
        responses=used.responses if used is not None else None,
        lines=one.lines,
        bytes=one.bytes,
        agents=one.agents,
        damaged=one.damaged,
        cost_usd=None if unpriced or used is None or one.is_unrecorded else exact(used.pico_usd),
        live=one.is_live,
        archived=one.is_archived,
        continued_in=one.continued_in or UNSET,
        lost_beginning=one.lost_beginning or UNSET,
        known_cost_usd=exact(used.pico_usd) if unpriced and used is not None else UNSET,
        unpriced=unpriced or UNSET,
    )
