"""Sessions of OpenCode as lines of ours: their records byte for byte, and the conversation that they make.

A session's messages in the order of their time are its conversation. A message or part that changed is said again; what a revert
removed stays as a branch, also where only the event log still has it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from recollect.model.conversation.node import ERROR_NOTE
from recollect.model.made_ids import derived_uuid
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.edits import in_patch, replaced, with_changes, written
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import Fields, parsed, unexpected
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.mirroring.state import Placed
from recollect.storage.foreign.opencode_facts import (
    StoreFacts,
    created_at,
    is_copied,
    message_of,
    steps_of,
    told_at,
    told_when,
    version_of,
)
from recollect.storage.foreign.opencode_store.growing import (
    MOST_STALE,
    GrowingEnd,
    GrowingSession,
    ToldMessage,
    digest,
    growing_end,
    ids_of,
    in_order,
    stale_ids,
)
from recollect.storage.foreign.opencode_store.store import (
    OpenCodeRecord,
    OpenCodeRecords,
)
from recollect.storage.foreign.parts import thinking, tool_use

_UNTITLED = "New session - "
_MESSAGE = "msg_"  # how ids of messages begin
_SILENT = frozenset(
    ["step-start", "step-finish", "patch", "snapshot", "compaction", "agent", "retry", "subtask"]
)
_SHOWN = frozenset(["text", "reasoning", "tool", "file"])


class MarkedEnd(NamedTuple):
    """The last messages of a session, with what marks the rows of the others and its last event."""

    end: GrowingEnd
    before: str
    events: str | None


class _ToldMessageLines(NamedTuple):
    """A message, the link it follows, its links, and the lines that tell it; none where the log has them."""

    message: OpenCodeRecord
    above: str | None
    links: list[str]
    lines: list[LineFields]


class OpenCodeSessions:
    """The records of some sessions."""

    def __init__(
        self,
        sessions: dict[str, OpenCodeRecord],
        records: OpenCodeRecords,
        facts: StoreFacts,
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
            messages.sort(key=told_at)

    @property
    def unread(self) -> set[str]:
        """Sessions of which not all records could be read."""
        return self._records.unread

    @cached_property
    def _own(self) -> dict[str, list[OpenCodeRecord]]:
        """The records of each session but its own."""
        found: dict[str, list[OpenCodeRecord]] = {}
        records = self._records
        for record in (*records.messages.values(), *records.parts.values(), *records.others):
            found.setdefault(self._session_of(record), []).append(record)
        return found

    def _records_of(self, session: str) -> list[OpenCodeRecord]:
        """All records of a session, its own first."""
        own = [self._sessions[session]] if session in self._sessions else []
        return [*own, *self._own.get(session, ())]

    def _changed(self, session: str, seen: Mapping[str, str]) -> dict[str, tuple[OpenCodeRecord, str]]:
        """The records that differ from what the log has of them, each with its mark, by source."""
        marked = ((one, made.mark_of(one.original)) for one in self._records_of(session))
        return {one.source: (one, mark) for one, mark in marked if seen.get(one.source) != mark}

    def _session_of(self, record: OpenCodeRecord) -> str:
        message = self._records.messages.get(str(record.fields.get("messageID")))
        holder = message if message is not None and record.table == "part" else record
        return str(holder.fields.get("sessionID") or record.fields.get("sessionID") or "")

    def write(self, session: str, end: MarkedEnd | None = None) -> GrowingSession | None:
        """The records that changed, byte for byte, then what they add to the conversation. What the next pass can go on from, if
        the ``end`` is that of a session that grows.
        """
        place, into = self._place(session), self._into
        log = into.log(place)
        voice = self._voice(session, place)
        kept = self._kept(voice, self._changed(session, into.record_marks(log)).values())
        known = into.known_ids(log)
        branches = list(self._entries(session, place))
        told = [[line for one in branch for line in one.lines] for branch in branches]
        if session not in self.spoken and not known:  # lists take time and directory from entries
            told = [[made.note(voice, "opened", "Opened, nothing said yet")]]
        found = _once(line for branch in told for line in branch if line["uuid"] not in known)
        voice.leaf = told[-1][-1]["uuid"] if told[-1] else None
        found = into.ended(log, found, voice, is_emptied=len(branches) > 1)
        all_calls = list(self._calls(session, place))
        calls = [line for line in all_calls if line["message"]["id"] not in known]
        into.append(log, [*kept, *found, *calls])
        self._name(session, place)
        if end is None or self._may_tell_again(branches[-1], end.end):
            return None
        written = {*known, *filter(None, map(made.id_of, (*found, *calls)))}
        current = {*ids_of(told[-1]), *(line["message"]["id"] for line in all_calls)}
        last = [self._told(session, one) for one in branches[-1] if one.message.id in end.end.messages]
        return self._growing(session, last, end, stale_ids(written, current))

    def _kept(self, voice: Voice, changed: Iterable[tuple[OpenCodeRecord, str]]) -> list[LineFields]:
        """Lines with the bytes of records; one more where some are not as expected."""
        here = made.record(voice)
        kept: list[LineFields] = []
        odd: list[str] = []
        for record, mark in changed:
            line = {**here, "type": _kind_of(record), "recordType": record.table, "source": record.source}
            line |= {"mark": mark, "whole": True}
            made.keep_original(line, record.original)
            kept.append(line)
            odd += (f"{record.source}: {place}" for place in self._odd_in(record))
        return [*kept, unexpected("opencode", voice, odd)] if odd else kept

    def _name(self, session: str, place: Placed) -> None:
        into = self._into
        title = self._fields(session).get("title")
        if isinstance(title, str) and place.agent is None and not title.startswith(_UNTITLED):
            into.title(session, title, {"type": "ai-title", "aiTitle": title, "sessionId": place.session})

    # ---- a session that goes on ------------------------------------------------------------------------------

    def end_of(self, session: str) -> GrowingEnd | None:
        """The messages that may still change."""
        spoken = self.spoken.get(session, ())
        return growing_end([(one.id, one.fields.get("role") == "user") for one in spoken])

    def go_on(self, session: str, known: GrowingSession, end: MarkedEnd | None) -> GrowingSession | None:
        """Write what is new at the end of a session; None, and nothing is written, where all of it has to be told again."""
        place, into = self._place(session), self._into
        log = into.log(place)
        if end is None or not self._fits(session, known) or not into.is_as_left(log):
            return None
        changed = self._changed(session, known.marks)
        chain = self._continued(session, place, known, {message_of(one) for one, _ in changed.values()})
        if chain is None:
            return None
        written = known.ids
        found = [line for one in chain for line in one.lines if line["uuid"] not in written]
        calls = [line for line in self._calls(session, place) if line["message"]["id"] not in written]
        if any(digest(name) in known.stale for line in (*found, *calls) if (name := made.id_of(line))):
            return None
        told = [self._told(session, one) for one in chain]
        current = {name for one in told for name in one.ids}
        now = self._growing(session, told, end, known.stale | stale_ids(written, current))
        if now is not None:
            into.append(log, [*self._kept(self._voice(session, place), changed.values()), *found, *calls])
            self._name(session, place)
        return now

    def _fits(self, session: str, known: GrowingSession) -> bool:
        """Whether all that was told is still there, in the same order."""
        now = [(one.id, created_at(one.fields)) for one in self.spoken.get(session, ())]
        there = {one.source for one in self._records_of(session)}
        told = {source for one in known.told for source in one.records}
        is_same = known.about == self._about(session) and in_order(known.told, now)
        return is_same and told <= there and not self._has_lost

    def _about(self, session: str) -> str | None:
        """What every line of a session repeats; None where a revert is pending or the directory is not known."""
        fields = self._fields(session)
        if not fields.get("directory") or fields.get("revert"):
            return None
        return repr(
            [fields.get("directory"), fields.get("version"), fields.get("parentID"), created_at(fields)]
        )

    def _may_tell_again(self, chain: list[_ToldMessageLines], end: GrowingEnd) -> bool:
        """Whether something was removed at the end of a conversation, or has no message there: it would be told again with the end."""
        first = next((one.message for one in chain if one.message.id in end.messages), None)
        messages = self._records.messages
        parted = [str(one.fields.get("messageID")) for one in self._records.parts.values() if one.is_removed]
        removed = [one for one in messages.values() if one.is_removed or one.id in parted]
        if first is None or any(told_at(one) >= told_at(first) for one in removed):
            return True
        return any(name > end.last for name in self._parts.keys() - messages.keys())

    @cached_property
    def _has_lost(self) -> bool:
        """Whether there are parts without a message, or records that were removed."""
        lost = self._parts.keys() - self._records.messages.keys()
        records = (*self._records.messages.values(), *self._records.parts.values())
        return bool(lost) or any(one.is_removed for one in records)

    def _continued(
        self, session: str, place: Placed, known: GrowingSession, changed: set[str]
    ) -> list[_ToldMessageLines] | None:
        """The last messages as they are now, with lines of those that changed; None where that concerns earlier ones, or
        takes more than the message itself.
        """
        voice = self._voice(session, place)
        chain: list[_ToldMessageLines] = []
        is_moved = False  # whether messages follow another link than before
        for number, message in enumerate(self.spoken[session]):
            old = known.told[number] if number < len(known.told) else None
            if old is not None and not is_moved:
                voice.leaf = old.above
                if message.id not in changed:
                    chain.append(_ToldMessageLines(message, old.above, old.links, []))
                    voice.leaf = old.end
                    continue
            if not self._is_plain(message):
                return None
            above = voice.leaf
            lines = self._said(message, voice)
            chain.append(_ToldMessageLines(message, above, ids_of(lines), lines))
            if old is not None and not is_moved and chain[-1].links != old.links:
                if not known.is_joined_from(number):
                    return None
                is_moved = True
        return chain

    def _is_plain(self, message: OpenCodeRecord) -> bool:
        """Whether a message can be told without the others: it is no summary and no copy."""
        is_summing = message.fields.get("summary") is True
        is_summing = is_summing or any(
            _is_compaction(part.fields) for part in self._parts.get(message.id, ())
        )
        return bool(created_at(message.fields)) and not is_summing and not is_copied(message)

    def _told(self, session: str, one: _ToldMessageLines) -> ToldMessage:
        message, parts = one.message, self._parts.get(one.message.id, [])
        calls = [
            key for key, _, _ in steps_of(message, parts, version_of(self._fields(session).get("version")))
        ]
        records = {record.source: made.mark_of(record.original) for record in (message, *parts)}
        return ToldMessage(message.id, created_at(message.fields), one.above, one.links, calls, records)

    def _growing(
        self, session: str, told: list[ToldMessage], end: MarkedEnd, stale: frozenset[int]
    ) -> GrowingSession | None:
        about, names = self._about(session), set(end.end.messages)
        if about is None or len(stale) > MOST_STALE:
            return None
        others = {
            one.source: made.mark_of(one.original)
            for one in self._records_of(session)
            if one.table not in ("message", "part")
        }
        last = [one for one in told if one.id in names]
        return GrowingSession(about, last, others, stale, end.before, end.end.last, end.events)

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
            at=made.moment(created_at(fields)),
            seed=session,
        )

    # ---- the conversation ------------------------------------------------------------------------------------

    def _entries(self, session: str, place: Placed) -> Iterator[list[_ToldMessageLines]]:
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
    ) -> Iterator[_ToldMessageLines]:
        """Without parts that were removed from messages that are still there, but for the one that is ``whole``."""
        voice, origin = self._voice(session, place), self._origin(session)
        ends: dict[str, tuple[str, str]] = {}  # the first and the last link of each message
        tail: str | None = None  # where that begins which the next summary leaves as it is
        for message in messages:
            above = voice.leaf
            parts = self._shown(message, whole)
            voice.copied_from = origin if is_copied(message) else None
            is_prompt = message.fields.get("role") == "user"
            if is_prompt:
                tail = next((str(part.get("tail_start_id")) for part in parts if _is_compaction(part)), tail)
            if not is_prompt and _is_summary(message.fields):
                voice.at = made.moment(created_at(message.fields)) or voice.at
                kept = (ends[tail][0], list(ends.values())[-1][1]) if tail in ends else None
                told = made.compaction(voice, "\n".join(_texts(parts)), kept=kept)
                tail = None
            else:
                told = self._said(message, voice, whole)
            if told:
                ends[message.id] = told[0]["uuid"], told[-1]["uuid"]
            yield _ToldMessageLines(message, above, ids_of(told), told)

    def _shown(self, message: OpenCodeRecord, whole: str) -> list[Fields]:
        """The parts of a message, without those that were removed from one that is still there; with all where it is ``whole``."""
        is_whole = message.is_removed or message.id == whole
        return [part.fields for part in self._parts.get(message.id, ()) if is_whole or not part.is_removed]

    def _said(self, message: OpenCodeRecord, voice: Voice, whole: str = "") -> list[LineFields]:
        """A prompt or an answer."""
        voice.at = made.moment(created_at(message.fields)) or voice.at
        parts = self._shown(message, whole)
        is_prompt = message.fields.get("role") == "user"
        return list(_asked(parts, voice) if is_prompt else self._answered(message.fields, parts, voice))

    def _origin(self, session: str) -> str:
        if session not in self._origins:
            self._origins[session] = self._found_origin(session)
        return self._origins[session]

    def _found_origin(self, session: str) -> str:
        """The session that a fork was made of: no record names it, but copied messages keep their times.

        The last of them tells, since the first may have been copied twice.
        """
        copies = [message for message in reversed(self.spoken.get(session, ())) if is_copied(message)]
        firsts = self._facts.firsts if copies else {}
        found = next((firsts[key] for one in copies if (key := told_when(one)) in firsts), None)
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
        version = version_of(self._fields(session).get("version"))
        for message in self.spoken.get(session, ()):
            voice.at = made.moment(created_at(message.fields)) or voice.at
            voice.copied_from = origin if is_copied(message) else None
            for key, counts, cost in steps_of(message, self._parts.get(message.id, ()), version):
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
