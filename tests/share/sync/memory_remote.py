"""A remote in this process: the plainest one there is, which the others are compared with in tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256

from recollect.share.sync.http_remote import LIMITS, HttpRemote
from recollect.share.sync.wire import (
    START,
    Head,
    LogHead,
    Position,
    PositionConflict,
    RemoteSession,
    SessionDescription,
    SessionDetail,
    SessionGone,
    SideFile,
    SideFileChanged,
    lines_of,
)


class _Kept:
    def __init__(self) -> None:
        self.logs: dict[str, list[bytes]] = {}
        self.positions: dict[str, list[Position]] = {}
        self.files: dict[str, bytes] = {}
        self.told = SessionDescription()
        self.created = self.changed = time.time_ns() // 1_000_000


class MemoryRemote(HttpRemote):
    """Sessions in dictionaries. Threads may share it."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._deleted: set[str] = set()
        self._lock = threading.Lock()

    def limits(self) -> Mapping[str, int]:
        """Those of a server."""
        return LIMITS

    def sessions(self, since: int | None = None, **filters: str) -> Iterator[RemoteSession]:
        """All of them, newest first."""
        found = [self._shown(name, kept) for name, kept in self._sessions.items()]
        found = [one for one in found if one.id.startswith(filters.get("id", ""))]
        found.sort(key=lambda one: (one.changed, one.id), reverse=True)
        return iter([one for one in found if since is None or one.changed >= since])

    def session(self, session: str) -> SessionDetail | None:
        """One with its logs and files."""
        kept = self._sessions.get(session)
        if kept is None:
            return None
        logs = [
            LogHead(*_numbers(lines, kept.positions[key][-1]), session=session, key=key, changed=kept.changed)
            for key, lines in sorted(kept.logs.items())
        ]
        files = [
            SideFile(key, len(data), sha256(data).hexdigest(), kept.changed)
            for key, data in sorted(kept.files.items())
        ]
        return SessionDetail(self._shown(session, kept), logs, files)

    def head(self, session: str, key: str) -> Position | None:
        """Where a log ends."""
        kept = self._sessions.get(session)
        return kept.positions[key][-1] if kept is not None and key in kept.logs else None

    def is_at(self, session: str, key: str, position: Position) -> bool:
        """Whether the log came by this position."""
        kept = self._sessions.get(session)
        known = kept.positions.get(key, [START]) if kept is not None else [START]
        return position.lines < len(known) and known[position.lines] == position

    def append(
        self, session: str, key: str, at: Position, data: bytes, description: SessionDescription
    ) -> Position:
        """Add lines where the log ends."""
        with self._lock:
            if session in self._deleted:
                raise SessionGone
            new = list(lines_of(data))
            kept = self._sessions.get(session)
            known = kept.positions.get(key, [START]) if kept is not None else [START]
            after = at.after(new)
            if known[-1] != at:
                if after.lines < len(known) and known[after.lines] == after:
                    return after
                size = sum(map(len, kept.logs.get(key, ()))) if kept is not None else 0
                raise PositionConflict(Head(known[-1].lines, size, known[-1].hash.hex()))
            kept = kept or self._begun(session)
            positions = kept.positions.setdefault(key, [START])
            for line in new:
                kept.logs.setdefault(key, []).append(line)
                positions.append(positions[-1].after((line,)))
            kept.told = SessionDescription(
                description.project or kept.told.project,
                description.repository or kept.told.repository,
                description.machine or kept.told.machine,
                description.encrypted,
            )
            kept.changed = max(kept.changed + 1, time.time_ns() // 1_000_000)
            return after

    def read(self, session: str, key: str, after: Position) -> Iterator[bytes]:
        """What comes after a position."""
        kept = self._sessions.get(session)
        if kept is None or key not in kept.logs:
            raise SessionGone
        if not self.is_at(session, key, after):
            last = kept.positions[key][-1]
            raise PositionConflict(Head(*_numbers(kept.logs[key], last)))
        return iter([b"".join(kept.logs[key][after.lines :])] if kept.logs[key][after.lines :] else [])

    def put_file(self, session: str, key: str, data: bytes, known: str | None) -> SideFile:
        """Keep a side file."""
        with self._lock:
            if session in self._deleted:
                raise SessionGone
            kept = self._sessions.get(session) or self._begun(session)
            there = kept.files.get(key)
            if there != data:
                if (None if there is None else sha256(there).hexdigest()) != known:
                    raise SideFileChanged
                kept.files[key] = data
                kept.changed = max(kept.changed + 1, time.time_ns() // 1_000_000)
            return SideFile(key, len(data), sha256(data).hexdigest(), kept.changed)

    def file(self, session: str, key: str) -> bytes | None:
        """The bytes of a side file."""
        kept = self._sessions.get(session)
        return None if kept is None else kept.files.get(key)

    def delete(self, session: str) -> bool:
        """Delete a session."""
        with self._lock:
            self._deleted.add(session)
            return self._sessions.pop(session, None) is not None

    def close(self) -> None:
        """Nothing is held."""

    def _begun(self, session: str) -> _Kept:
        return self._sessions.setdefault(session, _Kept())

    @staticmethod
    def _shown(name: str, kept: _Kept) -> RemoteSession:
        lines = sum(len(log) for log in kept.logs.values())
        size = sum(len(line) for log in kept.logs.values() for line in log)
        description = kept.told
        return RemoteSession(
            id=name,
            project=description.project,
            repository=description.repository,
            machine=description.machine,
            person=None,
            title=None,
            branch=None,
            cwd=None,
            created=kept.created,
            changed=kept.changed,
            first_at=None,
            last_at=None,
            lines=lines,
            bytes=size,
            held=False,
            encrypted=description.encrypted,
        )


def _numbers(lines: list[bytes], position: Position) -> tuple[int, int, str]:
    return position.lines, sum(map(len, lines)), position.hash.hex()
