"""Copies of a server's sessions as a Claude home, for code that can only read homes: of those that were opened.

A session is fetched when it is looked at, and from then on only its new lines. What the server has no more, or has encrypted, is
removed. Copies are bounded: beyond that the ones go that were looked at longest ago. A mirror belongs to one process and has a new
directory: what it wrote is what it remembers, and nothing is read back.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from msgspec import json

from recollect.errors import Busy, InvalidId
from recollect.model.project_key import project_key
from recollect.server.page.access import OrganizationSource
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.selection import FLAT, is_session_name, place_of
from recollect.share.sync.wire import (
    START,
    LogHead,
    Position,
    PositionConflict,
    RemoteSession,
    SessionDetail,
    SessionGone,
    SideFile,
    key_of,
    lines_of,
    names_of,
)
from recollect.store.session_files import SUBAGENTS, TODOS
from recollect.system import fsops
from recollect.system.fsops import as_storage_error

_AGENT, _NO_PROJECT = "agent-", "-unknown"
_FOR_EVER_DAYS = 36_500
_MOST_BYTES = 2 << 30
_Part = TypeVar("_Part", LogHead, SideFile)


class _SessionCopy:
    """What was written of a session: the end of each log, the hash of each side file, and their bytes."""

    def __init__(self, project: Path) -> None:
        self.project, self.good_until = project, 0.0
        self.logs: dict[Path, Position] = {}
        self.files: dict[Path, str] = {}
        self.sizes: dict[Path, int] = {}

    def forget(self, path: Path) -> None:
        for known in (self.logs, self.files, self.sizes):
            known.pop(path, None)


class Mirror:
    """One mirror below a directory. Threads may share it.

    ``rest`` is for how many seconds a session that was looked at is not asked for again. ``most_bytes``: beyond that the
    copies that were looked at longest ago are removed, but never the last one.
    """

    def __init__(
        self,
        root: Path,
        source: OrganizationSource | HttpRemote,
        *,
        rest: float = 1.0,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self.root, self.home, self._incoming = root, root / "home", root / "incoming"
        self._source, self._rest, self._most_bytes = source, rest, most_bytes
        self._copies: OrderedDict[str, _SessionCopy] = OrderedDict()
        self._lock = threading.RLock()
        self._is_stopped, self._unlisted_until, self._days = False, 0.0, 0
        self.left_out: set[tuple[str, str]] = set()
        fsops.make_directories(self.home / "projects")

    def keep_days(self, days: int | None) -> None:
        """Store how long the server keeps a session, where a home stores it; None means for ever."""
        wanted = days or _FOR_EVER_DAYS
        with self._lock:
            if wanted != self._days:
                data = json.encode({"cleanupPeriodDays": wanted})
                self._put(self.home / "settings.json", [data])
                self._days = wanted

    def stop(self) -> None:
        """Start no more requests; a running fetch completes."""
        self._is_stopped = True

    def look_at(self, session: str) -> None:
        """Fetch a session, or what is new of it; remove it where the server has none to show."""
        copy = self._copies.get(session)
        if not has_place(session) or (copy is not None and time.monotonic() < copy.good_until):
            return
        if self._is_stopped:
            raise Busy("the page is being closed", hint="ask again in a moment")
        with self._lock:
            detail = self._source.session(session)
            if detail is None or detail.session.encrypted:
                self._remove(session)
                return
            copy = self._copies.get(session)
            if copy is None:
                copy = self._copies[session] = _SessionCopy(self._project(detail.session))
            self._copies.move_to_end(session)
            self._update(copy, detail)
            copy.good_until = time.monotonic() + self._rest
            while len(self._copies) > 1 and self._bytes() > self._most_bytes:
                self._remove(next(iter(self._copies)))

    def log_of(self, session: str) -> Path | None:
        """The copy of a session's own log; None where there is none."""
        copy = self._copies.get(session)
        path = None if copy is None else copy.project / f"{session}.jsonl"
        return path if copy is not None and path in copy.logs else None

    def place(self, session: RemoteSession) -> Path:
        """Where the log of a session is, or would be."""
        copy = self._copies.get(session.id)
        project = self._project(session) if copy is None else copy.project
        return project / f"{session.id}.jsonl"

    def remove_gone(self, listed: Container[str] = (), *, every: float = 0.0) -> None:
        """Remove what the server has no more, and fetch nothing. Not asked for: what it lists; nor anything if that was done
        less than ``every`` seconds ago."""
        now = time.monotonic()
        if now < self._unlisted_until:
            return
        self._unlisted_until = now + every
        for name in [name for name in list(self._copies) if name not in listed]:
            detail = self._source.session(name)
            if detail is None or detail.session.encrypted:
                with self._lock:
                    self._remove(name)

    def _bytes(self) -> int:
        return sum(sum(copy.sizes.values()) for copy in self._copies.values())

    def _remove(self, session: str) -> None:
        copy = self._copies.pop(session, None)
        if copy is None:
            return
        with as_storage_error("remove", self.home):
            for path in copy.sizes:
                path.unlink(missing_ok=True)
            for place in (copy.project, self.home / "file-history", self.home / "tasks"):
                shutil.rmtree(place / session, ignore_errors=True)

    def _update(self, copy: _SessionCopy, detail: SessionDetail) -> None:
        """Bring one session up to date."""
        session = detail.session.id
        logs = dict(self._placed(detail.logs, copy.project, session, is_log=True))
        files = dict(self._placed(detail.files, copy.project, session, is_log=False)) if logs else {}
        for path in [path for path in copy.sizes if not path.exists()]:
            copy.forget(path)
        for path, head in logs.items():
            if copy.logs.get(path, START) == head.position:
                continue
            self._update_log(copy, session, head, path)
            if not head.key:
                with contextlib.suppress(OSError):
                    fsops.give_time(path, detail.session.changed * 1_000_000)
        for path, file in files.items():
            self._update_file(copy, session, file, path)
        for path in copy.sizes.keys() - logs.keys() - files.keys():
            with as_storage_error("remove", path):
                fsops.unlink(path)
            copy.forget(path)

    # --- paths ----------------------------------------------------------------------------------

    def _project(self, session: RemoteSession) -> Path:
        """The directory that a client would create for the working directory."""
        directory = session.cwd or session.project or ""
        is_path = directory.startswith("/") or ":" in directory
        return self.home / "projects" / (project_key(directory) if is_path else _NO_PROJECT)

    def _placed(
        self, parts: Sequence[_Part], project: Path, session: str, *, is_log: bool
    ) -> Iterator[tuple[Path, _Part]]:
        """Logs or files with their paths; those that a home has no place for are left out."""
        for part in parts:
            path = self._place(part.key, project, session, is_log=is_log)
            if path is None:
                self.left_out.add((session, part.key))
            else:
                yield path, part

    def _place(self, key: str, project: Path, session: str, *, is_log: bool) -> Path | None:
        with contextlib.suppress(InvalidId):
            names = names_of(key) if key else [""]
            if names[0] == FLAT:
                # Beside the session's log two sessions could collide; below it, the name is unique.
                key = key_of(SUBAGENTS, *names[1:])
            if names[0] != TODOS or names[-1].startswith((f"{session}-{_AGENT}", f"{session}.json")):
                return place_of(key, self.home, project, session, is_log=is_log)
        return None

    # --- bytes ----------------------------------------------------------------------------------

    def _update_log(self, copy: _SessionCopy, session: str, head: LogHead, path: Path) -> None:
        at = copy.logs.get(path, START)
        with contextlib.suppress(SessionGone):
            if START.lines < at.lines <= head.lines:
                with contextlib.suppress(PositionConflict):  # it began anew
                    self._append(copy, session, head.key, path)
                    return
            self._fetch(copy, session, head.key, path)

    def _append(self, copy: _SessionCopy, session: str, key: str, path: Path) -> None:
        for piece in self._source.read(session, key, copy.logs[path]):
            try:
                _write(path, fsops.open_append(path), [piece])
            except BaseException:
                copy.forget(path)  # half a line may be there: it is fetched anew
                raise
            copy.logs[path] = copy.logs[path].after(lines_of(piece))
            copy.sizes[path] += len(piece)

    def _fetch(self, copy: _SessionCopy, session: str, key: str, path: Path) -> None:
        """A whole log, in place of the known one."""
        at = START

        def pieces() -> Iterator[bytes]:
            nonlocal at
            for piece in self._source.read(session, key, START):
                yield piece
                at = at.after(lines_of(piece))

        copy.sizes[path] = self._put(path, pieces())
        copy.logs[path] = at

    def _update_file(self, copy: _SessionCopy, session: str, file: SideFile, path: Path) -> None:
        if copy.files.get(path) == file.sha256:
            return
        data = self._source.file(session, file.key)
        if data is not None:
            copy.sizes[path] = self._put(path, [data])
            copy.files[path] = sha256(data).hexdigest()

    def _put(self, path: Path, pieces: Iterable[bytes]) -> int:
        """Write a whole file, under another name first; returns its size."""
        with as_storage_error("write", path):
            with contextlib.suppress(FileNotFoundError):
                fsops.unlink(self._incoming)
            size = _write(path, fsops.create_new(self._incoming), pieces)
            fsops.make_directories(path.parent, synced=False)
            fsops.rename_over(self._incoming, path)
        return size


def _write(path: Path, fd: int, pieces: Iterable[bytes]) -> int:
    size = 0
    with as_storage_error("write", path):
        try:
            for piece in pieces:
                fsops.write_all(fd, piece)
                size += len(piece)
        finally:
            fsops.close_quietly(fd)
    return size


def has_place(session: str) -> bool:
    """Whether a mirror can hold it: the name is a valid file name and distinct from that of a sub-agent."""
    return is_session_name(session) and not session.startswith(_AGENT)
