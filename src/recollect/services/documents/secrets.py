"""What ``scan --json`` prints: kinds, places and fingerprints, never a value."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from recollect.services.secrets.file_scan import SecretFinding
from recollect.services.secrets.scan import SecretScan


class ScanSummaryDocument(Struct, frozen=True, kw_only=True):
    """How much was searched; ``secrets`` counts different ones."""

    findings: int
    secrets: int
    by_kind: dict[str, int]
    files: int
    bytes: int
    seconds: float
    ignored: int


class UnreadableFileDocument(Struct, frozen=True):
    """A file that could not be read."""

    path: str
    reason: str


class ScanDocument(Struct, frozen=True):
    """The findings of a scan."""

    findings: list[SecretFinding]
    summary: ScanSummaryDocument
    problems: list[UnreadableFileDocument]


def scan_document(found: SecretScan, seconds: float) -> ScanDocument:
    summary = ScanSummaryDocument(
        findings=len(found.findings),
        secrets=found.secrets,
        by_kind=dict(Counter(one.kind for one in found.findings).most_common()),
        files=found.files,
        bytes=found.bytes,
        seconds=round(seconds, 3),
        ignored=found.ignored,
    )
    problems = [UnreadableFileDocument(path, reason) for path, reason in found.problems]
    return ScanDocument(found.findings, summary, problems)
