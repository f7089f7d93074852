"""Every version of every file a session touched, as far as its log shows.

Four kinds of lines mention files: backups (``file-history-snapshot`` and ``-delta`` name the file with the
exact bytes), results of Write and Edit calls, results of Read calls, and the earlier content that a write or
edit reports. They are put in conversation order and folded into one list of versions per path. An edit
without the whole text is computed from the version before it (``text_edits``).

Two promises. ``bytes`` are the exact content of the file; ``str`` is the text as the client reports it, which
may differ in line ends and encoding. And nothing is guessed: a version with unknown content has ``content``
None, with the patch, if there is one, in ``patch``.

Paths are absolute and as the session wrote them; links are not resolved and directory names are never
decoded. Changes made by shell commands or by people show only if the session read the file afterwards. Backup
files are not read here: the caller supplies ``body_of``.
"""

from __future__ import annotations

import datetime as dt
import difflib
import enum
import hashlib
import ntpath
import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct, UnsetType

from recollect.errors import UsageError
from recollect.model.files.reports import (
    FileChange,
    FileReports,
    FileSight,
    LineTally,
    ReportContext,
    change_tally,
    report_context,
)
from recollect.model.files.text_edits import edited, unified
from recollect.model.lines.entry import Entry, FileHistoryDelta, FileHistoryNote, FileHistorySnapshot
from recollect.model.lines.ids import parsed_time
from recollect.model.lines.json_text import loose_value

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class FileBackup(Struct, frozen=True):
    """A backup for rewind. ``name`` is None where there was no file to back up."""

    name: str | None
    version: int
    at: dt.datetime | None


class BackedUpFile(Struct, frozen=True):
    """A file that a snapshot or delta names. ``at``: when it had the contents of the backup."""

    tracked: str
    backup: FileBackup
    entry_uuid: str | None
    at: dt.datetime | None


FileEvent: TypeAlias = BackedUpFile | FileChange | FileSight


class FileEvents:
    """One pass over a log: events with their places, and the data to resolve their paths."""

    def __init__(self, cwd: str | None) -> None:
        self._events: list[tuple[int, int, FileEvent]] = []
        self._waiting: list[tuple[int, BackedUpFile]] = []
        self._snapshots: dict[str, dict[str, BackedUpFile]] = {}
        self._places: dict[str, int] = {}
        self._times: list[tuple[dt.datetime, int]] = []
        self._cwds: dict[str, None] = {} if cwd is None else {cwd: None}
        self._hashes: dict[str, set[str]] = {}
        self._tracked: dict[str, str] = {}
        self._reports = FileReports()
        self._count = 0

    def add(self, entry: Entry) -> None:
        place, self._count = self._count, self._count + 1
        body, uuid = entry.body, entry.uuid
        if isinstance(body, FileHistorySnapshot):
            self._add_snapshot(place, body)
        elif isinstance(body, FileHistoryDelta):
            self._add_delta(place, body)
        elif isinstance(body, FileHistoryNote):
            is_gone = body.operation == "delete"
            self._put(place, FileSight(path=body.path, context=report_context(entry), existed=not is_gone))
        elif uuid is None or uuid not in self._places:  # a repeated line counts once
            if uuid is not None:
                self._places[uuid] = place
            self._add_link(place, entry)

    def _add_link(self, place: int, entry: Entry) -> None:
        if entry.chain is not None and entry.chain.cwd:
            self._cwds.setdefault(entry.chain.cwd)
        at = entry.at
        if at is not None and (not self._times or at >= self._times[-1][0]):
            self._times.append((at, place))
        for report in self._reports.of(entry):
            self._put(place, report)

    def _put(self, place: int, event: FileEvent) -> None:
        self._events.append((place, len(self._events), event))

    def _add_snapshot(self, place: int, body: FileHistorySnapshot) -> None:
        value = loose_value(body.snapshot)
        value = value if isinstance(value, dict) else {}
        tracked = value.get("trackedFileBackups")
        owner, taken = value.get("messageId"), _time(value.get("timestamp"))
        backups = {
            path: _backed_up(path, fields, body.message_id, taken)
            for path, fields in (tracked if isinstance(tracked, dict) else {}).items()
            if isinstance(fields, dict)
        }
        if isinstance(owner, str):
            self._snapshots[owner] = backups
        for backed_up in backups.values():
            self._wait(place, backed_up)

    def _add_delta(self, place: int, body: FileHistoryDelta) -> None:
        fields = None if isinstance(body.backup, UnsetType) else loose_value(body.backup)
        if not isinstance(fields, dict):
            return
        backed_up = _backed_up(body.tracking_path, fields, body.message_id, None)
        if body.snapshot_message_id is not None:
            self._snapshots.setdefault(body.snapshot_message_id, {})[body.tracking_path] = backed_up
        self._wait(place, backed_up)

    def _wait(self, place: int, backed_up: BackedUpFile) -> None:
        """Postpone the event: a snapshot comes before the prompt it is for, so its place is known only at the
        end.
        """
        self._waiting.append((place, backed_up))
        if backed_up.backup.name is not None:
            named = self._hashes.setdefault(backed_up.tracked, set())
            named.add(backed_up.backup.name.partition("@")[0])

    def in_order(self) -> list[FileEvent]:
        """Events as they happened.

        A backup belongs to the line it was made for, independent of where it is written.
        """
        ranked: list[tuple[int, int, int, FileEvent]] = [
            # At the same place the backup comes first: it was made before the call ran.
            (self._place_of(event, place), 0, order, event)
            for order, (place, event) in enumerate(self._waiting)
        ]
        ranked += [(place, 1, order, event) for place, order, event in self._events]
        return [event for *_, event in sorted(ranked, key=lambda item: item[:3])]

    def _place_of(self, event: BackedUpFile, written: int) -> int:
        place = self._places.get(event.entry_uuid or "")
        if place is not None or event.at is None or not self._times:
            return written if place is None else place
        # A copy of a session lacks the lines of dead branches; only the time is available.
        after = bisect_right(self._times, (event.at, self._count))
        return self._times[after - 1][1] if after else 0

    def snapshot_at(self, prompt_uuid: str) -> dict[str, BackedUpFile]:
        """By tracking path: the backup that belongs to the prompt, or else the first later one of the file."""
        owners = list(self._snapshots)
        if prompt_uuid not in self._snapshots:
            return {}
        chosen: dict[str, BackedUpFile] = {}
        for owner in owners[owners.index(prompt_uuid) :]:
            for path, backed_up in self._snapshots[owner].items():
                chosen.setdefault(path, backed_up)
        return chosen

    def path_of(self, event: FileEvent) -> str:
        """The absolute path an event is about."""
        if not isinstance(event, BackedUpFile):
            return absolute(event.path, event.context.cwd or next(iter(self._cwds), ""))
        if event.tracked not in self._tracked:
            self._tracked[event.tracked] = self._tracked_path(event.tracked)
        return self._tracked[event.tracked]

    def _tracked_path(self, tracked: str) -> str:
        """The working directory may have changed; the name of a backup identifies the right one."""
        candidates = [absolute(tracked, cwd) for cwd in self._cwds] or [tracked]
        hashes = self._hashes.get(tracked, set())
        fitting = (path for path in candidates if backup_name(path, 1).partition("@")[0] in hashes)
        return next(fitting, candidates[0])


def backup_name(path: str, version: int) -> str:
    """The client's name for the backup of an absolute path."""
    return f"{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}@v{version}"


def absolute(path: str, cwd: str) -> str:
    """A session's path without ``.`` and ``..``; symbolic links are not resolved."""
    if _WINDOWS_PATH.match(path) or (_WINDOWS_PATH.match(cwd) and not path.startswith("/")):
        return ntpath.normpath(ntpath.join(cwd, path))
    return posixpath.normpath(posixpath.join(cwd, path))


def _backed_up(
    path: str, fields: Mapping[str, object], entry_uuid: str | None, taken: dt.datetime | None
) -> BackedUpFile:
    name, version, made = fields.get("backupFileName"), fields.get("version"), _time(fields.get("backupTime"))
    backup = FileBackup(
        name if isinstance(name, str) else None, version if isinstance(version, int) else 0, made
    )
    # A snapshot that lists an old backup means that the file has that content when the snapshot is taken.
    times = [time for time in (made, taken) if time is not None]
    return BackedUpFile(path, backup, entry_uuid, max(times, default=None))


def _time(value: object) -> dt.datetime | None:
    return parsed_time(value) if isinstance(value, str) else None


BodyOf: TypeAlias = Callable[[str], bytes | None]

_UTF16_LE = b"\xff\xfe"


class VersionSource(enum.StrEnum):
    """Where the content of a version comes from."""

    BACKUP = "backup"
    WRITE = "write"
    EDIT = "edit"
    READ = "read"
    FOUND = "found"  # content that a write or an edit reports and no earlier version shows
    NOTE = "note"  # another writer's note that the file changed


class FileVersion(Struct, frozen=True, kw_only=True):
    """One state of one file. ``existed`` False: at that time there was no such file.

    ``entry_uuid`` is the entry that reports it: the prompt or call a backup was made for, otherwise the
    result of a call. ``tally`` are the lines that the session's own write or edit added and removed.
    """

    path: str
    source: VersionSource
    at: dt.datetime | None = None
    entry_uuid: str | None = None
    content: str | bytes | None = None
    backup_name: str | None = None
    existed: bool = True
    patch: str = ""
    tally: LineTally | None = None

    @property
    def is_known(self) -> bool:
        """Whether the content is known; a file that did not exist is known too."""
        return not self.existed or self.content is not None


class FileStep(Struct, frozen=True):
    """A state of a file, and the change that made it; None where it was only seen.

    In a replay ``path`` is the file it counts for, and ``author`` the number of the change, -1 for none that is known.
    """

    version: FileVersion
    change: FileChange | None = None
    path: str = ""
    author: int = -1


def file_steps(
    entries: Iterable[Entry],
    cwd: str | None = None,
    *,
    body_of: BodyOf | None = None,
    wanted: Callable[[str], bool] = bool,
) -> dict[str, list[FileStep]]:
    """As ``file_versions``, with the changes, for the paths that are wanted."""
    log = FileEvents(cwd)
    for entry in entries:
        log.add(entry)
    files: dict[str, _FileVersions] = {}
    steps: dict[str, list[FileStep]] = {}
    for event in log.in_order():
        path = log.path_of(event)
        if wanted(path):
            file = files.setdefault(path, _FileVersions(path, body_of))
            known = len(file.versions)
            file.apply(event)
            for version in file.versions[known:]:
                made = version.source in (VersionSource.WRITE, VersionSource.EDIT)
                change = event if made and isinstance(event, FileChange) else None
                steps.setdefault(path, []).append(FileStep(version, change))
    return steps


def file_versions(
    entries: Iterable[Entry], cwd: str | None = None, *, body_of: BodyOf | None = None
) -> dict[str, list[FileVersion]]:
    """The versions of every file the entries mention, oldest first, by absolute path.

    ``entries`` are a whole log in its order, including dead branches: their file changes were made. ``cwd``
    is the base of relative paths; the default is the working directory of the entries. ``body_of`` returns
    the bytes of a backup by its name; without it backups have a name and no content.
    """
    steps = file_steps(entries, cwd, body_of=body_of)
    return {path: [step.version for step in found] for path, found in steps.items()}


def rewound(
    entries: Iterable[Entry], prompt_uuid: str, cwd: str | None = None, *, body_of: BodyOf | None = None
) -> dict[str, FileVersion]:
    """The files as the client's ``--rewind-files`` would restore them.

    A file first touched after that prompt returns to its state before the touch. Empty where no snapshot
    belongs to the prompt.
    """
    log = FileEvents(cwd)
    for entry in entries:
        log.add(entry)
    chosen = log.snapshot_at(prompt_uuid)
    return {
        log.path_of(event): _backup_version(log.path_of(event), event, body_of) for event in chosen.values()
    }


def version_at(versions: Sequence[FileVersion], when: dt.datetime | str) -> FileVersion | None:
    """The state at a time, or after the entry with that id (or its first characters); None before the first."""
    if isinstance(when, str):
        named = [version for version in versions if when and (version.entry_uuid or "").startswith(when)]
        return named[-1] if named else None
    before = [version for version in versions if version.at is not None and version.at <= when]
    return before[-1] if before else None


def diff(old: FileVersion | None, new: FileVersion, *, context: int = 3) -> str:
    """The changes as a unified diff; "" if there are none. None for ``old`` means: there was no file.

    If a content is unknown, the patch recorded by the client is returned; ``UsageError`` if there is none.
    """
    before = f"a/{_shown(old.path)}" if old is not None and old.existed else "/dev/null"
    after = f"b/{_shown(new.path)}" if new.existed else "/dev/null"
    names = f"--- {before}\n+++ {after}\n"
    if not new.is_known or (old is not None and not old.is_known):
        if new.patch:
            return names + new.patch
        raise UsageError(
            f"{new.path}: its content is not recorded", hint="choose two versions whose content is known"
        )
    lines, new_lines = _comparable(old.content if old else None, new.content)
    if lines is None or new_lines is None:
        same = old is not None and old.content == new.content
        return "" if same else names + "Binary files differ\n"
    body = list(difflib.unified_diff(lines, new_lines, n=context))[2:]
    return names + "".join(_ended(line) for line in body) if body else ""


# ---- one file --------------------------------------------------------------------------------------------


class _FileVersions:
    """The versions of one path so far."""

    def __init__(self, path: str, body_of: BodyOf | None) -> None:
        self.path = path
        self.versions: list[FileVersion] = []
        self._body_of = body_of
        self._last_backup: str | None = None

    @property
    def _last(self) -> FileVersion | None:
        return self.versions[-1] if self.versions else None

    def apply(self, event: FileEvent) -> None:
        if isinstance(event, BackedUpFile):
            self._backed_up(event)
        elif isinstance(event, FileChange):
            self._changed(event)
        elif event.content is not None:
            self._seen(event.content, event.context, VersionSource.READ)
        else:
            self._add(VersionSource.NOTE, event.context, existed=event.existed)

    def _add(
        self,
        source: VersionSource,
        by: ReportContext,
        *,
        content: str | bytes | None = None,
        existed: bool = True,
        patch: str = "",
        tally: LineTally | None = None,
    ) -> None:
        if source is not VersionSource.READ:
            self._last_backup = None
        version = FileVersion(
            path=self.path,
            source=source,
            at=by.at,
            entry_uuid=by.entry_uuid,
            content=content,
            existed=existed,
            patch=patch,
            tally=tally,
        )
        self.versions.append(version)

    def _backed_up(self, event: BackedUpFile) -> None:
        """Every prompt lists all backups again; only one that follows a change is new information."""
        key = event.backup.name or f"absent@v{event.backup.version}"
        if key != self._last_backup:
            self.versions.append(_backup_version(self.path, event, self._body_of))
            self._last_backup = key

    def _seen(self, content: str | bytes, by: ReportContext, source: VersionSource) -> None:
        last = self._last
        if last is None or not last.existed or not _same(last.content, content):
            self._add(source, by, content=content)

    def _changed(self, event: FileChange) -> None:
        if event.created and (self._last is None or self._last.existed):
            self._add(VersionSource.FOUND, event.context, existed=False)
        elif event.original is not None:
            self._seen(event.original, event.context, VersionSource.FOUND)
        source = VersionSource.EDIT if event.is_edit else VersionSource.WRITE
        content, tally = self._content_after(event), change_tally(event)
        self._add(source, event.context, content=content, patch=unified(event.hunks), tally=tally)

    def _content_after(self, event: FileChange) -> str | bytes | None:
        if event.content is not None:
            return event.content
        last = self._last
        held = last.content if last is not None and last.existed else None
        base = event.original if event.original is not None else reported_text(held)
        if base is None and event.replacements and not event.replacements[0].old:
            base = ""  # an edit of nothing creates the file
        result = None if base is None else edited(base, event.replacements, event.hunks)
        return result if result is None or not isinstance(held, bytes) else _like(held, result)


def _backup_version(path: str, event: BackedUpFile, body_of: BodyOf | None) -> FileVersion:
    backup = event.backup
    return FileVersion(
        path=path,
        source=VersionSource.BACKUP,
        at=event.at,
        entry_uuid=event.entry_uuid,
        content=body_of(backup.name) if body_of is not None and backup.name is not None else None,
        backup_name=backup.name,
        existed=backup.name is not None,
    )


# ---- text and bytes --------------------------------------------------------------------------------------


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode("utf-16-le" if content.startswith(_UTF16_LE) else "utf-8")
    except UnicodeDecodeError:
        return None


def reported_text(content: str | bytes | None) -> str | None:
    """Text as the client reports it: line ends unified, a byte-order mark preserved; None for binary content."""
    text = _decoded(content) if isinstance(content, bytes) else content
    return None if text is None else text.replace("\r\n", "\n")


def _like(held: bytes, text: str) -> str | bytes:
    """``text`` in the encoding and with the line ends of ``held``, as an edit leaves them."""
    encoding = "utf-16-le" if held.startswith(_UTF16_LE) else "utf-8"
    ends = held.decode(encoding)
    if "\r\n" not in ends:
        return text if encoding == "utf-8" else text.encode(encoding, "replace")
    if ends.count("\n") != ends.count("\r\n"):
        return text  # mixed line ends: which kind the client writes is not known
    return text.replace("\n", "\r\n").encode(encoding, "replace")


def _same(one: str | bytes | None, other: str | bytes) -> bool:
    """Whether two reports describe the same state; a Read omits the byte-order mark."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        return one == other
    left, right = reported_text(one), reported_text(other)
    return (
        left is not None and right is not None and left.removeprefix("\ufeff") == right.removeprefix("\ufeff")
    )


def _comparable(
    old: str | bytes | None, new: str | bytes | None
) -> tuple[list[str] | None, list[str] | None]:
    """Both as lines. Line ends count only where both contents are exact bytes."""
    if isinstance(old, bytes) and isinstance(new, bytes):
        return _lines(_decoded(old)), _lines(_decoded(new))
    return _lines(reported_text(old) if old is not None else ""), _lines(
        reported_text(new) if new is not None else ""
    )


def _lines(text: str | None) -> list[str] | None:
    """Lines with their ends, split at newlines only; None for binary content."""
    return None if text is None or "\0" in text else [line for line in re.split(r"(?<=\n)", text) if line]


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _shown(path: str) -> str:
    """Escape a path for display: it may hold anything, even a newline followed by a forged diff."""
    path = path.lstrip("/")
    return path if path.isprintable() else ascii(path)[1:-1]
