"""The homes of this machine as one: their index, their sessions, and one session by what people remember of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from recollect.agents.homes import home_of, machine_homes
from recollect.agents.mirror_files import own_name
from recollect.ask import tables
from recollect.ask.cost.report import costs, responses, zone_of
from recollect.ask.list import ListQuery, list_sessions
from recollect.ask.sessions.home_guard import in_short, missing_session, refuse_agent_home
from recollect.ask.sessions.messages import session_tool_calls
from recollect.ask.sessions.projects import ProjectFilter
from recollect.ask.sessions.session import (
    ArchivedSession,
    Branches,
    Session,
    archived_only,
    check_branches,
)
from recollect.ask.tables import ArrowColumns, Walk
from recollect.errors import Ambiguous, NotFound, StorageError
from recollect.index import catalogue
from recollect.index.access import OpenIndex, index_path, is_built, open_index
from recollect.index.schema import SHARED_HEAD
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.money import PricedResponse, Spending
from recollect.model.cost.report import MAIN_AGENT, CostReport
from recollect.model.lines.ids import SessionId
from recollect.model.session import SessionSummary
from recollect.model.text import timespan
from recollect.store.archive.archive import Archive
from recollect.store.home import ClaudeHome, SessionFile
from recollect.store.live import live_sessions
from recollect.store.logs.conversation_cache import ConversationCache
from recollect.store.prompt_history import Prompt, prompts
from recollect.system.locations import HomeRoot, agent_of, data_dir
from recollect.system.paths import CLAUDE, usual_places

_OF_OUR_IDS = frozenset("0123456789abcdefABCDEF-")


class Homes:
    """The homes of this machine, or those given, of every agent. They are changed only with ``apply=True``.

    ``data`` is recollect's own directory; sessions that are only in its archive are found too, and the
    index lies there. ``index=False`` reads all logs for each answer and writes no index. ``cache`` keeps the graphs of
    sessions that were read lately; several homes may share one.
    """

    def __init__(
        self,
        *directories: str | Path,
        data: str | Path | None = None,
        index: bool = True,
        cache: ConversationCache | None = None,
    ) -> None:
        self._given_data = None if data is None else Path(data)
        self._data = self._given_data or data_dir()
        if self._given_data is not None:
            refuse_agent_home(self._given_data, "data=")
        roots = [home_of(directory, self._data) for directory in directories] or machine_homes(self._data)
        self.roots: Sequence[HomeRoot] = roots
        self.homes = [ClaudeHome(root.path, root.config_file) for root in roots if root.exists]
        self.index_cache = None if data is None else self._data / "cache"
        self._with_index = index
        self.cache = ConversationCache() if cache is None else cache

    def __repr__(self) -> str:
        return f"<Home {', '.join(str(root.path) for root in self.roots) or 'without a directory'}>"

    def sessions(self, project: str | Path | None = None) -> Walk[Session]:
        """Every session, newest file first; ``project`` is a directory, or part of one's name."""
        return Walk("sessions", lambda: self._sessions(project), self._session_columns)

    def _sessions(self, project: str | Path | None) -> Generator[Session, None, None]:
        wanted = None if project is None else ProjectFilter(project)
        found = [(home, log) for home in self.homes for log in home.sessions()]
        found.sort(key=lambda pair: pair[1].mtime_ns, reverse=True)
        for home, log in found:
            session = self._session_of(home, log)
            if wanted is None or wanted.fits(_cwd(session)):
                yield session

    def archived_only(self, project: str | Path | None = None) -> Iterator[Session]:
        """Sessions of these homes that only the archive still has, by project and name."""
        wanted = None if project is None else ProjectFilter(project)
        for session in archived_only(self.homes, self._data, self.cache):
            if wanted is None or wanted.fits(_cwd(session)):
                yield session

    def session(self, name: str, *, _among: Sequence[SessionSummary] | None = None) -> Session:
        """One session: by id, unique start of an id, path, title, or ``@last`` for the newest.

        ``_among`` is the list of sessions, where it is at hand.
        """
        if not self.homes and _existing_file(name) is None and not self._archived(name):
            looked = ", ".join(str(root.path) for root in self.roots) or usual_places(os.environ)
            raise NotFound(
                f"session {name!r}: there is no home of an agent at {looked}",
                hint="name one with --home DIR, or try the built-in sample with --home :sample",
            )
        if name == "@last":
            newest = next((one for one in _among or self.listed() if not one.is_archive_only), None)
            if newest is None:
                raise NotFound("@last: there is no session", hint="name another home with --home DIR")
            return self.at(newest)
        by_path = self._by_path(name)
        if by_path is not None:
            return by_path
        found = self._by_id(name, _among) or self._archived_by_id(name) or self._by_title(name, _among)
        return self._only(name, found or self._archived(name))

    def _named(self, name: str) -> str:
        return self.session(name).id

    def own_session(self, name: str) -> Session:
        """One session to be changed: as ``session``, but only what lies in one of the homes."""
        found = self.session(name)
        if not any(found.home is home for home in self.homes):
            raise NotFound(
                f"{found.path} is not a session of the homes looked at",
                hint="name its home with --home DIR; a log outside every home is only read",
            )
        return found

    def latest(self, cwd: str | Path) -> Session | None:
        """The session ``claude --continue`` would take in a directory."""
        for home in self.homes:
            found = home.latest_session(str(cwd))
            if found is not None:
                return self._session_of(home, found.file)
        return None

    def prompts(self) -> Iterator[Prompt]:
        """What was typed into the client, all projects, newest first within each home."""
        for home in self.homes:
            yield from prompts(home, newest_first=True)

    def costs(
        self,
        *by: str,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        timezone: str | None = None,
        project: str | Path | None = None,
        model: str | None = None,
        session: str | None = None,
        mode: str = "calculate",
        explain: bool = False,
    ) -> CostReport:
        """Tokens and money of all sessions, each response once, in rows by day, week, month, session, project,
        model, branch, agent, tool or block; ``home.costs("day", "model")``. The index is brought up to date first.

        ``since`` and ``until`` are moments, or words as the commands take them: ``7d``, ``last month``.
        """
        now = dt.datetime.now(dt.UTC)
        first, end = timespan.bounds(since, until, now, zone_of(timezone))
        with self._index() as opened:
            return costs(
                by,
                opened=opened,
                since=first,
                until=end,
                timezone=timezone,
                project=project,
                model=model,
                session=session,
                named=self._named,
                mode=mode,
                explain=explain,
                now=now,
            )

    @property
    def has_index(self) -> bool:
        """Whether an index may be read and written."""
        return self._with_index

    @property
    def _roots(self) -> list[Path]:
        return [home.root for home in self.homes]

    def _index(self) -> AbstractContextManager[OpenIndex]:
        return open_index(self._roots, cache=self.index_cache, is_temporary=not self._with_index)

    def listed(
        self, _opened: OpenIndex | None = None, _query: ListQuery | None = None
    ) -> list[SessionSummary]:
        """Every session as a list shows it, last spoken in first, with what only the archive has.

        What they cost is not looked up. The index is brought up to date first.
        """
        query = _query or ListQuery(with_usage=False)
        with contextlib.ExitStack() as held:
            index = _opened or held.enter_context(self._index())
            return list_sessions(self.roots, index, query).sessions

    def at(self, listed: SessionSummary) -> Session:
        """A session of the list, as it is now."""
        if listed.is_archive_only:
            kept = self._archived_by_id(listed.id)
            return next((one for one in kept if str(one.path) == listed.path), kept[0])
        path = Path(listed.path)
        try:
            seen = path.stat()
        except OSError as cause:
            raise NotFound(f"no log at {path}", hint="it was moved or cleaned up just now") from cause
        file = SessionFile(
            path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=SessionId.parse(listed.id)
        )
        return self._session_of(next(home for home in self.homes if str(home.root) == listed.home), file)

    def _session_of(self, home: ClaudeHome, log: SessionFile) -> Session:
        return Session(home, log, _costs=self._session_costs, _is_shared=self._is_shared, cache=self.cache)

    def _is_shared(self, prompt: str) -> bool:
        """Whether many sessions begin with this prompt, as far as an index knows that is there already."""
        if not self._with_index:
            return prompt[:SHARED_HEAD] in self._shared_prompts
        if not is_built(index_path(self._roots, self.index_cache)):
            return False
        with open_index(self._roots, cache=self.index_cache, is_refreshed=False) as opened:
            return catalogue.is_shared(opened.database, prompt)

    @functools.cached_property
    def _shared_prompts(self) -> frozenset[str]:
        """Beginnings of prompts that many sessions begin with, where every question reads the logs."""
        with self._index() as opened:
            return catalogue.shared_prompts(opened.database)

    def _session_costs(self, session: str, with_agents: bool) -> Spending:
        """What one session cost, out of the costs of all."""
        with self._index() as opened:
            report = costs(("agent", "model"), opened=opened, session=session)
        if report.is_unknown:
            return Spending(is_unknown=True)
        spent = Spending()
        for row in report.rows:
            if with_agents or row.agent == MAIN_AGENT:
                unpriced = frozenset([row.keys["model"]] if row.unpriced_responses else ())
                spent += Spending(row.tokens, row.pico_usd, unpriced, responses=row.responses)
        return spent

    def messages(
        self,
        *,
        branches: Branches = "active",
        agents: bool = False,
        project: str | Path | None = None,
        archived: bool = True,
    ) -> Walk[Message]:
        """Every message of every session, newest session first, read as it is asked for.

        ``branches="active"`` is the conversation the client would load, with what compactions hide;
        ``"all"`` every message of the logs. ``agents`` adds what sub-agents said, after their session.
        Sessions that only the archive still has come last, unless ``archived`` is false. What a fork
        copied stands in both sessions: ``uuid`` tells. A log that cannot be read ends the walk with its error.
        """
        check_branches(branches)
        return Walk(
            "messages",
            lambda: (
                message
                for session in self._walked(project, archived=archived)
                for message in session.messages(branches=branches, agents=agents)
            ),
            tables.message_columns,
        )

    def tool_calls(
        self, *, agents: bool = True, project: str | Path | None = None, archived: bool = True
    ) -> Walk[ToolCall]:
        """Every tool call of every session with what became of it, newest session first.

        ``agents`` adds the calls of sub-agents. What a fork copied stands in both sessions: ``id`` tells.
        """
        return Walk(
            "tool calls",
            lambda: (
                call
                for session in self._walked(project, archived=archived)
                for call in session_tool_calls(session, agents=agents)
            ),
            tables.tool_call_columns,
        )

    def responses(
        self,
        *,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        project: str | Path | None = None,
        model: str | None = None,
        session: str | None = None,
    ) -> Walk[PricedResponse]:
        """Every response, each once over all logs, priced, in the order of time; together what ``costs`` says.

        Responses of deleted sessions that the index knows are in it too. The index is brought up to date when
        the first one is asked for, and stays open until the last one, or ``close``. Nothing is held in memory.
        ``since`` and ``until`` are those of ``costs``.
        """

        def walked() -> Generator[PricedResponse, None, None]:
            first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC))
            with self._index() as opened:
                yield from responses(
                    opened=opened,
                    since=first,
                    until=end,
                    project=project,
                    model=model,
                    session=session,
                    named=self._named,
                )

        return Walk("responses", walked, tables.response_columns)

    def _walked(self, project: str | Path | None, *, archived: bool) -> Iterator[Session]:
        yield from self.sessions(project)
        if archived:
            yield from self.archived_only(project)

    def _session_columns(self) -> ArrowColumns[Session]:
        return tables.session_columns(self.costs("session"))

    def live_ids(self) -> set[str]:
        """Sessions that a running client has open; a hint, never proof."""
        return {str(one.session_id) for home in self.homes for one in live_sessions(home)}

    def _by_path(self, name: str) -> Session | None:
        path = _existing_file(name) if name.endswith((".jsonl", ".zst")) or "/" in name else None
        if path is None:
            return None
        for home in self.homes:
            for log in home.sessions():
                if log.path.resolve() == path.resolve():
                    return self._session_of(home, log)
        seen = path.stat()
        log = SessionFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=None)
        return Session(ClaudeHome(path.parent), log, cache=self.cache)

    def _by_id(self, name: str, among: Sequence[SessionSummary] | None) -> list[Session]:
        if not name:
            return []
        name = self._own_name(name)
        if among is None:
            found = [session for session in self.sessions() if session.id.startswith(name)]
        else:
            found = [self.at(one) for one in among if one.id.startswith(name) and not one.is_archive_only]
        return [session for session in found if session.id == name] or found

    def _own_name(self, name: str) -> str:
        """The id that a session has here, where its client's own id was given."""
        for home in () if set(name) <= _OF_OUR_IDS else self.homes:
            if agent_of(str(home.root)) != CLAUDE:
                name = own_name(home.root, name) or name
        return name

    def _archived_by_id(self, name: str) -> list[Session]:
        """What only the archive has, by the start of its id; an id that is whole is meant alone."""
        if not (self._data / "archive").is_dir() or not name:
            return []
        archive = Archive(self._data / "archive")
        names = [one for one in archive.names() if one[1].startswith(name)]
        names = [one for one in names if one[1] == name] or names
        found = [
            ArchivedSession(archive, one, cache=self.cache) for name in names for one in archive.of(*name)
        ]
        roots = {home.root.resolve() for home in self.homes}
        here = [one for one in found if one.home.root.resolve() in roots]
        return list(here or found)

    def _archived(self, name: str) -> list[Session]:
        """What the archive has under that name, where it has anything."""
        if not (self._data / "archive").is_dir() or not name:
            return []
        archive = Archive(self._data / "archive")
        try:
            kept = archive.find(name, self._roots)
            return [ArchivedSession(archive, kept, cache=self.cache)]
        except NotFound:
            return []

    def _by_title(self, name: str, among: Sequence[SessionSummary] | None) -> list[Session]:
        wanted = name.strip().casefold()
        if not wanted:
            return []
        titles = [(one, one.title.casefold()) for one in among or self.listed()]
        exact = [one for one, title in titles if title == wanted]
        found = exact or [one for one, title in titles if wanted in title]
        return [self.at(one) for one in found]

    def _only(self, name: str, found: list[Session]) -> Session:
        if len(found) == 1:
            return found[0]
        if not found:
            raise missing_session(name, self._data, self._roots, self.index_cache)
        is_whole = all(one.id == name for one in found)
        lines = (f"{in_short(one)}  {one.place}" if is_whole else in_short(one) for one in found)
        raise Ambiguous("session", name, tuple(lines), is_whole=is_whole)


def _cwd(session: Session) -> str:
    """Where it worked; a log that cannot be read names no directory."""
    try:
        return session.cwd
    except (NotFound, StorageError):
        return ""


def _existing_file(name: str) -> Path | None:
    try:
        path = Path(name).expanduser().resolve()
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None  # no file can have such a name
