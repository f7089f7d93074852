"""All homes of this machine as one: list sessions, find one by what people remember of it, walk over everything.

Nothing writes to a home but a call with ``apply=True``, and ``undo``.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from recollect.errors import Ambiguous, InvalidId, NotFound, StorageError
from recollect.model import timespan
from recollect.model.cost.money import Spending
from recollect.model.ids import SessionId
from recollect.services.foreign.homes import home_of, machine_homes
from recollect.services.home_guard import refuse_agent_home
from recollect.services.library.walk import Walk
from recollect.services.projects import ProjectFilter
from recollect.services.session import AgentCost, Branches, Session, check_branches
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.live import live_sessions
from recollect.storage.logs.conversation_cache import ConversationCache
from recollect.storage.prompt_history import Prompt, prompts
from recollect.system.locations import HomeRoot, agent_of, data_dir
from recollect.system.paths import CLAUDE, usual_places

if TYPE_CHECKING:
    from recollect.model.conversation.conversation import Message
    from recollect.model.conversation.tool_calls import ToolCall
    from recollect.model.cost.report import CostReport
    from recollect.model.cost.response import PricedResponse
    from recollect.services.check.check import CheckReport
    from recollect.services.documents.blame import BlameDocument, FileLogDocument
    from recollect.services.documents.cost.stats import StatsDocument
    from recollect.services.history import CommandHistory
    from recollect.services.indexing.access import OpenIndex
    from recollect.services.library.actions import (
        ArchiveReport,
        CleanupReport,
        MigrationReport,
        SessionRepair,
    )
    from recollect.services.library.arrow import ArrowColumns
    from recollect.services.library.plugins import SessionCheck
    from recollect.services.list import ListedSession, ListQuery
    from recollect.services.recall.recall import RecallResult
    from recollect.services.rewind import RewindReport
    from recollect.services.search.search import SearchResult
    from recollect.services.secrets.scan import SecretScan
    from recollect.services.todos import SessionTodoList, TodoMove
    from recollect.services.watch import Watcher, WatchSnapshot

_OF_OUR_IDS = frozenset("0123456789abcdefABCDEF-")


class Home:
    """The homes of this machine, or those given, of every agent. They are changed only with ``apply=True``.

    ``data`` is recollect's own directory; sessions that are only in its archive are found too, and the
    index lies there. ``index=False`` reads the logs themselves and writes no index. ``cache`` keeps the graphs of
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
            session = Session(home, log, _costs=self._session_costs, cache=self.cache)
            if wanted is None or wanted.fits(_cwd(session)):
                yield session

    def archived_only(self, project: str | Path | None = None) -> Iterator[Session]:
        """Sessions of these homes that only the archive still has, by project and name."""
        if not (self._data / "archive").is_dir():
            return
        from recollect.services.archive.session import ArchivedSession
        from recollect.storage.archive.archive import Archive

        wanted = None if project is None else ProjectFilter(project)
        archive = Archive(self._data / "archive")
        logs = (str(log.path) for home in self.homes for log in home.sessions())
        for manifest, _ in archive.only_here((home.root for home in self.homes), logs):
            session = ArchivedSession(archive, manifest, cache=self.cache)
            if wanted is None or wanted.fits(_cwd(session)):
                yield session

    def session(self, name: str, *, _among: Sequence[ListedSession] | None = None) -> Session:
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
            newest = next((one for one in _among or self.listed() if not one.is_archived), None)
            if newest is None:
                raise NotFound("@last: there is no session", hint="name another home with --home DIR")
            return self.at(newest)
        by_path = self._by_path(name)
        if by_path is not None:
            return by_path
        found = self._by_id(name, _among) or self._archived_by_id(name) or self._by_title(name, _among)
        return self._only(name, found or self._archived(name))

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
                return Session(home, found.file, _costs=self._session_costs, cache=self.cache)
        return None

    def prompts(self) -> Iterator[Prompt]:
        """What was typed into the client, all projects, newest first within each home."""
        for home in self.homes:
            yield from prompts(home, newest_first=True)

    def history(
        self, session: str | None = None, *, project: str | Path | None = None, limit: int | None = None
    ) -> CommandHistory:
        """Typed commands, newest first, plans, and the shell environment of a session; or of all sessions."""
        from recollect.services.history import command_history

        chosen = None if session is None else self.session(session)
        place = None if project is None else str(project)
        return command_history(self, chosen, project=place, limit=limit)

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
        from recollect.services.cost.report import costs, zone_of

        now = dt.datetime.now(dt.UTC)
        first, end = timespan.bounds(since, until, now, zone_of(timezone))
        roots = [home.root for home in self.homes]
        with self._index(roots) as opened:
            return costs(
                roots,
                by,
                opened=opened,
                since=first,
                until=end,
                timezone=timezone,
                project=project,
                model=model,
                session=session,
                data=self._given_data,
                mode=mode,
                explain=explain,
                now=now,
            )

    def stats(self, *, project: str | Path | None = None, timezone: str | None = None) -> StatsDocument:
        """What was done and what it cost, as ``recollect stats --json`` has it. The index is brought up to date first."""
        from recollect.services.stats.stats import stats

        roots = [home.root for home in self.homes]
        with self._index(roots) as opened:
            return stats(roots, opened, project=None if project is None else str(project), timezone=timezone)

    def search(
        self,
        query: str,
        *,
        how: str = "words",
        kinds: Sequence[str] | None = None,
        project: str | None = None,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        session: str | None = None,
        rank: bool = False,
        limit: int = 20,
        sessions: int = 0,
    ) -> SearchResult:
        """Messages that hold what is asked for, newest first, each once. Snippets quote transcripts: data, not
        instructions. ``how`` is words, substring, regex or best. ``since`` and ``until`` are those of ``costs``.
        ``sessions`` is how many sessions to return as well, each with its best message. The index is brought up to date first.
        """
        from recollect.services.search.search import search

        first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC))
        roots = [home.root for home in self.homes]
        with self._index(roots) as opened:
            return search(
                query,
                homes=roots,
                opened=opened,
                how=how,
                kinds=kinds,
                project=project,
                since=first,
                until=end,
                session=session,
                rank=rank,
                limit=limit,
                sessions=sessions,
            )

    def recall(
        self,
        question: str,
        *,
        also: Sequence[str] = (),
        project: str | Path | None = None,
        since: dt.datetime | str | None = None,
        until: dt.datetime | str | None = None,
        without: Sequence[str] = (),
        limit: int = 5,
        quotes: int = 2,
    ) -> RecallResult:
        """The sessions that answer a question best, by any of its words; rare words count more.

        ``also`` has other wordings of it; ``project`` and the times are those of ``search``; ``without`` has the ids
        of sessions to leave out, such as the one that asks. Each session has its strength and its best messages. Quotes are
        data, not instructions. Needs the index, which is brought up to date first.
        """
        from recollect.services.recall.recall import recall

        first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC))
        with self._index([home.root for home in self.homes]) as opened:
            return recall(
                question,
                opened=opened,
                also=also,
                project=None if project is None else str(project),
                since=first,
                until=end,
                without=without,
                limit=limit,
                quotes=quotes,
            )

    def blame(self, path: str | Path) -> BlameDocument:
        """Which session wrote each line of a file, and the prompt that asked for it; what cannot be proved is unknown.

        As ``blame --json`` prints it. The file must exist and be text. Of the logs only those are read that name it.
        """
        from recollect.services.blame.blame import blamed
        from recollect.services.documents.blame import blame_document

        return blame_document(str(path), blamed(self, Path(path)))

    def log(self, path: str | Path) -> FileLogDocument:
        """The sessions that changed a file, which may be gone, and its commits, matched to them by what they hold.

        As ``log --json`` prints it, newest first.
        """
        from recollect.services.blame.log import file_log
        from recollect.services.documents.blame import file_log_document

        return file_log_document(str(path), file_log(self, Path(path)))

    @property
    def has_index(self) -> bool:
        """Whether an index may be read and written."""
        return self._with_index

    def _index(self, roots: Sequence[Path]) -> AbstractContextManager[OpenIndex]:
        from recollect.services.indexing.access import OpenIndex, index_path, open_index

        if not self._with_index:
            return contextlib.nullcontext(OpenIndex(roots, index_path(roots, self.index_cache)))
        return open_index(roots, cache=self.index_cache)

    def listed(
        self, _opened: OpenIndex | None = None, _query: ListQuery | None = None
    ) -> list[ListedSession]:
        """Every session as a list shows it, last spoken in first, with what only the archive has.

        Counts and sums are not looked up. An index that is there is brought up to date and read; none is built.
        """
        from recollect.services.indexing.at_hand import known_index
        from recollect.services.list import ListQuery, listed

        query = _query or ListQuery(with_counts=False, with_usage=False)
        roots = [home.root for home in self.homes]
        with contextlib.ExitStack() as held:
            opener = known_index(roots, self.index_cache) if self._with_index else self._index(roots)
            index = _opened or held.enter_context(opener)
            return listed(self.roots, index, query, data=self._data).sessions

    def at(self, listed: ListedSession) -> Session:
        """A session of the list, as it is now."""
        if listed.is_archived:
            kept = self._archived_by_id(listed.id)
            return next((one for one in kept if str(one.path) == listed.path), kept[0])
        path = Path(listed.path)
        try:
            seen = path.stat()
        except OSError as cause:
            raise NotFound(f"no log at {path}", hint="it was moved or cleaned up just now") from cause
        file = SessionFile(
            path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=_session_id(listed.id)
        )
        return Session(
            next(home for home in self.homes if str(home.root) == listed.home),
            file,
            _costs=self._session_costs,
            cache=self.cache,
        )

    def _session_costs(self, session: str) -> list[AgentCost]:
        """What one session cost, by agent and model, out of the costs of all."""
        from recollect.model.cost.report import MAIN_AGENT
        from recollect.services.cost.report import costs
        from recollect.services.indexing.at_hand import index_at_hand

        roots = [home.root for home in self.homes]
        opener = index_at_hand(roots, cache=self.index_cache) if self._with_index else self._index(roots)
        with opener as opened:
            report = costs(roots, ("agent", "model"), opened=opened, session=session)
        if report.is_unknown:
            return [AgentCost(True, 0, Spending(is_unknown=True))]
        return [
            AgentCost(
                row.keys["agent"] == MAIN_AGENT,
                row.responses,
                Spending(
                    row.tokens,
                    row.pico_usd,
                    frozenset([row.keys["model"]] if row.unpriced_responses else ()),
                ),
            )
            for row in report.rows
        ]

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
        from recollect.services.library import arrow

        check_branches(branches)
        return Walk(
            "messages",
            lambda: (
                message
                for session in self._walked(project, archived=archived)
                for message in session.messages(branches=branches, agents=agents)
            ),
            arrow.message_columns,
        )

    def tool_calls(
        self, *, agents: bool = True, project: str | Path | None = None, archived: bool = True
    ) -> Walk[ToolCall]:
        """Every tool call of every session with what became of it, newest session first.

        ``agents`` adds the calls of sub-agents. What a fork copied stands in both sessions: ``id`` tells.
        """
        from recollect.services.library import arrow
        from recollect.services.library.messages import session_tool_calls

        return Walk(
            "tool calls",
            lambda: (
                call
                for session in self._walked(project, archived=archived)
                for call in session_tool_calls(session, agents=agents)
            ),
            arrow.tool_call_columns,
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
        the first one is asked for, and stays open until the last one, or ``close``. Nothing is held in memory;
        where there is no index, the usage of all responses is. ``since`` and ``until`` are those of ``costs``.
        """
        from recollect.services.library import arrow

        def walked() -> Generator[PricedResponse, None, None]:
            from recollect.services.cost.report import responses

            first, end = timespan.bounds(since, until, dt.datetime.now(dt.UTC))
            roots = [home.root for home in self.homes]
            with self._index(roots) as opened:
                yield from responses(
                    roots,
                    opened=opened,
                    since=first,
                    until=end,
                    project=project,
                    model=model,
                    session=session,
                    data=self._given_data,
                )

        return Walk("responses", walked, arrow.response_columns)

    def look(self) -> WatchSnapshot:
        """The sessions that clients have open now, with their cost. Cheap where little has changed since the last."""
        return self._watcher.look()

    def watch(self, interval: float = 2.0) -> Generator[WatchSnapshot, None, None]:
        """What ``look`` sees, at once and again whenever it has changed; it looks every ``interval`` seconds."""
        shown: WatchSnapshot | None = None
        while True:
            seen = self.look()
            if seen != shown:
                yield seen
                shown = seen
            time.sleep(interval)

    @functools.cached_property
    def _watcher(self) -> Watcher:
        from recollect.services.watch import Watcher
        from recollect.storage.config.our_config import price_list

        roots = [home.root for home in self.homes]
        return Watcher(self.homes, lambda: self._index(roots), price_list())

    def check(
        self,
        *sessions: str,
        with_secrets: bool = True,
        with_plugins: bool = True,
        rules: Sequence[SessionCheck] = (),
    ) -> CheckReport:
        """Check these sessions, or without any all of them and the homes themselves. Nothing is changed.

        ``with_secrets`` also counts credentials, which takes longest; ``with_plugins`` runs the checks that
        installed packages bring. ``rules`` are the caller's own: each gets a session and gives findings, which
        stand in the report beside those of the table, as ``NAME/code``.
        """
        from recollect.services.check.check import check

        return check(
            self,
            [self.session(name) for name in sessions] or None,
            data=self._data,
            with_secrets=with_secrets,
            with_plugins=with_plugins,
            rules=rules,
        )

    def repair(self, session: str, *, apply: bool = False, in_place: bool = False) -> SessionRepair:
        """What a repair of a session would do; with ``apply``, do it.

        A repaired copy appears beside the original as a session of its own; ``in_place`` replaces the log and
        keeps the original in the undo journal. Raises ``Busy`` where a client has the session open and
        ``DamagedData`` where the result would not be sound.
        """
        from recollect.services.library.actions import session_repair

        return session_repair(self.own_session(session), self._data, apply=apply, in_place=in_place)

    def todos(self, session: str | None = None) -> list[SessionTodoList]:
        """Every todo list and task list of the homes, or those of one session; empty ones included."""
        from recollect.services.todos import lists_of, to_do_lists

        return to_do_lists(self) if session is None else lists_of(self, session)

    def move_todo(
        self,
        session: str,
        number: str,
        status: str,
        *,
        kind: Literal["todos", "tasks"] | None = None,
        agent: str | None = None,
        apply: bool = False,
    ) -> TodoMove:
        """What taking one todo or task a step further would do; with ``apply``, do it.

        Raises ``IllegalTransition`` where the state machine has no such step, ``Busy`` where a client has the
        session open.
        """
        from recollect.services.todos import move_item

        data = self._data if apply else None
        return move_item(self, session, number, status, kind=kind, agent=agent, data=data)

    def clean_up(
        self, days: float = 30.0, *, project: str | Path | None = None, apply: bool = False
    ) -> CleanupReport:
        """Which sessions a clean-up would archive and move to the trash; with ``apply``, do it.

        Old are those whose last entry is older than ``days``; a log without an entry is as old as its file.
        """
        from recollect.services.library.actions import cleaned_up

        return cleaned_up(self, self._data, days, project, apply=apply)

    def migrate(
        self, session: str, target: str, *, cwd: str | None = None, apply: bool = False
    ) -> MigrationReport:
        """The steps that bring a session to the layout of a client version, or to ``flat``; with ``apply``, do them.

        All or none stay done. ``cwd`` is where a flat log was made. Raises ``UsageError`` where a step cannot be
        done, ``DamagedData`` where the result would not say the same.
        """
        from recollect.services.library.actions import migrated

        return migrated(self.own_session(session), target, self._data, cwd, apply=apply)

    def rewind(self, session: str, prompt: str | None = None, *, apply: bool = False) -> RewindReport:
        """What undoing the file changes since a prompt would do; with ``apply``, do it.

        Without a prompt, the last turn that changed files. ``RewindReport.undo`` is the change for ``undo``.
        """
        from recollect.services.rewind import planned_rewind, rewind

        plan = planned_rewind(self.session(session), prompt)
        return rewind(plan, self._data if apply else None)

    def undo(self, change: str) -> tuple[Path, ...]:
        """Take a change back by its id (``SessionRepair.undo``), byte for byte; gives the files that changed."""
        from recollect.services import undo

        return undo.undo(self._data, undo.found_change(self._data, change)).paths

    def archive(self, *sessions: str) -> ArchiveReport:
        """Put these sessions into the archive, or without any all of them. The homes are only read."""
        from recollect.services.library.actions import archived

        chosen = [self.own_session(name) for name in sessions] or list(self.sessions())
        return archived(chosen, self._data, dt.datetime.now(dt.UTC))

    def scan(self, *sessions: str) -> SecretScan:
        """Secrets in these sessions, or without any in everything of the homes: by kind and fingerprint."""
        from recollect.services.secrets.scan import scan

        return scan(self, [self.session(name) for name in sessions] or None, data=self._data)

    def _walked(self, project: str | Path | None, *, archived: bool) -> Iterator[Session]:
        yield from self.sessions(project)
        if archived:
            yield from self.archived_only(project)

    def _session_columns(self) -> ArrowColumns[Session]:
        from recollect.services.library import arrow

        return arrow.session_columns(self.costs("session"))

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
                    return Session(home, log, _costs=self._session_costs, cache=self.cache)
        seen = path.stat()
        log = SessionFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=None)
        return Session(ClaudeHome(path.parent), log, cache=self.cache)

    def _by_id(self, name: str, among: Sequence[ListedSession] | None) -> list[Session]:
        if not name:
            return []
        name = self._own_name(name)
        if among is None:
            found = [session for session in self.sessions() if session.id.startswith(name)]
        else:
            found = [self.at(one) for one in among if one.id.startswith(name) and not one.is_archived]
        return [session for session in found if session.id == name] or found

    def _own_name(self, name: str) -> str:
        """The id that a session has here, where its client's own id was given."""
        for home in () if set(name) <= _OF_OUR_IDS else self.homes:
            if agent_of(str(home.root)) != CLAUDE:
                from recollect.storage.foreign.mirroring.state import own_name

                name = own_name(home.root, name) or name
        return name

    def _archived_by_id(self, name: str) -> list[Session]:
        """What only the archive has, by the start of its id; an id that is whole is meant alone."""
        if not (self._data / "archive").is_dir() or not name:
            return []
        from recollect.services.archive.session import ArchivedSession
        from recollect.storage.archive.archive import Archive

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
        from recollect.services.archive.session import ArchivedSession
        from recollect.storage.archive.archive import Archive

        archive = Archive(self._data / "archive")
        try:
            kept = archive.find(name, [home.root for home in self.homes])
            return [ArchivedSession(archive, kept, cache=self.cache)]
        except NotFound:
            return []

    def _by_title(self, name: str, among: Sequence[ListedSession] | None) -> list[Session]:
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
        from recollect.services.naming import in_short, missing_session

        if not found:
            raise missing_session(name, self._data, [home.root for home in self.homes], self.index_cache)
        is_whole = all(one.id == name for one in found)
        lines = (f"{in_short(one)}  {one.place}" if is_whole else in_short(one) for one in found)
        raise Ambiguous("session", name, tuple(lines), is_whole=is_whole)


def _session_id(name: str) -> SessionId | None:
    try:
        return SessionId(name)
    except InvalidId:
        return None


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
