"""Lists of sessions: that of the page, that of ``list --json``, and the directories that were worked in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType

from recollect.model.conversation.node import Node, node_of
from recollect.model.cost.money import exact
from recollect.model.damage import Line
from recollect.services.directory_name import project_name
from recollect.services.documents.page import IndexState
from recollect.services.session import Session
from recollect.storage.logs.reader import read_lines

Facet = list[tuple[str, int]]


class SessionRowDocument(Struct, frozen=True, kw_only=True):
    """One session of the page's list. What is null is not known yet; ``person`` is said to members of a team."""

    id: str
    project: str
    cwd: str | None
    title: str
    tag: str | None
    branch: str | None
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    entries: int | None
    bytes: int
    agents: int | None
    cost_usd: str | None
    unpriced: list[str]
    models: list[str]
    live: bool
    damaged: int | None
    expires_at: dt.datetime | None
    is_archived: bool
    is_indexed: bool
    person: str | UnsetType | None = UNSET


class FacetsDocument(Struct, frozen=True):
    """What the list could be narrowed down to, the most frequent first."""

    projects: Facet
    branches: Facet
    models: Facet
    tags: Facet


class SessionListDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A part of the list; the first part has the facets. ``index`` is the state of the index."""

    sessions: list[SessionRowDocument]
    from_: int
    total: int
    total_cost_usd: str
    unpriced: list[str]
    index: IndexState
    facets: FacetsDocument | UnsetType = UNSET


class ProjectDocument(Struct, frozen=True, kw_only=True):
    """A directory that was worked in."""

    project: str
    cwd: str | None
    sessions: int
    bytes: int
    first_at: dt.datetime | None
    last_at: dt.datetime
    cost_usd: str | None
    unpriced: list[str]
    live: int


class ProjectsDocument(Struct, frozen=True):
    """All directories, the one used last first."""

    projects: list[ProjectDocument]


class ListedSessionDocument(Struct, frozen=True, kw_only=True):
    """One session of ``list --json``; ``repo`` with ``--by repo``, ``unpriced`` where a model has no price."""

    id: str
    project: str
    cwd: str | None
    title: str
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    messages: int
    bytes: int
    agents: int
    cost_usd: str | None
    live: bool
    unpriced: list[str] | UnsetType = UNSET
    repo: str | UnsetType = UNSET


class RepositoryDocument(Struct, frozen=True):
    """A repository, with the worktrees its sessions were in."""

    repo: str
    sessions: int
    directories: list[str]


class ListDocument(Struct, frozen=True):
    """What ``list --json`` prints; ``total`` counts all sessions that fit."""

    sessions: list[ListedSessionDocument]
    total: int
    repositories: list[RepositoryDocument] | UnsetType = UNSET


def listed_session(
    one: Session, *, agents: int, live: bool, spent: Mapping[str, int | None]
) -> ListedSessionDocument:
    """One session of ``list --json``. Reads its log for the count; ``spent`` is by model, None without a price."""
    unpriced = sorted(model for model, amount in spent.items() if amount is None)
    seen = one.glance
    return ListedSessionDocument(
        id=one.id,
        project=project_name(one.cwd, one.path.parent.name),
        cwd=seen.cwd,
        title=one.title,
        first_at=seen.first_at,
        last_at=seen.last_at,
        messages=_message_count(one),
        bytes=one.file.size,
        agents=agents,
        cost_usd=None if unpriced else exact(sum(amount or 0 for amount in spent.values())),
        live=live,
        unpriced=unpriced or UNSET,
    )


def _message_count(one: Session) -> int:
    """How many entries of the main conversation somebody says something in; a repeated one counts once."""
    points = (node_of(line) for line in read_lines(one.path) if isinstance(line, Line))
    spoken = (point for point in points if isinstance(point, Node) and point.is_message)
    return len({node.uuid for node in spoken if not node.is_sidechain})
