"""The list of sessions: one function for everything that shows one.

The rows come from the index's catalogue. What changes without a log changing is looked up for each list: which sessions are open, and what a token costs.

Sessions stand in the order in which they were last spoken in, by the times in their lines (S11). A file
without a conversation stands at the end, however new it is. Sessions that only the archive still has are
listed, and marked.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from recollect.agents.homes import agent_named_in, agent_of_log, lost_beginnings
from recollect.ask.cost.price import session_sums
from recollect.ask.sessions.projects import RepositoryFinder, project_name
from recollect.index import catalogue
from recollect.index.access import OpenIndex
from recollect.index.catalogue import CatalogueRow
from recollect.model.conversation.agents import MessageCount
from recollect.model.cost.money import Spending
from recollect.model.lines.ids import moment_of
from recollect.store.home import ClaudeHome
from recollect.store.live import live_sessions
from recollect.system.locations import HomeRoot, agent_of
from recollect.system.paths import CLAUDE

NewestFirst = tuple[bool, int, int, str, str]


def newest_first(last_ms: int | None, mtime_ns: int, session: str | None, path: str) -> NewestFirst:
    """What sessions are sorted by, descending. Plain values: ten thousand rows are ordered by it."""
    return last_ms is not None, last_ms or 0, mtime_ns, session or "", path


def touches(
    first: dt.datetime | None, last: dt.datetime, since: dt.datetime | None, until: dt.datetime | None
) -> bool:
    """Whether it was worked on in that time, from its first to its last line. ``until`` itself is excluded."""
    return (since is None or last >= since) and (until is None or (first or last) < until)


class ListedSession(Struct, frozen=True, kw_only=True, gc=False):
    """A session as a list shows it. ``used`` is None where it was not asked for."""

    id: str
    path: str
    home: str
    cwd: str
    branch: str | None
    title: str
    tag: str | None
    continued_in: str | None  # the session that took over
    first_prompt: str | None
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    mtime_ns: int
    bytes: int
    agents: int
    is_live: bool
    is_archived: bool  # only the archive has it
    lost_beginning: str | None = None  # the session that has it, and is not here
    lines: int = 0
    messages: int | None = None  # not known where its log cannot be read
    has_conversation: bool = False
    damaged: int = 0
    used: Spending | None = None

    @property
    def agent(self) -> str:
        """Whose session it is, whichever model it used: a copy of another agent's names that agent."""
        return agent_of_log(self.home, self.path)

    @property
    def is_unrecorded(self) -> bool:
        """Whether its client wrote down no usage at all: what it cost is unknown, not 0."""
        return self.used is not None and self.used.is_unknown

    @property
    def project(self) -> str:
        """The name of the directory it worked in; of its log's where it names none."""
        return project_name(self.cwd, "") or os.path.basename(os.path.dirname(self.path))  # noqa: PTH119, PTH120 - thousands of rows

    @property
    def modified_at(self) -> dt.datetime:
        """When its file was last written."""
        return dt.datetime.fromtimestamp(self.mtime_ns / 1e9, dt.UTC)

    @property
    def shown_at(self) -> dt.datetime:
        """The time a list shows: when it was last spoken in, or else when its file was written."""
        return self.last_at or self.modified_at


class SessionListResult(Struct, frozen=True):
    """Some sessions, how many fit in all, and how many only the archive has."""

    sessions: list[ListedSession]
    total: int
    only_archived: int = 0


class ListQuery(NamedTuple):
    """Which sessions are asked for, how many, and how much of them. Times are moments, ``until`` no longer meant."""

    in_project: Callable[[str], bool] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    limit: int | None = None
    with_usage: bool = True

    @property
    def is_filtered(self) -> bool:
        """Whether some are left out for what they are."""
        return self.in_project is not None or self.since is not None or self.until is not None


def listed(
    roots: Sequence[HomeRoot],
    opened: OpenIndex,
    query: ListQuery | None = None,
) -> SessionListResult:
    """The sessions of some homes, with what only the archive has."""
    query = query or ListQuery()
    roots = [root for root in roots if root.exists]
    rows, total, only_archived = _rows(opened, query)
    agents = catalogue.agents(opened.database)
    counts: dict[int, MessageCount] = {}
    if any(row.lines is not None and row.messages is None for row in rows):
        counts = catalogue.recounted(opened)  # reading on was not enough
    for row in rows:
        if (known := counts.get(row.file)) is not None and known.inline_agents:
            key = row.home, row.session or ""
            agents[key] = agents.get(key, 0) + known.inline_agents
    used = None
    if query.with_usage and rows:
        used = session_sums(opened, {row.session or "" for row in rows})
    live = _live_ids(roots)
    lost = {path: base for root in roots for path, base in lost_beginnings(root.path).items()}
    # Not a line was read yet: it has none, or its turn will come.
    nothing = MessageCount() if opened.coverage else MessageCount(0)
    sessions = []
    for row in rows:
        count = counts.get(row.file) or MessageCount(row.messages, bool(row.has_conversation))
        count = nothing if row.lines is None else count
        sessions.append(_session(row, agents, live, count, used, lost=lost))
    return SessionListResult(sessions, total, only_archived)


def _rows(opened: OpenIndex, query: ListQuery) -> tuple[list[CatalogueRow], int, int]:
    """The rows to show, how many fit, and how many of them only the archive has. What cannot be read is not listed."""
    database = opened.database
    unread = {path for path, _ in opened.refreshed.problems} if opened.refreshed is not None else set()
    if not query.is_filtered and not unread:
        return catalogue.rows(database, query.limit), *catalogue.sizes(database)
    rows = [row for row in catalogue.rows(database) if row.path not in unread and _fits(row, query)]
    return rows[: query.limit], len(rows), sum(bool(row.is_archived) for row in rows)


def _lost_elsewhere(row: CatalogueRow) -> str | None:
    """What a copy of a Codex session lacks that lies in no mirror, but in the archive or where it was restored: its log tells."""
    agent = agent_of(row.home)
    if agent == CLAUDE:
        agent = agent_named_in(row.path)
    elif not row.is_archived:
        return None
    if agent != "codex":
        return None
    from recollect.ask.sessions.originals import lost_in_log  # loads what reads other agents

    return lost_in_log(Path(row.path))


def _session(
    row: CatalogueRow,
    agents: dict[tuple[str, str], int],
    live: set[str],
    count: MessageCount,
    used: dict[str, Spending] | None,
    *,
    lost: dict[str, str],
) -> ListedSession:
    name = row.session or ""
    return ListedSession(
        id=name,
        path=row.path,
        home=row.home,
        cwd=row.cwd or "",
        branch=row.branch or None,
        title=row.title,
        tag=row.tag or None,
        continued_in=row.continued_in or None,
        first_prompt=row.first_prompt,
        first_at=moment_of(row.first_at),
        last_at=moment_of(row.last_at),
        mtime_ns=row.mtime_ns,
        bytes=row.size,
        agents=agents.get((row.home, name), 0),
        is_live=name in live and not row.is_archived,
        is_archived=bool(row.is_archived),
        lost_beginning=lost.get(row.path) or _lost_elsewhere(row),
        lines=row.lines or 0,
        messages=count.messages,
        has_conversation=count.has_conversation,
        damaged=row.damaged,
        used=None if used is None else used.get(name, Spending()),
    )


def _fits(row: CatalogueRow, query: ListQuery) -> bool:
    """Whether it was worked on in the time asked for, and where."""
    if query.in_project is not None and not query.in_project(row.cwd or ""):
        return False
    if query.since is None and query.until is None:
        return True
    last = moment_of(row.last_at) or dt.datetime.fromtimestamp(row.mtime_ns / 1e9, dt.UTC)
    return touches(moment_of(row.first_at), last, query.since, query.until)


def _live_ids(roots: Iterable[HomeRoot]) -> set[str]:
    """Sessions that a running client has open; a hint, never proof."""
    marked = [root for root in roots if _has_markers(root.path)]
    if not marked:
        return set()
    homes = [ClaudeHome(root.path, root.config_file) for root in marked]
    return {str(one.session_id) for home in homes for one in live_sessions(home)}


def _has_markers(home: Path) -> bool:
    try:
        return any(name.endswith(".json") for name in os.listdir(home / "sessions"))  # noqa: PTH208 - names are enough
    except OSError:
        return False


# ---- by repository ---------------------------------------------------------------------------------------


class RepositoryGroup(Struct, frozen=True):
    """The sessions of one repository, and the directories they worked in, in the order they came."""

    repo: str
    sessions: list[ListedSession]
    directories: list[str]


def by_repository(sessions: Iterable[ListedSession]) -> list[RepositoryGroup]:
    """Sessions by repository, each group where its first session stood."""
    finder, groups = RepositoryFinder(), dict[str, RepositoryGroup]()
    for session in sessions:
        repo = finder.of(session.cwd, session.path)
        group = groups.setdefault(repo, RepositoryGroup(repo, [], []))
        group.sessions.append(session)
        if session.cwd and session.cwd not in group.directories:
            group.directories.append(session.cwd)
    return list(groups.values())
