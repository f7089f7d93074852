"""What is on this machine: homes, projects, sessions, bytes, the newest sessions, what is wrong, what expires.

The index knows the logs and what is damaged in them: every byte was read for it.

The findings are those two. The rules about conversations, and credentials, are left to `recollect doctor`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.agents.homes import deletion_warnings
from recollect.agents.mirror_files import problems_of_mirror
from recollect.ask.cost.report import RecentCosts
from recollect.ask.doctor.home_checks import WITHIN_DAYS, quick_findings
from recollect.ask.list import ListQuery, list_sessions
from recollect.ask.protection import ExpirySummary, Protection, expiring, read_protection
from recollect.errors import RecollectError
from recollect.index import catalogue
from recollect.index.access import OpenIndex
from recollect.index.calls import last_step
from recollect.index.file_results import codes_of_sessions
from recollect.index.frame import ScannedLog
from recollect.index.refresh import unread_logs
from recollect.index.schema import SESSION
from recollect.model.checks.rules import CODES, Finding, Severity
from recollect.model.lines.ids import AgentId, SessionId, hint_name
from recollect.model.session import SessionSummary
from recollect.model.todo import TodoStatus
from recollect.store.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
from recollect.store.todo_files import TodoFiles
from recollect.system.locations import HomeRoot, data_dir
from recollect.system.paths import CLAUDE

_UNREADABLE = "unreadable-file"
SAMPLE_ORIGIN = "built-in sample"


class HomeSummary(Struct, frozen=True):
    """One home and how much it holds."""

    path: Path
    origin: str
    exists: bool
    projects: int = 0
    sessions: int = 0
    agents: int = 0
    bytes: int = 0
    agent: str = CLAUDE
    source: Path | None = None  # the home of another agent, whose mirror ``path`` is


class DamageSummary(Struct, frozen=True):
    """Lines that could not be read, in the logs that were looked at."""

    lines: int
    by_code: dict[str, int]
    logs: tuple[Path, ...]
    logs_checked: int
    bytes_checked: int
    bytes_total: int
    complete: bool  # whether every byte was looked at
    findings: tuple[Finding, ...] = ()


class ResumeSummary(Struct, frozen=True):
    """What the last check said about resuming, of the logs that are still as they were: errors by code."""

    sessions: int
    by_code: dict[str, int]
    checked: int


class UnfinishedSession(Struct, frozen=True):
    """The newest session that nobody has open and that was left in the middle. ``ended_in`` is what its log ends with: a tool call
    that failed, a question of the agent, a prompt without an answer; null where only todos are left."""

    session: str
    path: str
    title: str
    at: dt.datetime
    ended_in: Literal["error", "question", "prompt"] | None
    tool: str | None
    open_todos: int


class MachineSummary(Struct, frozen=True, kw_only=True):
    """What is here, and what needs attention. ``findings`` are about the homes; ``damage`` has those of logs."""

    homes: tuple[HomeSummary, ...]
    projects: int
    sessions: int  # in the homes
    only_archived: int  # more that only the archive has
    agents: int
    bytes: int
    damage: DamageSummary
    problems: tuple[str, ...]
    expiring: ExpirySummary
    findings: tuple[Finding, ...]
    protection: Protection | None
    resume: ResumeSummary | None
    unfinished: UnfinishedSession | None


class Overview(MachineSummary, frozen=True, kw_only=True):
    """The answer to "what is here?"."""

    newest: tuple[SessionSummary, ...]


class OverviewDocument(MachineSummary, frozen=True, kw_only=True):
    """The same as JSON, with the costs of the last days."""

    sample: bool
    cost: RecentCosts
    newest: tuple[SessionSummary, ...]


def overview_document(answer: Overview, spent: RecentCosts, *, is_sample: bool) -> OverviewDocument:
    return OverviewDocument(**structs.asdict(answer) | {"sample": is_sample, "cost": spent})


class _HomeScan(Struct):
    """Everything one scan of one home saw."""

    home: ClaudeHome
    summary: HomeSummary
    sessions: list[SessionFile]
    logs: list[ScannedLog]


def overview(
    homes: Sequence[HomeRoot],
    opened: OpenIndex,
    *,
    newest: int = 5,
    data: Path | None = None,
    now: dt.datetime | None = None,
) -> Overview:
    """Look at the homes. ``data`` is our own directory, with the archive and the journal of changes."""
    ours, moment = data or data_dir(), now or dt.datetime.now(dt.UTC)
    found = [_scan(root, opened) for root in homes]
    problems = [f"{problem.path}: {problem.reason}" for one in found for problem in one.home.problems]
    lacking = [one for root in homes for one in problems_of_mirror(root.path) if not one.is_unknown]
    problems += [f"{one.path}: {one.reason}" for one in lacking]
    problems += deletion_warnings(homes)
    sessions = [session for one in found for session in one.sessions]
    logs = sorted(
        itertools.chain.from_iterable(one.logs for one in found), key=lambda log: log.mtime, reverse=True
    )
    own = [root for root in homes if _is_own(root)]
    looked_after = [one.home for one in found if (_is_own(one.summary) and one.summary.agent == CLAUDE)]
    at_large = list(quick_findings(looked_after, ours, moment)) if looked_after else []
    damage = _known_damage(opened, logs)
    shown = list_sessions(homes, opened, ListQuery(limit=newest))
    return Overview(
        homes=tuple(one.summary for one in found),
        projects=sum(one.summary.projects for one in found),
        sessions=len(sessions),
        only_archived=shown.only_archived,
        agents=sum(one.summary.agents for one in found) + catalogue.agents_inside(opened.database),
        bytes=sum(log.size for log in logs),
        newest=tuple(shown.sessions),
        damage=damage,
        problems=tuple(problems),
        expiring=_expiring(looked_after, ours, moment),
        findings=tuple(at_large),
        protection=read_protection(ours, own, moment) if own else None,
        resume=_resume(opened),
        unfinished=_unfinished(opened, shown.sessions, looked_after),
    )


def _unfinished(
    opened: OpenIndex, sessions: Sequence[SessionSummary], homes: Sequence[ClaudeHome]
) -> UnfinishedSession | None:
    """Of these sessions, newest first. Todos are those that the agent keeps in files of its own."""
    own = {str(home.root): home for home in homes}
    for one in sessions:
        if one.live or one.is_archive_only or one.continued_in is not None:
            continue
        ending = last_step(opened.database, one.path)
        todos = _open_todos(own[one.home], one.id) if one.home in own else 0
        if ending is not None or todos:
            ended_in, tool = ending or (None, None)
            return UnfinishedSession(one.id, one.path, one.title, one.shown_at, ended_in, tool, todos)
    return None


def _open_todos(home: ClaudeHome, name: str) -> int:
    session = SessionId.parse(name)
    if session is None:
        return 0
    files = TodoFiles(home)
    try:
        states = [one.status for one in files.read(session).items] + [
            one.status for one in files.tasks(session)
        ]
    except RecollectError:  # `recollect show --todos` says what is wrong with it
        return 0
    return sum(state in {TodoStatus.PENDING, TodoStatus.IN_PROGRESS} for state in states)


def _resume(opened: OpenIndex) -> ResumeSummary | None:
    """None where nothing was checked."""
    checked = codes_of_sessions(opened.database, "check")
    by_code = Counter(code for codes in checked for code in codes.split())
    return ResumeSummary(sum(map(bool, checked)), dict(by_code), len(checked)) if checked else None


def _is_own(home: HomeSummary | HomeRoot) -> bool:
    """Whether it holds sessions of the user, of any agent: not the built-in sample."""
    return home.exists and home.origin != SAMPLE_ORIGIN


def _expiring(homes: Sequence[ClaudeHome], data: Path, now: dt.datetime) -> ExpirySummary:
    soon = expiring(homes, data, now, WITHIN_DAYS)
    lost = sum(not one.is_archived for one in soon)
    overdue = sum(one.expires_at <= now for one in soon)
    return ExpirySummary(WITHIN_DAYS, len(soon), lost, soon[0].expires_at if soon else None, overdue)


def _scan(root: HomeRoot, opened: OpenIndex) -> _HomeScan:
    if not root.exists:
        home = ClaudeHome(root.path, root.config_file)
        return _HomeScan(home, HomeSummary(root.path, root.origin, exists=False), [], [])
    logs = list(catalogue.logs(opened.database, os.fspath(root.path)))
    indexed = IndexedHome(root, logs)
    projects, sessions = list(indexed.projects()), list(indexed.sessions())
    size, agents = sum(log.size for log in logs), len(logs) - len(sessions)
    summary = HomeSummary(
        root.path, root.origin, True, len(projects), len(sessions), agents, size, root.agent, root.source
    )
    return _HomeScan(indexed, summary, sessions, logs)


def _known_damage(opened: OpenIndex, logs: Sequence[ScannedLog]) -> DamageSummary:
    """What the index found when it read them, every byte."""
    codes: dict[str, Counter[str]] = {}
    for path, code, lines in catalogue.damage(opened.database):
        if lines:  # none where what was damage in a file of another agent is not any more
            codes.setdefault(path, Counter())[code] = lines
    for path, _ in opened.refreshed.problems if opened.refreshed is not None else ():
        codes[path] = Counter([_UNREADABLE])
    damaged = [
        _session_file(log) if log.role == SESSION else _agent_file(log) for log in logs if log.path in codes
    ]
    unread = set(unread_logs(opened.database)) if opened.coverage else set()
    checked = [log for log in logs if log.path not in unread]
    total, done = (sum(log.size for log in some) for some in (logs, checked))
    summed = sum((codes[str(log.path)] for log in damaged), Counter[str]())
    findings = [finding for log in damaged for finding in _findings(log, codes[str(log.path)])]
    paths = tuple(log.path for log in damaged)
    return DamageSummary(
        summed.total(), dict(summed), paths, len(checked), done, total, not unread, tuple(findings)
    )


def _findings(log: SessionFile | AgentFile, codes: Counter[str]) -> list[Finding]:
    """One for each kind of damage in a log; `recollect doctor` gives each line its own."""
    session = str(log.id) if isinstance(log, SessionFile) and log.id else None
    agent = str(log.agent_id) if isinstance(log, AgentFile) and log.agent_id else None
    if isinstance(log, AgentFile):
        owner = log.owner()
        session = str(owner) if owner else None
    found = []
    for code, count in codes.items():
        rule = CODES["unreadable" if code == _UNREADABLE else code]
        # Whether a message is lost, and whether a repair mends it, only a diagnosis tells; `doctor` makes one.
        severity = rule.severity if code == _UNREADABLE else Severity.WARNING
        fix = (
            rule.fix
            if code == _UNREADABLE
            else f"recollect doctor {hint_name(session or log.path.stem, log.path)}"
        )
        what = "the log cannot be read" if code == _UNREADABLE else f"{count:,} line{'s' * (count > 1)}"
        found.append(Finding(code, severity, what, fix, str(log.path), session, agent))
    return found


# ---- a home as the index knows it ------------------------------------------------------------------------


class IndexedSessionFile(SessionFile, frozen=True):
    """A session's log with the directory the index knows."""

    cwd: str | None

    def first_cwd(self) -> str | None:
        """The working directory of the first entry that names one."""
        return self.cwd


class IndexedHome(ClaudeHome):
    """A home as the index saw it last: its logs are those of the index."""

    def __init__(self, root: HomeRoot, logs: Sequence[ScannedLog]) -> None:
        super().__init__(root.path, root.config_file)
        self._sessions: dict[str, list[SessionFile]] = {}
        self._agent_rows: dict[str, list[ScannedLog]] = {}
        below = len(os.path.join(root.path, "projects", ""))  # noqa: PTH118 - as the walk spells it
        for row in logs:
            project = row.path[below:].partition("/")[0]
            if row.role == SESSION:
                self._sessions.setdefault(project, []).append(_session_file(row))
            else:
                self._agent_rows.setdefault(project, []).append(row)

    def sessions(self, project: ProjectDir | None = None) -> Iterator[SessionFile]:
        """The logs of one project, or of all, by name."""
        for directory in self.projects() if project is None else (project,):
            yield from self._sessions.get(directory.path.name, ())

    def project_agents(self, project: ProjectDir) -> Iterator[AgentFile]:
        """Every sub-agent's log of a project."""
        return map(_agent_file, self._agent_rows.get(project.path.name, ()))


def _session_file(row: ScannedLog) -> SessionFile:
    name = SessionId.parse(row.session or "")
    return IndexedSessionFile(
        Path(row.path), row.size, row.mtime, row.inode, row.device, id=name, cwd=row.cwd
    )


def _agent_file(row: ScannedLog) -> AgentFile:
    return AgentFile(
        Path(row.path),
        row.size,
        row.mtime,
        row.inode,
        row.device,
        agent_id=AgentId.parse(row.agent or ""),
        meta_path=None,
        layout="nested" if "/subagents/" in row.path else "flat",
        session=SessionId.parse(row.session or ""),
    )
