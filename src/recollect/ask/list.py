"""The list of sessions: one function for everything that shows one.

The rows come from the index's catalogue. What changes without a log changing is looked up for each list: which sessions are
open, when they expire, and what a token costs. No log is read, unless its messages have to be counted again.

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

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from recollect.agents.homes import lost_beginnings
from recollect.ask.cost.price import session_sums
from recollect.ask.protection import expiry_of
from recollect.ask.sessions.projects import RepositoryFinder
from recollect.index import catalogue
from recollect.index.access import OpenIndex
from recollect.model.conversation.agents import MessageCount
from recollect.model.cost.money import Spending, exact, members_of
from recollect.model.session import SessionSummary
from recollect.store.home import ClaudeHome
from recollect.store.live import live_sessions
from recollect.system.locations import HomeRoot


class SessionList(Struct, frozen=True):
    """Some sessions, how many fit in all, and how many only the archive has. ``repositories`` come with ``--by repo``."""

    sessions: list[SessionSummary]
    total: int
    only_archived: int
    repositories: list[Repository] | UnsetType = UNSET


class ListQuery(NamedTuple):
    """Which sessions are asked for, how many, and how much of them. Times are moments, ``until`` no longer meant."""

    in_project: Callable[[str], bool] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    limit: int | None = None
    with_usage: bool = True
    is_recounted: bool = True  # whether logs are read where that takes to count messages

    @property
    def is_filtered(self) -> bool:
        """Whether some are left out for what they are."""
        return self.in_project is not None or self.since is not None or self.until is not None

    def fits(self, session: SessionSummary) -> bool:
        """Whether it was worked on in the time asked for, and where."""
        if self.in_project is not None and not self.in_project(session.cwd or ""):
            return False
        return touches(session.first_at, session.shown_at, self.since, self.until)


def touches(
    first: dt.datetime | None, last: dt.datetime, since: dt.datetime | None, until: dt.datetime | None
) -> bool:
    """Whether it was worked on in that time, from its first to its last line. ``until`` itself is excluded."""
    return (since is None or last >= since) and (until is None or (first or last) < until)


def list_sessions(
    roots: Sequence[HomeRoot], opened: OpenIndex, query: ListQuery | None = None
) -> SessionList:
    """The sessions of some homes, with what only the archive has."""
    query = query or ListQuery()
    homes = [ClaudeHome(root.path, root.config_file) for root in roots if root.exists]
    rows, total, only_archived = _rows(opened, query)
    recounted: dict[str, MessageCount] = {}
    if query.is_recounted and any(row.lines is not None and row.messages is None for row in rows):
        recounted = catalogue.recounted(opened)  # reading on was not enough
    used = session_sums(opened, {row.id for row in rows}) if query.with_usage and rows else {}
    live = _live_ids(homes)
    lost = {path: base for home in homes for path, base in lost_beginnings(home.root).items()}
    expires = {str(home.root): expiry_of(home) for home in homes}
    # Not a line was read yet: it has none, or its turn will come.
    nothing = None if opened.coverage else 0
    sessions = []
    for known in rows:
        count = recounted.get(known.path)
        expiry = None if known.is_archive_only else expires.get(known.home)
        row = replace(
            known,
            messages=nothing if known.lines is None else known.messages if count is None else count.messages,
            lines=known.lines or 0,
            agents=(known.agents or 0) + (0 if count is None else count.inline_agents),
            live=known.id in live and not known.is_archive_only,
            expires_at=None if expiry is None else known.modified_at + expiry,
            lost_beginning=lost.get(known.path) or known.lost_beginning,
        )
        sessions.append(with_cost(row, used.get(row.id, Spending())) if query.with_usage else row)
    return SessionList(sessions, total, only_archived)


def with_cost(session: SessionSummary, used: Spending) -> SessionSummary:
    """The session with what it and its agents used."""
    known = None if used.is_unknown else exact(used.pico_usd)
    return replace(
        session,
        responses=used.responses,
        cost_usd=None if used.unpriced else known,
        known_cost_usd=known,
        unpriced=sorted(used.unpriced),
        models=sorted(used.models),
        **members_of(used.tokens),
    )


def _rows(opened: OpenIndex, query: ListQuery) -> tuple[list[SessionSummary], int, int]:
    """The rows to show, how many fit, and how many of them only the archive has. What cannot be read is not listed."""
    database = opened.database
    unread = {path for path, _ in opened.refreshed.problems} if opened.refreshed is not None else set()
    if not query.is_filtered and not unread:
        return catalogue.sessions(database, query.limit), *catalogue.sizes(database)
    rows = [row for row in catalogue.sessions(database) if row.path not in unread and query.fits(row)]
    return rows[: query.limit], len(rows), sum(row.is_archive_only for row in rows)


def _live_ids(homes: Iterable[ClaudeHome]) -> set[str]:
    """Sessions that a running client has open; a hint, never proof."""
    return {
        str(session.session_id)
        for home in homes
        if _has_markers(home.root)
        for session in live_sessions(home)
    }


def _has_markers(home: Path) -> bool:
    try:
        return any(name.endswith(".json") for name in os.listdir(home / "sessions"))  # noqa: PTH208 - names are enough
    except OSError:
        return False


# ---- by repository ---------------------------------------------------------------------------------------


class Repository(Struct, frozen=True):
    """A repository, how many of the sessions are of it, and the directories they worked in, in the order they came."""

    repo: str
    sessions: int
    directories: list[str]


def by_repository(answer: SessionList) -> SessionList:
    """The same sessions, each with its repository; repositories stand where their first session stood."""
    finder, repositories = RepositoryFinder(), dict[str, Repository]()
    sessions = []
    for session in answer.sessions:
        repo = finder.of(session.cwd or "", session.path)
        known = repositories.get(repo) or Repository(repo, 0, [])
        if session.cwd and session.cwd not in known.directories:
            known.directories.append(session.cwd)
        repositories[repo] = replace(known, sessions=known.sessions + 1)
        sessions.append(replace(session, repo=repo))
    return replace(answer, sessions=sessions, repositories=list(repositories.values()))
