"""One log read and diagnosed, and what ``check`` lists of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from recollect.errors import NotFound, StorageError
from recollect.model.checks import CODES
from recollect.model.checks.scan import LogIdentity
from recollect.model.diagnosis import Diagnosis, diagnosed
from recollect.model.findings import Finding, Severity
from recollect.services.check.kept_report import LogReport, encoded
from recollect.services.check.log_source import LIMITS, log_source
from recollect.services.indexing.file_results import ReadState
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run
from recollect.system.unwatched import unwatched

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


@unwatched()
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


def report_job(cache: str | None) -> Run:
    """A job of ``system.pool``: the reports of some logs, encoded. For none of them the scan engine is made ready in
    ``cache``: compiling it takes half a second, in which all other processes would wait for the one that scans next.
    """

    def run(identities: list[tuple[Any, ...]]) -> Iterator[list[bytes]]:
        if not identities:
            from recollect.services.secrets.engine import WORTH_COMPILING, engine_ready

            engine_ready(WORTH_COMPILING, None if cache is None else Path(cache))
        yield [encoded(report_of(LogIdentity(*identity))) for identity in identities]

    return run
