"""What ``check`` says about one log, limited to what a report lists; a document that the index keeps.

Imports nothing that reads a log: where none changed, none is read.
"""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct, structs

import recollect
from recollect.model.checks import CODES
from recollect.model.findings import Finding, Severity
from recollect.services.indexing.file_results import ReadState


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
    return f"{recollect.__version__}-{hashlib.sha256(rules.encode()).hexdigest()[:12]}"
