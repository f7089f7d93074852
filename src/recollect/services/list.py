"""The list of sessions: one function for everything that shows one.

The rows come from the index's catalogue; without a usable index the same values are read from the logs.
What changes without a log changing is looked up for each list: which sessions are open, and what a token costs.

Sessions stand in the order in which they were last spoken in, by the times in their lines (S11). A file
without a conversation stands at the end, however new it is. Sessions that only the archive still has are
listed, and marked.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from recollect.errors import RecollectError
from recollect.index import catalogue
from recollect.index.catalogue import CatalogueRow
from recollect.model.moments import milliseconds_of, moment_of
from recollect.services.cost.session_sums import NOTHING_USED, SessionSum, session_sums
from recollect.services.foreign.homes import lost_beginnings
from recollect.services.foreign.unrecorded import agent_named_in, agent_of_log
from recollect.services.indexing.access import OpenIndex
from recollect.services.projects import project_name
from recollect.services.session_order import NewestFirst, newest_first, touches
from recollect.system.locations import HomeRoot, agent_of
from recollect.system.paths import CLAUDE
from recollect.system.progress import ProgressCallback

if TYPE_CHECKING:
    from recollect.model.conversation.message_count import MessageCount


class ListedSession(Struct, frozen=True, kw_only=True, gc=False):
    """A session as a list shows it. Counts and sums are None where they were not asked for, or cannot be read."""

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
    lines: int | None = None
    messages: int | None = None
    has_conversation: bool | None = None
    damaged: int | None = None
    used: SessionSum | None = None

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
    """Some sessions, how many fit in all, the logs that could not be read, and how many only the archive has."""

    sessions: list[ListedSession]
    total: int
    left_out: list[tuple[str, str]]
    only_archived: int = 0


class ListQuery(NamedTuple):
    """Which sessions are asked for, how many, and how much of them. Times are moments, ``until`` no longer meant."""

    in_project: Callable[[str], bool] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    limit: int | None = None
    with_counts: bool = True
    with_usage: bool = True

    @property
    def is_filtered(self) -> bool:
        """Whether some are left out for what they are."""
        return self.in_project is not None or self.since is not None or self.until is not None


def listed(
    roots: Sequence[HomeRoot],
    opened: OpenIndex,
    query: ListQuery | None = None,
    *,
    data: Path | None = None,
    progress: ProgressCallback | None = None,
) -> SessionListResult:
    """The sessions of some homes. ``data`` is our own directory, for what only the archive has."""
    query = query or ListQuery()
    roots = [root for root in roots if root.exists]
    source = (
        _ListFromLogs(roots, data, progress) if opened.database is None else _ListFromIndex(roots, opened)
    )
    rows, total, only_archived = source.rows(query)
    agents, live = source.agents(rows), _live_ids(roots)
    counts = source.counts(rows) if query.with_counts else {}
    used = None
    if query.with_usage and rows:
        used = session_sums(opened, [root.path for root in roots], {row.session or "" for row in rows})
    lost = {path: base for root in roots for path, base in lost_beginnings(root.path).items()}
    sessions = [_session(row, agents, live, counts.get(row.file), used, lost=lost) for row in rows]
    return SessionListResult(sessions, total, source.left_out, only_archived)


def _lost_elsewhere(row: CatalogueRow) -> str | None:
    """What a copy of a Codex session lacks that lies in no mirror, but in the archive or where it was restored: its log tells."""
    agent = agent_of(row.home)
    if agent == CLAUDE:
        agent = agent_named_in(row.path)
    elif not row.is_archived:
        return None
    if agent != "codex":
        return None
    from recollect.services.foreign.lost_beginnings import lost_in_log

    return lost_in_log(Path(row.path))


def _session(
    row: CatalogueRow,
    agents: dict[tuple[str, str], int],
    live: set[str],
    counts: _RowCounts | None,
    used: dict[str, SessionSum] | None,
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
        lines=counts.lines if counts is not None else None,
        messages=counts.messages if counts is not None else None,
        has_conversation=counts.has_conversation if counts is not None else None,
        damaged=counts.damaged if counts is not None else None,
        used=None if used is None else used.get(name, NOTHING_USED),
    )


class _RowCounts(NamedTuple):
    lines: int | None
    messages: int | None
    has_conversation: bool | None
    damaged: int


# ---- from the index --------------------------------------------------------------------------------------


class _ListFromIndex:
    """The catalogue. What could not be indexed is read from its log."""

    def __init__(self, roots: Sequence[HomeRoot], opened: OpenIndex) -> None:
        assert opened.database is not None  # noqa: S101 - for the type checker: the caller has looked
        self._opened, self._db = opened, opened.database
        self._roots = roots
        self._problems = opened.refreshed.problems if opened.refreshed is not None else []
        self.left_out = list(self._problems)
        self._missing: dict[int, MessageCount] | None = None

    def rows(self, query: ListQuery) -> tuple[list[CatalogueRow], int, int]:
        if not query.is_filtered and not self._problems:
            return catalogue.rows(self._db, query.limit), *catalogue.sizes(self._db)
        unread = {path for path, _ in self._problems}
        rows = [row for row in catalogue.rows(self._db) if row.path not in unread and _fits(row, query)]
        return rows[: query.limit], len(rows), sum(bool(row.is_archived) for row in rows)

    def agents(self, rows: Sequence[CatalogueRow]) -> dict[tuple[str, str], int]:
        found = catalogue.agents(self._db)
        for row in rows:
            known = self._recounted(rows).get(row.file)
            if known is not None and known.inline_agents:
                key = row.home, row.session or ""
                found[key] = found.get(key, 0) + known.inline_agents
        return found

    def _recounted(self, rows: Sequence[CatalogueRow]) -> dict[int, MessageCount]:
        """Counts of logs that had none: reading on was not enough."""
        if self._missing is None:
            self._missing = {}
            if any(row.lines is not None and row.messages is None for row in rows):
                from recollect.services.indexing.recount import recounted

                self._missing = recounted(self._opened)
        return self._missing

    def counts(self, rows: Sequence[CatalogueRow]) -> dict[int, _RowCounts]:
        missing = self._recounted(rows)
        found = {}
        for row in rows:
            messages, has_conversation = row.messages, row.has_conversation
            if row.lines is None:  # not a line was read yet
                messages, has_conversation = 0, False
            elif messages is None and row.file in missing:
                messages, has_conversation, *_ = missing[row.file]
            known = None if has_conversation is None else bool(has_conversation)
            found[row.file] = _RowCounts(row.lines or 0, messages, known, row.damaged)
        return found


# ---- from the logs ---------------------------------------------------------------------------------------


class _ListFromLogs:
    """The logs themselves, each looked at from both ends; counting reads it as a whole."""

    def __init__(
        self, roots: Sequence[HomeRoot], data: Path | None, progress: ProgressCallback | None
    ) -> None:
        self._roots, self._data, self._progress = roots, data, progress
        self._number = 0
        self.left_out: list[tuple[str, str]] = []

    def rows(self, query: ListQuery) -> tuple[list[CatalogueRow], int, int]:
        rows = [row for row in self._all() if _fits(row, query)]
        rows.sort(key=_newest_first, reverse=True)
        return rows[: query.limit], len(rows), sum(row.is_archived for row in rows)

    def _all(self) -> Iterator[CatalogueRow]:
        from recollect.storage.home_walk import scan_logs

        seen: set[tuple[int, int]] = set()
        for root in self._roots:
            mine = set()
            for log in scan_logs(root.path, self.left_out):
                if log.role == "session" and (log.device, log.inode) not in seen:
                    mine.add((log.device, log.inode))
                    yield from self._row(str(root.path), log.path, log.session, log.size, log.mtime_ns)
            seen |= mine
        yield from self._archived()

    def _archived(self) -> Iterator[CatalogueRow]:
        if self._data is None or not (self._data / "archive").is_dir():
            return
        from recollect.services.homes import Home

        homes = Home(*(root.path for root in self._roots), data=self._data)
        for one in homes.archived_only() if self._roots else ():
            file = one.file
            yield from self._row(
                str(one.home.root), str(one.path), one.id, file.size, file.mtime_ns, is_archived=True
            )

    def _row(
        self,
        home: str,
        path: str,
        session: str | None,
        size: int,
        mtime_ns: int,
        *,
        is_archived: bool = False,
    ) -> Iterator[CatalogueRow]:
        from recollect.storage.logs.summary import glance

        try:
            seen = glance(Path(path))
        except RecollectError as problem:
            self.left_out.append((path, problem.message))
            return
        self._number += 1
        yield CatalogueRow(
            self._number,
            path,
            home,
            session,
            size,
            mtime_ns,
            is_archived,
            milliseconds_of(seen.first_at),
            milliseconds_of(seen.last_at),
            seen.cwd,
            seen.git_branch,
            seen.custom_title,
            seen.ai_title,
            seen.last_prompt,
            seen.first_prompt,
            seen.tag,
            seen.continued_in,
            None,
            None,
            None,
            0,
            0,
        )

    def agents(self, rows: Sequence[CatalogueRow]) -> dict[tuple[str, str], int]:
        """How many sub-agents each session of each home has: two homes may hold the same ones. Each project is looked through once, not once a session."""
        from recollect.model.conversation.agents import inline_roots, is_warm_up
        from recollect.services.agents import first_prompt
        from recollect.storage.home import ClaudeHome
        from recollect.storage.logs.log_graph import LogGraph

        found: Counter[tuple[str, str]] = Counter()
        for root in self._roots if rows else ():
            home = ClaudeHome(root.path, root.config_file)
            for project in home.projects():
                for agent in home.project_agents(project):
                    found[str(root.path), str(agent.owner())] += not is_warm_up(first_prompt(agent.path))
        for row in rows:
            with contextlib.suppress(RecollectError):
                found[row.home, row.session or ""] += len(inline_roots(LogGraph(Path(row.path)).graph))
        return found

    def counts(self, rows: Sequence[CatalogueRow]) -> dict[int, _RowCounts]:
        from recollect.storage.logs.log_counts import log_counts

        found, done, total = {}, 0, sum(row.size for row in rows)
        for row in rows:
            try:
                lines, messages, damaged = log_counts(Path(row.path))
                found[row.file] = _RowCounts(lines, messages.messages, messages.has_conversation, damaged)
            except RecollectError as problem:
                self.left_out.append((row.path, problem.message))
            done += row.size
            if self._progress is not None:
                self._progress(done, total)
        return found


# ---- both ------------------------------------------------------------------------------------------------


def _newest_first(row: CatalogueRow) -> NewestFirst:
    return newest_first(row.last_at, row.mtime_ns, row.session, row.path)


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
    # Imported where a client runs: most of what it loads is for reading its markers.
    from recollect.storage.home import ClaudeHome
    from recollect.storage.live import live_sessions

    homes = [ClaudeHome(root.path, root.config_file) for root in marked]
    return {str(one.session_id) for home in homes for one in live_sessions(home)}


def _has_markers(home: Path) -> bool:
    try:
        return any(name.endswith(".json") for name in os.listdir(home / "sessions"))  # noqa: PTH208 - names are enough
    except OSError:
        return False
