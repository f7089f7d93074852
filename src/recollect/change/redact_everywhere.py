"""Remove the secrets of a session for good: from its home, and from every copy that we keep of it.

Archive, trash and quarantine are rewritten, each completely or not at all. Originals that the journal keeps are
deleted, so those changes can no longer be undone; the redaction itself cannot be undone either. Left-over files
of killed processes and the index are deleted. What remains is searched again, and the result says if anything does.

Not reached: other sessions that quote the same secret, bundles that were exported, what was pushed to a team server before
(secrets are redacted on the way out), and copies of other programs.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.secrets.places import SecretPlace, copies
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import SecretFinding, SecretScan, scan_place
from recollect.ask.sessions.session import Session
from recollect.change.redact import RedactionPlan, planned_redaction, redact, redacted_content
from recollect.model.secrets.redaction import redacted
from recollect.store.archive.archive import Archive
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from recollect.store.changes.plan import FileState
from recollect.store.own_settings import ignored_secrets
from recollect.store.trash import Trash
from recollect.system import fsops

_ROLES = ("archive", "trash", "undo", "quarantine", "left-over")


class SecretCopy(Struct, frozen=True):
    """A file or a copy with secrets: its place, its role, and how many it holds."""

    path: Path
    role: str
    secrets: int


class EverywherePlan(Struct, frozen=True):
    """What would be removed from the home, and from copies. ``left`` were found again after it was done.

    ``unread`` copies could not be searched, with the reasons.
    """

    home: RedactionPlan
    copies: tuple[SecretCopy, ...]
    left: tuple[SecretFinding, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


def planned_everywhere(session: Session, data: Path) -> EverywherePlan:
    """Find the secrets of a session and of its copies; nothing is changed."""
    copies = _CopyCleaner(session, data)
    found = tuple(copies.found())
    home = planned_redaction(session, data)
    return EverywherePlan(home, found, unread=(*home.unread, *copies.unread))


def redact_everywhere(session: Session, data: Path, cache: Path) -> EverywherePlan:
    """Remove them all. ``Busy`` where a client has the session open; then nothing was changed."""
    plan = planned_everywhere(session, data)
    if plan.home.files or plan.copies:
        # First too: if this is killed after the last copy, another run would find no secret and leave the index.
        if plan.home.open_in is None:  # else it is refused, and nothing changes
            _delete_index(cache)
        redact(session, data, is_final=True)
        _CopyCleaner(session, data).clean()
        _delete_index(cache)
    copies, again = _CopyCleaner(session, data), planned_redaction(session, data)
    left = [finding for _, findings in copies.findings() for finding in findings]
    left += (*again.findings, *again.left)
    return EverywherePlan(plan.home, plan.copies, tuple(left), (*again.unread, *copies.unread))


def _delete_index(cache: Path) -> None:
    """It quotes every text, deleted rows included, until its pages are used again."""
    for path in cache.glob("index-v*"):
        with contextlib.suppress(OSError):
            fsops.unlink(path)


class _CopyCleaner:
    """The copies of one session: searched, and cleaned on request."""

    def __init__(self, session: Session, data: Path) -> None:
        self._session, self._data = session, data
        self._fingerprints, self._keep = Fingerprints(data), ignored_secrets()
        self.unread: list[tuple[str, str]] = []

    def found(self) -> Iterator[SecretCopy]:
        for place, findings in self.findings():
            yield SecretCopy(place.path, place.role, len(findings))

    def findings(self) -> Iterator[tuple[SecretPlace, list[SecretFinding]]]:
        """The copies with secrets; each file once."""
        seen: set[Path] = set()
        for place in copies(self._data, self._session.home, self._session.id):
            if place.path in seen:
                continue
            seen.add(place.path)
            scanned = scan_place(place, self._fingerprints.key)
            if scanned.problem is not None:
                self.unread.append((str(place.path), scanned.problem))
            kept = [one for one in scanned.findings if f"{one.kind}:{one.fingerprint}" not in self._keep]
            if kept:
                yield place, kept

    def clean(self) -> None:
        """Each role in turn; one that fails leaves the others as they are, and a second run goes on."""
        by_role: dict[str, list[SecretPlace]] = {role: [] for role in _ROLES}
        for place, _ in self.findings():
            by_role[place.role].append(place)
        self._clean_archive({place.path: place for place in by_role["archive"]})
        self._clean_trash({place.path: place for place in by_role["trash"]})
        self._clean_quarantine(by_role["quarantine"])
        for place in by_role["left-over"]:
            fsops.unlink(place.path)
        journal = ChangeJournal(self._data / "undo")
        for name in {place.path.relative_to(journal.root).parts[0] for place in by_role["undo"]}:
            journal.forget(name)

    def _clean_archive(self, places: dict[Path, SecretPlace]) -> None:
        if not places:
            return
        archive = Archive(self._data / "archive")
        with archive.adding():
            for manifest in archive.manifests():
                dirty = {
                    name: self._content(places[path])
                    for name in manifest.objects()
                    if (path := archive.objects.path(name)) in places
                }
                if dirty and manifest.session == self._session.id:
                    archive.rewrite(manifest, dirty, self._text(manifest.title))
            for name in archive.unused():
                if archive.objects.path(name) in places:
                    archive.objects.discard(name)

    def _clean_trash(self, places: dict[Path, SecretPlace]) -> None:
        trash = Trash(self._data / "trash")
        for batch in trash.batches():
            dirty = {
                file.path: self._lazy(places[path])
                for file in batch.files
                if (path := trash.place(batch, file.path)) in places
            }
            if dirty:
                trash.rewrite(batch, dirty, self._text(batch.title))

    def _clean_quarantine(self, places: list[SecretPlace]) -> None:
        if places:
            root = self._data / "quarantine"
            plan = ChangePlan("redact", self._session.id, root)
            for place in places:
                seen = FileState.at(place.path)
                plan.replace(place.path, self._content(place), expected=seen, mtime_ns=seen.mtime_ns)
            ChangeJournal(self._data / "undo").apply(plan, transient=True)

    def _content(self, place: SecretPlace) -> Iterator[bytes]:
        return redacted_content(place.path, place.shape, self._fingerprints, self._keep)

    def _lazy(self, place: SecretPlace) -> Callable[[], Iterator[bytes]]:
        return lambda: self._content(place)

    def _text(self, title: str) -> str:
        return redacted(title, self._fingerprints, self._keep).text


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


class RedactionDocument(Struct, frozen=True, kw_only=True):
    """What ``redact --json`` prints. ``forget`` deletes the originals; ``left`` are secrets that stay.

    ``copies`` come with ``--everywhere``.
    """

    session: str
    findings: list[SecretFinding]
    files: list[SecretCopy]
    open_in: int | None
    unread: list[UnreadableFileDocument]
    left: Sequence[SecretFinding]
    applied: bool
    change: str | None
    undo: str | None
    forget: str | None
    copies: Sequence[SecretCopy] | UnsetType = UNSET


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
