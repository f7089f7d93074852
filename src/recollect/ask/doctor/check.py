"""Check sessions and homes: every rule of ``model/checks``, as findings with a place and a fix.

Each log is diagnosed by ``model/repair/plan.py``, which ``doctor --fix`` uses too: where a finding says that a repair
fixes it, it does. Nothing is written and nothing is locked: a session that a client has open can be checked
too.

Logs that did not change are not read again: their reports are in the index. If one rule is violated very often
in a log, only its first findings are listed (``log_report``); the summary counts all of them.
"""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from recollect.agents.homes import agent_of_log, lost_beginnings
from recollect.ask.doctor.home_checks import (
    OwnedAgents,
    home_finding,
    owned_agents,
    quick_findings,
)
from recollect.ask.doctor.log_report import (
    LogReport,
    decoded,
    identity_of,
    report_job,
    reported,
    rules_version,
)
from recollect.ask.homes import Homes
from recollect.ask.secrets.scan import scan
from recollect.ask.sessions.session import Session
from recollect.errors import RecollectError
from recollect.index.file_results import FileResults, file_results
from recollect.model.checks.lines import LOST_BEGINNING, beginning_is_in
from recollect.model.checks.rules import ABOUT_LINES, CODES, Finding, Severity
from recollect.model.lines.ids import hint_name
from recollect.store.home import AgentFile, LogFile
from recollect.system.locations import data_dir
from recollect.system.paths import CLAUDE
from recollect.system.pool import ProgressCallback, WorkerPool, bundles, cores, largest_first

if TYPE_CHECKING:
    from recollect.model.repair.plan import Diagnosis


class SessionCheck(Protocol):
    """A rule of the caller. Its ``name``, or the name of the function, comes before the codes of its findings."""

    def __call__(self, session: Session, /) -> Iterable[Finding]:
        """What is wrong with a session. Codes are shown as ``NAME/code``; place and session may be left out."""


def rule_findings(rules: Iterable[SessionCheck], session: Session) -> Iterator[Finding]:
    """What a caller's own rules say of a session; what they raise reaches the caller."""
    for rule in rules:
        name = getattr(rule, "name", None) or getattr(rule, "__name__", type(rule).__name__)
        for finding in rule(session):
            yield structs.replace(
                finding,
                code=f"{name}/{finding.code}",
                path=finding.path or str(session.path),
                session=finding.session or session.id,
                repair=None,
            )


AsFound = Callable[[Session | None, Sequence[Finding]], None]
# Below this, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 16 << 20
# Small logs go to a process together.
_BUNDLE = 1 << 20
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class CheckSummary(Struct, frozen=True):
    """How much was checked, and how often each rule was violated. ``valid`` and ``damaged`` count lines, as lists do."""

    sessions: int
    logs: int
    lines: int
    valid: int
    damaged: int
    bytes: int
    by_code: dict[str, int]
    by_severity: dict[str, int]
    kinds: dict[str, dict[str, int]]  # by severity, then by code: they add up to the other two


class CheckReport(Struct, frozen=True):
    """The findings: errors first, then warnings, then remarks; of each by session, those about a home last."""

    findings: list[Finding]
    summary: CheckSummary

    @property
    def exit_code(self) -> int:
        """0 if there is nothing important, 1 if there is, 4 if something cannot be read at all."""
        if self.summary.by_code.get("unreadable"):
            return 4
        matters = (Severity.ERROR.value, Severity.WARNING.value)
        return 1 if any(self.summary.by_severity.get(one) for one in matters) else 0


def check(
    home: Homes,
    sessions: Sequence[Session] | None = None,
    *,
    data: Path | None = None,
    now: dt.datetime | None = None,
    with_secrets: bool = True,
    rules: Sequence[SessionCheck] = (),
    progress: ProgressCallback | None = None,
    known: Mapping[Path, Diagnosis] | None = None,
    is_kept: bool = True,
    as_found: AsFound | None = None,
) -> CheckReport:
    """Check these sessions with their sub-agents; by default all of them and the homes themselves.

    ``rules`` are the caller's own. ``known`` has diagnoses that were made already, by the path of the log. With ``is_kept`` a log that did not
    change since it was checked is not read again, if there is an index.

    ``as_found`` gets what is found about the homes (for None), then the findings in the logs of each session that has
    any, newest session first, as soon as it and all before it are checked. Credentials come only with the report. That
    order, and the report, are the same with any number of processes.
    """
    chosen = list(home.sessions()) if sessions is None else list(sessions)
    report = _FindingCollector([one.root for one in home.homes])
    agents = owned_agents(home.homes) if sessions is None else {}
    logs = list(_logs(agents, chosen)) if sessions is None else list(_own_logs(chosen))
    own = data or data_dir()
    moment = now or dt.datetime.now(dt.UTC)
    quick = [] if sessions is not None else list(quick_findings(home.homes, own, moment))
    if as_found is not None and quick:
        as_found(None, quick)
    names = {str(session.id): session for session in chosen}
    reports = _reports(
        home,
        logs,
        known or {},
        is_kept=is_kept,
        is_listed_now=sessions is None,
        progress=progress,
        in_order=as_found is not None,
    )
    for name, of_session in itertools.groupby(reports, key=operator.itemgetter(0)):
        listed = [finding for _, log, found in of_session for finding in report.add_log(found, log)]
        if as_found is not None and listed and name in names:
            as_found(names[name], listed)
    for session in chosen:
        for finding in rule_findings(rules, session):
            report.add(finding)
    for finding in quick:
        report.add(finding)
    if sessions is None and with_secrets:
        for finding in _secret_findings(home, own):
            report.add(finding)
    return report.checked(len(chosen))


def _secret_findings(home: Homes, data: Path) -> Iterator[Finding]:
    """How many credentials there are in the homes."""
    try:
        found = scan(home, data=data)
    except RecollectError as problem:  # the key of the fingerprints is damaged
        yield home_finding("unreadable", problem.message, data)
        return
    for path, reason in found.problems:
        yield home_finding("unreadable", f"not searched for credentials: {reason}", path)
    count = found.secrets
    if count:
        yield home_finding(
            "secrets",
            f"{count} different credential{'s' if count > 1 else ''}",
            home.homes[0].root if home.homes else "",
        )


def _own_logs(sessions: Iterable[Session]) -> Iterator[tuple[str, LogFile]]:
    for session in sessions:
        yield session.id, session.file
        for agent in session.agents():
            yield session.id, agent


def _logs(agents: OwnedAgents, sessions: Iterable[Session]) -> Iterator[tuple[str, LogFile]]:
    """Every log of the homes, each session followed by its agents; agents without a session come last."""
    by_owner: dict[tuple[Path, str], list[AgentFile]] = {}
    for project, found in agents.items():
        for agent, owner in found:
            by_owner.setdefault((project, str(owner or "")), []).append(agent)
    for session in sessions:
        yield session.id, session.file
        for agent in by_owner.pop((session.path.parent, session.id), ()):
            yield session.id, agent
    for (_, name), left in by_owner.items():
        yield from ((name, agent) for agent in left)


# ---- the report ------------------------------------------------------------------------------------------


class _FindingCollector:
    """Findings in order, limited per rule."""

    def __init__(self, homes: Sequence[Path] = ()) -> None:
        self._homes = homes
        self._lost = {log: base for home in homes for log, base in lost_beginnings(home).items()}
        self.logs = self.lines = self.damaged = self.bytes = 0
        self._findings: list[tuple[int, int, Finding]] = []
        self._kinds: Counter[tuple[Severity, str]] = Counter()
        self._groups: dict[str, int] = {}
        self._unreadable: set[str] = set()

    def add_log(self, found: LogReport, log: LogFile) -> list[Finding]:
        """Add what was found in a log; returns what is listed of it."""
        self.logs += 1
        self.lines += found.lines
        self.damaged += found.damaged
        self.bytes += log.size
        lost = self._lost_in(found, log)
        if not found.findings and not found.more:
            return lost
        # What Claude's client would make of a conversation says nothing about another agent's.
        is_foreign = self._is_foreign(log)
        for severity, code, more in found.more:
            if not is_foreign or code in ABOUT_LINES:
                self._kinds[severity, code] += more
        listed = found.findings
        if is_foreign:
            listed = [_without_repair(one) for one in listed if one.code in ABOUT_LINES]
        for finding in listed:
            self.add(finding)
        return listed + lost

    def _lost_in(self, found: LogReport, log: LogFile) -> list[Finding]:
        """A beginning that a mirror knows to be lost although its log begins with an entry: of a fork of a fork, or here in part."""
        base = self._lost.get(str(log.path))
        if base is None or any(one.code == LOST_BEGINNING for one in found.findings):
            return []
        whose = log.owner() if isinstance(log, AgentFile) else None
        finding = home_finding(LOST_BEGINNING, beginning_is_in(base), log.path, str(whose or log.path.stem))
        self.add(finding)
        return [finding]

    def _is_foreign(self, log: LogFile) -> bool:
        home = next((root for root in self._homes if log.path.is_relative_to(root)), log.path.parent)
        return agent_of_log(str(home), str(log.path)) != CLAUDE

    def add(self, finding: Finding) -> None:
        if finding.code == "unreadable":
            # Several rules may need one file; that it cannot be read is said once.
            if finding.path in self._unreadable:
                return
            self._unreadable.add(finding.path)
        self._kinds[finding.severity, finding.code] += 1
        group = (
            self._groups.setdefault(finding.session or "", len(self._groups)) if finding.session else 1 << 60
        )
        self._findings.append((_WEIGHT[finding.severity], group, finding))

    def checked(self, sessions: int) -> CheckReport:
        ordered = sorted(self._findings, key=lambda one: one[:2])
        by_code, by_severity = Counter[str](), Counter[str]()
        kinds: dict[str, dict[str, int]] = {}
        for (severity, code), count in sorted(
            self._kinds.items(), key=lambda one: (_WEIGHT[one[0][0]], -one[1])
        ):
            by_code[code] += count
            by_severity[severity.value] += count
            kinds.setdefault(severity.value, {})[code] = count
        summary = CheckSummary(
            sessions,
            self.logs,
            self.lines,
            self.lines - self.damaged,
            self.damaged,
            self.bytes,
            dict(sorted(by_code.items())),
            dict(by_severity),
            kinds,
        )
        return CheckReport([finding for _, _, finding in ordered], summary)


def _without_repair(finding: Finding) -> Finding:
    """For a log that `doctor --fix` refuses: what to do instead."""
    if finding.repair is None:
        return finding
    name = hint_name(finding.session or "", finding.path)
    fix = CODES[finding.code].other_fix.format(session=name, path=finding.path)
    return structs.replace(finding, fix=fix, repair=None)


# ---- the logs --------------------------------------------------------------------------------------------


def _reports(
    home: Homes,
    logs: Sequence[tuple[str, LogFile]],
    diagnoses: Mapping[Path, Diagnosis],
    *,
    is_kept: bool,
    is_listed_now: bool,
    progress: ProgressCallback | None,
    in_order: bool,
) -> Iterator[tuple[str, LogFile, LogReport]]:
    """The report of each log with the name of its session, in order; read are only those that are not known.

    ``is_listed_now``: the logs are as they were listed; a caller's may be of an hour ago. With ``in_order`` they are also
    read in this order, so that the first come soon; otherwise the largest are read first, and all processes end at the
    same time.
    """
    live = home.live_ids()
    roots = [one.root for one in home.homes]
    is_wanted = is_kept and home.has_index
    with file_results("check", rules_version(), roots, home.index_cache, is_wanted=is_wanted) as kept:
        found = {
            number: report
            for number, (session, log) in enumerate(logs)
            if (
                report := _known_report(
                    log, diagnoses, kept, is_open=session in live, is_listed_now=is_listed_now
                )
            )
            is not None
        }
        unknown = [number for number in range(len(logs)) if number not in found]
        sizes = [logs[number][1].size for number in unknown]
        total = sum(log.size for _, log in logs)
        done, begin = total - sum(sizes), 0
        to_read = [logs[number] for number in unknown]
        for at, data in _read_reports(to_read, live, in_order=in_order):
            session, log = logs[unknown[at]]
            report = found[unknown[at]] = decoded(data)
            if report.state is not None and session not in live:
                kept.add(log.path, report.state, data, report.errors)
            done += log.size
            if progress is not None:
                progress(done, total)
            while begin in found:
                yield *logs[begin], found.pop(begin)
                begin += 1
    for number in range(begin, len(logs)):
        yield *logs[number], found[number]


def _read_reports(
    logs: Sequence[tuple[str, LogFile]],
    live: Set[str],
    *,
    in_order: bool,
) -> Iterator[tuple[int, bytes]]:
    """The encoded report of each of these logs, in order of completion."""
    if not logs:
        return
    sizes = [log.size for _, log in logs]
    tasks = [structs.astuple(identity_of(session, log, is_open=session in live)) for session, log in logs]
    # In order each report is wanted as soon as it is there. Opening a log costs about as much as reading 20 kB of it.
    costs = [size + 20_000 for size in sizes]
    shares = list(
        bundles(range(len(logs)), costs, 1) if in_order else bundles(largest_first(sizes), costs, _BUNDLE)
    )
    processes = cores() if sum(sizes) >= _WORTH_A_PROCESS and len(tasks) > 1 else 0
    pool = WorkerPool(report_job, None, processes=processes)
    for number, reports in pool.answers([[tasks[at] for at in share] for share in shares]):
        yield from zip(shares[number], reports, strict=True)


def _known_report(
    log: LogFile,
    diagnoses: Mapping[Path, Diagnosis],
    kept: FileResults,
    *,
    is_open: bool,
    is_listed_now: bool,
) -> LogReport | None:
    if (diagnosis := diagnoses.get(log.path)) is not None:
        return reported(diagnosis)
    # What is said about a log depends on whether a client has it open.
    seen = (log.device, log.inode, log.size, log.mtime_ns) if is_listed_now else None
    data = None if is_open else kept.get(str(log.path), seen)
    return None if data is None else decoded(data)
