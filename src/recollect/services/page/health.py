"""What needs attention, for a page: expiring, not archived, damaged or old sessions, and secrets.

All but the secrets comes from directories and the index. Looking for secrets reads every byte, so
it runs as a background job that reports its progress and keeps its result until the server ends.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence

from recollect.errors import RecollectError
from recollect.model.findings import Finding
from recollect.services import undo as undo_service
from recollect.services.archive.cleanup import HOLD
from recollect.services.check.home_checks import WITHIN_DAYS, quick_findings
from recollect.services.documents import health as documents
from recollect.services.documents.changes.change import RequestDocument
from recollect.services.documents.changes.undo import RecentChangeDocument
from recollect.services.home_guard import is_mirror
from recollect.services.page.desk import PageBackend
from recollect.services.page.sessions import SessionList, SessionRow
from recollect.services.secrets.scan import SecretScan, scan

_MOST = 200
OLD_DAYS = 90


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

    def document(self) -> documents.SecretsDocument:
        """Progress and findings: kinds and counts, never a value."""
        scanned = self._scanned
        return documents.SecretsDocument(
            state=self._state(),
            done=self._done,
            total=self._total,
            problem=self._problem,
            by_kind=[] if scanned is None else _by_kind(scanned),
            total_secrets=None if scanned is None else scanned.secrets,
            command=self._desk.command("scan"),
            action=RequestDocument("/api/health/secrets", {}),
        )

    def _state(self) -> documents.ScanState:
        if self._scanned is not None:
            return "done"
        if self._problem is not None:
            return "failed"
        return "unknown" if self._thread is None else "running"


def _by_kind(scanned: SecretScan) -> list[documents.SecretKindDocument]:
    found: list[documents.SecretKindDocument] = []
    for kind in sorted({one.kind for one in scanned.findings}):
        own = [one for one in scanned.findings if one.kind == kind]
        sessions = sorted({one.session for one in own if one.session})[:_MOST]
        found.append(
            documents.SecretKindDocument(kind, len({one.fingerprint for one in own}), len(own), sessions)
        )
    return found


def health_document(desk: PageBackend, listed: SessionList, secrets: SecretJob) -> documents.HealthDocument:
    rows = [row for row in listed.rows() if not row.session.is_archived]
    kept = {row.id: listed.is_archived(row.session) for row in rows}
    return documents.HealthDocument(
        expiring=_expiring(desk, listed, rows, kept),
        not_archived=_not_archived(desk, rows, kept),
        damaged=_damaged(desk, listed, rows),
        old=_old(desk, rows),
        homes=documents.HomeFindingsDocument(_home_findings(desk)),
        secrets=secrets.document(),
        changes=_changes(desk),
    )


def _expiring(
    desk: PageBackend, listed: SessionList, rows: Sequence[SessionRow], kept: dict[str, bool]
) -> documents.ExpiringDocument:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=WITHIN_DAYS)
    dated = [(row.expires_at, row) for row in rows if row.expires_at is not None]
    soon = sorted((pair for pair in dated if pair[0] <= end), key=lambda pair: pair[0])
    missing = [row for _, row in soon if not kept[row.id]]
    return documents.ExpiringDocument(
        within_days=WITHIN_DAYS,
        sessions=[
            documents.ExpiringSessionDocument(row.id, listed.title(row.session), at, kept[row.id])
            for at, row in soon[:_MOST]
        ],
        total=len(soon),
        not_archived=len(missing),
        command=desk.command("archive", "add", *(row.id for row in missing[:20])) if missing else None,
        action=RequestDocument("/api/archive", {"which": "expiring"}) if missing else None,
    )


def _not_archived(
    desk: PageBackend, rows: Sequence[SessionRow], kept: dict[str, bool]
) -> documents.NotArchivedDocument:
    missing = [row for row in rows if not kept[row.id] and row.session.session_id is not None]
    return documents.NotArchivedDocument(
        total=len(missing),
        bytes=sum(row.session.file.size for row in missing),
        command=desk.command("archive", "add", "--all"),
        action=RequestDocument("/api/archive", {"which": "all"}) if missing else None,
    )


def _damaged(desk: PageBackend, listed: SessionList, rows: Sequence[SessionRow]) -> documents.DamagedDocument:
    hurt = sorted(((row.damaged, row) for row in rows if row.damaged), key=lambda one: -one[0])
    return documents.DamagedDocument(
        sessions=[
            documents.DamagedSessionDocument(row.id, listed.title(row.session), lines)
            for lines, row in hurt[:_MOST]
        ],
        total=len(hurt),
        is_complete=all(row.damaged is not None for row in rows),
        command=desk.command("check"),
        action=None,
    )


def _old(desk: PageBackend, rows: Sequence[SessionRow]) -> documents.OldSessionsDocument:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=OLD_DAYS)
    mirrors = {one.root for one in desk.home.homes if is_mirror(one)}  # a clean-up leaves them out
    old = [
        row
        for row in rows
        if row.shown_at < before and not row.is_live and row.session.home.root not in mirrors
    ]
    return documents.OldSessionsDocument(
        before_days=OLD_DAYS,
        total=len(old),
        bytes=sum(row.session.file.size for row in old),
        note=f"sessions tagged {HOLD} are kept",
        command=desk.command("cleanup", "--days", str(OLD_DAYS)),
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
