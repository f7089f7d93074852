"""Copies of a remote's sessions as a Claude home, for code that can only read homes: of those that were opened.

The files are the whole state. The contents of a log are verified by a running hash over its lines, computed
once when the mirror is first used and updated from then on; a file that is missing, truncated or wrong is
fetched again. So a mirror may be deleted, left half-written or filled by several processes at once.

A session is fetched when it is looked at, and from then on only its new lines. What the remote has no more, or has
encrypted, is removed. Copies are bounded: beyond that the ones go that were looked at longest ago; after a start those
whose logs changed first.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct, json

from recollect.errors import Busy, InvalidId
from recollect.model.ids import SessionId
from recollect.model.project_key import project_key
from recollect.services.sync.selection import FLAT, place_of
from recollect.storage.mirror_files import FileMark, MirrorFiles
from recollect.storage.session_files import SUBAGENTS, TODOS
from recollect.sync.keys import key_of, names_of
from recollect.sync.remote import PositionConflict, SessionGone, lines_of
from recollect.sync.wire import START, LogHead, Position, RemoteSession, SessionDetail, SideFile

_NO_PROJECT = "-unknown"
_AGENT = "agent-"
_FOR_EVER_DAYS = 36_500
_MOST_REMEMBERED = 10_000
_MOST_BYTES = 2 << 30
_Kept = TypeVar("_Kept", LogHead, SideFile)


class MirrorSource(Protocol):
    """What a mirror needs from a remote; ``sync.remote.Remote`` has all of it."""

    def session(self, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""
        ...

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """Whole lines after a position.

        ``PositionConflict`` if the log never had it, ``SessionGone`` if it was deleted.
        """
        ...

    def file(self, session: str, key: str) -> bytes | None:
        """The bytes of a side file."""
        ...


class _FileProof(Struct, frozen=True):
    """The verified contents of a file up to its size: the position of a log, or the hash of a side file."""

    file: FileMark
    position: Position = START
    sha256: str = ""


class Mirror:
    """One mirror. Threads may share it.

    ``rest`` is for how many seconds a session that was looked at is not asked for again. ``most_bytes``: beyond that the
    copies that were looked at longest ago are removed, but never the last one.
    """

    def __init__(
        self, root: Path, source: MirrorSource, *, rest: float = 1.0, most_bytes: int = _MOST_BYTES
    ) -> None:
        self.files, self._source, self._rest = MirrorFiles(root), source, rest
        self._most_bytes = most_bytes
        self._is_stopped = False
        self._proved: dict[Path, _FileProof] = {}
        self._looked: dict[str, float] = {}
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._unlisted_until, self._fetches = 0.0, 0
        self.left_out: set[tuple[str, str]] = set()
        self.files.make()
        self._projects = self.files.sessions()

    def keep_days(self, days: int | None) -> None:
        """Store how long the remote keeps a session, where a home stores it; None means for ever."""
        path = self.files.home / "settings.json"
        wanted = json.encode({"cleanupPeriodDays": days or _FOR_EVER_DAYS})
        with self.files.lock:
            if self.files.mark(path) is None or b"".join(self.files.bytes_of(path)) != wanted:
                self.files.put(path, [wanted])

    def stop(self) -> None:
        """Start no more requests; a running fetch completes."""
        self._is_stopped = True

    def look_at(self, session: str) -> None:
        """Fetch a session, or what is new of it; remove it where the remote has none to show."""
        if not has_place(session) or time.monotonic() < self._looked.get(session, 0.0):
            return
        if self._is_stopped:
            raise Busy("the page is being closed", hint="ask again in a moment")
        with self.files.lock:
            detail = self._source.session(session)
            if detail is None or detail.session.encrypted:
                self._remove(session)
            else:
                before = self._fetches
                self._top_up(session, detail)
                self._bound(session, is_known=self._fetches == before)
        if len(self._looked) > _MOST_REMEMBERED:
            self._looked.clear()
        self._looked[session] = time.monotonic() + self._rest

    def log_of(self, session: str) -> Path | None:
        """The copy of a session's own log; None where there is none."""
        project = self._projects.get(session)
        path = None if project is None else project / f"{session}.jsonl"
        return None if path is None or self.files.mark(path) is None else path

    def place(self, session: RemoteSession) -> Path:
        """Where the log of a session is, or would be."""
        return (self._projects.get(session.id) or self._new_project(session)) / f"{session.id}.jsonl"

    def remove_gone(self, listed: Container[str] = (), *, every: float = 0.0) -> None:
        """Remove what the remote has no more, and fetch nothing. Not asked for: what it lists; nor anything if that was done
        less than ``every`` seconds ago."""
        now = time.monotonic()
        if now < self._unlisted_until:
            return
        self._unlisted_until = now + every
        for name in self.files.sessions():
            if name in listed:
                continue
            detail = self._source.session(name)
            if detail is None or detail.session.encrypted:
                with self.files.lock:
                    self._remove(name)

    def _remove(self, session: str) -> None:
        self.files.remove(session)
        self._projects.pop(session, None)
        self._looked.pop(session, None)
        self._sizes.pop(session, None)

    def _top_up(self, session: str, detail: SessionDetail) -> None:
        """Bring one session up to date."""
        project = self._project(detail.session)
        logs = self._placed(detail.logs, project, session, is_log=True)
        files = self._placed(detail.files, project, session, is_log=False) if logs else {}
        for path, log in logs.items():
            self._log(session, log, path, detail.session.changed)
        for path, file in files.items():
            self._file(session, file, path)
        self.files.keep_only(session, project, {*logs, *files})
        self._projects[session] = project

    def _bound(self, session: str, *, is_known: bool) -> None:
        """Remove the copies that were looked at longest ago, as far as all are too large. Those of another process, or of an
        earlier one, come first. ``is_known``: nothing was fetched."""
        if not is_known or session not in self._sizes:
            here = self.files.sessions()
            others = [(name, project) for name, project in here.items() if name not in self._sizes]
            own = self.files.sizes([(session, self._projects[session])])
            self._sizes = OrderedDict({**self.files.sizes(others), **self._sizes, **own})
        self._sizes.move_to_end(session)
        while sum(self._sizes.values()) > self._most_bytes and len(self._sizes) > 1:
            self._remove(next(iter(self._sizes)))

    # --- paths ----------------------------------------------------------------------------------

    def _project(self, session: RemoteSession) -> Path:
        """Its existing directory; else the directory a client would create for its working directory."""
        nowhere = self.files.projects / _NO_PROJECT
        known = self._projects.get(session.id)
        if known is not None or self.files.mark(nowhere / f"{session.id}.jsonl") is not None:
            return known or nowhere
        return self._new_project(session)

    def _new_project(self, session: RemoteSession) -> Path:
        directory = session.cwd or session.project or ""
        is_path = directory.startswith("/") or ":" in directory
        return self.files.projects / project_key(directory) if is_path else self.files.projects / _NO_PROJECT

    def _placed(
        self, heads: Sequence[_Kept], project: Path, session: str, *, is_log: bool
    ) -> dict[Path, _Kept]:
        places = [(self._place(one.key, project, session, is_log=is_log), one) for one in heads]
        return {path: one for path, one in places if path is not None}

    def _place(self, key: str, project: Path, session: str, *, is_log: bool) -> Path | None:
        """The path of a log or file; None if a home has no place for it."""
        try:
            names = names_of(key) if key else [""]
            if names[0] == FLAT:
                # Beside the session's log two sessions could collide; below it, the name is unique.
                key = key_of(SUBAGENTS, *names[1:])
            if names[0] != TODOS or names[-1].startswith((f"{session}-{_AGENT}", f"{session}.json")):
                return place_of(key, self.files.home, project, session, is_log=is_log)
        except InvalidId:
            pass
        self.left_out.add((session, key))
        return None

    # --- bytes ----------------------------------------------------------------------------------

    def _log(self, session: str, head: LogHead, path: Path, changed: int) -> None:
        """Bring a log up to date, as far as it is available."""
        known = self._proved_log(path)
        if known is not None and known.position == head.position:
            return
        self._fetches += 1
        try:
            if known is None or known.position.lines > head.lines:
                self._fetched(session, head.key, path)
            else:
                self._grown(session, head.key, path, known)
        except PositionConflict:
            self._fetched(session, head.key, path)
        except SessionGone:
            return
        if not head.key:
            self.files.date(path, changed)

    def _grown(self, session: str, key: str, path: Path, known: _FileProof) -> None:
        at, size = known.position, known.file.size
        for piece in self._source.read(session, key, at):
            self.files.append(path, piece)
            at, size = at.after(lines_of(piece)), size + len(piece)
            self._proved[path] = _FileProof(FileMark(known.file.inode, size), at)

    def _fetched(self, session: str, key: str, path: Path) -> None:
        """Fetch a whole log, replacing the existing file."""
        at = START

        def pieces() -> Iterator[bytes]:
            nonlocal at
            for piece in self._source.read(session, key, START):
                yield piece
                at = at.after(lines_of(piece))

        self.files.put(path, pieces())
        mark = self.files.mark(path)
        if mark is not None:
            self._proved[path] = _FileProof(mark, at)

    def _proved_log(self, path: Path) -> _FileProof | None:
        """The verified contents of a local log; half a line counts as one, which the remote never had.

        None if missing.
        """
        mark, known = self.files.mark(path), self._proved.get(path)
        if mark is None:
            return None
        if known is None or known.file.inode != mark.inode or known.file.size > mark.size:
            known = _FileProof(FileMark(mark.inode, 0))
        if known.file.size < mark.size:
            at, end = known.position, known.file.size
            for line in self.files.lines(path, end):
                at, end = at.after((line,)), end + len(line)
            known = _FileProof(FileMark(mark.inode, end), at)
        self._proved[path] = known
        return known

    def _file(self, session: str, file: SideFile, path: Path) -> None:
        mark, known = self.files.mark(path), self._proved.get(path)
        if mark is not None and (known is None or known.file != mark):
            running = sha256()
            for piece in self.files.bytes_of(path):
                running.update(piece)
            known = _FileProof(mark, sha256=running.hexdigest())
        if mark is None or known is None or known.sha256 != file.sha256:
            data = self._source.file(session, file.key)
            if data is None:
                return
            self._fetches += 1
            self.files.put(path, [data])
            mark = self.files.mark(path)
            known = None if mark is None else _FileProof(mark, sha256=sha256(data).hexdigest())
        if known is not None:
            self._proved[path] = known


def has_place(session: str) -> bool:
    """Whether a mirror can hold it: the name is a valid file name and distinct from that of a sub-agent."""
    try:
        SessionId(session)
    except InvalidId:
        return False
    return not session.startswith(_AGENT)
