"""What is on this machine: homes, projects, sessions, bytes, the newest sessions, what is wrong, what expires.

The index knows the logs and what is damaged in them. Without one, listing costs a directory scan and a look
at the first lines of logs, and looking for damage means reading every byte: it starts with the newest logs
and stops when the time is up; the answer then says how much was looked at.

The findings are those two. The rules about conversations, and credentials, are left to `recollect check`.
"""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.errors import RecollectError
from recollect.index import catalogue
from recollect.index.kept_results import codes_of_sessions
from recollect.model.checks import CODES
from recollect.model.findings import Finding, Severity
from recollect.model.ids import short_id
from recollect.services.archive.expiry import ExpirySummary, expiring
from recollect.services.archive.protection import Protection, protection
from recollect.services.check.home_checks import WITHIN_DAYS, quick_findings
from recollect.services.foreign.homes import deletion_warnings, mirror_problems
from recollect.services.indexing.access import OpenIndex
from recollect.services.list import ListedSession, ListQuery, listed
from recollect.storage.home import AgentFile, ClaudeHome, SessionFile
from recollect.system.locations import HomeRoot, data_dir
from recollect.system.paths import CLAUDE

LOOK_SECONDS = 1.2
_UNREADABLE = "unreadable-file"
SAMPLE_ORIGIN = "built-in sample"
_LEAST_SECONDS = 0.3


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
    findings: tuple[Finding, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every byte was looked at."""
        return self.bytes_checked >= self.bytes_total


class ResumeSummary(Struct, frozen=True):
    """What the last check said about resuming, of the logs that are still as they were: errors by code."""

    sessions: int
    by_code: dict[str, int]
    checked: int


class Overview(Struct, frozen=True):
    """The answer to "what is here?"."""

    homes: tuple[HomeSummary, ...]
    projects: int
    sessions: int  # in the homes
    only_archived: int  # more that only the archive has
    agents: int
    bytes: int
    newest: tuple[ListedSession, ...]
    damage: DamageSummary
    problems: tuple[str, ...]
    expiring: ExpirySummary
    findings: tuple[Finding, ...]
    protection: Protection | None
    resume: ResumeSummary | None


class _HomeScan(Struct):
    """Everything one scan of one home saw."""

    home: ClaudeHome
    summary: HomeSummary
    sessions: list[SessionFile]
    logs: list[SessionFile | AgentFile]


def overview(
    homes: Sequence[HomeRoot],
    opened: OpenIndex,
    *,
    newest: int = 5,
    look_seconds: float | None = LOOK_SECONDS,
    progress: Callable[[int, int], None] | None = None,
    data: Path | None = None,
    now: dt.datetime | None = None,
) -> Overview:
    """Look at the homes. ``data`` is our own directory, with the archive and the journal of changes.

    ``look_seconds`` bounds the search for damage where there is no index; None looks at every byte.
    """
    begun = time.monotonic()
    ours, moment = data or data_dir(), now or dt.datetime.now(dt.UTC)
    found = [_scan(_home(root, opened), root) for root in homes]
    problems = [f"{problem.path}: {problem.reason}" for one in found for problem in one.home.problems]
    lacking = [one for root in homes for one in mirror_problems(root.path) if not one.is_unknown]
    problems += [f"{one.path}: {one.reason}" for one in lacking]
    problems += deletion_warnings(homes)
    sessions = [session for one in found for session in one.sessions]
    logs = sorted(
        itertools.chain.from_iterable(one.logs for one in found), key=lambda log: log.mtime_ns, reverse=True
    )
    own = [root for root in homes if _is_own(root)]
    looked_after = [one.home for one in found if _is_looked_after(one.summary)]
    at_large = list(quick_findings(looked_after, ours, moment)) if looked_after else []
    if opened.database is not None and look_seconds is not None:
        damage = _known_damage(opened, logs)
    else:
        if look_seconds is not None:
            least = min(_LEAST_SECONDS, look_seconds)
            look_seconds = max(least, look_seconds - (time.monotonic() - begun))
        damage = look_for_damage(logs, look_seconds, progress)
    shown = listed(homes, opened, ListQuery(limit=newest, with_counts=False, with_usage=False), data=ours)
    return Overview(
        homes=tuple(one.summary for one in found),
        projects=sum(one.summary.projects for one in found),
        sessions=len(sessions),
        only_archived=shown.only_archived,
        agents=sum(one.summary.agents for one in found),
        bytes=sum(log.size for log in logs),
        newest=tuple(shown.sessions),
        damage=damage,
        problems=tuple(problems),
        expiring=_expiring(looked_after, ours, moment),
        findings=(*damage.findings, *at_large),
        protection=protection(ours, own, moment) if own else None,
        resume=_resume(opened),
    )


def _resume(opened: OpenIndex) -> ResumeSummary | None:
    """None where nothing was checked."""
    checked = codes_of_sessions(opened.database, "check") if opened.database is not None else []
    by_code = Counter(code for codes in checked for code in codes.split())
    return ResumeSummary(sum(map(bool, checked)), dict(by_code), len(checked)) if checked else None


def _home(root: HomeRoot, opened: OpenIndex) -> ClaudeHome:
    if opened.database is None or not root.exists:
        return ClaudeHome(root.path, root.config_file)
    from recollect.services.indexed_home import IndexedHome

    return IndexedHome(root, opened.database)


def _is_own(home: HomeSummary | HomeRoot) -> bool:
    """Whether it holds sessions of the user, of any agent: not the built-in sample."""
    return home.exists and home.origin != SAMPLE_ORIGIN


def _is_looked_after(home: HomeSummary) -> bool:
    """Whether a client may delete something in it: not in the built-in sample, nor in a mirror."""
    return _is_own(home) and home.agent == CLAUDE


def _expiring(homes: Sequence[ClaudeHome], data: Path, now: dt.datetime) -> ExpirySummary:
    soon = expiring(homes, data, now, WITHIN_DAYS)
    lost = sum(not one.is_archived for one in soon)
    overdue = sum(one.expires_at <= now for one in soon)
    return ExpirySummary(WITHIN_DAYS, len(soon), lost, soon[0].expires_at if soon else None, overdue)


def _scan(home: ClaudeHome, root: HomeRoot) -> _HomeScan:
    if not root.exists:
        return _HomeScan(home, HomeSummary(root.path, root.origin, exists=False), [], [])
    projects = 0
    sessions: list[SessionFile] = []
    agents: list[AgentFile] = []
    for project in home.projects():
        projects += 1
        sessions += home.sessions(project)
        agents += home.project_agents(project)
    logs: list[SessionFile | AgentFile] = [*sessions, *agents]
    size = sum(log.size for log in logs)
    summary = HomeSummary(
        root.path, root.origin, True, projects, len(sessions), len(agents), size, root.agent, root.source
    )
    return _HomeScan(home, summary, sessions, logs)


def _known_damage(opened: OpenIndex, logs: Sequence[SessionFile | AgentFile]) -> DamageSummary:
    """What the index found when it read them, every byte."""
    assert opened.database is not None  # noqa: S101 - for the type checker: the caller has looked
    codes: dict[str, Counter[str]] = {}
    for path, code, lines in catalogue.damage(opened.database):
        if lines:  # none where what was damage in a file of another agent is not any more
            codes.setdefault(path, Counter())[code] = lines
    for path, _ in opened.refreshed.problems if opened.refreshed is not None else ():
        codes[path] = Counter([_UNREADABLE])
    damaged = [log for log in logs if str(log.path) in codes] if codes else []
    total = sum(log.size for log in logs)
    summed = sum((codes[str(log.path)] for log in damaged), Counter[str]())
    findings = [finding for log in damaged for finding in _findings(log, codes[str(log.path)])]
    paths = tuple(log.path for log in damaged)
    return DamageSummary(summed.total(), dict(summed), paths, len(logs), total, total, tuple(findings))


def look_for_damage(
    logs: Sequence[SessionFile | AgentFile],
    seconds: float | None,
    progress: Callable[[int, int], None] | None = None,
) -> DamageSummary:
    """Count the lines that cannot be read, in the order given, until the time is up."""
    total = sum(log.size for log in logs)
    deadline = None if seconds is None else time.monotonic() + seconds
    codes: Counter[str] = Counter()
    damaged: list[Path] = []
    findings: list[Finding] = []
    checked = count = 0
    for log in logs:
        if deadline is not None and time.monotonic() > deadline:
            break
        found = _damage_in(log.path)
        codes.update(found)
        if found:
            damaged.append(log.path)
            findings += _findings(log, found)
        checked += log.size
        count += 1
        if progress is not None:
            progress(checked, total)
    return DamageSummary(codes.total(), dict(codes), tuple(damaged), count, checked, total, tuple(findings))


def _findings(log: SessionFile | AgentFile, codes: Counter[str]) -> list[Finding]:
    """One for each kind of damage in a log; `recollect check` gives each line its own."""
    session = str(log.id) if isinstance(log, SessionFile) and log.id else None
    agent = str(log.agent_id) if isinstance(log, AgentFile) and log.agent_id else None
    if isinstance(log, AgentFile):
        owner = log.owner()
        session = str(owner) if owner else None
    found = []
    for code, count in codes.items():
        rule = CODES["unreadable" if code == _UNREADABLE else code]
        # Whether a message is lost, and whether a repair mends it, only a diagnosis tells; `check` makes one.
        severity = rule.severity if code == _UNREADABLE else Severity.WARNING
        fix = rule.fix if code == _UNREADABLE else f"recollect check {short_id(session or log.path.stem)}"
        what = "the log cannot be read" if code == _UNREADABLE else f"{count:,} line{'s' * (count > 1)}"
        found.append(Finding(code, severity, what, fix, str(log.path), session, agent))
    return found


def _damage_in(path: Path) -> Counter[str]:
    # Imported where there is no index: to look at lines takes more than all the rest.
    from recollect.model.line_views.damage import damage_in
    from recollect.storage.logs.reader import read_lines

    try:
        return damage_in(read_lines(path))
    except RecollectError:
        return Counter([_UNREADABLE])
