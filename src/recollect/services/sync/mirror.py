"""A copy of a remote's sessions as a Claude home, for code that can only read homes.

The files are the whole state. The contents of a log are verified by a running hash over its lines, computed
once when the mirror is first used and updated from then on; a file that is missing, truncated or wrong is
fetched again. So a mirror may be deleted, left half-written or filled by several processes at once.

Sessions that the remote no longer lists are removed, and so are unreadable ones: encrypted sessions are only
counted. Answers need only the session names at first: the first refresh waits for those, and content follows
while it is requested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct, json

from recollect.errors import Busy, InvalidId, RecollectError
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
_NAMES_SECONDS = 30.0
_LONGEST_REST = 5.0
_MOST_REMEMBERED = 10_000
_Kept = TypeVar("_Kept", LogHead, SideFile)


class MirrorSource(Protocol):
    """What a mirror needs from a remote; ``sync.remote.Remote`` has all of it."""

    def sessions(self) -> Iterator[RemoteSession]: ...

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
    """One mirror, updated on demand. Threads may share it.

    ``rest`` is how many seconds a refresh stays valid, longer if refreshing takes long. ``removed`` is called
    after sessions were removed, before any caller sees it. ``is_filled``: every session was here once.
    """

    def __init__(
        self,
        root: Path,
        source: MirrorSource,
        *,
        rest: float = 1.0,
        removed: Callable[[], None] | None = None,
    ) -> None:
        self.files, self._source, self._rest = MirrorFiles(root), source, rest
        self.removed = removed or (lambda: None)
        self._starting, self._named = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._begun = self._good_until = 0.0
        self._is_stopped = self.is_filled = False
        self._problem: RecollectError | None = None
        self._proved: dict[Path, _FileProof] = {}
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._looked: dict[str, float] = {}
        self._projects: dict[str, Path] = {}
        self._sealed: set[str] = set()
        self.left_out: set[tuple[str, str]] = set()
        self.people: dict[str, str] = {}
        self.done = self.total = self.changes = 0
        self.files.make()

    @property
    def sealed(self) -> int:
        """How many encrypted sessions only their own machines can read."""
        return len(self._sealed)

    @property
    def is_filling(self) -> bool:
        """Whether a refresh is running."""
        return self._thread is not None and self._thread.is_alive()

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

    def wait(self, seconds: float) -> None:
        """Wait for a running refresh."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    # --- refreshing -----------------------------------------------------------------------------

    def look(self, patience: float) -> None:
        """Refresh everything, and wait until this many seconds after the start: later callers wait less.

        ``Busy`` if not even the names are known.
        """
        asked = time.monotonic()
        self._start_refresh()
        self._wait_for_names()
        self._wait_until(patience)
        if self._begun < asked:  # it was running already, and may have listed the sessions before a change
            self._start_refresh()
            self._wait_until(patience)

    def _start_refresh(self) -> None:
        """Start a refresh, unless one is running or the last one is still valid."""
        with self._starting:
            if not self._is_stopped and not self.is_filling and time.monotonic() >= self._good_until:
                thread = threading.Thread(target=self._look, name="recollect-mirror", daemon=True)
                self._begun = time.monotonic()
                thread.start()
                self._thread = thread

    def _wait_for_names(self) -> None:
        deadline = time.monotonic() + _NAMES_SECONDS
        while not self._named.wait(0.02):
            if self._problem is not None and not self.is_filling:
                raise self._problem
            if self._is_stopped or time.monotonic() > deadline:
                raise Busy("the list of sessions is still being fetched", hint="ask again in a moment")

    def _wait_until(self, patience: float) -> None:
        self.wait(max(0.0, self._begun + patience - time.monotonic()))

    def look_at(self, session: str) -> None:
        """Refresh one session, and wait for it."""
        now = time.monotonic()
        if not _is_mirrored(session) or now < self._looked.get(session, 0.0):
            return
        if self._top_up(session):
            self.removed()
        if len(self._looked) > _MOST_REMEMBERED:
            self._looked.clear()
        self._looked[session] = time.monotonic() + self._rest

    def _look(self) -> None:
        try:
            self._bring_up_to_date()
            self._problem = None
        except RecollectError as problem:
            self._problem = problem
        except OSError as cause:
            self._problem = Busy(
                f"the mirror cannot be filled: {cause.strerror}", hint="check the disk and its permissions"
            )
        finally:
            now = time.monotonic()
            self._good_until = now + (
                self._rest and max(self._rest, min(10 * (now - self._begun), _LONGEST_REST))
            )

    def remove_gone(self) -> None:
        """Remove deleted sessions, and fetch nothing."""
        self._listed()

    def _listed(self) -> list[RemoteSession]:
        """All sessions that can be shown; others are removed."""
        listed = {one.id: one for one in self._source.sessions() if _is_mirrored(one.id)}
        hidden = {name for name, one in listed.items() if one.encrypted}
        self._sealed = hidden
        self.people = {name: one.person for name, one in listed.items() if one.person}
        # A session that changes while the list is read in pages may be on none of them: each is requested by
        # name.
        self._projects = self.files.sessions()
        gone = [name for name in self._projects if name not in listed or name in hidden]
        taken = [name for name in gone if self._top_up(name)]
        if taken:
            self.removed()
        return [one for one in listed.values() if not one.encrypted]

    def _bring_up_to_date(self) -> None:
        listed = self._listed()
        # An earlier process filled it, if every session has its place here.
        self.is_filled |= all(one.id in self._projects for one in listed)
        self._named.set()
        waiting = [one for one in listed if self._seen.get(one.id) != _mark(one)]
        self.done, self.total = 0, len(waiting)
        for one in waiting:
            self._top_up(one.id)
            self.done += 1
        self.is_filled = True

    def _top_up(self, session: str) -> bool:
        """Update one session; True if it was removed here."""
        if self._is_stopped:
            raise Busy("the page is being closed", hint="ask again in a moment")
        with self.files.lock:
            detail = self._source.session(session)
            if detail is None or detail.session.encrypted:
                self._seen.pop(session, None)
                is_removed = self.files.remove(session)
                self.changes += is_removed
                return is_removed
            project = self._project(detail.session)
            logs = self._placed(detail.logs, project, session, is_log=True)
            files = self._placed(detail.files, project, session, is_log=False) if logs else {}
            changed = detail.session.changed
            behind = [path for path, log in logs.items() if not self._log(session, log, path, changed)]
            for path, file in files.items():
                self._file(session, file, path)
            self.files.keep_only(session, project, {*logs, *files})
            self._projects[session] = project
            if not behind:
                self._seen[session] = _mark(detail.session)
        return False

    # --- paths ----------------------------------------------------------------------------------

    def _project(self, session: RemoteSession) -> Path:
        """Its existing directory; else the directory a client would create for its working directory."""
        nowhere = self.files.projects / _NO_PROJECT
        known = self._projects.get(session.id)
        if known is not None or self.files.mark(nowhere / f"{session.id}.jsonl") is not None:
            return known or nowhere
        directory = session.cwd or session.project or ""
        is_path = directory.startswith("/") or ":" in directory
        return self.files.projects / project_key(directory) if is_path else nowhere

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

    def _log(self, session: str, head: LogHead, path: Path, changed: int) -> bool:
        """Update a log; False if not all of it was available yet."""
        known = self._proved_log(path)
        if known is not None and known.position == head.position:
            return True
        self.changes += 1
        try:
            if known is None or known.position.lines > head.lines:
                at = self._fetched(session, head.key, path)
            else:
                at = self._grown(session, head.key, path, known)
        except PositionConflict:
            at = self._fetched(session, head.key, path)
        except SessionGone:
            return False
        if not head.key:
            self.files.date(path, changed)
        return at.lines >= head.lines

    def _grown(self, session: str, key: str, path: Path, known: _FileProof) -> Position:
        at, size = known.position, known.file.size
        for piece in self._source.read(session, key, at):
            self.files.append(path, piece)
            at, size = at.after(lines_of(piece)), size + len(piece)
            self._proved[path] = _FileProof(FileMark(known.file.inode, size), at)
        return at

    def _fetched(self, session: str, key: str, path: Path) -> Position:
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
        return at

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
            self.files.put(path, [data])
            mark = self.files.mark(path)
            known = None if mark is None else _FileProof(mark, sha256=sha256(data).hexdigest())
        if known is not None:
            self._proved[path] = known


def _mark(session: RemoteSession) -> tuple[int, int, int]:
    """Values that change when a session does."""
    return session.changed, session.lines, session.bytes


def _is_mirrored(session: str) -> bool:
    """Whether the name is a valid file name and distinct from that of a sub-agent."""
    try:
        SessionId(session)
    except InvalidId:
        return False
    return not session.startswith(_AGENT)
