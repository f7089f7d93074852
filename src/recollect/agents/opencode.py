"""OpenCode 0.5 to 1.18: stores that are rewritten and deleted in place, mirrored as what they said over time.

A pass lists the sessions first and tells those that changed (``opencode_sessions``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from msgspec import Struct

from recollect.agents import opencode_database, opencode_store
from recollect.agents.blocks import Item, MirroredThread, as_messages
from recollect.agents.databases import StoreChangedError
from recollect.agents.growth import Unit, UnitState, holds_none
from recollect.agents.loose import fitted, parsed
from recollect.agents.mirror import AgentMirror
from recollect.agents.opencode_database import RowStore
from recollect.agents.opencode_facts import StoreFacts
from recollect.agents.opencode_sessions import OpenCodeSession
from recollect.agents.opencode_store import FILES, SHAPES, FileStore
from recollect.errors import StorageError
from recollect.system.peek import ReadProblems

_INTERRUPTED = "[Tool execution was interrupted]"
_CLEARED = "[Old tool result content cleared]"
_SUMMARY_OF = "What did we do so far?"
_TRIES = 5


class State(UnitState, Struct, kw_only=True):
    """A store that was read."""

    sessions: dict[str, str] = {}  # the marks they had when they were mirrored


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The files as one unit, then every database with its write-ahead log."""
    stamp, databases = opencode_store.stamp(home), opencode_database.units(home)
    of_files = [] if stamp is None else [Unit(FILES, stamp, home, FILES)]
    # A client that has a database does not look at files: they were copied when it was made, and stayed.
    read = databases or of_files
    return [
        unit._replace(holds=partial(_may_hold, unit, home) if unit in read else holds_none)
        for unit in (*of_files, *databases)
    ]


def _may_hold(unit: Unit, home: Path, session: str) -> bool:
    """Whether a store has a session; also where it cannot be read now: another message says so."""
    try:
        with opened(unit, home) as store:
            is_there = store.may_have(session)
            store.check()
            return is_there
    except (StorageError, StoreChangedError):
        return True


def opened(unit: Unit, home: Path) -> AbstractContextManager[FileStore | RowStore]:
    """The store of a unit, for reading."""
    return (
        contextlib.nullcontext(FileStore(home)) if unit.key == FILES else opencode_database.opened(unit.path)
    )


def resumed(thread: MirroredThread) -> list[Item]:
    """Reasoning goes back to the same model; a call that was interrupted gets a result, and one that was cleared another."""
    result = as_messages(thread.entries(), thinking=True, interrupted=_INTERRUPTED, summary_of=_SUMMARY_OF)
    cleared = {call for records in thread.sources().values() for call in _cleared_in(records[-1:])}
    for block in (block for message in result for block in message["content"]):
        if block["type"] == "tool_result" and block["tool_use_id"] in cleared:
            block["content"] = _CLEARED
    return result


def _cleared_in(records: Iterable[bytes]) -> Iterator[str]:
    """Calls whose results the client no longer sends, although it keeps them."""
    for raw in records:
        row = parsed(raw) if b"compacted" in raw else None
        said = row.get("data", row) if isinstance(row, dict) else None
        part = fitted(parsed(said.encode()) if isinstance(said, str) else said, SHAPES["part"]).fields
        if ((part.get("state") or {}).get("time") or {}).get("compacted"):
            yield str(part.get("callID"))


def mirror(unit: Unit, state: State, into: AgentMirror) -> None:
    """Mirror the sessions in which a record is new, another or gone."""
    for _ in range(_TRIES):
        # A client that writes meanwhile costs what was read of the session that is read now.
        with contextlib.suppress(StoreChangedError), opened(unit, into.home) as store:
            _mirror_changed(unit, store, state.sessions, into)
            for problem in store.problems:
                into.problem(
                    problem.path, problem.reason, is_retried=store.is_retried, is_unknown=problem.is_unknown
                )
            return
    into.problem(unit.path, "it changes all the time; it is read at the next call", is_retried=True)


def _mirror_changed(
    unit: Unit, store: FileStore | RowStore, known: dict[str, str], into: AgentMirror
) -> None:
    """Mirror the sessions whose marks are not the ``known`` ones, one at a time: memory depends on the largest."""
    listed = store.listed()
    store.check()  # before anything is taken for gone
    sessions = store.sessions()
    facts = StoreFacts(store, sessions)
    changed = {session for session, mark in listed.items() if mark != known.get(session)}
    # What could not be listed may still be there.
    changed |= known.keys() - listed.keys() if store.is_whole else set()
    for session in sorted(changed, key=facts.began):
        with into.guarding(f"{unit.path}: {session}"):
            changed_session = OpenCodeSession(session, sessions, store.of(session), facts, into)
            store.check()
            changed_session.write()
        known.pop(session, None)
        if session in listed and session not in store.unread and store.is_whole:
            known[session] = listed[session]
        into.settle()
