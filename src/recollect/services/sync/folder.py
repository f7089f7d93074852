"""A plain directory as a remote: a network drive, a USB stick, a folder that git or another program
synchronises.

    recollect-sync/<machine id>/<session>/main.jsonl           lines as they were sent
    recollect-sync/<machine id>/<session>/log/<key>.jsonl      those of its sub-agents
    recollect-sync/<machine id>/<session>/file/<key>           side files
    recollect-sync/<machine id>/<session>/about.json           where it worked

Every machine writes only below its own name, so that the copying program never has to merge two versions of
one file. A session is computed from all machines' copies: a copy that is only the start of another does not
count. If several are left, the first machine by name keeps the session's id and the others become sessions of
their own, with ids that every machine computes alike. An incomplete copy is merely behind.

Nothing here can refuse a write: two machines that continue one session at the same time find out at the next
pull.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.errors import InvalidId
from recollect.model.ids import SessionId
from recollect.services.sync.selection import is_session_name
from recollect.storage.sync_state import append_durably
from recollect.sync.remote import (
    PositionConflict,
    RemoteLimits,
    SessionDescription,
    SessionGone,
    SideFileChanged,
    lines_of,
)
from recollect.sync.wire import (
    START,
    Head,
    LogHead,
    Position,
    RemoteSession,
    SessionDetail,
    SideFile,
    checked_key,
)
from recollect.system import fsops
from recollect.system.peek import ReadProblems, is_directory, list_directory, open_regular
from recollect.system.refusals import as_storage_error

_ROOM = "recollect-sync"
_LOG, _MAIN = ".jsonl", "main.jsonl"
_PIECE = 1 << 20


class _FolderDescription(Struct):
    project: str | None = None
    repository: str | None = None
    machine: str | None = None
    encrypted: bool = False


class _FolderCopy:
    """One machine's copy of a session."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.machine, self.session = directory.parent.name, directory.name

    def log(self, key: str) -> Path:
        return self.directory / "log" / f"{checked_key(key)}{_LOG}" if key else self.directory / _MAIN

    def file(self, key: str) -> Path:
        return self.directory / "file" / checked_key(key)

    def log_keys(self) -> list[str]:
        base = self.directory / "log"
        found = [path.relative_to(base).as_posix()[: -len(_LOG)] for path in sorted(base.rglob(f"*{_LOG}"))]
        main = [""] if self.log("").is_file() else []
        return main + [name for name in found if _is_key(name)]

    def file_keys(self) -> list[str]:
        base = self.directory / "file"
        names = [path.relative_to(base).as_posix() for path in sorted(base.rglob("*")) if path.is_file()]
        return [name for name in names if _is_key(name) and not name.endswith(".tmp")]

    def about(self) -> _FolderDescription:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.directory / "about.json").read_bytes(), type=_FolderDescription)
        return _FolderDescription()

    def changed(self) -> int:
        """When any of its files was last written, in milliseconds."""
        paths = [self.log(key) for key in self.log_keys()] + [self.file(key) for key in self.file_keys()]
        times = []
        for path in paths:
            with contextlib.suppress(OSError):
                times.append(path.stat().st_mtime_ns // 1_000_000)
        return max(times, default=0)


class FolderRemote:
    """A directory that several machines can access. Not thread-safe."""

    def __init__(self, root: Path, machine: str) -> None:
        self._room = root / _ROOM
        self._machine = machine
        self._known: dict[Path, tuple[int, int, Position]] = {}

    def limits(self) -> RemoteLimits:
        """The limits of a server, so that everything here could be sent there."""
        return RemoteLimits()

    def sessions(self, since: int | None = None, **filters: str) -> Iterator[RemoteSession]:
        """All of them, newest first; the caller filters."""
        found = [self._shown(name, copies) for name, copies in self._sessions().items()]
        found.sort(key=lambda one: (one.changed, one.id), reverse=True)
        # Copying programs preserve times, so a new file may be older than the last poll.
        del since, filters
        return iter(found)

    def session(self, session: str) -> SessionDetail | None:
        copies = self._copies(session)
        if not copies:
            return None
        logs, files = [], []
        for key in sorted({key for one in copies for key in one.log_keys()}):
            best = self._longest(copies, key)
            if best is not None:
                at = self._position(best)
                logs.append(_log_head(session, key, at, best))
        for key in sorted({key for one in copies for key in one.file_keys()}):
            data = self._file(copies, key) or b""
            files.append(SideFile(key, len(data), sha256(data).hexdigest(), 0))
        return SessionDetail(self._shown(session, copies), logs, files)

    def head(self, session: str, key: str) -> Position | None:
        """The end of the longest copy."""
        best = self._longest(self._direct(session), key)
        return None if best is None else self._position(best)

    def is_at(self, session: str, key: str, position: Position) -> bool:
        """Whether the log passed through this position."""
        best = self._longest(self._copies(session), key)
        return position == START or (best is not None and _leads_to(best, position))

    def append(self, session: str, key: str, at: Position, data: bytes, told: SessionDescription) -> Position:
        """Add lines to this machine's copy, which starts as a copy of the existing log."""
        SessionId(session)
        own = _FolderCopy(self._room / self._machine / session)
        place = own.log(key)
        after = at.after(lines_of(data))
        here = self._position(place)
        if here != at:
            best = self._longest(self._direct(session), key)
            if best is not None and _leads_to(best, after):
                return after
            if best is None or best == place or self._position(best) != at or not _leads_to(best, here):
                head = here if best is None else self._position(best)
                raise PositionConflict(Head(head.lines, 0, head.hash.hex()))
            self._copied(best, place)
        self._describe(own, told)
        _without_torn_line(place)
        if not append_durably(place, data, place.stat().st_size if place.exists() else 0):
            raise PositionConflict(Head(here.lines, 0, here.hash.hex()))
        self._know(place, after)
        return after

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        best = self._longest(self._copies(session), key)
        if best is None:
            raise SessionGone
        if not _leads_to(best, after):
            end = self._position(best)
            raise PositionConflict(Head(end.lines, 0, end.hash.hex()))
        return _lines_after(best, after.lines)

    def put_file(self, session: str, key: str, data: bytes, known: str | None) -> SideFile:
        """Store a side file in this machine's copy."""
        SessionId(session)
        there = self._file(self._direct(session), key)
        if there is not None and there != data and sha256(there).hexdigest() != known:
            raise SideFileChanged
        place = _FolderCopy(self._room / self._machine / session).file(key)
        with as_storage_error("write", place):
            fsops.make_directories(place.parent)
            fsops.replace_file(place, data)
        return SideFile(key, len(data), sha256(data).hexdigest(), time.time_ns() // 1_000_000)

    def file(self, session: str, key: str) -> bytes | None:
        """The bytes of a side file, the newest of all machines."""
        return self._file(self._copies(session), key)

    def delete(self, session: str) -> bool:
        """Remove this machine's copy."""
        own = self._room / self._machine / SessionId(session)
        if not own.is_dir():
            return False
        with as_storage_error("remove", own):
            shutil.rmtree(own)
        return True

    def close(self) -> None:
        """Nothing is held."""

    # --- whose copy counts ----------------------------------------------------------------------

    def _direct(self, session: str) -> list[_FolderCopy]:
        """The copies with exactly this name, if they agree; no other session is read."""
        problems = ReadProblems()
        machines = [Path(entry.path) for entry in list_directory(self._room, problems)]
        copies = [_FolderCopy(machine / SessionId(session)) for machine in machines]
        found = [one for one in copies if one.directory.is_dir() and not one.directory.is_symlink()]
        return self._split(session, found)[session] if found else []

    def _copies(self, session: str) -> list[_FolderCopy]:
        """The copies of a session, also of one that is only a branch of another."""
        return self._direct(session) or self._sessions().get(session, [])

    def _sessions(self) -> dict[str, list[_FolderCopy]]:
        """The copies of every session; diverged copies are sessions of their own."""
        by_name: dict[str, list[_FolderCopy]] = {}
        problems = ReadProblems()
        for machine in list_directory(self._room, problems):
            if is_directory(machine, problems, follow=False):
                for entry in list_directory(Path(machine.path), problems):
                    if is_directory(entry, problems, follow=False) and is_session_name(entry.name):
                        by_name.setdefault(entry.name, []).append(_FolderCopy(Path(entry.path)))
        found: dict[str, list[_FolderCopy]] = {}
        for name, copies in by_name.items():
            found.update(self._split(name, copies))
        return found

    def _split(self, name: str, copies: list[_FolderCopy]) -> dict[str, list[_FolderCopy]]:
        if len(copies) == 1:
            return {name: copies}
        groups: list[list[_FolderCopy]] = []
        for one in sorted(copies, key=lambda copy: copy.machine):
            for group in groups:
                if all(self._agree(one, other) for other in group):
                    group.append(one)
                    break
            else:
                groups.append([one])
        # The first group by the name of its first machine keeps the id.
        return {name if not n else _branch(name, group[0].machine): group for n, group in enumerate(groups)}

    def _agree(self, one: _FolderCopy, other: _FolderCopy) -> bool:
        for key in set(one.log_keys()) & set(other.log_keys()):
            ends = sorted((self._position(copy.log(key)), copy.log(key)) for copy in (one, other))
            if not _leads_to(ends[1][1], ends[0][0]):
                return False
        return True

    def _longest(self, copies: list[_FolderCopy], key: str) -> Path | None:
        logs = [one.log(key) for one in copies if one.log(key).is_file()]
        return max(logs, key=lambda log: self._position(log).lines, default=None)

    def _file(self, copies: list[_FolderCopy], key: str) -> bytes | None:
        places = [one.file(key) for one in copies]
        found = [place for place in places if place.is_file()]
        if not found:
            return None
        with open_regular(max(found, key=lambda place: place.stat().st_mtime_ns)) as opened:
            return opened.read()

    def _position(self, log: Path) -> Position:
        """The end of a copy, hashed once while it is unchanged."""
        try:
            seen = log.stat()
        except OSError:
            return START
        known = self._known.get(log)
        if known is None or known[:2] != (seen.st_size, seen.st_mtime_ns):
            at = START
            for piece in _lines_after(log, 0):
                at = at.after(lines_of(piece))
            known = self._known[log] = (seen.st_size, seen.st_mtime_ns, at)
        return known[2]

    def _know(self, log: Path, at: Position) -> None:
        seen = log.stat()
        self._known[log] = (seen.st_size, seen.st_mtime_ns, at)

    def _copied(self, source: Path, place: Path) -> None:
        with as_storage_error("copy", source):
            fsops.make_directories(place.parent)
            temporary = place.with_name(f".{place.name}.{os.urandom(4).hex()}.tmp")
            size = 0
            for piece in _lines_after(source, 0):
                append_durably(temporary, piece, size)
                size += len(piece)
            fsops.rename_over(temporary, place)
            fsops.sync_dir(place.parent)

    def _describe(self, own: _FolderCopy, told: SessionDescription) -> None:
        about = own.about()
        new = _FolderDescription(
            told.project or about.project,
            told.repository or about.repository,
            told.machine or about.machine,
            told.encrypted or about.encrypted,
        )
        if new != about or not (own.directory / "about.json").exists():
            with as_storage_error("write", own.directory):
                fsops.make_directories(own.directory)
                fsops.replace_file(own.directory / "about.json", msgspec.json.encode(new))

    def _shown(self, name: str, copies: list[_FolderCopy]) -> RemoteSession:
        keys = {key for one in copies for key in one.log_keys()}
        logs = [log for key in keys if (log := self._longest(copies, key)) is not None]
        abouts = [one.about() for one in copies]
        about = abouts[0]
        changed = max((one.changed() for one in copies), default=0)
        return RemoteSession(
            id=name,
            project=about.project,
            repository=next((one.repository for one in abouts if one.repository), None),
            machine=about.machine,
            person=None,
            title=None,
            branch=None,
            cwd=None,
            created=changed,
            changed=changed,
            first_at=None,
            last_at=None,
            lines=sum(self._position(log).lines for log in logs),
            bytes=sum(log.stat().st_size for log in logs),
            held=False,
            encrypted=any(one.encrypted for one in abouts),
        )


def _branch(session: str, machine: str) -> str:
    text = f"recollect folder\0{session}\0{machine}"
    return str(uuid.UUID(bytes=sha256(text.encode()).digest()[:16], version=4))


def _is_key(name: str) -> bool:
    try:
        checked_key(name)
    except InvalidId:
        return False
    return True


def _log_head(session: str, key: str, at: Position, log: Path) -> LogHead:
    seen = log.stat()
    return LogHead(session, key, at.lines, seen.st_size, at.hash.hex(), None, seen.st_mtime_ns // 1_000_000)


def _lines_after(log: Path, count: int) -> Iterator[bytes]:
    """Whole lines after the first ``count``, in pieces; an unfinished last line is left out."""
    rest = b""
    with open_regular(log) as opened:
        for _ in range(count):
            opened.readline()
        while piece := opened.read(_PIECE):
            rest += piece
            cut = rest.rfind(b"\n") + 1
            if cut:
                yield rest[:cut]
                rest = rest[cut:]


def _without_torn_line(own: Path) -> None:
    """A crash can leave part of a line at the end of our own copy, which was never acknowledged."""
    if not own.exists():
        return
    with as_storage_error("write", own):
        opened = fsops.open_append(own)
        try:
            size = fsops.size_of(opened.fd)
            if not size or fsops.pread(opened.fd, 1, size - 1) == b"\n":
                return
            whole = sum(map(len, _lines_after(own, 0)))
            if whole < size:
                fsops.truncate(opened.fd, whole)
        finally:
            fsops.close_quietly(opened.fd)


def _leads_to(log: Path, position: Position) -> bool:
    at = START
    try:
        with open_regular(log) as opened:
            while at.lines < position.lines:
                line = opened.readline()
                if not line.endswith(b"\n"):
                    return False
                at = at.after((line,))
    except OSError:
        return position == START
    return at == position
