"""Read, Write and Edit, with the client's rules and messages, and backups from which a turn can be taken back.

An existing file is changed only if the session has read its current content; an edit replaces exactly the given
text. Files are UTF-8; CRLF is kept and not shown in a file that uses it throughout.

What was decided is what is read and written (C02, C07, C09): a path is resolved once and then walked by descriptor
without following links. A new content is written beside the old file and renamed over it, with its mode.

At each prompt a ``file-history-snapshot`` names every file this session has changed, with a backup of its current
content; a file first changed during a turn is added by a second snapshot of the same prompt, which every client
understands. The bytes are stored before the line that names them, and both before the file is changed. Paths in an
old log are not trusted: only files inside the working directories are backed up again.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import difflib
import os
import secrets
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import NotFound, RecollectError
from recollect.guard.agent.calls import (
    ApprovedCall,
    PermissionGate,
    ToolFailed,
    ToolOutcome,
    invalid,
    updated,
    words,
)
from recollect.guard.agent.sessions import put
from recollect.model.files.history import BackedUpFile, FileBackup, FileEvents
from recollect.model.lines import draft
from recollect.model.lines.damage import Damage, readable_entries
from recollect.model.lines.draft import iso_time
from recollect.model.lines.entry import Entry
from recollect.store.file_backups import backup_body, store_backup
from recollect.store.home import ClaudeHome
from recollect.store.store import SessionLog
from recollect.system import fsops, openat
from recollect.system.openat import open_beneath

_ROOT = Path("/")
_MADE_UP = ("/proc/", "/sys/", "/dev/")  # /proc/self/environ contains this process's API key
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A file's state when it was read."""

    data: bytes
    identity: tuple[int, int]
    mode: int


def read(real: str, most: int = MOST_BYTES) -> FileSnapshot | None:
    """The file at a resolved path; None where there is none."""
    if f"{real}/".startswith(_MADE_UP):
        raise ToolFailed(f"{real}: is not a file on a disk")
    try:
        opened = open_beneath(_ROOT, real.strip("/"))
    except NotFound:
        return None
    except RecollectError as problem:
        raise ToolFailed(f"{real}: {problem.message}") from problem
    try:
        found = os.fstat(opened)
        if found.st_size > most:
            raise ToolFailed(
                f"File content ({found.st_size:,} bytes) exceeds maximum allowed size ({most:,} bytes)."
            )
        data = fsops.pread(opened, found.st_size, 0)
    finally:
        fsops.close_quietly(opened)
    return FileSnapshot(data, (found.st_dev, found.st_ino), stat.S_IMODE(found.st_mode))


def write(real: str, data: bytes, before: FileSnapshot | None) -> FileSnapshot:
    """Write the file at a resolved path if it is still the one in ``before``; returns its new state."""
    *above, name = real.strip("/").split("/")
    temporary = f".recollect-{secrets.token_hex(8)}.tmp"
    try:
        with openat.opened(_ROOT, tuple(above), create=before is None) as directory:
            status = openat.status(directory, name)
            if status is not None and not stat.S_ISREG(status.st_mode):
                raise openat.refused_link(Path(real))
            now = None if status is None else (status.st_dev, status.st_ino)
            if now != (None if before is None else before.identity):
                raise ToolFailed(
                    f"{real}: the file changed between the decision and the call. Nothing was written."
                )
            try:
                openat.create_file(directory, temporary, data, None if before is None else before.mode)
                # A rename would replace a file created since the check; a hard link fails instead.
                if before is None and openat.give_second_name(directory, temporary, name):
                    openat.remove(directory, temporary)
                else:
                    openat.replace(directory, temporary, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    openat.remove(directory, temporary)
                raise
            openat.sync(directory)
    except RecollectError as problem:
        raise ToolFailed(f"{real}: {problem.message}. Nothing was written.") from problem
    except OSError as problem:
        raise ToolFailed(f"{real}: {problem.strerror or problem}. Nothing was written.") from problem
    seen = read(real)
    if seen is None:
        raise ToolFailed(f"{real}: the file was removed right after it was written")
    return seen


class FileHistory:
    """The backups of one session. Before the first ``at_prompt`` nothing is backed up."""

    def __init__(self, log: SessionLog, home: ClaudeHome, gate: PermissionGate) -> None:
        self._log, self._home, self._gate = log, home, gate
        self._tracked = _tracked_in(log.entries())
        self._prompt: str | None = None
        self._taken_at = ""
        self._noting = threading.Lock()  # a sub-agent in the background changes files too

    def at_prompt(self, prompt: str) -> None:
        """A new turn begins: every file changed before is backed up if it differs."""
        now = _now()
        with self._noting:
            for name, backup in list(self._tracked.items()):
                self._tracked[name] = self._renewed(name, backup, now)
            self._prompt, self._taken_at = prompt, iso_time(now)
            self._note(prompt, is_update=False)

    def before_change(self, path: str, data: bytes | None, asked_by: str | None) -> None:
        """Back up a file before this turn changes it; ``data`` is None where there is no file yet."""
        name = self._name(path)
        with self._noting:
            if self._prompt is None or name in self._tracked:
                return
            self._tracked[name] = self._stored(path, data, 1, _now())
            self._note(asked_by or self._prompt, is_update=True)

    def _renewed(self, name: str, backup: FileBackup, now: dt.datetime) -> FileBackup:
        path = str(Path(self._gate.root) / name)
        if not self._gate.holds_directory(path):
            return backup
        try:
            seen = read(self._gate.world.resolved(path))
            data = None if seen is None else seen.data
            if data == (backup.name and backup_body(self._home, self._log.id, backup.name)):
                return backup
            return self._stored(path, data, max(backup.version, 0) + 1, now)
        except (ToolFailed, RecollectError):  # a file that cannot be read keeps its last backup
            return backup

    def _stored(self, path: str, data: bytes | None, version: int, at: dt.datetime) -> FileBackup:
        if data is None:
            return FileBackup(None, version, at)
        return store_backup(self._home, self._log.id, path, data, version=version, at=at)

    def _note(self, message: str, *, is_update: bool) -> None:
        tracked = {
            name: {
                "backupFileName": backup.name,
                "version": backup.version,
                "backupTime": iso_time(backup.at) if backup.at else self._taken_at,
            }
            for name, backup in self._tracked.items()
        }
        taken = {"messageId": self._prompt, "trackedFileBackups": tracked, "timestamp": self._taken_at}
        put(
            self._log,
            draft.metadata(
                "file-history-snapshot", messageId=message, snapshot=taken, isSnapshotUpdate=is_update
            ),
        )

    def _name(self, path: str) -> str:
        """As the client names it: relative to the session's directory where it is inside."""
        try:
            return str(Path(path).relative_to(self._gate.root))
        except ValueError:
            return path


def _tracked_in(entries: Iterable[Entry | Damage]) -> dict[str, FileBackup]:
    """The newest backup of every file named in the log."""
    events = FileEvents(None)
    for entry in readable_entries(entries):
        events.add(entry)
    tracked: dict[str, FileBackup] = {}
    for event in events.in_order():
        if isinstance(event, BackedUpFile):
            known = tracked.setdefault(event.tracked, event.backup)
            tracked[event.tracked] = max(known, event.backup, key=lambda backup: backup.version)
    return tracked


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


_CONTEXT = 3
_MOST_LINES = 4_000
_NO_NEWLINE = "\\ No newline at end of file"


def structured_patch(old: str, new: str) -> list[dict[str, Any]]:
    """The hunks from the old text to the new one."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    start, end = _common(before, after)
    left, right = max(start - _CONTEXT, 0), max(end - _CONTEXT, 0)
    before, after = before[left : len(before) - right], after[left : len(after) - right]
    if len(before) + len(after) > _MOST_LINES:  # a diff of two long texts takes too long
        ranges = f"@@ -{bool(before):d},{len(before)} +{bool(after):d},{len(after)} @@"
        lines = [ranges, *(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        lines = list(difflib.unified_diff(before, after, n=_CONTEXT))[2:]
    hunks: list[dict[str, Any]] = []
    for line in lines:
        if line.startswith("@@"):
            places = [part.partition(",") for part in line.replace("-", "").replace("+", "").split()[1:3]]
            (old_at, _, old_lines), (new_at, _, new_lines) = places
            hunk = {"oldStart": left + int(old_at), "oldLines": int(old_lines or 1)}
            hunk |= {"newStart": left + int(new_at), "newLines": int(new_lines or 1)}
            hunks.append({**hunk, "lines": []})
        else:
            hunks[-1]["lines"].append(line.rstrip("\n"))
            if not line.endswith("\n"):
                hunks[-1]["lines"].append(_NO_NEWLINE)
    return hunks


def _common(before: list[str], after: list[str]) -> tuple[int, int]:
    """The number of equal lines at the start, and of the rest at the end."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return start, end


_LINES, _LINE_CHARACTERS, _READ_BYTES, _IMAGE_BYTES = 2_000, 2_000, 256 * 1024, 3_750_000
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


class FileTools:
    """The files of one session: which were read, and in which state."""

    def __init__(self, gate: PermissionGate, history: FileHistory) -> None:
        self._gate, self._history = gate, history
        self._seen: dict[str, FileSnapshot] = {}
        self._seen_in_part: set[str] = set()

    # ---- Read --------------------------------------------------------------------------------------------

    def read(self, call: ApprovedCall) -> ToolOutcome:
        """A file's text with line numbers, or an image."""
        path, real, seen = self._opened(call)
        if seen is None:
            raise ToolFailed(words("missing", cwd=call.cwd))
        self._seen[real] = seen
        kind = next((kind for start, kind in _IMAGES.items() if seen.data.startswith(start)), None)
        if kind is not None:
            return _picture(seen.data, kind)
        text = _shown(seen.data)
        lines = text.split("\n")
        first = max(int(call.number("offset") or 1), 1)
        limit = max(int(call.number("limit") or _LINES), 1)
        chosen = lines[first - 1 : first - 1 + limit]
        (self._seen_in_part.discard if len(chosen) == len(lines) else self._seen_in_part.add)(real)
        content = "\n".join(chosen)
        if len(content.encode("utf-8", "replace")) > _READ_BYTES:
            most = f"maximum allowed size ({_READ_BYTES // 1024}KB)"
            how = "Use offset and limit parameters to read specific portions of the file."
            raise ToolFailed(f"File content ({len(content):,} characters) exceeds {most}. {how}")
        file = {
            "filePath": path,
            "content": content,
            "numLines": len(chosen),
            "startLine": first,
            "totalLines": len(lines),
        }
        shown = "\n".join(f"{number}\t{line[:_LINE_CHARACTERS]}" for number, line in enumerate(chosen, first))
        if not text:
            shown = words("empty_file")
        elif not chosen:
            shown = words("beyond_the_end", first=first, total=len(lines))
        return ToolOutcome(shown, {"type": "text", "file": file})

    # ---- Write -------------------------------------------------------------------------------------------

    def write(self, call: ApprovedCall) -> ToolOutcome:
        content = _text(call, "content")
        path, real, before = self._opened(call)
        if before is not None:
            self._require_known(real, before)
        old = None if before is None else _shown(before.data)
        ending = "\r\n" if before is not None and _has_crlf(before.data) else "\n"
        self._replace(call, path, real, before, _bytes(content, ending))
        self._seen_in_part.discard(real)
        rich = {
            "type": "create" if before is None else "update",
            "filePath": path,
            "content": content,
            "structuredPatch": [] if old is None else structured_patch(old, content),
            "originalFile": old,
            "userModified": False,
        }
        return ToolOutcome(words("created", path=path) if before is None else updated(path), rich)

    # ---- Edit --------------------------------------------------------------------------------------------

    def edit(self, call: ApprovedCall) -> ToolOutcome:
        old, new = _text(call, "old_string"), _text(call, "new_string")
        everywhere = call.arguments.get("replace_all") is True
        if old == new:
            raise ToolFailed(words("no_change"), refused=True)
        path, real, before = self._opened(call)
        text = self._editable(call, real, before, old)
        times = text.count(old) if old else 1
        if not times:
            raise ToolFailed(words("not_found_in_file", text=old), refused=True)
        if times > 1 and not everywhere:
            raise ToolFailed(words("found_often", times=times, text=old), refused=True)
        edited = text.replace(old, new) if old else new
        ending = "\r\n" if before is not None and _has_crlf(before.data) else "\n"
        self._replace(call, path, real, before, _bytes(edited, ending))
        known = real not in self._seen_in_part
        rich = {
            "filePath": path,
            "oldString": old,
            "newString": new,
            "originalFile": text,
            "structuredPatch": structured_patch(text, edited),
            "userModified": False,
            "replaceAll": everywhere,
        }
        if not known:
            rich["contentNotInModelContext"] = True
        return ToolOutcome(updated(path, everywhere=everywhere, known=known), rich)

    def _editable(self, call: ApprovedCall, real: str, before: FileSnapshot | None, old: str) -> str:
        if before is None:
            if old:
                raise ToolFailed(words("missing", cwd=call.cwd), refused=True)
            return ""
        self._require_known(real, before)
        if not old and before.data:
            raise ToolFailed("Cannot create new file - file already exists.", refused=True)
        try:
            text = before.data.decode("utf-8")
        except UnicodeDecodeError:
            raise ToolFailed("The file is not UTF-8 text, so it cannot be edited.", refused=True) from None
        return text.replace("\r\n", "\n") if _has_crlf(before.data) else text

    # ---- both --------------------------------------------------------------------------------------------

    def _opened(self, call: ApprovedCall) -> tuple[str, str, FileSnapshot | None]:
        """Path, resolved path and file; the decision is checked again after the file was opened."""
        path = _text(call, "file_path")
        real = self._gate.world.resolved(path)
        seen = read(real)
        call.require_still_allowed()
        if self._gate.world.identity(path) != (None if seen is None else seen.identity):
            raise ToolFailed("The file changed between the decision and the call. Nothing was done.")
        return path, real, seen

    def _require_known(self, real: str, now: FileSnapshot) -> None:
        known = self._seen.get(real)
        if known is None:
            raise ToolFailed(words("not_read"), refused=True)
        if known.data != now.data:
            raise ToolFailed(words("changed"), refused=True)

    def _replace(
        self, call: ApprovedCall, path: str, real: str, before: FileSnapshot | None, data: bytes
    ) -> None:
        self._history.before_change(path, None if before is None else before.data, call.asked_by)
        call.require_still_allowed()
        self._seen[real] = write(real, data, before)


def _text(call: ApprovedCall, name: str) -> str:
    value = call.arguments.get(name)
    if not isinstance(value, str):
        problem = "is missing" if value is None else "is not a string"
        raise invalid(call.tool, f"The required parameter `{name}` {problem}")
    return value


def _has_crlf(data: bytes) -> bool:
    """True only if all line ends are CRLF: a file with both kinds is left as it is."""
    return b"\r\n" in data and data.count(b"\r\n") == data.count(b"\n")


def _shown(data: bytes) -> str:
    if data.startswith(b"\xff\xfe"):
        return data.decode("utf-16", "replace").replace("\r\n", "\n")
    if b"\0" in data[:8192]:
        raise ToolFailed("This tool cannot read binary files.")
    text = data.decode("utf-8", "replace")
    return text.replace("\r\n", "\n") if _has_crlf(data) else text


def _bytes(text: str, ending: str) -> bytes:
    try:
        return (text.replace("\r\n", "\n").replace("\n", ending) if ending != "\n" else text).encode()
    except UnicodeEncodeError:
        raise ToolFailed(
            "The text has half a surrogate pair, which no file can hold.", refused=True
        ) from None


def _picture(data: bytes, kind: str) -> ToolOutcome:
    if len(data) > _IMAGE_BYTES:
        raise ToolFailed(f"The image has {len(data):,} bytes; at most {_IMAGE_BYTES:,} can be shown.")
    encoded = base64.b64encode(data).decode("ascii")
    source = {"type": "base64", "media_type": kind, "data": encoded}
    file = {"base64": encoded, "type": kind, "originalSize": len(data)}
    return ToolOutcome([{"type": "image", "source": source}], {"type": "image", "file": file})
