"""One log read and diagnosed, and what ``doctor`` lists of it."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from recollect.errors import NotFound, StorageError
from recollect.index.file_results import ReadState
from recollect.model.checks.lines import LIMITS
from recollect.model.checks.rules import CODES, Finding, Severity
from recollect.model.checks.scan import LogIdentity, LogSource
from recollect.model.repair.plan import Diagnosis, diagnosed
from recollect.store.home import AgentFile, LogFile, SessionFile
from recollect.store.logs.reader import OpenLog
from recollect.system.pool import Run
from recollect.version import __version__


class LogReport(Struct, frozen=True):
    """The findings that are listed; ``more`` counts others, by severity and code. ``damaged`` counts lines."""

    lines: int
    damaged: int
    findings: list[Finding]
    more: list[tuple[Severity, str, int]]
    state: ReadState | None = None

    @property
    def errors(self) -> str:
        """The codes of its errors, separated by blanks."""
        return " ".join(sorted({one.code for one in self.findings if one.severity is Severity.ERROR}))


def encoded(report: LogReport) -> bytes:
    return msgspec.msgpack.encode(report)


def decoded(data: bytes) -> LogReport:
    return msgspec.msgpack.decode(data, type=LogReport)


def rules_version() -> str:
    """Changes with the rules, so that a report of other rules is not taken for one of these."""
    rules = repr([(code, structs.astuple(rule)) for code, rule in CODES.items()])
    return f"{__version__}-{hashlib.sha256(rules.encode()).hexdigest()[:12]}"


def identity_of(session: str, file: LogFile, *, is_open: bool) -> LogIdentity:
    """The identity of a log file."""
    if isinstance(file, AgentFile):
        agent = str(file.agent_id or file.path.stem)
        return LogIdentity(session, str(file.path), agent, "agent", is_open)
    is_foreign = isinstance(file, SessionFile) and not file.is_uuid
    return LogIdentity(session, str(file.path), None, "foreign-name" if is_foreign else "session", is_open)


def log_source(opened: OpenLog, log: LogIdentity) -> LogSource:
    """The bytes that an open log has now; later writes are left out.

    The log must have been opened with ``LIMITS``.
    """
    size, written = opened.size(), opened.stat().st_mtime_ns
    end = opened.committed_end()
    return LogSource(
        log,
        lambda: opened.lines(0, end, goes_on=True),
        lambda offset, length: opened.read_all(length, offset),
        size,
        end,
        dt.datetime.fromtimestamp(written // 10**9, dt.UTC),
    )


MOST_OF_A_CODE = 50
_NAMED = "unknown-type"  # each type is listed
_ONCE = frozenset(
    [
        "unreadable-record",
        "oversize-record",
        "crlf",
        "byte-order-mark",
        "other-session-id",
        "invalid-id",
        "lone-surrogate",
        "time-order",
    ]
)


def reported(diagnosis: Diagnosis) -> LogReport:
    """A diagnosis without the findings that repeat others of the same log."""
    by_code: dict[str, list[Finding]] = {}
    for finding in diagnosis.findings:
        by_code.setdefault(finding.code, []).append(finding)
    listed: list[Finding] = []
    rest: list[tuple[Severity, str, int]] = []
    for code, findings in by_code.items():
        count = diagnosis.counts[code]
        kept = (
            _kinds(findings)
            if code == _NAMED
            else _first(findings, 1 if code in _ONCE else MOST_OF_A_CODE, count)
        )
        more = count - len(kept)
        if more > 0:
            rest.append((kept[-1].severity, code, more))
        listed += kept
    return LogReport(diagnosis.scan.lines, diagnosis.scan.damaged, listed, rest)


def _first(findings: list[Finding], most: int, count: int) -> list[Finding]:
    """Those that a repair fixes come first: they must be listed, not only counted."""
    kept = sorted(findings, key=lambda one: one.repair is None)[:most]
    return [*kept[:-1], _with_more(kept[-1], count - most)]


def _kinds(findings: list[Finding]) -> list[Finding]:
    """The first of each kind, with how many there are: one type of line must not hide another."""
    counts = Counter(one.what for one in findings)
    first = {one.what: one for one in reversed(findings)}
    kept = [_with_more(first[what], count - 1) for what, count in counts.items()]
    left_out = kept[MOST_OF_A_CODE:]
    if left_out:
        last = kept[MOST_OF_A_CODE - 1]
        kept[MOST_OF_A_CODE - 1] = structs.replace(
            last, what=f"{last.what} (and {len(left_out):,} more types)"
        )
    return kept[:MOST_OF_A_CODE]


def _with_more(finding: Finding, more: int) -> Finding:
    if more <= 0:
        return finding
    lines = "line" if more == 1 else "lines"
    return structs.replace(finding, what=f"{finding.what} (and {more:,} more such {lines})")


def report_of(identity: LogIdentity) -> LogReport:
    """Read a log and diagnose it; one that cannot be read is a finding."""
    try:
        with OpenLog(Path(identity.path), LIMITS) as opened:
            state = ReadState.of(opened.stat())
            return structs.replace(reported(diagnosed(log_source(opened, identity))), state=state)
    except (NotFound, StorageError) as problem:
        rule = CODES["unreadable"]
        where = (identity.path, identity.session or None, identity.agent)
        return LogReport(0, 0, [Finding("unreadable", rule.severity, problem.message, rule.fix, *where)], [])


def report_job(_: None) -> Run:
    """A job of ``system.pool``: the reports of some logs, encoded."""

    def run(identities: list[tuple[Any, ...]]) -> Iterator[list[bytes]]:
        yield [encoded(report_of(LogIdentity(*identity))) for identity in identities]

    return run
