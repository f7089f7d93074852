"""OpenCode 0.5 to 1.18: stores that are rewritten and deleted in place, mirrored as what they said over time.

A pass lists the sessions first and tells those that changed (``opencode_sessions``); of one that goes on, only its end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.loose import UNEXPECTED, parsed
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.opencode_facts import StoreFacts, began
from recollect.storage.foreign.opencode_sessions import MarkedEnd, OpenCodeSessions
from recollect.storage.foreign.opencode_store.growing import SMALLEST, GrowingSession, keep_growing
from recollect.storage.foreign.opencode_store.store import (
    OpenCodeStore,
    SessionMark,
    StoreChangedError,
    opened,
    units,
)
from recollect.storage.foreign.resumed import Item, MirroredThread, as_messages

__all__ = ["TRANSLATION", "deletion_warning", "finish", "mirror", "resume_warning", "resumed", "units"]

TRANSLATION = 1
_INTERRUPTED = "[Tool execution was interrupted]"
_CLEARED = "[Old tool result content cleared]"
_SUMMARY_OF = "What did we do so far?"
# Sessions are read and written together up to this size: memory depends on it, and not on the store.
_BATCH = 4_000_000
# The client's own event log says which sessions it wrote to. So often the rows themselves are asked, in seconds: they know
# also what a migration or a person changed.
_COMPARED_EVERY = 3600
_TRIES = 5


class _StoreState(Struct):
    sessions: dict[str, SessionMark] = {}  # as they were listed when they were mirrored
    compared: int = 0  # when rows of all sessions were listed last, in seconds
    growing: dict[str, GrowingSession] = {}  # the ends of those that changed last


def finish(home: Path, into: AgentMirror) -> None:
    """Nothing is left to do."""


def resumed(thread: MirroredThread) -> list[Item]:
    """Reasoning goes back to the same model; a call that was interrupted gets a result, and one that was cleared another."""
    found = as_messages(thread.entries(), thinking=True, interrupted=_INTERRUPTED, summary_of=_SUMMARY_OF)
    cleared = {call for records in thread.sources().values() for call in _cleared_in(records[-1:])}
    for block in (block for message in found for block in message["content"]):
        if block["type"] == "tool_result" and block["tool_use_id"] in cleared:
            block["content"] = _CLEARED
    return found


def _cleared_in(records: Iterable[bytes]) -> Iterator[str]:
    """Calls whose results the client no longer sends, although it keeps them."""
    for raw in records:
        row = parsed(raw) if b"compacted" in raw else None
        said = row.get("data", row) if isinstance(row, dict) else None
        part = parsed(said.encode()) if isinstance(said, str) else said
        state = part.get("state") if isinstance(part, dict) else None
        time = state.get("time") if isinstance(state, dict) else None
        if isinstance(part, dict) and isinstance(time, dict) and time.get("compacted"):
            yield str(part.get("callID"))


def deletion_warning(home: Path) -> str | None:
    """It deletes nothing by itself."""
    return None


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """It resumes all that it lists."""
    return None


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Mirror the sessions in which a record is new, another or gone."""
    state = msgspec.msgpack.decode(saved, type=_StoreState) if saved else _StoreState()
    for _ in range(_TRIES):
        # A client that writes meanwhile costs what was read since the last batch.
        with contextlib.suppress(StoreChangedError), opened(unit, into.home) as store:
            _StorePass(unit, store, state, into).run()
            for problem in store.problems:
                into.problem(
                    problem.path, problem.reason, is_retried=problem.is_retried, is_unknown=problem.is_unknown
                )
            return msgspec.msgpack.encode(state)
    into.problem(unit.path, "it changes all the time; it is read at the next call", is_retried=True)
    return msgspec.msgpack.encode(state)


class _StorePass:
    """One pass over a store."""

    def __init__(self, unit: Unit, store: OpenCodeStore, state: _StoreState, into: AgentMirror) -> None:
        self._unit, self._store, self._state, self._into = unit, store, state, into
        now = int(time.time())
        is_due = abs(now - state.compared) > _COMPARED_EVERY
        self._listed = store.listed({} if is_due else state.sessions)
        store.check()  # before anything is taken for gone
        if is_due:
            state.compared = now
        self._sessions = store.sessions()
        self._facts = StoreFacts(store, self._sessions)

    def run(self) -> None:
        into, path, known = self._into, self._unit.path, self._state.sessions
        is_whole = self._store.is_whole
        touched = {
            session
            for session, mark in self._listed.items()
            if mark.differs(known.get(session), is_whole=is_whole)
        }
        # What could not be listed may still be there.
        gone = known.keys() - self._listed.keys() if is_whole else set()
        changed = sorted((touched | gone) - {""}, key=partial(began, self._sessions))
        for batch in self._batches([session for session in changed if not self._went_on(session)]):
            with into.guarding(path):
                records = self._store.of(batch)
                told = OpenCodeSessions(self._sessions, records, self._facts, into)
                ends = {session: self._end_of(session, told) for session in batch}
                self._store.check()
                self._write(batch, told, ends)
            into.settle()
        into.settle()
        if "" in self._listed and (lost := self._store.nameless()):
            into.problem(f"{path}: {lost[0]}", f"{len(lost):,} records name no session")

    def _batches(self, sessions: Iterable[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for session in sessions:
            batch.append(session)
            size += self._listed[session].size if session in self._listed else 0
            if size > _BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _write(self, batch: list[str], told: OpenCodeSessions, ends: dict[str, MarkedEnd | None]) -> None:
        known, growing = self._state.sessions, self._state.growing
        for session in batch:
            with self._into.guarding(f"{self._unit.path}: {session}"):
                growing.pop(session, None)
                if session in self._sessions or session in told.spoken:
                    self._keep_end(session, told.write(session, ends[session]))
                before, mark = known.pop(session, None), self._listed.get(session)
                if mark is not None and session not in told.unread:
                    known[session] = mark if self._store.is_whole else mark.after(before)

    # ---- sessions that go on ---------------------------------------------------------------------------------

    def _went_on(self, session: str) -> bool:
        """Whether all that is new stands at the end of a session; then it is written."""
        known, mark = self._state.growing.get(session), self._listed.get(session)
        if known is None or mark is None or not self._store.is_whole:
            return False
        try:
            records = self._store.at_end(session, known)
            if records is None:
                return False
            told = OpenCodeSessions(self._sessions, records, self._facts, self._into)
            end = self._end_of(session, told)
            self._store.check()
            now = told.go_on(session, known, end)
        except UNEXPECTED:  # told where the whole session is
            return False
        if now is None:
            return False
        del self._state.growing[session]
        self._keep_end(session, now)
        self._state.sessions[session] = mark
        return True

    def _end_of(self, session: str, told: OpenCodeSessions) -> MarkedEnd | None:
        """The end of a session that has changed before, and is large."""
        mark, is_known = self._listed.get(session), session in self._state.sessions
        end = told.end_of(session) if mark is not None and is_known and mark.size > SMALLEST else None
        before = None if end is None else self._store.before(session, end)
        if mark is None or end is None or before is None:
            return None
        return MarkedEnd(end, before, mark.events)

    def _keep_end(self, session: str, now: GrowingSession | None) -> None:
        if now is not None:
            keep_growing(self._state.growing, session, now)
