"""Remove the secrets of one session from every file that holds its conversation, or some secrets from everywhere.

Log, sub-agents, tool results, plans, backups of files, todos and tasks, and its own lines of the prompt history
with their pastes. Each secret becomes a mark with its kind and fingerprint; every other byte stays, and the client
can resume the session. Settings and shell environments are not changed: a token there is in use.

All of it is one change in the journal, so it can be undone, and until ``undo --forget`` **the journal still
holds the secrets**. So may archives, the trash, and earlier forks of the session.

A session that a client has open is refused. The prompt history belongs to all sessions: while any client runs
in the home it is not changed, and the plan says so.

A change that a crash interrupted puts its originals back when it is ended: the caller ends it before
(``undo.recovered``), a plan names it. What is found again after a redaction is in ``left``.

``redact_everywhere`` removes them for good, from every copy that we keep, too. Archive, trash and quarantine are rewritten,
each completely or not at all. Originals that the journal keeps are deleted, so those changes can no longer be undone; the
redaction itself cannot be undone either. Left-over files of killed processes and the index are deleted. Not reached: other
sessions that quote the same secret, bundles that were exported, what was pushed to a team server before (secrets are
redacted on the way out), and copies of other programs.

``remove_secrets`` does the same by fingerprint, in every session, note and copy of all homes. What it may not change is in
``left``: settings and shell environments, sessions that are open, files of other agents.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from recollect.ask.homes import Homes
from recollect.ask.secrets.places import HomePlaces, PlaceShape, SecretPlace, copies, distinct
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import SecretFinding, in_long_lines, line_blocks, scan, scan_place
from recollect.ask.sessions.home_guard import kept_by_its_client, open_in, refuse_open
from recollect.ask.sessions.session import Session
from recollect.model.lines.json_text import loose_object
from recollect.model.secrets.prefilter import suspects
from recollect.model.secrets.redaction import (
    Redacted,
    redacted,
    redacted_bytes,
    redacted_line,
    with_plain_thoughts,
)
from recollect.store.archive.archive import Archive
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan
from recollect.store.changes.plan import FileState
from recollect.store.home import ClaudeHome
from recollect.store.live import live_sessions
from recollect.store.logs.reader import OpenLog
from recollect.store.own_settings import ignored_secrets
from recollect.store.session_files import hold_logs
from recollect.store.trash import Trash
from recollect.system import fsops

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
    ``copies`` are what we keep of the session elsewhere, where that was asked for. Without a
    ``session`` it is about some secrets of every session.
    """

    session: str | None
    files: tuple[RedactedFile, ...]
    open_in: int | None
    notes: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    left: tuple[SecretFinding, ...] = ()
    copies: tuple[RedactedFile, ...] = ()

    @property
    def findings(self) -> list[SecretFinding]:
        return [finding for file in self.files for finding in file.findings]


def planned_redaction(session: Session, data: Path) -> RedactionPlan:
    """Find the secrets of a session; nothing is changed."""
    plan = _of_session(session, data).plan
    return structs.replace(plan, unread=plan.unread + _interrupted(data, session.home))


def _interrupted(data: Path, home: ClaudeHome | None = None) -> tuple[tuple[str, str], ...]:
    journal = ChangeJournal(data / "undo")
    return tuple(
        (str(journal.root / change.id), INTERRUPTED)
        for change in journal.unfinished()
        if home is None or change.home == home.root
    )


def redact(session: Session, data: Path, *, is_final: bool = False) -> tuple[RedactionPlan, Change | None]:
    """Replace them; None if there were none. ``Busy`` where a client has the session open.

    With ``is_final`` the journal keeps no original: it cannot be undone.
    """
    logs = [session.path, *(agent.path for agent in session.agents())]
    with hold_logs(logs, data):
        refuse_open(session.home, session.id)
        work = _of_session(session, data)
        if not work.plan.files:
            return work.plan, None
        applied = ChangeJournal(data / "undo").apply(work.change(), transient=is_final)
        again = _of_session(session, data).plan
        notes = (f"{len(again.findings)} were found afterwards: redact again",) if again.findings else ()
        return structs.replace(
            work.plan,
            notes=tuple(dict.fromkeys(work.plan.notes + again.notes + notes)),
            unread=tuple(dict.fromkeys(work.plan.unread + again.unread)),
            left=(*again.findings, *again.left),
        ), applied


def _of_session(session: Session, data: Path) -> _RedactionBuilder:
    places = HomePlaces(session.home)
    work = _RedactionBuilder(session.home, places.to_redact(session), data, ignored_secrets(), session.id)
    unread = tuple(dict.fromkeys((*work.plan.unread, *places.problems)))
    work.plan = structs.replace(work.plan, unread=unread)
    return work


class _RedactionBuilder:
    """One redaction of places in one home: searched on creation, turned into a change on request.

    Without a session it is of all of them, except those that are open.
    """

    def __init__(
        self,
        home: ClaudeHome,
        places: Iterable[SecretPlace],
        data: Path,
        keep: Collection[str],
        session: str | None = None,
    ) -> None:
        self._home, self._session = home, session
        self._fingerprints = Fingerprints(data)
        self._keep = keep
        self._seen: dict[Path, FileState] = {}
        live = {str(one.session_id): one.pid for one in live_sessions(home)}
        notes: list[str] = []
        files: list[RedactedFile] = []
        left: list[SecretFinding] = []
        unread: list[tuple[str, str]] = []
        for place in places:
            findings = self._findings(place, unread)
            reason = _why_unchanged(place, is_in_use=bool(live)) if findings else None
            if session is None and reason is None:
                reason = _why_open(place, findings, live)
            if reason is not None:
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
        if files and (copy := kept_by_its_client(home)) is not None:
            notes.append(copy)
        self.plan = RedactionPlan(
            session,
            tuple(files),
            None if session is None else open_in(home, session),
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
        return list(_not_ignored(scanned.findings, self._keep))

    # --- as a change ----------------------------------------------------------------------------

    def change(self) -> ChangePlan:
        change = ChangePlan("redact", self._session or _ALL, self._home.root)
        renamed: dict[bytes, bytes] = {}
        for file in self.plan.files:
            if file.role == "paste":
                renamed.update(self._paste_steps(change, file))
        history = self._home.history_file
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
        own = self._session if file.role == "history" else None
        return _redacted_lines(file.path, size, _LineRedaction(self._fingerprints, self._keep, own, renamed))


def _why_open(place: SecretPlace, findings: Sequence[SecretFinding], live: Mapping[str, int]) -> str | None:
    """Why a file of any session is left alone; those of one are refused as a whole."""
    processes = [live[name] for one in findings if (name := one.session or "") in live]
    if not processes:
        return None
    return f"{place.path}: a client has its session open (process {processes[0]}), not changed: redact again later"


def _why_unchanged(place: SecretPlace, *, is_in_use: bool) -> str | None:
    if place.role in ("history", "paste") and is_in_use:
        return HISTORY_IN_USE
    if place.role in ("settings", "config", "shell"):
        return f"{place.path}: what is in it is in use, not changed: replace it there by hand"
    is_too_large = place.shape != "lines" and place.size > _LARGEST_TEXT
    return f"{place.path}: too large, not changed" if is_too_large else None


def _not_ignored(findings: Sequence[SecretFinding], keep: Collection[str]) -> tuple[SecretFinding, ...]:
    return tuple(one for one in findings if f"{one.kind}:{one.fingerprint}" not in keep)


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
        result: Redacted[bytes] = redacted_line(line, rule.fingerprints, rule.keep)
        yield with_plain_thoughts(result.data, [one.field for one in result.found])
        end = stop
    yield block[end:]


# ---- copies ------------------------------------------------------------------------------------------------

_ROLES = ("archive", "trash", "undo", "quarantine", "left-over")
_ALL = "secrets"
_AT_ONCE = 200
"""Logs that are locked and changed together: each lock is an open file."""


def planned_everywhere(session: Session, data: Path) -> RedactionPlan:
    """Find the secrets of a session and of its copies; nothing is changed."""
    cleaner = _copies_of(session, data)
    found = tuple(RedactedFile(place.path, place.role, findings) for place, findings in cleaner.findings())
    home = planned_redaction(session, data)
    return structs.replace(home, copies=found, unread=(*home.unread, *cleaner.unread))


def redact_everywhere(session: Session, data: Path, cache: Path) -> RedactionPlan:
    """Remove them all. ``Busy`` where a client has the session open; then nothing was changed."""
    plan = planned_everywhere(session, data)
    if plan.files or plan.copies:
        # First too: if this is killed after the last copy, another run would find no secret and leave the index.
        if plan.open_in is None:  # else it is refused, and nothing changes
            _delete_index(cache)
        redact(session, data, is_final=True)
        _copies_of(session, data).clean()
        _delete_index(cache)
    again = planned_everywhere(session, data)
    left = (*(finding for copy in again.copies for finding in copy.findings), *again.findings, *again.left)
    return structs.replace(plan, left=left, unread=again.unread)


def _delete_index(cache: Path) -> None:
    """It quotes every text, deleted rows included, until its pages are used again."""
    for path in cache.glob("index-v*"):
        with contextlib.suppress(OSError):
            fsops.unlink(path)


class _AllBut(frozenset[str]):
    """``kind:fingerprint`` of what stays: everything but these."""

    def __contains__(self, key: object) -> bool:
        return not super().__contains__(key)


class _SecretRemoval:
    """Some secrets wherever they are: searched on creation, removed on request."""

    def __init__(self, homes: Homes, chosen: Collection[str], data: Path) -> None:
        self._homes, self._data = homes, data
        self.found = scan(homes, data=data, everywhere=True)
        named = [one for one in self.found.findings if not chosen or one.fingerprint in chosen]
        self._keep = _AllBut(f"{one.kind}:{one.fingerprint}" for one in named)
        dirty = {one.path for one in named}
        self._places: list[tuple[ClaudeHome, list[SecretPlace]]] = []
        kept: list[SecretPlace] = []
        for home in homes.homes if named else ():
            listed = distinct(HomePlaces(home).all())
            self._places.append((home, [place for place in listed if str(place.path) in dirty]))
            kept += [place for place in copies(data, home) if str(place.path) in dirty]
        self._copies = distinct(kept)
        plans = [_RedactionBuilder(home, places, data, self._keep).plan for home, places in self._places]
        files = tuple(file for plan in plans for file in plan.files)
        cleaner = self._cleaner()
        cleaned = tuple(RedactedFile(place.path, place.role, one) for place, one in cleaner.findings())
        left = [one for plan in plans for one in plan.left]
        known = {str(file.path) for file in (*files, *cleaned)} | {one.path for one in left}
        left += [one for one in named if one.path not in known]
        unread = (*self.found.problems, *(one for plan in plans for one in plan.unread), *cleaner.unread)
        self.plan = RedactionPlan(
            None,
            files,
            None,
            tuple(dict.fromkeys((*self.found.notes, *(note for plan in plans for note in plan.notes)))),
            (*dict.fromkeys(unread), *_interrupted(data)),
            tuple(left),
            cleaned,
        )

    def _cleaner(self) -> _CopyCleaner:
        return _CopyCleaner(self._copies, self._data, self._keep)

    def remove(self) -> None:
        journal = ChangeJournal(self._data / "undo")
        for home, places in self._places:
            shared = [place for place in places if place.role in ("history", "paste")]
            own = [place for place in places if place.role not in ("history", "paste")]
            parts = [own[at : at + _AT_ONCE] for at in range(0, len(own), _AT_ONCE)] or [[]]
            parts[-1] += shared  # a paste gets another name, which the history must have in the same change
            for part in parts:
                logs = [place.path for place in part if place.role in ("log", "agent")]
                with hold_logs(logs, self._data):
                    work = _RedactionBuilder(home, part, self._data, self._keep)
                    if work.plan.files:
                        journal.apply(work.change(), transient=True)
        self._cleaner().clean()


def planned_secrets(homes: Homes, chosen: Collection[str], data: Path) -> RedactionPlan:
    """Find some secrets, by fingerprint, or without one all, wherever they are; nothing is changed."""
    return _SecretRemoval(homes, chosen, data).plan


def remove_secrets(homes: Homes, chosen: Collection[str], data: Path, cache: Path) -> RedactionPlan:
    """Remove them for good, and search everything again: ``left`` is what is there then."""
    work = _SecretRemoval(homes, chosen, data)
    if not work.plan.files and not work.plan.copies:
        return work.plan
    _delete_index(cache)  # first too, as above
    work.remove()
    _delete_index(cache)
    again = _SecretRemoval(homes, chosen, data).plan
    left = (*(one for file in (*again.files, *again.copies) for one in file.findings), *again.left)
    notes = tuple(dict.fromkeys((*work.plan.notes, *again.notes)))
    return structs.replace(work.plan, left=left, unread=again.unread, notes=notes)


def _copies_of(session: Session, data: Path) -> _CopyCleaner:
    listed = distinct(copies(data, session.home, session.id))
    return _CopyCleaner(listed, data, ignored_secrets(), session.id)


class _CopyCleaner:
    """Copies, of one session or of all: searched, and cleaned on request."""

    def __init__(
        self, places: Sequence[SecretPlace], data: Path, keep: Collection[str], session: str | None = None
    ) -> None:
        self._places, self._session, self._data = places, session, data
        self._fingerprints, self._keep = Fingerprints(data), keep
        self.unread: list[tuple[str, str]] = []

    def findings(self) -> Iterator[tuple[SecretPlace, tuple[SecretFinding, ...]]]:
        """The copies with secrets."""
        for place in self._places:
            scanned = scan_place(place, self._fingerprints.key)
            if scanned.problem is not None:
                self.unread.append((str(place.path), scanned.problem))
            if findings := _not_ignored(scanned.findings, self._keep):
                yield place, findings

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
                if dirty and self._session in (None, manifest.session):
                    archive.rewrite(manifest, dirty, self._text(manifest.title))
            for name in archive.unused():
                if archive.objects.path(name) in places:
                    archive.objects.discard(name)

    def _clean_trash(self, places: dict[Path, SecretPlace]) -> None:
        trash = Trash(self._data / "trash")
        for batch in trash.batches():
            dirty = {
                file.path: functools.partial(self._content, places[path])
                for file in batch.files
                if (path := trash.place(batch, file.path)) in places
            }
            if dirty:
                trash.rewrite(batch, dirty, self._text(batch.title))

    def _clean_quarantine(self, places: list[SecretPlace]) -> None:
        if places:
            root = self._data / "quarantine"
            plan = ChangePlan("redact", self._session or _ALL, root)
            for place in places:
                seen = FileState.at(place.path)
                plan.replace(place.path, self._content(place), expected=seen, mtime_ns=seen.mtime_ns)
            ChangeJournal(self._data / "undo").apply(plan, transient=True)

    def _content(self, place: SecretPlace) -> Iterator[bytes]:
        return redacted_content(place.path, place.shape, self._fingerprints, self._keep)

    def _text(self, title: str) -> str:
        return redacted(title, self._fingerprints, self._keep).data
