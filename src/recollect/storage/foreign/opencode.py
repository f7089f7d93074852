"""OpenCode 0.5 to 1.18: stores that are rewritten and deleted in place, mirrored as what they said over time.

A session's messages in the order of their time are its conversation. A message or part that changed is said again; what a revert
removed stays as a branch, also where only the event log still has it. One ``step-finish`` part is one model call; a fork
copies them under new ids with unchanged times, so a call is known by when it was made and what it used.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.conversation.node import ERROR_NOTE
from recollect.model.made_ids import derived_uuid
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.edits import in_patch, replaced, with_changes, written
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import Fields, parsed, unexpected
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.mirroring.state import Placed
from recollect.storage.foreign.opencode_store.store import (
    OpenCodeRecord,
    OpenCodeRecords,
    OpenCodeStore,
    SessionMark,
    StoreChangedError,
    opened,
    units,
)
from recollect.storage.foreign.parts import thinking, tool_use
from recollect.storage.foreign.resumed import Item, MirroredThread, as_messages

__all__ = ["TRANSLATION", "deletion_warning", "finish", "mirror", "resume_warning", "resumed", "units"]

TRANSLATION = 1
_UNTITLED = "New session - "
_MESSAGE = "msg_"  # how ids of messages begin
_WRAP = 1 << 36  # ids hold the time modulo so many milliseconds
_ID_TIME = re.compile(r"[a-z]+_([0-9a-f]{12})")
_CACHED_APART = (1, 0, 62)  # before it, input holds the cached tokens
_OWN_CACHE_COUNTS = ("anthropic", "amazon-bedrock")
_SILENT = frozenset(
    ["step-start", "step-finish", "patch", "snapshot", "compaction", "agent", "retry", "subtask"]
)
_INTERRUPTED = "[Tool execution was interrupted]"
_CLEARED = "[Old tool result content cleared]"
_SUMMARY_OF = "What did we do so far?"
_SHOWN = frozenset(["text", "reasoning", "tool", "file"])


# Sessions are read and written together up to this size: memory depends on it, and not on the store.
_BATCH = 4_000_000
# The client's own event log says which sessions it wrote to. So often the rows themselves are asked, in seconds: they know
# also what a migration or a person changed.
_COMPARED_EVERY = 3600
_TRIES = 5


class _StoreState(Struct):
    sessions: dict[str, SessionMark] = {}  # as they were listed when they were mirrored
    compared: int = 0  # when rows of all sessions were listed last, in seconds


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
        self._facts = _StoreFacts(store, self._sessions)

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
        for batch in self._batches(sorted((touched | gone) - {""}, key=partial(_began, self._sessions))):
            with into.guarding(path):
                records = self._store.of(batch)
                self._store.check()
                self._write(batch, records)
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

    def _write(self, batch: list[str], records: OpenCodeRecords) -> None:
        store, known = (
            _OpenCodeSessions(self._sessions, records, self._facts, self._into),
            self._state.sessions,
        )
        for session in batch:
            with self._into.guarding(f"{self._unit.path}: {session}"):
                if session in self._sessions or session in store.spoken:
                    store.write(session)
                before, mark = known.pop(session, None), self._listed.get(session)
                if mark is not None and session not in records.unread:
                    known[session] = mark if self._store.is_whole else mark.after(before)


def _began(sessions: dict[str, OpenCodeRecord], session: str) -> tuple[float, str]:
    """Sessions are written in the order in which they began: parents first."""
    record = sessions.get(session)
    return (_created(record.fields) if record is not None else 0, session)


class _StoreFacts:
    """What concerns several sessions, found where one of them asks for it: who said copied messages first, whose calls parts
    without a message are.
    """

    def __init__(self, store: OpenCodeStore, sessions: dict[str, OpenCodeRecord]) -> None:
        self._store, self._sessions = store, sessions

    @cached_property
    def firsts(self) -> dict[tuple[object, ...], str]:
        """The session in which a message was said that forks may have copied."""
        said = [
            (_began(self._sessions, session), _created(message.fields), message.id, message, session)
            for message in self._store.every("message")
            if not _is_copied(message) and (session := str(message.fields.get("sessionID") or ""))
        ]
        found: dict[tuple[object, ...], str] = {}
        for *_, message, session in sorted(said, key=lambda one: one[:3]):
            found.setdefault(_told_when(message), session)
        return found

    @cached_property
    def orphans(self) -> list[tuple[str, OpenCodeRecord, str, dict[str, int]]]:
        """Steps whose message a revert deleted, by session. A fork that was made before may hold the same call."""
        messages: dict[str, OpenCodeRecord] = {}
        steps: dict[str, list[OpenCodeRecord]] = {}
        for record in self._store.every("message", "part"):
            light = msgspec.structs.replace(record, original=b"")
            if record.table == "message":
                messages[record.id] = light
            elif record.fields.get("type") == "step-finish":
                steps.setdefault(str(record.fields.get("messageID")), []).append(light)
        copies: dict[tuple[object, ...], list[str]] = {}
        own: set[str] = set()
        for message in messages.values():
            version = self._version(str(message.fields.get("sessionID") or ""))
            parts = sorted(steps.get(message.id, ()), key=lambda one: one.id)
            for key, counts, cost in _steps(message, parts, version):
                if _is_copied(message):
                    copies.setdefault((*sorted(counts.items()), cost), []).append(key)
                else:
                    own.add(key)
        lost = [part for name, parts in steps.items() if name not in messages for part in parts]
        return [self._orphan(part, copies, own) for part in sorted(lost, key=lambda one: one.id)]

    def _orphan(
        self, part: OpenCodeRecord, copies: dict[tuple[object, ...], list[str]], own: set[str]
    ) -> tuple[str, OpenCodeRecord, str, dict[str, int]]:
        session = str(part.fields.get("sessionID") or "")
        counts = _split(part.fields.get("tokens"), None, self._version(session))
        same = copies.get((*sorted(counts.items()), part.fields.get("cost")), [])
        twin = next((key for key in same if key not in own), None)
        if twin is not None:
            same.remove(twin)
        return session, part, twin or made.key_of("opencode", part.id), counts

    def _version(self, session: str) -> tuple[int, ...] | None:
        record = self._sessions.get(session)
        return _version(record.fields.get("version")) if record is not None else None


class _OpenCodeSessions:
    """The records of some sessions."""

    def __init__(
        self,
        sessions: dict[str, OpenCodeRecord],
        records: OpenCodeRecords,
        facts: _StoreFacts,
        into: AgentMirror,
    ) -> None:
        self._sessions, self._records, self._facts, self._into = sessions, records, facts, into
        self._origins: dict[str, str] = {}
        self._parts: dict[str, list[OpenCodeRecord]] = {}
        for part in records.parts.values():
            self._parts.setdefault(str(part.fields.get("messageID")), []).append(part)
        self.spoken: dict[str, list[OpenCodeRecord]] = {}
        for message in records.messages.values():
            self.spoken.setdefault(str(message.fields.get("sessionID") or ""), []).append(message)
        self.spoken.pop("", None)
        for parts in self._parts.values():
            parts.sort(key=lambda part: part.id)
        for messages in self.spoken.values():
            messages.sort(key=lambda one: (_created(one.fields), one.id))

    @cached_property
    def _own(self) -> dict[str, list[OpenCodeRecord]]:
        """The records of each session but its own."""
        found: dict[str, list[OpenCodeRecord]] = {}
        records = self._records
        for record in (*records.messages.values(), *records.parts.values(), *records.others):
            found.setdefault(self._session_of(record), []).append(record)
        return found

    def _changed(self, session: str, log: str) -> Iterator[tuple[OpenCodeRecord, str]]:
        """The records of which the log has not what they say now, each with the mark of that."""
        seen = self._into.record_marks(log)
        own = [self._sessions[session]] if session in self._sessions else []
        for record in (*own, *self._own.get(session, ())):
            mark = made.mark_of(record.original)
            if seen.get(record.source) != mark:
                yield record, mark

    def _session_of(self, record: OpenCodeRecord) -> str:
        message = self._records.messages.get(str(record.fields.get("messageID")))
        holder = message if message is not None and record.table == "part" else record
        return str(holder.fields.get("sessionID") or record.fields.get("sessionID") or "")

    def write(self, session: str) -> None:
        """The records that changed, byte for byte, then what they add to the conversation."""
        place, into = self._place(session), self._into
        log = into.log(place)
        voice = self._voice(session, place)
        kept: list[LineFields] = []
        here = made.record(voice)
        changed = []
        for record, mark in self._changed(session, log):
            changed.append(record)
            line = {**here, "type": _kind_of(record), "recordType": record.table, "source": record.source}
            line |= {"mark": mark, "whole": True}
            made.keep_original(line, record.original)
            kept.append(line)
        known = into.known_ids(log)
        odd = [f"{record.source}: {place}" for record in changed for place in self._odd_in(record)]
        if odd:
            kept.append(unexpected("opencode", voice, odd))
        branches = list(self._entries(session, place))
        if session not in self.spoken and not known:  # lists take time and directory from entries
            branches = [[made.note(voice, "opened", "Opened, nothing said yet")]]
        found = _once(line for branch in branches for line in branch if line["uuid"] not in known)
        voice.leaf = branches[-1][-1]["uuid"] if branches[-1] else None
        found = into.ended(log, found, voice, is_emptied=len(branches) > 1)
        calls = [line for line in self._calls(session, place) if line["message"]["id"] not in known]
        into.append(log, [*kept, *found, *calls])
        title = self._fields(session).get("title")
        if isinstance(title, str) and place.agent is None and not title.startswith(_UNTITLED):
            into.title(session, title, {"type": "ai-title", "aiTitle": title, "sessionId": place.session})

    def _odd_in(self, record: OpenCodeRecord) -> tuple[str, ...]:
        """The fields that are not as expected, those that tie parts to messages too: parts may be all that is left of a
        message that a revert deleted, but then they name one.
        """
        if record.table == "part":
            tied: Collection[str] = self._records.messages
            field, name = "messageID", str(record.fields.get("messageID"))
        elif record.table == "message":
            field, name, tied = "id", record.id, self._parts
        else:
            return record.odd
        is_expected = name in tied or name.startswith(_MESSAGE) or field in record.odd
        return record.odd if is_expected else (*record.odd, field)

    def _fields(self, session: str) -> Fields:
        record = self._sessions.get(session)
        return record.fields if record is not None else {}

    def _place(self, session: str) -> Placed:
        cwd = self._cwd(session)
        above, root, seen = self._fields(session).get("parentID"), session, {session}
        while isinstance(above, str) and above not in seen:
            seen.add(above)
            root, above = above, self._fields(above).get("parentID")
        # Ids of the client begin alike for days; those of ours differ in the first characters, which people type.
        own = derived_uuid(root, 0)
        if root == session:
            return self._into.place(session, cwd, session=own, project="opencode")
        self._place(root)
        place = self._into.place(session, cwd, session=own, agent=session, project="opencode", root=root)
        parent = self._fields(session).get("parentID")
        about = str(self._fields(session).get("title") or "")
        kind = re.search(r"\(@([\w-]+) subagent\)", about)
        meta: dict[str, object] = {
            "description": about.partition(" (@")[0],
            "agentType": kind[1] if kind else None,
        }
        self._into.note_agent(place, meta | {"parentAgentId": parent if parent != root else None})
        return place

    def _cwd(self, session: str) -> str:
        directory = self._fields(session).get("directory")
        if isinstance(directory, str) and directory:
            return directory
        for message in self.spoken.get(session, ()):
            path = message.fields.get("path")
            if isinstance(path, dict) and isinstance(path.get("cwd"), str):
                return str(path["cwd"])
        return ""

    def _voice(self, session: str, place: Placed) -> Voice:
        fields = self._fields(session)
        return Voice(
            session=place.session,
            agent=place.agent,
            cwd=self._cwd(session),
            version=fields.get("version") if isinstance(fields.get("version"), str) else None,
            at=made.moment(_created(fields)),
            seed=session,
        )

    # ---- the conversation ------------------------------------------------------------------------------------

    def _entries(self, session: str, place: Placed) -> Iterator[list[LineFields]]:
        """What was removed or reverted, each run of it as a branch; then the conversation as it is."""
        messages = self.spoken.get(session, [])
        reverted = self._reverted(session, messages)
        kept: list[OpenCodeRecord] = []
        run: list[OpenCodeRecord] = []
        for message in messages:
            if any(part.is_removed for part in self._parts.get(message.id, ())) and not message.is_removed:
                yield list(self._chain(session, place, [*kept, message], whole=message.id))
            if message.is_removed or message.id in reverted:
                run.append(message)
                continue
            if run:
                yield list(self._chain(session, place, [*kept, *run]))
                run = []
            kept.append(message)
        if run:
            yield list(self._chain(session, place, [*kept, *run]))
        yield list(self._chain(session, place, kept))

    def _reverted(self, session: str, messages: list[OpenCodeRecord]) -> set[str]:
        """Messages that the next prompt will delete. Of one that is reverted in its middle, the client keeps the beginning."""
        said = self._fields(session).get("revert")
        revert = parsed(said.encode()) if isinstance(said, str) else said
        names = [message.id for message in messages]
        if not isinstance(revert, dict) or revert.get("messageID") not in names:
            return set()
        return set(names[names.index(revert["messageID"]) + bool(revert.get("partID")) :])

    def _chain(
        self, session: str, place: Placed, messages: Iterable[OpenCodeRecord], whole: str = ""
    ) -> Iterator[LineFields]:
        """Without parts that were removed from messages that are still there, but for the one that is ``whole``."""
        voice, origin = self._voice(session, place), self._origin(session)
        ends: dict[str, tuple[str, str]] = {}  # the first and the last link of each message
        tail: str | None = None  # where that begins which the next summary leaves as it is
        for message in messages:
            voice.at = made.moment(_created(message.fields)) or voice.at
            is_whole = message.is_removed or message.id == whole
            parts = [
                part.fields for part in self._parts.get(message.id, ()) if is_whole or not part.is_removed
            ]
            voice.copied_from = origin if _is_copied(message) else None
            if message.fields.get("role") == "user":
                tail = next((str(part.get("tail_start_id")) for part in parts if _is_compaction(part)), tail)
                told = list(_asked(parts, voice))
            elif _is_summary(message.fields):
                kept = (ends[tail][0], list(ends.values())[-1][1]) if tail in ends else None
                told = made.compaction(voice, "\n".join(_texts(parts)), kept=kept)
                tail = None
            else:
                told = list(self._answered(message.fields, parts, voice))
            if told:
                ends[message.id] = told[0]["uuid"], told[-1]["uuid"]
            yield from told

    def _origin(self, session: str) -> str:
        if session not in self._origins:
            self._origins[session] = self._found_origin(session)
        return self._origins[session]

    def _found_origin(self, session: str) -> str:
        """The session that a fork was made of: no record names it, but copied messages keep their times.

        The last of them tells, since the first may have been copied twice.
        """
        copies = [message for message in reversed(self.spoken.get(session, ())) if _is_copied(message)]
        firsts = self._facts.firsts if copies else {}
        found = next((firsts[key] for one in copies if (key := _told_when(one)) in firsts), None)
        return "unknown" if found is None else self._place(found).session

    def _answered(self, message: Fields, parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
        model = message.get("modelID")
        blocks: list[LineFields] = []
        results: list[LineFields] = []
        changed: list[LineFields] = []
        ended: list[str] = []  # when each call was done
        for part in [*parts, {"type": "step-finish"}]:
            kind = part.get("type")
            if kind == "text" and part.get("text") and not part.get("ignored"):
                blocks.append({"type": "text", "text": str(part["text"])})
            elif kind == "reasoning" and part.get("text"):
                blocks.append(thinking(str(part["text"])))
            elif kind == "tool":
                call, result = self._tool(part)
                blocks.append(call)
                results += result
                changed += _edits_of(part)
                ended += [at for at in [_ended(part)] if at is not None]
            elif kind == "step-finish" and blocks:
                yield made.assistant(voice, model if isinstance(model, str) else None, *blocks)
                if results:
                    voice.at = max(ended, default=voice.at)
                    yield with_changes(made.user(voice, results), changed)
                blocks, results, changed, ended = [], [], [], []
        yield from _not_sent(parts, voice)
        error = message.get("error")
        if isinstance(error, dict):
            said = error.get("data")
            text = said.get("message") if isinstance(said, dict) else None
            yield made.note(voice, ERROR_NOTE, str(text or error.get("name") or "error"), "error")

    def _tool(self, part: Fields) -> tuple[LineFields, list[LineFields]]:
        state = part.get("state")
        now: Fields = state if isinstance(state, dict) else {}
        call = str(part.get("callID") or part.get("id"))
        child = _started_by(now)
        if child in self._sessions:
            self._into.note_agent(self._place(child), {"toolUseId": call})
        result: LineFields = {"type": "tool_result", "tool_use_id": call}
        if now.get("status") == "completed":
            found = [{**result, "content": str(now.get("output") or "")}]
        elif now.get("status") == "error":
            found = [{**result, "content": str(now.get("error") or ""), "is_error": True}]
        else:
            found = []
        return tool_use(call, part.get("tool"), now.get("input")), found

    # ---- usage -----------------------------------------------------------------------------------------------

    def _calls(self, session: str, place: Placed) -> Iterator[LineFields]:
        voice, origin = self._voice(session, place), self._origin(session)
        version = _version(self._fields(session).get("version"))
        for message in self.spoken.get(session, ()):
            voice.at = made.moment(_created(message.fields)) or voice.at
            voice.copied_from = origin if _is_copied(message) else None
            for key, counts, cost in _steps(message, self._parts.get(message.id, ()), version):
                yield self._call(voice, key, message.fields.get("modelID"), counts, cost)
        voice.copied_from = None
        if not self._has_orphans:
            return
        for owner, part, key, counts in self._facts.orphans:
            if owner == session:
                yield self._call(voice, key, None, counts, part.fields.get("cost"))

    def _call(
        self, voice: Voice, key: str, model: object, counts: dict[str, int], cost: object
    ) -> LineFields:
        thought = counts["reasoning"]
        said = {**counts, "output": counts["output"] + thought}
        name = model if isinstance(model, str) else None
        line = made.usage(voice, key, name, said, output_tokens_details={"thinking_tokens": thought})
        return line | ({"costUSD": cost} if isinstance(cost, int | float) and cost > 0 else {})

    @cached_property
    def _has_orphans(self) -> bool:
        lost = (parts for name, parts in self._parts.items() if name not in self._records.messages)
        return any(part.fields.get("type") == "step-finish" for parts in lost for part in parts)


def _started_by(state: Fields) -> str:
    """The sub-agent that a call started; before 1.0 only the list of what it did names it."""
    about = state.get("metadata")
    told: Fields = about if isinstance(about, dict) else {}
    done = told.get("summary")
    steps = done if isinstance(done, list) else []
    named = (one.get("sessionID") for one in steps if isinstance(one, dict))
    return str(told.get("sessionId") or next((one for one in named if one), ""))


def _ended(part: Fields) -> str | None:
    """When a call was done, where the client says so."""
    state = part.get("state")
    time = state.get("time") if isinstance(state, dict) else None
    end = time.get("end") if isinstance(time, dict) else None
    return made.moment(end) if isinstance(end, int | float) else None


def _edits_of(part: Fields) -> list[LineFields]:
    """What a finished call changed; both contents where the client kept them (1.0 to 1.2)."""
    state = part.get("state")
    now: Fields = state if isinstance(state, dict) else {}
    given, about = now.get("input"), now.get("metadata")
    if now.get("status") != "completed" or not isinstance(given, dict):
        return []
    about = about if isinstance(about, dict) else {}
    path, tool = given.get("filePath"), part.get("tool")
    both, diff = about.get("filediff"), about.get("diff")
    if isinstance(both, dict) and isinstance(both.get("after"), str):
        return written(path, both["after"], original=both.get("before"), diff=diff)
    if tool == "write":
        return written(path, given.get("content"), created=about.get("exists") is False)
    if tool in ("apply_patch", "patch"):
        return in_patch(str(given.get("patchText") or ""))
    edits = given.get("edits") if tool == "multiedit" else [given] if tool == "edit" else []
    steps = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else []
    return replaced(
        path,
        [(one.get("oldString"), one.get("newString"), one.get("replaceAll")) for one in steps],
        diff=diff,
    )


def _steps(
    message: OpenCodeRecord, parts: Iterable[OpenCodeRecord], version: tuple[int, ...] | None
) -> Iterator[tuple[str, dict[str, int], object]]:
    """The model calls of an answer: its finished steps, or its own numbers where it has none."""
    fields = message.fields
    steps = [part.fields for part in parts if part.fields.get("type") == "step-finish"]
    if not steps and fields.get("role") == "assistant":
        steps = [fields]
    same: dict[tuple[int, ...], int] = {}
    for step in steps:
        counts = _split(step.get("tokens"), fields.get("providerID"), version)
        if any(counts.values()):
            fact = (_created(fields), fields.get("providerID"), fields.get("modelID"), sorted(counts.items()))
            used = tuple(counts.values())
            same[used] = same.get(used, 0) + 1
            yield made.key_of("opencode", *fact, same[used]), counts, step.get("cost")


def _split(tokens: object, provider: object, version: tuple[int, ...] | None) -> dict[str, int]:
    """Disjoint counts. Clients changed their minds about what input and output include."""
    given: Fields = tokens if isinstance(tokens, dict) else {}
    cache: Fields = given["cache"] if isinstance(given.get("cache"), dict) else {}
    counts = {
        "input": _count(given.get("input")),
        "cache_read": _count(cache.get("read")),
        "cache_write": _count(cache.get("write")),
        "output": _count(given.get("output")),
        "reasoning": _count(given.get("reasoning")),
    }
    is_old = version is not None and version < _CACHED_APART
    if is_old and counts["input"] >= counts["cache_read"] and provider not in _OWN_CACHE_COUNTS:
        counts["input"] -= counts["cache_read"]
    if counts["reasoning"]:
        total = given.get("total")
        flat = sum(counts.values()) - counts["reasoning"]
        if total == flat or (total is None and "google" not in str(provider or "")):
            counts["output"] = max(0, counts["output"] - counts["reasoning"])
    return counts


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _version(text: object) -> tuple[int, ...] | None:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text) if isinstance(text, str) else None
    return None if found is None else tuple(int(part) for part in found.groups())


def _is_copied(message: OpenCodeRecord) -> bool:
    return is_copy(message.id, _created(message.fields))


def _told_when(message: OpenCodeRecord) -> tuple[object, ...]:
    fields = message.fields
    return _created(fields), fields.get("role"), fields.get("modelID")


@lru_cache(maxsize=4096)  # every message is asked several times
def is_copy(message: str, created: float) -> bool:
    """Whether a fork made this message: its id is younger than the time it has."""
    found = _ID_TIME.match(message)
    if found is None or not created:
        return False
    return 1000 < ((int(found[1], 16) >> 12) - int(created)) % _WRAP < _WRAP // 2


def _created(fields: Fields) -> float:
    time = fields.get("time")
    created = time.get("created") if isinstance(time, dict) else fields.get("time_created")
    return created if isinstance(created, int | float) and math.isfinite(created) else 0


def _asked(parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
    """A prompt; what the client added to it is a note of its own."""
    sent = [part for part in parts if part.get("type") == "text" and not part.get("ignored")]
    typed = [part for part in sent if not part.get("synthetic")]
    added = [part for part in sent if part.get("synthetic")]
    files = [_file(part) for part in parts if part.get("type") == "file"]
    blocks: list[LineFields] = [{"type": "text", "text": text} for text in _texts(typed)] + files
    if blocks:
        yield made.user(voice, blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else blocks)
    if _texts(added):
        yield made.user(voice, "\n".join(_texts(added)), isMeta=True)
    yield from _not_sent(parts, voice)


def _not_sent(parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
    """Texts that only the client's user sees."""
    for text in _texts(part for part in parts if part.get("ignored")):
        yield made.note(voice, "not_sent", text)


def _is_compaction(part: Fields) -> bool:
    return part.get("type") == "compaction"


def _is_summary(message: Fields) -> bool:
    """Whether a message takes the place of what stands before it: a summary that failed or was stopped does not."""
    time = message.get("time")
    completed = time.get("completed") if isinstance(time, dict) else None
    is_finished = not message.get("error") and bool(message.get("finish") or completed)
    return message.get("summary") is True and is_finished


def _texts(parts: Iterable[Fields]) -> list[str]:
    return [str(part["text"]) for part in parts if part.get("type") == "text" and part.get("text")]


def _file(part: Fields) -> LineFields:
    url, media = str(part.get("url") or ""), str(part.get("mime") or "")
    head, comma, data = url.partition(",")
    if comma and head.endswith(";base64") and media.startswith("image/"):
        return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
    return {"type": "text", "text": f"[file {part.get('filename') or url[:200]}]"}


def _kind_of(record: OpenCodeRecord) -> str:
    kind: Any = record.fields.get("type")
    is_known = record.table != "part" or kind in _SILENT or kind in _SHOWN
    return made.RECORD if is_known else f"opencode:part:{kind}"


def _once(lines: Iterable[LineFields]) -> list[LineFields]:
    """Branches share their beginning: each entry is written once, the last one last."""
    return list({line["uuid"]: line for line in lines}.values())
