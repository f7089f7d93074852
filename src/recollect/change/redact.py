"""Remove the secrets of one session from every file that holds its conversation.

Log, sub-agents, tool results, plans, backups of files, todos and tasks, and its own lines of the prompt history
with their pastes. Each secret becomes a mark with its kind and fingerprint; every other byte stays, and the client
can resume the session. Settings and shell environments are not changed: a token there is in use.

All of it is one change in the journal, so it can be undone, and until ``undo --forget`` **the journal still
holds the secrets**. So may archives, the trash, and earlier forks of the session.

A session that a client has open is refused. The prompt history belongs to all sessions: while any client runs
in the home it is not changed, and the plan says so.

A change that a crash interrupted puts its originals back when it is ended: the caller of ``redact`` ends it before
(``undo.recovered``), a plan names it. What is found again after a redaction is in ``left``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from recollect.ask.secrets.places import HomePlaces, PlaceShape, SecretPlace
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import SecretFinding, in_long_lines, line_blocks, scan_place
from recollect.ask.sessions.home_guard import kept_by_its_client, open_in, refuse_open
from recollect.ask.sessions.session import Session
from recollect.model.lines.json_text import loose_object
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import (
    RedactedBytes,
    redacted_bytes,
    redacted_line,
    with_plain_thoughts,
)
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan
from recollect.store.changes.plan import FileState
from recollect.store.live import live_sessions
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import ignored_secrets
from recollect.store.session_files import hold_logs

_HASH_DIGITS = 16
_LARGEST_TEXT = 64 << 20
INTERRUPTED = "a change that was interrupted: secrets may return when it is ended, which --apply does first"
HISTORY_IN_USE = "the prompt history is not changed while a client runs: redact again later"


class RedactedFile(Struct, frozen=True):
    """One file to be changed, and its secrets."""

    path: Path
    role: str
    findings: tuple[SecretFinding, ...]


class RedactionPlan(Struct, frozen=True):
    """What would be replaced where. ``open_in`` is the process that has the session open, if any.

    ``unread`` files could not be searched, with the reasons. ``left`` are secrets that stay; ``notes`` say why.
    """

    session: str
    files: tuple[RedactedFile, ...]
    open_in: int | None
    notes: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    left: tuple[SecretFinding, ...] = ()

    @property
    def findings(self) -> list[SecretFinding]:
        return [finding for file in self.files for finding in file.findings]


def planned_redaction(session: Session, data: Path) -> RedactionPlan:
    """Find the secrets of a session; nothing is changed."""
    plan = _RedactionBuilder(session, data).plan
    journal = ChangeJournal(data / "undo")
    interrupted = tuple(
        (str(journal.root / change.id), INTERRUPTED)
        for change in journal.unfinished()
        if change.home == session.home.root
    )
    return structs.replace(plan, unread=plan.unread + interrupted)


def redact(session: Session, data: Path, *, is_final: bool = False) -> tuple[RedactionPlan, Change | None]:
    """Replace them; None if there were none. ``Busy`` where a client has the session open.

    With ``is_final`` the journal keeps no original: it cannot be undone.
    """
    logs = [session.path, *(agent.path for agent in session.agents())]
    with hold_logs(logs, data):
        refuse_open(session.home, session.id)
        work = _RedactionBuilder(session, data)
        if not work.plan.files:
            return work.plan, None
        applied = ChangeJournal(data / "undo").apply(work.change(), transient=is_final)
        again = _RedactionBuilder(session, data).plan
        notes = (f"{len(again.findings)} were found afterwards: redact again",) if again.findings else ()
        return structs.replace(
            work.plan,
            notes=tuple(dict.fromkeys(work.plan.notes + again.notes + notes)),
            unread=tuple(dict.fromkeys(work.plan.unread + again.unread)),
            left=(*again.findings, *again.left),
        ), applied


class _RedactionBuilder:
    """One redaction: searched on creation, turned into a change on request."""

    def __init__(self, session: Session, data: Path) -> None:
        self._session = session
        self._fingerprints = Fingerprints(data)
        self._keep = ignored_secrets()
        self._seen: dict[Path, FileState] = {}
        live = live_sessions(session.home)
        notes: list[str] = []
        files: list[RedactedFile] = []
        left: list[SecretFinding] = []
        places = HomePlaces(session.home)
        unread: list[tuple[str, str]] = []
        for place in places.to_redact(session):
            findings = self._findings(place, unread)
            if findings and (reason := _why_unchanged(place, is_in_use=bool(live))) is not None:
                notes.append(reason)
                left += findings
                continue
            long = in_long_lines(place, findings)
            if long:
                notes.append(f"{place.path}: {len(long)} in lines that are too long, not changed")
                left += long
            if short := [finding for finding in findings if finding not in long]:
                files.append(RedactedFile(place.path, place.role, tuple(short)))
        notes += self._fingerprints.notes
        if files and (copy := kept_by_its_client(session.home)) is not None:
            notes.append(copy)
        unread += places.problems
        self.plan = RedactionPlan(
            session.id,
            tuple(files),
            open_in(session.home, session.id),
            tuple(dict.fromkeys(notes)),
            tuple(dict.fromkeys(unread)),
            tuple(left),
        )

    def _findings(self, place: SecretPlace, unread: list[tuple[str, str]]) -> list[SecretFinding]:
        try:
            # Recorded before it is read: a change in between makes the journal refuse it.
            self._seen[place.path] = FileState.at(place.path)
        except FileNotFoundError:
            return []
        scanned = scan_place(place, self._fingerprints.key)
        if scanned.problem is not None:
            unread.append((str(place.path), scanned.problem))
        return [one for one in scanned.findings if f"{one.kind}:{one.fingerprint}" not in self._keep]

    # --- as a change ----------------------------------------------------------------------------

    def change(self) -> ChangePlan:
        change = ChangePlan("redact", self._session.id, self._session.home.root)
        renamed: dict[bytes, bytes] = {}
        for file in self.plan.files:
            if file.role == "paste":
                renamed.update(self._paste_steps(change, file))
        history = self._session.home.history_file
        paths = [file.path for file in self.plan.files if file.role not in ("paste", "history")]
        for file in self.plan.files:
            if file.path in paths:
                self._replace(change, file, {})
        if renamed or any(file.role == "history" for file in self.plan.files):
            self._seen.setdefault(history, FileState.at(history))
            self._replace(change, RedactedFile(history, "history", ()), renamed)
        return change

    def _replace(self, change: ChangePlan, file: RedactedFile, renamed: dict[bytes, bytes]) -> None:
        seen = self._seen[file.path]
        is_log = file.path.suffix == ".jsonl" and file.role in ("log", "agent", "history")
        content = self._lines(file, seen.size, renamed) if is_log else iter([self._whole(file)])
        # The time stays: the client continues the most recent session, and deletes by age.
        change.replace(file.path, content, expected=seen, mtime_ns=seen.mtime_ns)

    def _paste_steps(self, change: ChangePlan, file: RedactedFile) -> dict[bytes, bytes]:
        """A paste is named after its text: with another text it gets another name, also in the history."""
        text = self._whole(file)
        name = hashlib.sha256(text).hexdigest()[:_HASH_DIGITS]
        target, seen = file.path.with_name(f"{name}.txt"), self._seen[file.path]
        change.remove(file.path, expected=seen)
        if not target.exists():
            change.create(target, text, mtime_ns=seen.mtime_ns)
        return {file.path.stem.encode(): name.encode()}

    # --- bytes ----------------------------------------------------------------------------------

    def _whole(self, file: RedactedFile) -> bytes:
        is_document = file.path.suffix == ".json" and file.role != "file-backup"
        return _redacted_whole(file.path, is_document, self._fingerprints, self._keep)

    def _lines(self, file: RedactedFile, size: int, renamed: dict[bytes, bytes]) -> Iterator[bytes]:
        own = self._session.id if file.role == "history" else None
        return _redacted_lines(file.path, size, _LineRedaction(self._fingerprints, self._keep, own, renamed))


def _why_unchanged(place: SecretPlace, *, is_in_use: bool) -> str | None:
    if place.role in ("history", "paste") and is_in_use:
        return HISTORY_IN_USE
    is_too_large = place.shape != "lines" and place.size > _LARGEST_TEXT
    return f"{place.path}: too large, not changed" if is_too_large else None


class _LineRedaction(NamedTuple):
    """How lines are redacted: with ``only_own`` those of one session, and with other names of pastes."""

    fingerprints: Fingerprints
    keep: Collection[str]
    only_own: str | None
    renamed: Mapping[bytes, bytes]


def redacted_content(
    path: Path, shape: PlaceShape, fingerprints: Fingerprints, keep: Collection[str]
) -> Iterator[bytes]:
    """A file without its secrets, packed ones unpacked."""
    if shape != "lines":
        yield _redacted_whole(path, shape == "document", fingerprints, keep)
        return
    with OpenLog(path) as log:
        size = log.size()
    yield from _redacted_lines(path, size, _LineRedaction(fingerprints, keep, None, {}))


def _redacted_whole(
    path: Path, is_document: bool, fingerprints: Fingerprints, keep: Collection[str]
) -> bytes:
    with OpenLog(path) as opened:
        data = opened.read_all(opened.size(), 0)
    return (redacted_line if is_document else redacted_bytes)(data, fingerprints, keep).data


def _redacted_lines(path: Path, size: int, rule: _LineRedaction) -> Iterator[bytes]:
    with OpenLog(path) as log:
        for _, block, is_part in line_blocks(log, size):
            if is_part:
                yield block  # no client reads a line over the limit; it is not changed
                continue
            data = block
            for old, new in rule.renamed.items():
                data = data.replace(b'"%s"' % old, b'"%s"' % new)
            yield from _redacted_block(data, rule)


def _redacted_block(block: bytes, rule: _LineRedaction) -> Iterator[bytes]:
    end = 0
    for start, stop in suspects(block):
        line = block[start:stop]
        if rule.only_own is not None and loose_object(line).get("sessionId") != rule.only_own:
            continue
        yield block[end:start]
        result: RedactedBytes = redacted_line(line, rule.fingerprints, rule.keep)
        yield with_plain_thoughts(result.data, [one.field for one in result.found])
        end = stop
    yield block[end:]
