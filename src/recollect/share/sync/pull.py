"""Fetch other machines' sessions from a remote into our own store and, on request, into a Claude home.

A log in the store grows like the remote's, line by line and durable before it counts. The layout is that of a
Claude home, so every command reads it with ``--home``. A pulled log is never overwritten: if the remote's log
was replaced, the new one is stored under another name. Of a side file the newest is stored.

A session is installed into a home under the path that its repository has on *this* machine: repositories are
compared by identity, not by path. Its lines get the new path, and when it is pushed again they get the old
one back, byte for byte; lines for which this would fail are left unchanged. A session that both machines
continued becomes two. All of it is one change in the journal, with one undo.
"""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path

from msgspec import Struct

from recollect.errors import Busy, InvalidId, NotFound, RecollectError, UsageError
from recollect.model.lines.ids import SessionId
from recollect.model.project_key import project_key
from recollect.model.views.fact_line import fact_line
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.install import InstalledSession, Installer, is_start
from recollect.share.sync.lines import is_sealed
from recollect.share.sync.selection import place_of
from recollect.share.sync.sync import SyncClient, session_of
from recollect.share.sync.wire import (
    START,
    LogHead,
    Position,
    PositionConflict,
    RemoteSession,
    SessionDetail,
    SessionGone,
    lines_of,
    made_name,
)
from recollect.store.changes.journal import Change
from recollect.store.home import ClaudeHome
from recollect.store.sync_state import PulledLog, SyncState, append_durably
from recollect.system import fsops
from recollect.system.fsops import as_storage_error

# Several servers of one database may have different clocks.
_OVERLAP_MS = 600_000
_NO_PROJECT = "-unknown"
STORE = "store"


class PullResult(Struct, kw_only=True):
    """What was fetched. ``moved`` are logs that were replaced, with the name of the new one. ``into_home`` and ``left`` come
    with ``--into-home``: what goes there, and what cannot."""

    sessions: list[str] = []
    lines: int = 0
    bytes: int = 0
    files: int = 0
    moved: list[tuple[str, str]] = []
    problems: list[tuple[str, str]] = []
    store: str
    into_home: list[InstalledSession] | None = None
    left: list[tuple[str, str]] | None = None
    applied: bool = False


class Pull:
    """One pull into the store of a data directory."""

    def __init__(self, client: SyncClient, remote: HttpRemote) -> None:
        self._remote, self._kept, self._sealer = remote, client.kept, client.sealer(make=False)
        self.root = client.data / STORE
        self._state = SyncState()
        self.done = PullResult(store=str(self.root))
        self.listed: list[str] = []  # the sessions that the remote named

    def run(self, since: int | None = None, **filters: str) -> PullResult:
        """Fetch all sessions, or those that changed since then (in milliseconds) and fit: then the next pull of all still looks
        at the others."""
        is_all = since is None and not filters
        with self._kept.locked():
            self._state = self._kept.load()
            own = _own_positions(self._state)
            newest = self._state.newest
            try:
                after = newest - _OVERLAP_MS if is_all and newest else since
                for session in self._remote.sessions(after, **filters):
                    self.listed.append(session.id)
                    seen = (session.changed, session.lines, session.bytes)
                    if self._state.seen.get(session.id) != seen and self._session(session, own):
                        self._state.seen[session.id] = seen
                    newest = max(newest, session.changed)
                if not self.done.problems and is_all:
                    self._state.newest = newest
            finally:
                self._kept.save(self._state)
        return self.done

    def one(self, session: str) -> PullResult:
        """Fetch one session; ``NotFound`` where the remote has none, or not all of it could be fetched."""
        with self._kept.locked():
            self._state = self._kept.load()
            detail = self._remote.session(session)
            if detail is None:
                raise NotFound(f"session {session}: not on the server", hint="it may have been deleted there")
            try:
                self._session(detail.session, _own_positions(self._state))
            finally:
                self._kept.save(self._state)
        if self.done.problems:
            raise NotFound(f"session {session}: {self.done.problems[0][1]}", hint="try again later")
        return self.done

    def _session(self, session: RemoteSession, own: dict[tuple[str, str], Position]) -> bool:
        """False if not all of it could be fetched."""
        try:
            detail = self._remote.session(session.id)
            if detail is None:
                return True
            if all(own.get((session.id, log.key)) == log.position for log in detail.logs) and detail.logs:
                return True  # it is ours, and unchanged elsewhere
            project = self._project(detail)
            self._state.about[session.id] = session.project, session.repository
            before = (self.done.lines, self.done.files)
            for log in detail.logs:
                self._log(session.id, log, project)
            for file in detail.files:
                self._file(session.id, file.key, file.sha256, project)
            if before != (self.done.lines, self.done.files):
                self.done.sessions.append(session.id)
            self._kept.save(self._state)
        except SessionGone:
            return True
        except UsageError as problem:  # a name or key that cannot be a file of a session: it is ignored
            self.done.problems.append((session.id, problem.message))
            return True
        except Busy:
            raise
        except (RecollectError, PositionConflict) as problem:
            self.done.problems.append((session.id, str(problem)))
            return False
        return True

    def _project(self, detail: SessionDetail) -> Path:
        """Its permanent directory in the store."""
        pulled = self._state.pulled.get(detail.session.id, {}).get("")
        if pulled is not None:
            return Path(pulled.path).parent
        SessionId(detail.session.id)
        directory = detail.session.cwd or detail.session.project or ""
        if not directory and self._sealer is not None:
            directory = self._peeked(detail)
        key = project_key(directory) if directory.startswith("/") or ":" in directory else _NO_PROJECT
        return self.root / "projects" / key

    def _peeked(self, detail: SessionDetail) -> str:
        """The directory a sealed session worked in, by its first lines."""

        if not any(log.key == "" for log in detail.logs):
            return ""
        session = detail.session.id
        for piece in self._remote.read(session, "", START):
            for number, line in enumerate(lines_of(piece)):
                found = fact_line(self._opened(line, session, "", number).rstrip(b"\r\n"))
                if found is not None and found.cwd:
                    return found.cwd
            break
        return ""

    # --- logs -----------------------------------------------------------------------------------

    def _log(self, session: str, head: LogHead, project: Path) -> None:
        logs = self._state.pulled.setdefault(session, {})
        known = logs.get(head.key)
        if known is not None and _size(known) == known.size:
            if Position(known.lines, known.hash) == head.position:
                return
            with contextlib.suppress(PositionConflict):  # the remote's log was replaced since the last pull
                self._grow(session, head.key, Path(known.path), known)
                return
        place = place_of(head.key, self.root, project, session, is_log=True)
        self._fetch_whole(session, head.key, place if known is None else Path(known.path))

    def _grow(self, session: str, key: str, place: Path, known: PulledLog) -> None:
        at, size = Position(known.lines, known.hash), known.size
        for piece in self._remote.read(session, key, at):
            data = self._all_opened(piece, session, key, at.lines)
            if not append_durably(place, data, size):
                raise NotFound(f"{place}: another program wrote to it", hint="pull again")
            before = at.lines
            at, size = at.after(lines_of(piece)), size + len(data)
            self._remember(
                session, key, PulledLog(str(place), size, at.lines, at.hash), len(data), at.lines - before
            )

    def _fetch_whole(self, session: str, key: str, place: Path) -> None:
        """Fetch a whole log to a temporary file; then rename it, to another name if the existing file is not
        its start.
        """
        waiting = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}.tmp")
        at, size = START, 0
        try:
            for piece in self._remote.read(session, key, START):
                data = self._all_opened(piece, session, key, at.lines)
                append_durably(waiting, data, size)
                at, size = at.after(lines_of(piece)), size + len(data)
            if not size:
                return
            if not is_start(place, waiting):
                digest = at.hash.hex()
                own = made_name("recollect pull", session, key, digest)
                place = place.with_name(f"{place.stem}-{digest[:8]}.jsonl" if key else f"{own}.jsonl")
                if not is_start(place, waiting):
                    raise InvalidId("log", place.name, "is taken by something else")
                self.done.moved.append((session, str(place)))
            with as_storage_error("write", place):
                fsops.rename_over(waiting, place)
                fsops.sync_dir(place.parent)
        finally:
            with contextlib.suppress(OSError):
                waiting.unlink()
        self._remember(session, key, PulledLog(str(place), size, at.lines, at.hash), size, at.lines)

    def _remember(self, session: str, key: str, log: PulledLog, size: int, lines: int) -> None:
        self._state.pulled[session][key] = log
        self.done.bytes += size
        self.done.lines += lines

    def _all_opened(self, piece: bytes, session: str, key: str, number: int) -> bytes:
        if b'{"sealed":1' not in piece:
            return piece
        return b"".join(
            self._opened(line, session, key, number + n) for n, line in enumerate(lines_of(piece))
        )

    def _opened(self, line: bytes, session: str, key: str, number: int) -> bytes:
        if not is_sealed(line):
            return line
        if self._sealer is None:
            raise _no_key(session)
        return self._sealer.open(line, session, key, number)

    # --- side files -----------------------------------------------------------------------------

    def _file(self, session: str, key: str, digest: str, project: Path) -> None:
        files = self._state.pulled_files.setdefault(session, {})
        if files.get(key) == digest:
            return
        place = place_of(key, self.root, project, session, is_log=False)
        data = self._remote.file(session, key)
        if data is None:
            return
        if is_sealed(data):
            if self._sealer is None:
                raise _no_key(session)
            data = self._sealer.open(data, session, key)
        with as_storage_error("write", place):
            fsops.make_directories(place.parent)
            fsops.replace_file(place, data)
        files[key] = digest
        self.done.files += 1
        self.done.bytes += len(data)


def _no_key(session: str) -> NotFound:
    return NotFound(
        f"{session}: is encrypted, and there is no key here",
        hint="copy sync.key from the machine that encrypted it",
    )


def _own_positions(state: SyncState) -> dict[tuple[str, str], Position]:
    return {(one.session, one.key): Position(one.lines, one.hash) for one in state.logs.values()}


def _size(known: PulledLog) -> int:
    try:
        return Path(known.path).stat().st_size
    except OSError:
        return -1


def fetch_session(
    client: SyncClient, home: ClaudeHome, url: str, *, directory: Path | None = None, install: bool = True
) -> tuple[InstalledSession | None, Change | None]:
    """Fetch the session of an address and, with ``install``, put it into the home. ``directory``: where it worked, here.
    None for a session that the home has already as it is there, and for the change of a plan."""
    session = session_of(url, client.login.address)
    remote = client.connected()
    try:
        Pull(client, remote).one(session)
        if session not in client.kept.load().pulled:
            return None, None
        installer = Installer(client, home, remote, directory)
        planned = installer.planned([session])
        if planned.left:
            raise UsageError(
                f"session {session}: {planned.left[0][1]}", hint="name its directory here with --cwd DIR"
            )
        if not planned.sessions:
            return None, None
        return planned.sessions[0], installer.carry_out(planned) if install else None
    finally:
        remote.close()
