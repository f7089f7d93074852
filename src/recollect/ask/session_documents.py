"""Sessions in lists, and what belongs to one besides its messages: agents, files, todo lists, how to resume it."""

from __future__ import annotations

import datetime as dt

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.conversation.content import IndexState
from recollect.ask.list import ListedSession
from recollect.ask.sessions.session import Compaction
from recollect.ask.todos import SessionTodoList
from recollect.model.conversation.conversation import Branch
from recollect.model.cost.money import exact
from recollect.model.files.history import FileVersion, VersionSource

# ---- files -----------------------------------------------------------------------------------------------


class FileVersionDocument(Struct, frozen=True, kw_only=True):
    """One version of a file, without its content. ``diff``: changes since the previous version, on request.

    ``added`` and ``removed``: lines of the session's own write or edit; null where it only saw the file.
    """

    number: int
    at: dt.datetime | None
    source: VersionSource
    entry_uuid: str | None
    existed: bool
    known: bool
    bytes: int | None
    backup: str | None
    added: int | None
    removed: int | None
    diff: str | UnsetType = UNSET


class TouchedFileDocument(Struct, frozen=True):
    """A file that a session touched: written or edited by it, or only seen. Lines are those of all its changes."""

    path: str
    is_edited: bool
    added: int
    removed: int
    versions: list[FileVersionDocument]


class FilesDocument(Struct, frozen=True):
    """The files that a session touched."""

    session: str
    files: list[TouchedFileDocument]
    total: int


class FileTextDocument(Struct, frozen=True, kw_only=True):
    """The text of one version; null if it is not text or unknown."""

    path: str
    number: int
    text: str | None
    is_binary: bool
    cut: bool
    bytes: int | None


class FileDiffDocument(Struct, frozen=True, kw_only=True):
    """Changes from one version to another, or why they are unknown."""

    path: str
    number: int
    against: int
    diff: str
    cut: bool
    problem: str | None


def version_document(number: int, version: FileVersion, diff: str | UnsetType = UNSET) -> FileVersionDocument:
    return FileVersionDocument(
        number=number,
        at=version.at,
        source=version.source,
        entry_uuid=version.entry_uuid,
        existed=version.existed,
        known=version.is_known,
        bytes=version_length(version),
        backup=version.backup_name,
        added=None if version.tally is None else version.tally.added,
        removed=None if version.tally is None else version.tally.removed,
        diff=diff,
    )


def touched_file(path: str, versions: list[FileVersionDocument]) -> TouchedFileDocument:
    return TouchedFileDocument(
        path,
        any(one.added is not None for one in versions),
        sum(one.added or 0 for one in versions),
        sum(one.removed or 0 for one in versions),
        versions,
    )


def version_length(version: FileVersion) -> int | None:
    """Bytes of a version, if known."""
    content = version.content
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    return None if data is None else len(data)


# ---- todos and resume ------------------------------------------------------------------------------------


class TodosDocument(Struct, frozen=True):
    """Todo lists; ``todos --json`` also counts them and the empty ones."""

    lists: list[SessionTodoList]
    total: int | UnsetType = UNSET
    empty: int | UnsetType = UNSET


class ResumeDocument(Struct, frozen=True, kw_only=True):
    """How to continue a session in the client."""

    session: str
    title: str
    cwd: str
    cwd_exists: bool
    command: str
    argv: tuple[str, ...]
    restore: str | UnsetType = UNSET  # the command that brings it back from the archive first


class PageResumeDocument(ResumeDocument, frozen=True, kw_only=True):
    """How to continue a session; ``line`` works from any directory."""

    nearby: tuple[str, ...]
    line: str


Facet = list[tuple[str, int]]


class SessionDocument(Struct, frozen=True, kw_only=True):
    """A session. Null means not known: counts where a log cannot be read or was not yet; on a team's page also what only its
    transcript tells, as whose session it is (``agent``).

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
    responses: int | None = None
    lines: int | None
    bytes: int
    agents: int | None
    damaged: int | None
    cost_usd: str | None = None
    known_cost_usd: str | None = None
    unpriced: list[str] = []
    live: bool
    is_archive_only: bool


class SessionRowDocument(SessionDocument, frozen=True, kw_only=True):
    """One session of the page's list. On a team's page ``person`` is who sent it."""

    models: list[str] = []
    expires_at: dt.datetime | None
    is_archived: bool
    is_indexed: bool = False
    person: str | UnsetType | None = UNSET


class SessionHeadDocument(SessionRowDocument, frozen=True, kw_only=True):
    """The header of a conversation. Costs are null while the index does not know them, or if no usage was recorded.

    ``messages`` are those that a resume would load, as lists count them; the whole story has ``hidden`` more.

    ``is_only_read``: it belongs to another agent, and `fork` and `repair` would refuse it.
    """

    custom_title: str | None
    path: str
    home: str
    version: str | None
    agent: str
    is_only_read: bool
    messages: int
    hidden: int
    active_leaf: str | None
    problem: str | None
    branches: list[Branch]
    compactions: list[Compaction]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_read_tokens: int | None = None
    web_searches: int | None = None
    commands: dict[str, str]


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


class ListedSessionDocument(SessionDocument, frozen=True, kw_only=True):
    """One session of ``list --json``. ``repo`` comes with ``--by repo``, ``continued_in`` if another session took over,
    ``lost_beginning`` (the session that has it) if a fork of Codex lacks the history it goes on from.
    """

    continued_in: str | UnsetType = UNSET
    lost_beginning: str | UnsetType = UNSET
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
    unpriced = sorted(used.unpriced) if used is not None else []
    known = None if used is None or one.is_unrecorded else exact(used.pico_usd)
    return ListedSessionDocument(
        id=one.id,
        agent=one.agent,
        project=one.project,
        cwd=one.cwd or None,
        title=one.title,
        tag=one.tag,
        branch=one.branch,
        first_at=one.first_at,
        last_at=one.last_at,
        messages=one.messages,
        responses=used.responses if used is not None else None,
        lines=one.lines,
        bytes=one.bytes,
        agents=one.agents,
        damaged=one.damaged,
        cost_usd=None if unpriced else known,
        known_cost_usd=known,
        unpriced=unpriced,
        live=one.is_live,
        is_archive_only=one.is_archived,
        continued_in=one.continued_in or UNSET,
        lost_beginning=one.lost_beginning or UNSET,
    )
