"""What ``check`` says about one log, limited to what a report lists; a document that the index keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

import recollect
from recollect.errors import NotFound, StorageError
from recollect.model.checks import CODES
from recollect.model.checks.scan import LogIdentity
from recollect.model.diagnosis import Diagnosis, diagnosed
from recollect.model.findings import Finding, Severity
from recollect.services.check.log_source import LIMITS, log_source
from recollect.services.indexing.file_results import ReadState
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run

MOST_OF_A_CODE = 50
_ONCE = frozenset(
    [
        "unknown-type",
        "crlf",
        "byte-order-mark",
        "other-session-id",
        "invalid-id",
        "lone-surrogate",
        "time-order",
    ]
)


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


def reported(diagnosis: Diagnosis) -> LogReport:
    """A diagnosis without the findings that repeat others of the same log."""
    by_code: dict[str, list[Finding]] = {}
    for finding in diagnosis.findings:
        by_code.setdefault(finding.code, []).append(finding)
    listed: list[Finding] = []
    rest: list[tuple[Severity, str, int]] = []
    for code, findings in by_code.items():
        most = 1 if code in _ONCE else MOST_OF_A_CODE
        more = diagnosis.counts[code] - most
        # Findings that a repair fixes come first: they must be listed, not only counted.
        kept = sorted(findings, key=lambda one: one.repair is None)[:most]
        if more > 0:
            what = f"{kept[-1].what} (and {more:,} more such lines)"
            kept[-1] = structs.replace(kept[-1], what=what)
            rest.append((kept[-1].severity, code, more))
        listed += kept
    return LogReport(diagnosis.scan.lines, diagnosis.scan.damaged, listed, rest)


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
    """A job of ``system.pool``: the report of a log, encoded."""

    def run(identity: tuple[Any, ...]) -> Iterator[bytes]:
        yield encoded(report_of(LogIdentity(*identity)))

    return run


def encoded(report: LogReport) -> bytes:
    return msgspec.msgpack.encode(report)


def decoded(data: bytes) -> LogReport:
    return msgspec.msgpack.decode(data, type=LogReport)


def rules_version() -> str:
    """Changes with the rules, so that a report of other rules is not taken for one of these."""
    rules = repr([(code, structs.astuple(rule)) for code, rule in CODES.items()])
    return f"{recollect.__version__}-{hashlib.sha256(rules.encode()).hexdigest()[:12]}"
