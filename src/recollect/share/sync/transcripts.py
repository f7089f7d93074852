"""Transcripts of the Claude Agent SDK on a team server, so that a machine without a disk can continue a
session.

The counterpart of ``store.sdk_store`` with the same methods. A key (project, session, subpath) is a log of
the server: the session there is named after both project and session, because the SDK lets two projects use
one id; the project is stored as its description, and lists use that.

An append is conditional on the position we know. If another process has written, its lines are read first,
and entries with a known uuid are left out: of entries with one uuid the first is kept, from any writer.

A server cannot delete a single transcript, only a whole session. So a sub-agent's transcript is closed by a
special line, and starts again after it. The bytes stay until the session is deleted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, cast

from recollect.errors import Busy, InvalidId, UsageError
from recollect.model.lines.damage import Damage, Line
from recollect.share.sync.http_remote import HttpRemote
from recollect.share.sync.wire import (
    START,
    Position,
    PositionConflict,
    SessionDescription,
    SessionGone,
    key_of,
    lines_of,
    names_of,
)
from recollect.store.sdk_store import (
    FoldCall,
    SessionKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    entry_of,
    is_first,
    line_of,
    stored_uuid,
    uuid_of,
)

_PREFIX = "sdk-"
_HASH_DIGITS = 16
_LONGEST_NAME = 128
_CLOSED = b'{"type":"recollect-closed"}\n'
_OPEN_LOGS = 64
_MOST_TURNS = 32
_LARGEST_BATCH = 8 << 20
_Entry = tuple[bytes, str | None]


class RemoteTranscript(NamedTuple):
    """The log of one key on the server. ``log`` distinguishes keys."""

    key: SessionKey
    log: str
    session: str
    log_key: str
    is_main: bool


class _RemoteLogState:
    """What is known of a log: its last seen end, and the ids in it."""

    def __init__(self) -> None:
        self.at: Position = START
        self.ids: set[str] = set()

    def learn(self, line: bytes) -> None:
        self.at = self.at.after((line,))
        if line == _CLOSED:
            self.ids.clear()
        elif (name := stored_uuid(Line(line[:-1], 0))) is not None:
            self.ids.add(name)


class RemoteTranscripts:
    """All transcripts of one server that a token can access.

    Threads may share it; requests are serialised.
    """

    def __init__(self, remote: HttpRemote) -> None:
        self._remote = remote
        self._busy = threading.Lock()
        self._known: OrderedDict[str, _RemoteLogState] = OrderedDict()

    def place(self, key: SessionKey) -> RemoteTranscript:
        """The location of a key, without a request."""
        project, session = key["project_key"], key["session_id"]
        subpath = key.get("subpath")
        if subpath is not None and not subpath:
            raise InvalidId("subpath", "", "is empty; leave it out for the session itself")
        log_key = key_of(*subpath.split("/")) if subpath is not None else ""
        name = _session_name(project, session)
        return RemoteTranscript(key, f"{name} {log_key}", name, log_key, subpath is None)

    def append(self, place: RemoteTranscript, entries: Sequence[SessionStoreEntry]) -> None:
        """Store the new ones among the entries."""
        waiting = [(line_of(entry) + b"\n", uuid_of(entry)) for entry in entries]
        description = SessionDescription(project=place.key["project_key"])
        with self._busy:
            for _ in range(_MOST_TURNS):
                known = self._of(place)
                try:
                    waiting = _fresh(waiting, known.ids)
                    while waiting:
                        waiting = self._send(place, known, waiting, description)
                    return
                except PositionConflict:
                    self._catch_up(place, known)
                except SessionGone:
                    self._known.pop(place.log, None)
                    raise UsageError(
                        f"session {place.key['session_id']!a}: was deleted on the server; nothing was stored",
                        hint="use another session id",
                    ) from None
            raise Busy(
                "other processes keep writing to the session; not all entries were stored",
                hint="append again",
            )

    def load(self, place: RemoteTranscript) -> list[SessionStoreEntry] | None:
        """The entries of a transcript; of repeats the first."""
        items = self._items(place)
        if items is None:
            return None
        seen: set[str] = set()
        found = [entry for item in items if isinstance(entry := entry_of(item), dict)]
        return [cast("SessionStoreEntry", entry) for entry in found if is_first(entry, seen)]

    def damage(self, place: RemoteTranscript) -> list[Damage]:
        """The lines ``load`` leaves out."""
        items = [entry_of(item) for item in self._items(place) or ()]
        return [item for item in items if isinstance(item, Damage)]

    def sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Sessions with a transcript of their own, and when they changed."""
        with self._busy:
            listed = self._listed(project_key)
        return [{"session_id": name, "mtime": mtime} for name, mtime in listed]

    def subkeys(self, place: RemoteTranscript) -> Iterator[str]:
        """Every subpath of a session that is not closed."""
        with self._busy:
            detail = self._remote.session(place.session)
        keys = [log.key for log in detail.logs if log.key] if detail is not None else []
        for key in keys:
            subpath = "/".join(names_of(key))
            one = self.place(cast("SessionKey", {**place.key, "subpath": subpath}))
            if self._items(one) is not None:
                yield subpath

    def delete(self, place: RemoteTranscript) -> None:
        """Delete a whole session, or one transcript by closing it."""
        with self._busy:
            for log in [log for log in self._known if log.startswith(f"{place.session} ")]:
                if place.is_main or log == place.log:
                    del self._known[log]
            if place.is_main:
                self._remote.delete(place.session)
                return
            for _ in range(_MOST_TURNS):
                head = self._remote.head(place.session, place.log_key)
                if head is None:
                    return
                try:
                    self._remote.append(place.session, place.log_key, head, _CLOSED, SessionDescription())
                    return
                except PositionConflict:
                    continue

    def summaries(self, project_key: str, fold: tuple[FoldCall, str]) -> list[SessionSummaryEntry]:
        """One summary for each main transcript, folded from all its entries."""
        found: list[SessionSummaryEntry] = []
        with self._busy:
            listed = self._listed(project_key)
        for name, mtime in listed:
            key: SessionKey = {"project_key": project_key, "session_id": name}
            entries = self.load(self.place(key))
            if entries is not None:
                summary = fold[0](None, key, entries)
                found.append({"session_id": name, "mtime": mtime, "data": summary["data"]})
        return found

    def close(self) -> None:
        with self._busy:
            self._remote.close()

    # --- one log --------------------------------------------------------------------------------

    def _listed(self, project_key: str) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for one in self._remote.sessions(project=project_key):
            name = _session_id(project_key, one.id)
            if name is not None:
                detail = self._remote.session(one.id)
                main = [log for log in detail.logs if not log.key] if detail is not None else []
                found += [(name, log.changed) for log in main]
        return found

    def _of(self, place: RemoteTranscript) -> _RemoteLogState:
        known = self._known.get(place.log)
        if known is None:
            known = self._known[place.log] = _RemoteLogState()
            self._catch_up(place, known)
            while len(self._known) > _OPEN_LOGS:
                self._known.popitem(last=False)
        self._known.move_to_end(place.log)
        return known

    def _catch_up(self, place: RemoteTranscript, known: _RemoteLogState) -> None:
        """Read the new lines of the log."""
        try:
            self._read_on(place, known)
        except SessionGone:
            known.at = START
        except PositionConflict:
            # Purged and started again by another process: our state is invalid.
            known.at, known.ids = START, set()
            if self._remote.head(place.session, place.log_key) is not None:
                self._read_on(place, known)

    def _read_on(self, place: RemoteTranscript, known: _RemoteLogState) -> None:
        for piece in self._remote.read(place.session, place.log_key, known.at):
            for line in lines_of(piece):
                known.learn(line)

    def _send(
        self,
        place: RemoteTranscript,
        known: _RemoteLogState,
        lines: list[_Entry],
        description: SessionDescription,
    ) -> list[_Entry]:
        """Store as many as fit into one request; returns the rest."""
        count, size = 0, 0
        while count < len(lines) and (not count or size + len(lines[count][0]) <= _LARGEST_BATCH):
            size += len(lines[count][0])
            count += 1
        batch = [line for line, _ in lines[:count]]
        self._remote.append(place.session, place.log_key, known.at, b"".join(batch), description)
        for line in batch:
            known.learn(line)
        return lines[count:]

    def _items(self, place: RemoteTranscript) -> list[Line | Damage] | None:
        """The lines after the last closing line; None if there are none."""
        found: list[Line | Damage] = []
        offset = 0
        with self._busy:
            try:
                for piece in self._remote.read(place.session, place.log_key, START):
                    for line in lines_of(piece):
                        if line == _CLOSED:
                            found.clear()
                        else:
                            found.append(Line(line[:-1], offset))
                        offset += len(line)
            except SessionGone:
                return None
        return found or None


def _fresh(lines: Sequence[_Entry], known: set[str]) -> list[_Entry]:
    seen: set[str] = set()
    new: list[_Entry] = []
    for line, name in lines:
        if name is None or (name not in known and name not in seen):
            new.append((line, name))
            seen.add(name or "")
    return new


def _start(project: str) -> str:
    """How the names of a project's sessions begin."""
    digest = sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{_PREFIX}{digest}-"


def _session_name(project: str, session: str) -> str:
    """A session's name on the server, unique per project and session."""
    name = _start(project) + key_of(session)
    if "/" in name or len(name) > _LONGEST_NAME or not session:
        raise InvalidId("session id", session, "is empty or too long for a server")
    return name


def _session_id(project: str, name: str) -> str | None:
    """The session id in a name; None if it is of another project."""
    start = _start(project)
    return names_of(name[len(start) :])[0] if name.startswith(start) else None
