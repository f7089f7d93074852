"""What needs looking after, for a page: expiring, not archived, damaged, old, secrets; each with its command.

All but the secrets comes from directories and the index, in moments. Looking for secrets reads every byte, so it is a
job that is started, tells how far it is, and keeps its result until the server ends.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence

from recollect.errors import RecollectError
from recollect.model.findings import Finding
from recollect.services.archive.cleanup import HOLD
from recollect.services.check.home_checks import WITHIN_DAYS, home_findings
from recollect.services.page.desk import PageBackend
from recollect.services.page.sessions import SessionList, SessionRow
from recollect.services.secrets.scan import SecretScan, scan
from recollect.storage.changes.journal import ChangeJournal

_MOST = 200
OLD_DAYS = 90


class SecretJob:
    """Looks for secrets in a thread, once at a time."""

    def __init__(self, desk: PageBackend) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._scanned: SecretScan | None = None
        self._problem: str | None = None
        self._done = self._total = 0

    def start(self) -> None:
        """Begin, unless it runs."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._done = self._total = 0
            self._scanned = self._problem = None
            self._thread = threading.Thread(target=self._run, name="recollect-secrets", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """For it to end."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._scanned = scan(self._desk.home, data=self._desk.data, progress=self._progress)
        except (RecollectError, OSError) as problem:
            self._problem = str(problem)

    def _progress(self, done: int, total: int) -> None:
        self._done, self._total = done, total

    def document(self) -> dict[str, object]:
        """How far it is and what was found: kinds and numbers, never a value."""
        scanned = self._scanned
        state = "unknown" if self._thread is None else "running"
        if scanned is not None or self._problem is not None:
            state = "failed" if scanned is None else "done"
        return {
            "state": state,
            "done": self._done,
            "total": self._total,
            "problem": self._problem,
            "by_kind": [] if scanned is None else _by_kind(scanned),
            "total_secrets": None if scanned is None else scanned.secrets,
            "command": self._desk.command("scan"),
            "action": {"path": "/api/health/secrets", "body": {}},
        }


def _by_kind(scanned: SecretScan) -> list[dict[str, object]]:
    kinds = sorted({one.kind for one in scanned.findings})
    found: list[dict[str, object]] = []
    for kind in kinds:
        own = [one for one in scanned.findings if one.kind == kind]
        found.append(
            {
                "kind": kind,
                "secrets": len({one.fingerprint for one in own}),
                "places": len(own),
                "sessions": sorted({one.session for one in own if one.session})[:_MOST],
            }
        )
    return found


def health_document(desk: PageBackend, listed: SessionList, secrets: SecretJob) -> dict[str, object]:
    """All of it."""
    rows = listed.rows()
    kept = {row.id: listed.is_archived(row.session) for row in rows}
    return {
        "expiring": _expiring(desk, listed, rows, kept),
        "not_archived": _not_archived(desk, rows, kept),
        "damaged": _damaged(desk, listed, rows),
        "old": _old(desk, rows),
        "homes": {"findings": _home_findings(desk)},
        "secrets": secrets.document(),
        "changes": _changes(desk),
    }


def _expiring(
    desk: PageBackend, listed: SessionList, rows: Sequence[SessionRow], kept: dict[str, bool]
) -> dict[str, object]:
    end = dt.datetime.now(dt.UTC) + dt.timedelta(days=WITHIN_DAYS)
    soon = sorted((row for row in rows if row.expires_at <= end), key=lambda row: row.expires_at)
    missing = [row for row in soon if not kept[row.id]]
    return {
        "within_days": WITHIN_DAYS,
        "sessions": [
            {
                "session": row.id,
                "title": listed.title(row.session),
                "expires_at": row.expires_at,
                "is_archived": kept[row.id],
            }
            for row in soon[:_MOST]
        ],
        "total": len(soon),
        "not_archived": len(missing),
        "command": desk.command("archive", "add", *(row.id for row in missing[:20])) if missing else None,
        "action": {"path": "/api/archive", "body": {"which": "expiring"}} if missing else None,
    }


def _not_archived(desk: PageBackend, rows: Sequence[SessionRow], kept: dict[str, bool]) -> dict[str, object]:
    missing = [row for row in rows if not kept[row.id] and row.session.session_id is not None]
    return {
        "total": len(missing),
        "bytes": sum(row.session.file.size for row in missing),
        "command": desk.command("archive", "add", "--all"),
        "action": {"path": "/api/archive", "body": {"which": "all"}} if missing else None,
    }


def _damaged(desk: PageBackend, listed: SessionList, rows: Sequence[SessionRow]) -> dict[str, object]:
    hurt = sorted((row for row in rows if row.damaged), key=lambda row: row.damaged or 0, reverse=True)
    return {
        "sessions": [
            {"session": row.id, "title": listed.title(row.session), "lines": row.damaged}
            for row in hurt[:_MOST]
        ],
        "total": len(hurt),
        "is_complete": all(row.damaged is not None for row in rows),
        "command": desk.command("check"),
        "action": None,
    }


def _old(desk: PageBackend, rows: Sequence[SessionRow]) -> dict[str, object]:
    before = dt.datetime.now(dt.UTC) - dt.timedelta(days=OLD_DAYS)
    old = [row for row in rows if row.last_at < before and not row.is_live]
    return {
        "before_days": OLD_DAYS,
        "total": len(old),
        "bytes": sum(row.session.file.size for row in old),
        "note": f"sessions tagged {HOLD} stay",
        "command": desk.command("cleanup", "--days", str(OLD_DAYS)),
        "action": {"path": "/api/cleanup", "body": {"days": OLD_DAYS}} if old else None,
    }


def _home_findings(desk: PageBackend) -> list[Finding]:
    """The rules about homes as a whole; what expires has a part of its own."""
    if desk.is_sample:
        return []
    found = home_findings(desk.home, desk.data, dt.datetime.now(dt.UTC), with_secrets=False)
    return [one for one in found if one.session is None][:_MOST]


def _changes(desk: PageBackend) -> list[dict[str, object]]:
    if not (desk.data / "undo").is_dir():
        return []
    try:
        changes = ChangeJournal(desk.data / "undo").changes()
    except RecollectError:
        return []
    return [
        {
            "id": one.id,
            "what": one.what,
            "subject": one.subject,
            "at": one.at,
            "state": one.state,
            "undo": {"path": "/api/undo", "body": {"id": one.id}},
        }
        for one in changes[-_MOST:]
    ]
