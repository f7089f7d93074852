"""Sessions of OpenCode as lines of ours: their records byte for byte, and the conversation that they make.

A session's messages in the order of their time are its conversation. A message or part that changed is said again; what a revert
removed stays as a branch, also where only the event log still has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from recollect.agents import lines as entry
from recollect.agents.blocks import in_patch, replaced, thinking, tool_use, with_changes, written
from recollect.agents.lines import LineFields, Voice, ended, known_ids, record_marks
from recollect.agents.loose import Fields, known_types, parsed, unexpected
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import Placed
from recollect.agents.opencode_facts import (
    OpenCodeCall,
    StoreFacts,
    created_at,
    is_copied,
    said_when,
)
from recollect.agents.opencode_store import OpenCodeRecord
from recollect.model.conversation.graph import ERROR_NOTE
from recollect.model.lines.ids import derived_uuid

_UNTITLED = "New session - "
_MESSAGE = "msg_"  # how ids of messages begin
_SHOWN = frozenset(["text", "reasoning", "tool", "file"])


class OpenCodeSession:
    """The records of one session, of ``sessions`` that a store has."""

    def __init__(
        self,
        name: str,
        sessions: dict[str, OpenCodeRecord],
        records: list[OpenCodeRecord],
        facts: StoreFacts,
        into: AgentMirror,
    ) -> None:
        self._name, self._sessions, self._facts, self._into = name, sessions, facts, into
        self._records = [sessions[name], *records] if name in sessions else records
        said = (record for record in records if record.table == "message")
        self._spoken = sorted(said, key=lambda message: (created_at(message.fields), message.id))
        self._messages = {message.id for message in self._spoken}
        self._parts: dict[str, list[OpenCodeRecord]] = {}  # by message
        for record in sorted(records, key=lambda record: record.id):
            if record.table == "part":
                self._parts.setdefault(_message_of(record), []).append(record)

    def write(self) -> None:
        """The records that changed, byte for byte, then what they add to the conversation."""
        if self._name not in self._sessions and not self._spoken:
            return
        place, into = self._place(self._name), self._into
        log, voice = into.log(place), self._voice(place)
        kept = self._kept(voice, record_marks(into.lines(log)))
        known = known_ids(into.lines(log))
        branches = [list(branch) for branch in self._entries(place)]
        is_emptied = len(branches) > 1
        if not self._spoken and not known:  # lists take time and directory from entries
            branches = [[entry.note(voice, "opened", "Opened, nothing said yet")]]
        # Branches share their beginning: each entry is written once, the last one last.
        found = {line["uuid"]: line for branch in branches for line in branch if line["uuid"] not in known}
        voice.leaf = branches[-1][-1]["uuid"] if branches[-1] else None
        entries = ended(into.lines(log), list(found.values()), voice, is_emptied=is_emptied)
        calls = (line for line in self._calls(place) if line["message"]["id"] not in known)
        into.append(log, [*kept, *entries, *calls])
        title = self._fields(self._name).get("title")
        if title is not None and place.agent is None and not title.startswith(_UNTITLED):
            line = {"type": "ai-title", "aiTitle": title, "sessionId": place.session}
            into.title(self._name, title, line)

    def _kept(self, voice: Voice, seen: dict[str, str]) -> list[LineFields]:
        """Lines with the bytes of records that the log has not so; one more where some are not as expected."""
        kept: list[LineFields] = []
        odd: list[str] = []
        for record in self._records:
            mark = entry.mark_of(record.original)
            if seen.get(record.source) == mark:
                continue
            about = {"recordType": record.table, "source": record.source, "mark": mark, "whole": True}
            kept += entry.with_original([entry.record(voice, _kind_of(record), **about)], record.original)
            odd += (f"{record.source}: {place}" for place in (*record.odd, *self._untied(record)))
        return [*kept, unexpected("opencode", voice, odd)] if odd else kept

    def _untied(self, record: OpenCodeRecord) -> Iterator[str]:
        """The field that ties a part to its message, where it names none. Parts may be all that is left of a message that a revert
        deleted, but then they name one.
        """
        if record.table == "part":
            field, name, is_tied = "messageID", _message_of(record), _message_of(record) in self._messages
        else:
            field, name, is_tied = "id", record.id, record.id in self._parts or record.table != "message"
        if not is_tied and not name.startswith(_MESSAGE) and field not in record.odd:
            yield field

    def _fields(self, session: str) -> Fields:
        record = self._sessions.get(session)
        return record.fields if record is not None else {}

    def _place(self, session: str) -> Placed:
        cwd = self._cwd(session)
        parent = self._fields(session).get("parentID")
        above, root, seen = parent, session, {session}
        while isinstance(above, str) and above not in seen:
            seen.add(above)
            root, above = above, self._fields(above).get("parentID")
        # Ids of the client begin alike for days; those of ours differ in the first characters, which people type.
        own = derived_uuid(root, 0)
        if root == session:
            return self._into.place(session, cwd, session=own, project="opencode")
        self._place(root)
        place = self._into.place(session, cwd, session=own, agent=session, project="opencode", root=root)
        about = str(self._fields(session).get("title") or "")
        kind = re.search(r"\(@([\w-]+) subagent\)", about)
        meta = {"description": about.partition(" (@")[0], "agentType": kind[1] if kind else None}
        self._into.note_agent(place, {**meta, "parentAgentId": parent if parent != root else None})
        return place

    def _cwd(self, session: str) -> str:
        spoken = self._spoken if session == self._name else ()
        named = ((message.fields.get("path") or {}).get("cwd") for message in spoken)
        return self._fields(session).get("directory") or next((cwd for cwd in named if cwd), "")

    def _voice(self, place: Placed) -> Voice:
        fields = self._fields(self._name)
        return Voice(
            session=place.session,
            agent=place.agent,
            cwd=self._cwd(self._name),
            version=fields.get("version"),
            at=entry.moment(created_at(fields)),
            seed=self._name,
        )

    # ---- the conversation ------------------------------------------------------------------------------------

    def _entries(self, place: Placed) -> Iterator[Iterator[LineFields]]:
        """What was removed or reverted, each run of it as a branch; then the conversation as it is."""
        reverted = self._reverted()
        kept: list[OpenCodeRecord] = []
        run: list[OpenCodeRecord] = []
        for message in self._spoken:
            if any(part.is_removed for part in self._parts.get(message.id, ())) and not message.is_removed:
                yield self._chain(place, [*kept, message], whole=message.id)
            if message.is_removed or message.id in reverted:
                run.append(message)
                continue
            if run:
                yield self._chain(place, [*kept, *run])
                run = []
            kept.append(message)
        if run:
            yield self._chain(place, [*kept, *run])
        yield self._chain(place, kept)

    def _reverted(self) -> set[str]:
        """Messages that the next prompt will delete. Of one that is reverted in its middle, the client keeps the beginning."""
        said = self._fields(self._name).get("revert")
        revert = parsed(said.encode()) if isinstance(said, str) else said
        names = [message.id for message in self._spoken]
        if not isinstance(revert, dict) or revert.get("messageID") not in names:
            return set()
        return set(names[names.index(revert["messageID"]) + bool(revert.get("partID")) :])

    def _chain(
        self, place: Placed, messages: Iterable[OpenCodeRecord], whole: str = ""
    ) -> Iterator[LineFields]:
        """Without parts that were removed from messages that are still there, but for the one that is ``whole``."""
        voice = self._voice(place)
        ends: dict[str, tuple[str, str]] = {}  # the first and the last link of each message
        tail: str | None = None  # where that begins which the next summary leaves as it is
        for message in messages:
            is_whole = message.is_removed or message.id == whole
            own = self._parts.get(message.id, ())
            parts = [part.fields for part in own if is_whole or not part.is_removed]
            voice.copied_from = self._origin if is_copied(message) else None
            voice.at = entry.moment(created_at(message.fields)) or voice.at
            if message.fields.get("role") == "user":
                cuts = (str(part.get("tail_start_id")) for part in parts if part.get("type") == "compaction")
                tail = next(cuts, tail)
                entries = list(_asked(parts, voice))
            elif _is_summary(message.fields):
                kept = (ends[tail][0], list(ends.values())[-1][1]) if tail in ends else None
                entries = entry.compaction(voice, "\n".join(_texts(parts)), kept=kept)
                tail = None
            else:
                entries = list(self._answered(message.fields, parts, voice))
            if entries:
                ends[message.id] = entries[0]["uuid"], entries[-1]["uuid"]
            yield from entries

    @cached_property
    def _origin(self) -> str:
        """The session that a fork was made of: no record names it, but copied messages keep their times.

        The last of them tells, since the first may have been copied twice.
        """
        copies = [message for message in reversed(self._spoken) if is_copied(message)]
        firsts = self._facts.firsts if copies else {}
        found = next((firsts[fact] for one in copies if (fact := said_when(one)) in firsts), None)
        return "unknown" if found is None else self._place(found).session

    def _answered(self, message: Fields, parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
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
                end = ((part.get("state") or {}).get("time") or {}).get("end")  # where the client says so
                ended += [at for at in [entry.moment(end)] if at is not None]
            elif kind == "step-finish" and blocks:
                yield entry.assistant(voice, message.get("modelID"), *blocks)
                if results:
                    voice.at = max(ended, default=voice.at)
                    yield with_changes(entry.user(voice, results), changed)
                blocks, results, changed, ended = [], [], [], []
        yield from _not_sent(parts, voice)
        error = message.get("error")
        if error is not None:
            text = (error.get("data") or {}).get("message") or error.get("name") or "error"
            yield entry.note(voice, ERROR_NOTE, text, "error")

    def _tool(self, part: Fields) -> tuple[LineFields, list[LineFields]]:
        state: Fields = part.get("state") or {}
        call = str(part.get("callID") or part.get("id"))
        child = _started_by(state.get("metadata") or {})
        if child in self._sessions:
            self._into.note_agent(self._place(child), {"toolUseId": call})
        result: LineFields = {"type": "tool_result", "tool_use_id": call}
        results = {
            "completed": [result | {"content": state.get("output") or ""}],
            "error": [result | {"content": state.get("error") or "", "is_error": True}],
        }
        return tool_use(call, part.get("tool"), state.get("input")), results.get(str(state.get("status")), [])

    # ---- usage -----------------------------------------------------------------------------------------------

    def _calls(self, place: Placed) -> Iterator[LineFields]:
        voice = self._voice(place)
        for message in self._spoken:
            voice.at = entry.moment(created_at(message.fields)) or voice.at
            voice.copied_from = self._origin if is_copied(message) else None
            for call in self._facts.calls(message, self._parts.get(message.id, ())):
                yield _call(voice, call, message.fields.get("modelID"))
        voice.copied_from = None
        lost = (parts for name, parts in self._parts.items() if name not in self._messages)
        if any(part.fields.get("type") == "step-finish" for parts in lost for part in parts):
            for owner, call in self._facts.orphans:
                if owner == self._name:
                    yield _call(voice, call, None)


def _call(voice: Voice, call: OpenCodeCall, model: str | None) -> LineFields:
    thought = call.counts["reasoning"]
    said = {**call.counts, "output": call.counts["output"] + thought}
    line = entry.usage(voice, call.key, model, said, output_tokens_details={"thinking_tokens": thought})
    return line | ({"costUSD": call.cost} if isinstance(call.cost, int | float) and call.cost > 0 else {})


def _message_of(part: OpenCodeRecord) -> str:
    return str(part.fields.get("messageID"))


def _started_by(about: Fields) -> str:
    """The sub-agent that a call started; before 1.0 only the list of what it did names it."""
    done = about.get("summary")
    steps = (step for step in done if isinstance(step, dict)) if isinstance(done, list) else ()
    named = (name for step in steps if (name := step.get("sessionID")))
    return str(about.get("sessionId") or next(named, ""))


def _edits_of(part: Fields) -> list[LineFields]:
    """What a finished call changed; both contents where the client kept them (1.0 to 1.2)."""
    state: Fields = part.get("state") or {}
    given: Fields = state.get("input") or {}
    about: Fields = state.get("metadata") or {}
    if state.get("status") != "completed":
        return []
    path, tool = given.get("filePath"), part.get("tool")
    both, diff = about.get("filediff"), about.get("diff")
    if isinstance(both, dict) and isinstance(both.get("after"), str):
        return written(path, both["after"], original=both.get("before"), diff=diff)
    if tool == "write":
        return written(path, given.get("content"), created=about.get("exists") is False)
    if tool in ("apply_patch", "patch"):
        return in_patch(str(given.get("patchText") or ""))
    edits = given.get("edits") if tool == "multiedit" else [given] if tool == "edit" else []
    steps = [
        (edit.get("oldString"), edit.get("newString"), edit.get("replaceAll"))
        for edit in (edits if isinstance(edits, list) else ())
        if isinstance(edit, dict)
    ]
    return replaced(path, steps, diff=diff)


def _asked(parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
    """A prompt; what the client added to it is a note of its own."""
    sent = [part for part in parts if part.get("type") == "text" and not part.get("ignored")]
    typed = [part for part in sent if not part.get("synthetic")]
    added = [part for part in sent if part.get("synthetic")]
    files = [_file(part) for part in parts if part.get("type") == "file"]
    blocks: list[LineFields] = [{"type": "text", "text": text} for text in _texts(typed)] + files
    if blocks:
        yield entry.user(voice, blocks[0]["text"] if len(blocks) == 1 and "text" in blocks[0] else blocks)
    if _texts(added):
        yield entry.user(voice, "\n".join(_texts(added)), isMeta=True)
    yield from _not_sent(parts, voice)


def _not_sent(parts: list[Fields], voice: Voice) -> Iterator[LineFields]:
    """Texts that only the client's user sees."""
    for text in _texts(part for part in parts if part.get("ignored")):
        yield entry.note(voice, "not_sent", text)


def _is_summary(message: Fields) -> bool:
    """Whether a message takes the place of what stands before it: a summary that failed or was stopped does not."""
    is_ended = message.get("finish") or (message.get("time") or {}).get("completed")
    return message.get("summary") is True and bool(is_ended) and not message.get("error")


def _texts(parts: Iterable[Fields]) -> list[str]:
    return [part["text"] for part in parts if part.get("type") == "text" and part.get("text")]


def _file(part: Fields) -> LineFields:
    url, media = str(part.get("url") or ""), str(part.get("mime") or "")
    head, comma, data = url.partition(",")
    if comma and head.endswith(";base64") and media.startswith("image/"):
        return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}
    return {"type": "text", "text": f"[file {part.get('filename') or url[:200]}]"}


def _kind_of(record: OpenCodeRecord) -> str:
    kind: Any = record.fields.get("type")
    is_known = record.table != "part" or kind in _SHOWN | known_types("opencode")["parts"]
    return entry.RECORD if is_known else f"opencode:part:{kind}"
