"""What ``scan --json`` and ``redact --json`` print: kinds, places and fingerprints, never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.services.secrets.everywhere import SecretCopy
from recollect.services.secrets.place_results import SecretFinding
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
    unreadable: int


class UnreadableFileDocument(Struct, frozen=True):
    """A file that could not be read."""

    path: str
    reason: str


class ScanDocument(Struct, frozen=True):
    """The findings of a scan."""

    findings: list[SecretFinding]
    summary: ScanSummaryDocument
    problems: list[UnreadableFileDocument]


class RedactedFileDocument(Struct, frozen=True):
    """A file that is changed, and how many secrets it holds."""

    path: Path
    role: str
    secrets: int


class RedactionDocument(Struct, frozen=True, kw_only=True):
    """What ``redact --json`` prints. ``forget`` deletes the originals; ``copies`` and ``left`` come with ``--everywhere``."""

    session: str
    findings: list[SecretFinding]
    files: list[RedactedFileDocument]
    open_in: int | None
    unread: list[UnreadableFileDocument]
    applied: bool
    change: str | None
    undo: str | None
    forget: str | None
    copies: Sequence[SecretCopy] | UnsetType = UNSET
    left: Sequence[SecretFinding] | UnsetType = UNSET


def unread_documents(unread: Sequence[tuple[str, str]]) -> list[UnreadableFileDocument]:
    return [UnreadableFileDocument(path, reason) for path, reason in unread]


def scan_document(found: SecretScan, seconds: float) -> ScanDocument:
    summary = ScanSummaryDocument(
        findings=len(found.findings),
        secrets=found.secrets,
        by_kind=dict(Counter(one.kind for one in found.findings).most_common()),
        files=found.files,
        bytes=found.bytes,
        seconds=round(seconds, 3),
        ignored=found.ignored,
        unreadable=len(found.problems),
    )
    problems = unread_documents(found.problems)
    return ScanDocument(found.findings, summary, problems)
