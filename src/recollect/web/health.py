"""What needs attention: sessions that expire, are damaged, old or not archived, homes, secrets; with what a button posts."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from recollect.ask.doctor.home_checks import WITHIN_DAYS, quick_findings
from recollect.ask.secrets.scan import SecretScan, scan
from recollect.ask.sessions.home_guard import is_mirror
from recollect.change import undo as undo_service
from recollect.change.keeping import HOLD
from recollect.change.undo import RecentChangeDocument, RequestDocument
from recollect.errors import RecollectError
from recollect.model.checks.rules import Finding
from recollect.model.lines.ids import command_name
from recollect.model.session import SessionSummary
from recollect.web.desk import PageBackend
from recollect.web.sessions import PageSessions

_MOST = 200
OLD_DAYS = 90

ScanState = Literal["unknown", "running", "done", "failed"]


class SessionsAtRisk(Struct, frozen=True, kw_only=True):
    """Sessions that need attention: the first of them, how many and how large they are, and what to do.

    ``days``: within which they expire, or without activity; ``not_archived``: how many of them the archive has not.
    ``is_complete``: whether all logs were read.
    """

    sessions: list[SessionSummary] = []
    total: int
    bytes: int
    days: int | None = None
    not_archived: int = 0
    is_complete: bool = True
    note: str = ""
    command: str | None
    action: RequestDocument | None = None


class SecretKindDocument(Struct, frozen=True):
    """Secrets of one kind: how many, in how many places, in which sessions."""

    kind: str
    secrets: int
    places: int
    sessions: list[str]


class SecretsDocument(Struct, frozen=True, kw_only=True):
    """Progress and result of the search for secrets, without values."""

    state: ScanState
    done: int
    total: int
    problem: str | None
    by_kind: list[SecretKindDocument]
    total_secrets: int | None
    command: str
    action: RequestDocument | None


class HealthDocument(Struct, frozen=True, kw_only=True):
    """What needs attention."""

    expiring: SessionsAtRisk
    not_archived: SessionsAtRisk
    damaged: SessionsAtRisk
    old: SessionsAtRisk
    homes: list[Finding]
    secrets: SecretsDocument
    changes: list[RecentChangeDocument]


class SecretJob:
    """Looks for secrets in one background thread."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._scanned: SecretScan | None = None
        self._problem: str | None = None
        self._done = self._total = 0

    def start(self) -> None:
        """Start, unless it is running."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._done = self._total = 0
            self._scanned = self._problem = None
            self._thread = threading.Thread(target=self._run, name="recollect-secrets", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._scanned = scan(self._desk.home, data=self._desk.data, progress=self._progress)
        except (RecollectError, OSError) as problem:
            self._problem = str(problem)

    def _progress(self, done: int, total: int) -> None:
        self._done, self._total = done, total

    def document(self) -> SecretsDocument:
        """Progress and findings: kinds and counts, never a value."""
        scanned = self._scanned
        return SecretsDocument(
            state=self._state(),
            done=self._done,
            total=self._total,
            problem=self._problem,
            by_kind=[] if scanned is None else _by_kind(scanned),
            total_secrets=None if scanned is None else scanned.secrets,
            command=self._desk.command("secrets"),
            action=RequestDocument("/api/health/secrets", {}),
        )

    def _state(self) -> ScanState:
        if self._scanned is not None:
            return "done"
        if self._problem is not None:
            return "failed"
        return "unknown" if self._thread is None else "running"


def _by_kind(scanned: SecretScan) -> list[SecretKindDocument]:
    found: list[SecretKindDocument] = []
    for kind in sorted({one.kind for one in scanned.findings}):
        own = [one for one in scanned.findings if one.kind == kind]
        sessions = sorted({one.session for one in own if one.session})[:_MOST]
        found.append(SecretKindDocument(kind, len({one.fingerprint for one in own}), len(own), sessions))
    return found


def health_document(desk: PageBackend, listed: PageSessions, secrets: SecretJob) -> HealthDocument:
    rows = [row for row in listed.rows() if not row.is_archive_only]
    rows = [replace(row, is_archived=listed.is_archived(listed.session_of(row))) for row in rows]
    missing = [row for row in rows if not row.is_archived and listed.session_of(row).session_id is not None]
    damaged = sorted((row for row in rows if row.damaged), key=lambda row: -(row.damaged or 0))
    return HealthDocument(
        expiring=_expiring(desk, rows),
        not_archived=SessionsAtRisk(
            total=len(missing),
            bytes=sum(row.bytes for row in missing),
            command=desk.command("protect", "now"),
            action=RequestDocument("/api/archive", {"which": "all"}) if missing else None,
        ),
        damaged=SessionsAtRisk(
            sessions=damaged[:_MOST],
            total=len(damaged),
            bytes=sum(row.bytes for row in damaged),
            is_complete=all(row.damaged is not None for row in rows),
            command=desk.command("doctor"),
        ),
        old=_old(desk, rows),
        homes=_home_findings(desk),
        secrets=secrets.document(),
        changes=_changes(desk),
    )


def _expiring(desk: PageBackend, rows: Sequence[SessionSummary]) -> SessionsAtRisk:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=WITHIN_DAYS)
    dated = [(row.expires_at, row) for row in rows if row.expires_at is not None and row.expires_at <= end]
    soon = [row for _, row in sorted(dated, key=lambda pair: pair[0])]
    missing = [row for row in soon if not row.is_archived]
    names = [command_name(row.id, row.path) for row in missing[:20]]
    return SessionsAtRisk(
        sessions=soon[:_MOST],
        total=len(soon),
        bytes=sum(row.bytes for row in soon),
        days=WITHIN_DAYS,
        not_archived=len(missing),
        command=desk.command("protect", "now", *names) if missing else None,
        action=RequestDocument("/api/archive", {"which": "expiring"}) if missing else None,
    )


def _old(desk: PageBackend, rows: Sequence[SessionSummary]) -> SessionsAtRisk:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=OLD_DAYS)
    mirrors = {str(one.root) for one in desk.home.homes if is_mirror(one)}  # a clean-up leaves them out
    old = [row for row in rows if row.shown_at < before and not row.live and row.home not in mirrors]
    return SessionsAtRisk(
        total=len(old),
        bytes=sum(row.bytes for row in old),
        days=OLD_DAYS,
        note=f"sessions tagged {HOLD} are kept",
        command=desk.command("protect", "tidy", "--older-than", f"{OLD_DAYS}d"),
        action=RequestDocument("/api/cleanup", {"days": OLD_DAYS}) if old else None,
    )


def _home_findings(desk: PageBackend) -> list[Finding]:
    """Findings about the homes themselves; expiry has its own section."""
    if desk.is_sample:
        return []
    found = quick_findings(desk.home.homes, desk.data, dt.datetime.now(dt.UTC))
    return [one for one in found if one.session is None][:_MOST]


def _changes(desk: PageBackend) -> list[RecentChangeDocument]:
    try:
        changes = undo_service.changes(desk.data)
    except RecollectError:
        return []
    return [
        RecentChangeDocument(
            id=one.id,
            what=one.what,
            subject=one.subject,
            at=one.at,
            state=one.state,
            undo=RequestDocument("/api/undo", {"id": one.id}),
        )
        for one in changes[:_MOST]
    ]
