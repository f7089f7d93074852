"""A read-only view of one Claude home: its paths and its contents.

Every path below ``~/.claude`` that recollect knows is built in this module only. Ids are typed, so no name
from a transcript can lead out of its directory. Directories are listed on demand and never cached.

Nothing here raises because of the home's contents. A missing directory is an empty one; what cannot be read
is in ``problems``; a name that is not an id is listed with ``id`` None; a file that vanishes during listing
is left out. Nothing here writes, creates or locks.

Links: a linked log is read through the link and keeps the link's path, as in the client. A linked project
directory is listed unless it is already listed, or contains the listing itself. A session's side directory
may be a link too; below it links to directories are not followed.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

from recollect.model.lines.ids import AgentId, EntryId, ProjectKey, SessionId
from recollect.model.project_key import project_key, same_long_prefix
from recollect.store.home_walk import (
    AGENT,
    LOG,
    agent_directories,
    may_be_side_directory,
    project_directories,
    role_of,
)
from recollect.system.peek import (
    ReadProblem,
    ReadProblems,
    is_directory,
    is_link,
    list_directory,
    peek_lines,
    regular_file,
)

_Id = TypeVar("_Id", SessionId, AgentId, ProjectKey)
_Seen: TypeAlias = tuple[Path, int, int, int, int]  # the fields of SeenFile, in order
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")
# How far into a log its working directory or owner is searched: in real files the first line with it starts
# within a few kilobytes.
_HEAD = 1 << 20


class SeenFile(msgspec.Struct, frozen=True):
    """A file as listed; device and inode are 0 where the system does not report them."""

    path: Path
    size: int
    mtime_ns: int
    inode: int
    device: int


class ProjectDir(msgspec.Struct, frozen=True):
    """A directory below ``projects/``; ``key`` is None where no client would give that name.

    It may hold sessions of several working directories whose paths give the same key. The entries of a
    session say where it ran (``first_cwd``).
    """

    key: ProjectKey | None
    name: str
    path: Path
    is_link: bool = False

    @property
    def memory(self) -> Path:
        """Auto memory: a directory of notes, often empty."""
        return self.path / "memory"

    def log(self, session: SessionId) -> Path:
        """The log of ``session``, whether it exists or not."""
        return self.path / f"{SessionId(session)}{LOG}"


class LogFile(SeenFile, frozen=True):
    """A log of a session or of a sub-agent."""

    def first_cwd(self) -> str | None:
        """The working directory of the first entry that names one.

        It distinguishes sessions that share a project directory. Reads only the head; None where the head
        names none, or cannot be read.
        """
        return first_text(self.path, "cwd")


class SessionFile(LogFile, frozen=True):
    """A session's log. ``id`` is None for a name no client gives; such a log can still be read by path."""

    id: SessionId | None

    @property
    def is_uuid(self) -> bool:
        """Whether the client would list it: it ignores every other name."""
        return self.id is not None and self.id.is_uuid

    @property
    def side_dir(self) -> Path:
        """Sub-agents, large tool results and the title file of this session."""
        return self.path.with_suffix("")

    @property
    def subagents(self) -> Path:
        """Logs of sub-agents (client 2.1.x)."""
        return self.side_dir / "subagents"

    @property
    def tool_results(self) -> Path:
        """Tool output that was too large for the log."""
        return self.side_dir / "tool-results"

    @property
    def custom_title(self) -> Path:
        """The title file that ``/rename`` writes beside its entry (2.1.325)."""
        return self.side_dir / "custom-title.json"


class AgentFile(LogFile, frozen=True):
    """A sub-agent's log. Only the nested layout shows by its path whose agent it is."""

    agent_id: AgentId | None
    meta_path: Path | None
    layout: Literal["flat", "nested"]
    session: SessionId | None

    def owner(self) -> SessionId | None:
        """The session it worked for: by its directory, or else by its first entry."""
        if self.session is not None:
            return self.session
        named = first_text(self.path, "session_id")
        return None if named is None else SessionId.parse(named)


class TodoFile(SeenFile, frozen=True):
    """``todos/<session>-agent-<agent>.json``; the main agent's list carries the session's own id twice."""

    session: SessionId | None
    agent: AgentId | None


class TaskFile(SeenFile, frozen=True):
    """``tasks/<session>/<number>.json``; ``number`` is None where the name is not a number."""

    number: int | None


class LogContent(enum.Enum):
    """What client 2.1.325 finds when ``--continue`` reads a log."""

    CONVERSATION = "a conversation"
    EMPTY = "an empty file"
    NO_TIMESTAMPS = "entries without a usable timestamp"
    SIDECHAIN = "sub-agent lines only"
    METADATA = "metadata only"
    GARBAGE = "nothing that reads as an entry"


_CONTINUED = frozenset([LogContent.CONVERSATION, LogContent.EMPTY, LogContent.NO_TIMESTAMPS])


class LatestSession(msgspec.Struct, frozen=True):
    """The log that ``--continue`` uses, and what it holds."""

    file: SessionFile
    content: LogContent

    @property
    def empty(self) -> bool:
        """Whether the client would continue silently without any history."""
        return self.content is not LogContent.CONVERSATION


class ClaudeHome:
    """A read-only view of one Claude configuration root."""

    def __init__(self, root: Path, config_file: Path | None = None) -> None:
        self.root = root
        self.config_file = config_file
        self._problems = ReadProblems()
        self.projects_dir = root / "projects"
        # One marker for each running client. The ``.key`` files beside them are secrets and never read.
        self.live_dir = root / "sessions"
        self.todos_dir = root / "todos"  # up to client 2.1.30
        self.plans_dir = root / "plans"
        # Long pastes that ``history.jsonl`` refers to.
        self.paste_cache_dir = root / "paste-cache"
        self.statsig_dir = root / "statsig"
        # Copies of the global config file (2.1.197 and later).
        self.backups_dir = root / "backups"
        self.settings_file = root / "settings.json"
        self.history_file = root / "history.jsonl"

    def __repr__(self) -> str:
        return f"<ClaudeHome {self.root}>"

    @property
    def problems(self) -> list[ReadProblem]:
        """What could not be read when each place was last listed."""
        return list(self._problems)

    def note_problem(self, path: Path, reason: str | OSError) -> None:
        """For readers of this home: record what was left out of an answer, and why."""
        self._problems.note(path, reason)

    # --- paths ------------------------------------------------------------------------------

    def project_dir(self, key: ProjectKey) -> Path:
        """The directory of one project key."""
        return self.projects_dir / ProjectKey(key)

    def session_log(self, key: ProjectKey, session: SessionId) -> Path:
        """The log of one session."""
        return self.project_dir(key) / f"{SessionId(session)}{LOG}"

    def file_history_dir(self, session: SessionId) -> Path:
        """File backups for rewind, ``<hash>@v<n>``."""
        return self.root / "file-history" / SessionId(session)

    def tasks_dir(self, session: SessionId) -> Path:
        """The task list of one session (2.1.197 and later)."""
        return self.root / "tasks" / SessionId(session)

    def session_env_dir(self, session: SessionId) -> Path:
        """Created when a shell tool runs; usually empty."""
        return self.root / "session-env" / SessionId(session)

    def plan_file(self, slug: EntryId) -> Path:
        """One plan mode document by its slug."""
        return self.plans_dir / f"{EntryId(slug)}.md"

    def paste_file(self, content_hash: EntryId) -> Path:
        """One long paste by the hash that ``history.jsonl`` gives."""
        return self.paste_cache_dir / f"{EntryId(content_hash)}.txt"

    # --- contents ---------------------------------------------------------------------------

    def projects(self) -> Iterator[ProjectDir]:
        """Every project directory once: real ones first, then links to other places."""
        for entry, is_repeated in project_directories(self._problems, self.projects_dir):
            if not is_repeated:
                yield _project(Path(entry.path), is_link(entry))

    def sessions(self, project: ProjectDir | None = None) -> Iterator[SessionFile]:
        """The logs of one project, or of all, by name. Logs of sub-agents are never sessions."""
        for directory in self.projects() if project is None else (project,):
            entries = self._entries(directory.path)
            logs = (entry for entry in entries if role_of(entry.name) == "session")
            for seen in self._files(logs, LOG):
                session = SessionId.parse(seen[0].name.removesuffix(LOG))
                yield SessionFile(*seen, id=session)

    def agents(self, session: SessionFile) -> Iterator[AgentFile]:
        """The sub-agents of one session in both layouts.

        The flat layout reads the head of every agent log of the project; for a whole project call
        ``project_agents`` once, and use ``owner``.
        """
        yield from self._nested_agents(session.side_dir, session.id)
        if session.id is not None:
            for agent in self._agents(self._entries(session.path.parent), "flat", None):
                if agent.owner() == session.id:
                    yield agent

    def project_agents(self, project: ProjectDir) -> Iterator[AgentFile]:
        """Every sub-agent's log of a project, including those whose session's log is missing."""
        entries = self._entries(project.path)
        yield from self._agents(entries, "flat", None)
        for entry in entries:
            if may_be_side_directory(self._problems, entry):
                session = SessionId.parse(entry.name)
                yield from self._nested_agents(Path(entry.path), session)

    def live_markers(self) -> list[Path]:
        """The markers of running clients, ``<pid>.json``; never the ``.key`` files beside them."""
        return [seen[0] for seen in self._files(self._entries(self.live_dir), ".json")]

    def todos(self) -> Iterator[TodoFile]:
        """Every todo list; most of them are empty."""
        for seen in self._files(self._entries(self.todos_dir), ".json"):
            session, _, agent = seen[0].stem.partition("-agent-")
            yield TodoFile(
                *seen,
                session=SessionId.parse(session),
                agent=AgentId.parse(agent),
            )

    def task_lists(self) -> Iterator[SessionId]:
        """The sessions that have a task list."""
        for entry in self._entries(self.root / "tasks"):
            session = SessionId.parse(entry.name)
            if session is not None and is_directory(entry, self._problems):
                yield session

    def tasks(self, session: SessionId) -> list[TaskFile]:
        """The tasks of one session by number."""
        found = [
            TaskFile(*seen, number=_number(seen[0].stem))
            for seen in self._files(self._entries(self.tasks_dir(session)), ".json")
        ]
        return sorted(found, key=lambda task: (task.number is None, task.number or 0, task.path.name))

    # --- by working directory ---------------------------------------------------------------

    def latest_session(
        self, cwd: str, listed: Mapping[Path, Sequence[SessionFile]] | None = None
    ) -> LatestSession | None:
        """The session that ``claude --continue`` (2.1.325) uses in ``cwd``; None where it starts a new one.

        ``listed`` are the logs of project directories, where the caller has them already.

        Newest file time first. Skipped: names that are not a UUID, logs of sub-agents, logs that hold only
        sub-agent lines, only metadata or only garbage, and those of another existing directory with the same
        key. An empty log, or one without timestamps, *is* used.
        """
        resolved = _resolved(cwd)
        logs = [
            log
            for project in self._continue_dirs(cwd)
            for log in (listed or {}).get(project.path) or self.sessions(project)
            if log.is_uuid
        ]
        for log in sorted(logs, key=lambda log: log.mtime_ns, reverse=True):
            content = self._content(log)
            if content in _CONTINUED and not _is_a_neighbours(log, resolved):
                return LatestSession(log, content)
        return None

    def _continue_dirs(self, cwd: str) -> Iterator[ProjectDir]:
        """The directory of the client's key; for a long path else those whose name differs only in the hash."""
        key = project_key(_resolved(cwd))
        path = self.project_dir(key)
        if is_directory(path, self._problems):
            yield _project(path, path.is_symlink())
        elif same_long_prefix(key, key):
            yield from (project for project in self.projects() if same_long_prefix(project.name, key))

    def _content(self, log: SessionFile) -> LogContent | None:
        """Read up to the first decisive line; None for a log that cannot be read."""
        if log.size == 0:
            return LogContent.EMPTY
        content = LogContent.GARBAGE
        try:
            for line in peek_lines(log.path):
                if line.type not in ("user", "assistant"):
                    content = LogContent.METADATA if content is LogContent.GARBAGE else content
                elif line.is_sidechain is True:
                    content = LogContent.SIDECHAIN if content is not LogContent.NO_TIMESTAMPS else content
                elif _is_time(line.timestamp):
                    return LogContent.CONVERSATION
                else:
                    content = LogContent.NO_TIMESTAMPS
        except FileNotFoundError:
            return None
        except OSError as cause:
            self._problems.note(log.path, cause)
            return None
        return content

    # --- listing ----------------------------------------------------------------------------

    def _entries(self, directory: Path) -> list[os.DirEntry[str]]:
        return list_directory(directory, self._problems)

    def _files(self, entries: Iterable[os.DirEntry[str]], ending: str) -> Iterator[_Seen]:
        for entry in entries:
            status = regular_file(entry, self._problems) if entry.name.endswith(ending) else None
            if status is not None:
                path = Path(entry.path)
                yield path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev

    def _nested_agents(self, side_dir: Path, session: SessionId | None) -> Iterator[AgentFile]:
        for entries in agent_directories(self._problems, self._entries(side_dir)):
            yield from self._agents(entries, "nested", session)

    def _agents(
        self, entries: list[os.DirEntry[str]], layout: Literal["flat", "nested"], session: SessionId | None
    ) -> Iterator[AgentFile]:
        names = {entry.name for entry in entries}
        for seen in self._files((entry for entry in entries if role_of(entry.name) == "agent"), LOG):
            stem = seen[0].name.removesuffix(LOG)
            meta = f"{stem}.meta.json"
            yield AgentFile(
                *seen,
                agent_id=AgentId.parse(stem.removeprefix(AGENT)),
                meta_path=seen[0].with_name(meta) if meta in names else None,
                layout=layout,
                session=session,
            )


def _project(path: Path, is_link: bool) -> ProjectDir:
    return ProjectDir(ProjectKey.parse(path.name), path.name, path, is_link)


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None


def _is_a_neighbours(log: SessionFile, cwd: str) -> bool:
    """Whether it began in another existing directory with the same key, such as ``/a/b`` and ``/a-b``.

    If the first directory is missing or has another key, the project was moved: the client continues with it.
    """
    first = log.first_cwd()
    if first is None or first == cwd or project_key(first) != project_key(cwd) or _resolved(first) == cwd:
        return False
    try:
        return Path(first).is_dir()
    except OSError:  # not accessible: the client cannot see it either
        return False


def _resolved(cwd: str) -> str:
    """The path a key is computed from: links followed, except for a path of another operating system."""
    if os.name != "nt" and _WINDOWS_PATH.match(cwd):
        return cwd
    try:
        return os.path.realpath(cwd)
    except ValueError:  # a NUL inside: no such directory exists, but it has a key
        return cwd


def first_text(path: Path, field: Literal["cwd", "session_id"]) -> str | None:
    """The first value of a field in the head of a log; None where the head has none, or cannot be read."""
    try:
        for line in peek_lines(path, within=_HEAD):
            value = getattr(line, field)
            if isinstance(value, str) and value:
                return value
    except OSError:
        return None
    return None


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
