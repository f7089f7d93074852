"""What is on this machine: homes, projects, sessions, bytes, the newest sessions, what is wrong, what expires.

Listing costs one directory scan, and so do the rules about homes as a whole (settings, modes, folders
that are shared, sessions about to expire): they look at names, times and the first lines of logs. Looking
for damage means reading every byte, so it starts with the newest logs and stops when the time is up that
both have together; the answer then says how much was looked at (an incomplete answer says so).

The findings are those two. The rules about conversations, and credentials, are left to `recollect check`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.errors import RecollectError
from recollect.model.checks import CODES
from recollect.model.damage import Damage
from recollect.model.findings import Finding
from recollect.model.line_views.scan import damage_of
from recollect.services.archive.archive import ExpirySummary, archive_at, expiring
from recollect.services.check.home_checks import WITHIN_DAYS, home_findings
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.home import AgentFile, ClaudeHome, SessionFile
from recollect.storage.live import live_sessions
from recollect.storage.logs.reader import read_lines
from recollect.storage.logs.summary import glance
from recollect.system.locations import HomeRoot, data_dir

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


class SessionSummary(Struct, frozen=True):
    """A line of the list of newest sessions."""

    id: str
    title: str
    cwd: str
    last_at: dt.datetime | None
    modified_at: dt.datetime
    bytes: int
    live: bool


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


class Overview(Struct, frozen=True):
    """The answer to "what is here?"."""

    homes: tuple[HomeSummary, ...]
    projects: int
    sessions: int
    agents: int
    bytes: int
    newest: tuple[SessionSummary, ...]
    damage: DamageSummary
    problems: tuple[str, ...]
    expiring: ExpirySummary
    findings: tuple[Finding, ...]


class _HomeScan(Struct):
    """Everything one scan of one home saw."""

    summary: HomeSummary
    sessions: list[SessionFile]
    logs: list[SessionFile | AgentFile]


def overview(
    homes: Sequence[HomeRoot],
    *,
    newest: int = 5,
    look_seconds: float | None = LOOK_SECONDS,
    progress: Callable[[int, int], None] | None = None,
    data: Path | None = None,
    now: dt.datetime | None = None,
) -> Overview:
    """Look at the homes. ``look_seconds`` bounds the search for damage; None looks at every byte.

    ``data`` is our own directory, with the archive and the journal of changes.
    """
    begun = time.monotonic()
    ours, moment = data or data_dir(), now or dt.datetime.now(dt.UTC)
    found: list[_HomeScan] = []
    live: set[str] = set()
    problems: list[str] = []
    for root in homes:
        home = ClaudeHome(root.path, root.config_file)
        found.append(_scan(home, root))
        live |= {str(one.session_id) for one in live_sessions(home)}
        problems += [f"{problem.path}: {problem.reason}" for problem in home.problems]
    sessions = [session for one in found for session in one.sessions]
    logs = sorted(
        itertools.chain.from_iterable(one.logs for one in found), key=lambda log: log.mtime_ns, reverse=True
    )
    at_large = _at_large(homes, ours, moment)
    if look_seconds is not None:
        least = min(_LEAST_SECONDS, look_seconds)
        look_seconds = max(least, look_seconds - (time.monotonic() - begun))
    damage = look_for_damage(logs, look_seconds, progress)
    return Overview(
        homes=tuple(one.summary for one in found),
        projects=sum(one.summary.projects for one in found),
        sessions=len(sessions),
        agents=sum(one.summary.agents for one in found),
        bytes=sum(log.size for log in logs),
        newest=tuple(_newest(sessions, newest, live)),
        damage=damage,
        problems=tuple(problems),
        expiring=_expiring(homes, found, ours, moment),
        findings=(*damage.findings, *at_large),
    )


def _is_looked_after(root: HomeRoot) -> bool:
    """The built-in sample is nobody's home: no client will delete anything in it."""
    return root.exists and root.origin != SAMPLE_ORIGIN


def _at_large(roots: Sequence[HomeRoot], data: Path, now: dt.datetime) -> list[Finding]:
    """What concerns homes as a whole; credentials are not looked for."""
    chosen = [root for root in roots if _is_looked_after(root)]
    if not chosen:
        return []
    home = Home(*(root.path for root in chosen), data=data)
    home.homes = [ClaudeHome(root.path, root.config_file) for root in chosen]
    return list(home_findings(home, data, now, with_secrets=False))


def _expiring(
    roots: Sequence[HomeRoot], found: Sequence[_HomeScan], data: Path, now: dt.datetime
) -> ExpirySummary:
    sessions = [
        Session(ClaudeHome(root.path, root.config_file), log)
        for root, one in zip(roots, found, strict=True)
        if _is_looked_after(root)
        for log in one.sessions
    ]
    soon = expiring(sessions, archive_at(data), now, WITHIN_DAYS)
    lost = sum(not one.is_archived for one in soon)
    return ExpirySummary(WITHIN_DAYS, len(soon), lost, soon[0].expires_at if soon else None)


def _scan(home: ClaudeHome, root: HomeRoot) -> _HomeScan:
    if not root.exists:
        return _HomeScan(HomeSummary(root.path, root.origin, exists=False), [], [])
    projects = 0
    sessions: list[SessionFile] = []
    agents: list[AgentFile] = []
    for project in home.projects():
        projects += 1
        sessions += home.sessions(project)
        agents += home.project_agents(project)
    logs: list[SessionFile | AgentFile] = [*sessions, *agents]
    size = sum(log.size for log in logs)
    summary = HomeSummary(root.path, root.origin, True, projects, len(sessions), len(agents), size)
    return _HomeScan(summary, sessions, logs)


def _newest(sessions: Iterable[SessionFile], count: int, live: set[str]) -> list[SessionSummary]:
    """Chosen by file time, which costs nothing; put in order by what the entries say (S11)."""
    logs = heapq.nlargest(count, sessions, key=lambda log: log.mtime_ns)
    found = []
    for log in logs:
        with contextlib.suppress(RecollectError):  # an unreadable log is counted below as damage
            found.append(_summary(log, live))
    return sorted(found, key=lambda one: one.last_at or one.modified_at, reverse=True)


def _summary(log: SessionFile, live: set[str]) -> SessionSummary:
    seen = glance(log.path)
    name = str(log.id) if log.id else log.path.name
    return SessionSummary(
        id=name,
        title=seen.title or "",
        cwd=seen.cwd or "",
        last_at=seen.last_at,
        modified_at=dt.datetime.fromtimestamp(log.mtime_ns / 1e9, dt.UTC),
        bytes=log.size,
        live=name in live,
    )


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
            findings += _findings(log, Counter(found))
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
        # Whether a repair mends it only a diagnosis tells; `check` makes one.
        fix = rule.fix if code == _UNREADABLE else f"recollect check {(session or log.path.stem)[:8]}"
        what = "the log cannot be read" if code == _UNREADABLE else f"{count:,} line{'s' * (count > 1)}"
        found.append(Finding(code, rule.severity, what, fix, str(log.path), session, agent))
    return found


def _damage_in(path: Path) -> list[str]:
    try:
        items = (item if isinstance(item, Damage) else damage_of(item) for item in read_lines(path))
        return [str(item.code) for item in items if item is not None]
    except RecollectError:
        return [_UNREADABLE]
