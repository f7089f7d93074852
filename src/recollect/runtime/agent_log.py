"""A session's log as the runtime writes it: one straight chain, with the client's additional fields.

Added to ``SessionLog``: each entry follows the last one *we* wrote, even if another program appended
meanwhile, so a result never becomes the child of another program's prompt.

``HomeStore`` is a store whose logs are in a Claude home: the same files, with the locks in our own
directory (law 5).
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from recollect.model.draft import Draft, MetadataDraft
from recollect.model.ids import AgentId
from recollect.model.lifecycle import SessionState
from recollect.storage.home_locks import lock_path
from recollect.storage.logs.log import Log
from recollect.storage.store import LogContext, PlacedDraft, SessionLog, Store
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.refusals import as_storage_error


def milliseconds_now() -> dt.datetime:
    """The time in whole milliseconds: entries of one millisecond then differ, and times rise in file
    order."""
    now = dt.datetime.now(dt.UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


class HomeStore(Store):
    """A Claude home as a store of sessions. ``data`` is our own directory, which holds the locks."""

    def __init__(self, root: Path, data: Path) -> None:
        super().__init__(root, clock=milliseconds_now)
        self._data = data

    def log_at(self, path: Path) -> Log:
        self.paths.require_inside(path)
        return Log(path, lock_path=lock_path(path, self._data))


class AgentLog(SessionLog):
    """One session being written. ``tip`` is the entry the next one follows, None at the start.

    ``turn`` is held until the log is closed: until then no other run of ours writes to the session.
    """

    def __init__(
        self,
        store: Store,
        place: LogContext,
        state: SessionState,
        *,
        tip: str | None = None,
        turn: FileLock | None = None,
    ) -> None:
        super().__init__(store, place, state)
        self.tip = tip
        self._turn = turn
        self._putting = threading.Lock()  # sub-agents of this session note their changes of files here

    def close(self) -> None:
        """Sync what is left, close the file, and release the turn."""
        try:
            super().close()
        finally:
            if self._turn is not None:
                self._turn.release()
                self._turn.close()

    def put(self, *drafts: Draft) -> list[str]:
        """Store entries of one block each after the tip, with one write and one sync; returns their ids."""
        if not drafts:
            return []
        with self._putting:
            return self._put(drafts)

    def start_over(self, *drafts: Draft) -> list[str]:
        """The same, where the first entry follows none: nothing before it is sent any more."""
        with self._putting:
            self.tip = None
            return self._put(drafts)

    def _put(self, drafts: Sequence[Draft]) -> list[str]:
        ids = self.append_many(_placed(drafts, self.tip))
        links = [
            entry_id
            for entry_id, draft in zip(ids, drafts, strict=True)
            if not isinstance(draft, MetadataDraft)
        ]
        self.tip = links[-1] if links else self.tip
        return ids

    def sub_agent(self, agent: str) -> AgentLog:
        """A new log of a sub-agent of this session."""
        path = self._store.paths.agent_log(self.place.key, self.id, AgentId(agent))
        place = structs.replace(self.place, path=path, agent=AgentId(agent))
        return AgentLog(self._store, place, SessionState.CREATED)

    def _store_lines(self, lines: Sequence[tuple[bytes, str | None]]) -> None:
        """The first lines of a session appear together with its file.

        If we were killed between creating the file and writing to it, an empty log would remain, and
        ``claude --continue`` would pick it up with no history.
        """
        if not self.path.exists() and all(entry_id for _, entry_id in lines):
            with as_storage_error("create", self.path):
                fsops.make_directories(self.path.parent)
                fsops.replace_file(self.path, b"".join(line + b"\n" for line, _ in lines))
        super()._store_lines(lines)  # finds them there by their ids

    def move_to(self, cwd: str) -> None:
        """Later entries record this directory."""
        self.place = structs.replace(self.place, cwd=cwd)


def put(log: SessionLog, *drafts: Draft) -> list[str]:
    """Store entries in any session's log."""
    return log.put(*drafts) if isinstance(log, AgentLog) else log.append_many(drafts)


def _placed(drafts: Sequence[Draft], tip: str | None) -> list[Draft]:
    """Only entries up to the first linked one name a parent; later ones follow in order."""
    placed: list[Draft] = []
    found = False
    for draft in drafts:
        placed.append(draft if found else PlacedDraft(draft=draft, parent=tip))
        found = found or not isinstance(draft, MetadataDraft)
    return placed
