"""Gemini CLI 0.8 to 0.61: a session is a fold over its file, whose messages are replaced, checkpointed and rewound.

A ``.json`` file is one document, rewritten at every change; a ``.jsonl`` file grows. Either way the conversation is the
view after the last record. Before a record that drops messages, the view is written down, so that what it
drops stays as a branch. A checkpoint repeats messages without their calls and thoughts: what is known of
a message is kept.

Every message with token counts is one model call, whatever became of the message. Identity is the file; files of one
UUID are one session, because resuming starts a second file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from recollect.errors import StorageError
from recollect.model.damage import UNREADABLE
from recollect.model.ids import is_uuid
from recollect.model.json.text import loose_value
from recollect.storage.foreign import edits, parts
from recollect.storage.foreign import lines as made
from recollect.storage.foreign.gemini_roots import project_root
from recollect.storage.foreign.growth import (
    Growth,
    Unit,
    content,
    holds_none,
    new_lines,
    stamped,
    walked,
    whole_document,
)
from recollect.storage.foreign.lines import LineFields, Voice
from recollect.storage.foreign.loose import (
    ANY,
    COUNT,
    MOMENT,
    FittedRecord,
    Shape,
    ShapedRecords,
    parsed,
    translated,
    unexpected,
    whole_number,
)
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.mirroring.state import Placed
from recollect.storage.foreign.resumed import Item, MirroredThread, as_messages
from recollect.system.peek import ReadProblems

_GeminiMessage = dict[str, Any]

# 2: sessions of clients before 0.29 have the directory they worked in.
# 3: a conversation of which all was taken back is empty.
TRANSLATION = 3
_CONTEXT = "<session_context>"
_STOPPED_BY = "general.sessionRetention.enabled: false in its settings.json stops it"
_SPILLED = "tool-outputs"
_SENDS_AGENT = "invoke_agent"
_KINDS = {"chats": (".json", ".jsonl"), _SPILLED: (".txt",)}
_NOTES = ("info", "warning", "error")
_SPOKEN = ("user", "gemini", *_NOTES)
_COUNTS = ("input", "cached", "output", "thoughts", "tool")
_CALL: Shape = {
    **dict.fromkeys(("id", "name", "status", "agentId", "description"), str),
    "args": {},
    "result": parts.PARTS,
    "resultDisplay": (str, {}, []),
    "timestamp": ANY,
}
_MESSAGE: dict[str, Shape] = {
    **dict.fromkeys(("id", "type", "model"), str),
    "timestamp": MOMENT,
    "content": parts.PARTS,
    "thoughts": [{"subject": str, "description": str}],
    "tokens": dict.fromkeys(_COUNTS, COUNT),
    "toolCalls": [_CALL],
}
_SESSION: dict[str, Shape] = {
    **dict.fromkeys(("sessionId", "summary"), str),
    "projectHash": ANY,
    "startTime": MOMENT,
    "messages": [_MESSAGE],
}


def _is_all(record: _GeminiMessage) -> bool:
    """Whether nothing but the named fields is used: of odd parts there is."""
    said = (record, *_dicts(record.get("messages")), *_dicts(_set_of(record).get("messages")))
    told = [one["content"] for one in said if "content" in one]
    told += [call["result"] for one in said for call in one.get("toolCalls") or () if "result" in call]
    return all(map(parts.are_known, told))


_RECORDS = ShapedRecords({**_MESSAGE, **_SESSION, "$set": _SESSION, "$rewindTo": str}, _is_all)


class _FoldState(Struct, kw_only=True):
    growth: Growth = msgspec.field(default_factory=Growth)


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The session files of every project, oldest first, then those of sub-agents, then results that were too large."""
    found: list[tuple[int, str, Unit]] = []
    for top in sorted((home / "tmp").glob("*/*")):
        kinds = _KINDS.get(top.name, ())
        for where, names in walked(top, problems) if kinds else ():
            for name in names:
                if name.endswith(kinds) and not name.startswith("."):
                    unit = stamped(home, f"{where}{os.sep}{name}")
                    if unit is not None and top.name == _SPILLED:
                        # The number: mirrors of before, which kept no original of it, read it once more.
                        found.append((2, name, unit._replace(stamp=(*unit.stamp, 1), holds=holds_none)))
                    elif unit is not None:
                        found.append((int(where != str(top)), name, unit))
    return [unit for _, _, unit in sorted(found, key=lambda one: one[:2])]


def deletion_warning(home: Path) -> str | None:
    """Which sessions the client takes for corrupt when it starts next, and deletes (0.61.0).

    Resuming leaves a second file with the same eight characters. The client can be told to delete nothing.
    """
    if not _deletes(home):
        return None
    names = Counter(path.stem[-8:] for path in (home / "tmp").glob("*/chats/session-*.jsonl"))
    doomed = sum(count > 1 for count in names.values())
    if not doomed:
        return None
    them = "1 resumed session" if doomed == 1 else f"{doomed:,} resumed sessions"
    return (
        f"{home}: Gemini CLI 0.61 deletes {them} when it starts next; the mirror keeps them"
        f" (`recollect protect` archives every hour; {_STOPPED_BY})"
    )


def _deletes(home: Path) -> bool:
    """Whether the client may delete sessions: unless its settings tell it not to."""
    try:
        settings = loose_value((home / "settings.json").read_bytes())
    except OSError:
        return True
    general = settings.get("general") if isinstance(settings, dict) else None
    retention = general.get("sessionRetention") if isinstance(general, dict) else None
    return not (isinstance(retention, dict) and retention.get("enabled") is False)


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """It resumes all that it lists; 0.61 then deletes it."""
    if not _deletes(home):
        return None
    return (
        "Gemini CLI 0.61 deletes a session that it resumed when it starts again; recollect's mirror keeps it"
        f" ({_STOPPED_BY})"
    )


def finish(home: Path, into: AgentMirror) -> None:
    """Nothing concerns several sessions."""


def resumed(thread: MirroredThread) -> list[Item]:
    """The loaded view without thoughts; 0.61 sends each result of a tool twice, here it stands once."""
    messages = as_messages(thread.entries())
    blocks = [block for message in messages for block in message["content"]]
    # The client stores the name of the tool before the id of a call and leaves it out when it sends it.
    sent = {
        block["id"]: block["id"].removeprefix(f"{block['name']}__")
        for block in blocks
        if block["type"] == "tool_use"
    }
    for block in blocks:
        for name in ("id", "tool_use_id"):
            if name in block:
                block[name] = sent.get(block[name], block[name])
    return messages


def mirror(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """Fold the file as it is now, and write down what is new."""
    if unit.path.parents[1].name == _SPILLED:
        return _kept_result(unit, saved, into)
    state = msgspec.msgpack.decode(saved, type=_FoldState) if saved else _FoldState()
    is_document = unit.path.suffix == ".json"
    new = whole_document(unit, state.growth) if is_document else new_lines(unit, state.growth).lines
    if not new:
        return msgspec.msgpack.encode(state)
    fits = [_fitted(raw) for raw in new]
    before = b"" if is_document else _before(unit, state.growth, new)
    is_session = isinstance(parsed(new[0]), dict) if is_document else before or any(map(any, fits))
    if not is_session:  # which one it is, only a record says
        raise StorageError(
            "read",
            unit.path,
            OSError(0, "half written, or no session"),
            hint="it is read again when it changes",
        )
    is_cut_otherwise = before[-1:] not in (b"", b"\n") or any(b"\r" in raw[:-2] for raw in new)
    if is_cut_otherwise and not is_document:
        # A line that was taken before its newline came goes on in the first of the new ones; some end without one.
        every = (before + b"".join(new)).splitlines()
        said = [_fitted(raw).fields for raw in every]
    else:
        every = [*before.splitlines(), *new]
        said = [_fitted(raw).fields for raw in every[: -len(new)]] + [one.fields for one in fits]
    _FoldedFile(unit, into, every, said).write(zip(new, fits, strict=True), state.growth.generation)
    return msgspec.msgpack.encode(state)


def _fitted(raw: bytes) -> FittedRecord:
    return _RECORDS.named(raw)


def _kept_result(unit: Unit, saved: bytes | None, into: AgentMirror) -> bytes:
    """A result that was too large for the record; the client deletes it with its session."""
    state = msgspec.msgpack.decode(saved, type=_FoldState) if saved else _FoldState()
    project = unit.path.parents[2]
    name = unit.path.parent.name.removeprefix("session-")
    for data in whole_document(unit, state.growth):
        place = into.place(name, project_root(project, into.home, None, bytes), project=project.name)
        into.keep_result(place, unit.path.name, data)
        if into.known_ids(into.log(place)):  # what is left of a deleted session is none
            into.keep_beside(place, unit, data, state.growth.generation)
    return msgspec.msgpack.encode(state)


def _before(unit: Unit, growth: Growth, new: list[bytes]) -> bytes:
    """What was mirrored before the new lines."""
    end = growth.consumed - sum(map(len, new))
    return content(unit.path)[:end] if end else b""


class _FoldedFile:
    """One session file as a whole."""

    def __init__(
        self, unit: Unit, into: AgentMirror, raws: list[bytes], records: list[_GeminiMessage]
    ) -> None:
        self._unit, self._into, self._raws, self._records = unit, into, raws, records
        meta: _GeminiMessage = {}
        for one in records:
            meta |= {key: value for key, value in {**one, **_set_of(one)}.items() if key != "messages"}
        self._meta = meta
        self._place = self._placed(meta)
        self._log = into.log(self._place)
        self._known = into.known_ids(self._log)
        self._was_begun = False
        self._seed = self._place.agent or self._place.session
        self._found: list[LineFields] = []

    def _placed(self, meta: _GeminiMessage) -> Placed:
        path, into, cwd, project = self._unit.path, self._into, self._directory, self._project.name
        if path.parent.name != "chats":
            return into.place(path.stem, cwd, session=path.parent.name, agent=path.stem, project=project)
        name = meta.get("sessionId")
        session = name if isinstance(name, str) and is_uuid(name) else path.stem
        return into.place(session, cwd, project=project)

    def write(self, new: Iterable[tuple[bytes, FittedRecord]], generation: int) -> None:
        """New records, model calls, and the entries that the log lacks."""
        into, voice = self._into, self._voice()
        # Of a document that was rewritten, the log may have what it no longer says.
        self._was_begun = generation > 0 and self._unit.path.suffix == ".json" and bool(self._known)
        kept = []
        for raw, (said, odd) in new:
            kind = _record_kind(said)
            if kind:
                line = made.record(voice, recordType=kind)
            else:
                line = made.record(voice, "gemini:unknown" if said or odd else f"gemini{UNREADABLE}")
            kept += made.with_original([line, *self._remarks(said, odd)], raw)
        into.append(self._log, kept, (self._unit.source, generation))
        self._fold()
        self._calls()
        into.append(self._log, self._found)
        title = self._meta.get("summary")
        if isinstance(title, str) and self._place.agent is None:
            into.title(self._place.session, title, made.titled(self._place.session, title))

    def _remarks(self, record: _GeminiMessage, odd: list[str]) -> Iterator[LineFields]:
        """What is not known of a record, told once."""
        calls = [call for one in _every_message([record]) for call in _calls_of(one)]
        if any(call.get("result") and not parts.results(call["result"]) for call in calls):
            odd.append("toolCalls[].result")
        for holder in (record, _set_of(record)):
            for one in _dicts(holder.get("messages")):
                odd += [] if "id" in one else ["messages[].id (missing)"]
                odd += [] if one.get("type") in _SPOKEN else [f"messages[].type ({one.get('type')})"]
        if not odd:
            return
        line = unexpected("gemini", self._voice(), odd)
        if line["about"] not in self._known:
            self._known.add(line["about"])
            yield line

    @property
    def _project(self) -> Path:
        # Not where its records are read from: in a renewal that is a copy, without what stands beside it.
        return self._into.home.joinpath(*PurePosixPath(self._unit.source).parts[:2])

    @cached_property
    def _directory(self) -> str:
        digest = self._meta.get("projectHash")
        return project_root(self._project, self._into.home, digest, self._all_records)

    def _all_records(self) -> bytes:
        return made.encode([_RECORDS.read(raw, parsed(raw)).fields for raw in self._raws])

    def _voice(self) -> Voice:
        return Voice(
            session=self._place.session,
            agent=self._place.agent,
            cwd=self._directory,
            at=self._meta.get("startTime") or made.moment(self._unit.stamp[1] / 1e6),
            seed=self._seed,
        )

    # ---- the fold ------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        view: dict[str, _GeminiMessage] = {}
        known: dict[str, _GeminiMessage] = {}
        dropped_at: list[str | None] = []  # the last entries of the views before messages were dropped
        for record in self._records:
            target = record.get("$rewindTo")
            listed = _set_of(record).get("messages")
            if isinstance(target, str):
                dropped_at.append(self._entries(view))
                names = list(view)
                # As in the client: an id that is not there drops everything.
                dropped = names[names.index(target) :] if target in view else names
                view = {name: one for name, one in view.items() if name not in dropped}
            elif isinstance(record.get("id"), str):
                view[record["id"]] = _merged(known, record)
            elif isinstance(listed, list):
                checkpoint = {one["id"]: _merged(known, one) for one in _messages_in(listed)}
                if not view.keys() <= checkpoint.keys():
                    dropped_at.append(self._entries(view))
                view = checkpoint
            else:
                view |= {one["id"]: _merged(known, one) for one in _messages_in(record.get("messages"))}
        voice = self._voice()
        is_begun = any(dropped_at) or self._was_begun
        voice.leaf = self._entries(view, is_begun=is_begun)
        self._found = self._into.ended(self._log, self._found, voice, is_emptied=is_begun)

    def _entries(self, view: dict[str, _GeminiMessage], *, is_begun: bool = False) -> str | None:
        """The entries of a view that are not in the log yet; the last entry of the view.

        What the client says by itself is no conversation, unless one was ``is_begun`` after it.
        """
        if not is_begun and not any(_is_spoken(one) for one in view.values()):
            return None
        voice = self._voice()
        answered = {call.get("id") for one in view.values() for call in _calls_of(one) if call.get("result")}
        for message in view.values():
            voice.at = message.get("timestamp") or voice.at
            for line in translated("gemini", voice, [], partial(self._translated, message, voice, answered)):
                name = line.get("uuid") or line["about"]
                if name not in self._known:
                    self._known.add(name)
                    self._found.append(line)
        return voice.leaf

    def _translated(self, message: _GeminiMessage, voice: Voice, answered: set[object]) -> list[LineFields]:
        return list(self._said(message, voice, answered))

    def _said(self, message: _GeminiMessage, voice: Voice, answered: set[object]) -> Iterator[LineFields]:
        kind, told = message.get("type"), message.get("content")
        if kind == "gemini":
            yield from self._answer(message, voice)
        elif kind in _NOTES:
            shown = _text(told) or "\n".join(str(block.get("text", "")) for block in parts.blocks(told))
            yield made.note(voice, str(kind), shown, "error" if kind == "error" else "info")
        elif kind == "user":
            results = [one for one in parts.results(told) if one["tool_use_id"] not in answered]
            said = parts.blocks(told)
            if results:
                yield made.user(voice, results)
            if said and _text(told).lstrip().startswith(_CONTEXT):
                yield made.user(voice, said, isMeta=True)
            elif said:
                yield made.user(voice, said[0]["text"] if len(said) == 1 and "text" in said[0] else said)

    def _answer(self, message: _GeminiMessage, voice: Voice) -> Iterator[LineFields]:
        thoughts = [
            parts.thinking("\n".join(filter(None, (one.get("subject"), one.get("description")))))
            for one in _dicts(message.get("thoughts"))
        ]
        calls = _calls_of(message)
        asked = [parts.tool_use(call.get("id"), call.get("name"), call.get("args")) for call in calls]
        said = [
            block
            for block in parts.blocks(message.get("content"))
            if block["type"] != "tool_use" or not asked
        ]
        blocks = [*thoughts, *said, *asked]
        if blocks:
            model = message.get("model")
            yield made.assistant(voice, model if isinstance(model, str) else None, *blocks)
        for call in calls:
            results = parts.results(call.get("result"))
            if results:
                ended = call.get("timestamp")
                if isinstance(ended, str) and MOMENT.match(ended):
                    voice.at = ended
                yield edits.with_changes(made.user(voice, results), _edits_of(call))
            agent = call.get("agentId") or self._agent_of(call, message)
            if isinstance(agent, str):
                self._sent(call, agent)

    def _agent_of(self, call: _GeminiMessage, message: _GeminiMessage) -> str | None:
        """The sub-agent that a call of 0.37 or 0.38 sent, which does not name it: the one that began while it ran.

        Of several that did, the one whose first prompt is what the call was given.
        """
        shown, began, ended = call.get("resultDisplay"), message.get("timestamp"), call.get("timestamp")
        if not isinstance(shown, dict) or not shown.get("isSubagentProgress") or not isinstance(ended, str):
            return None
        found = {}
        for path in sorted((self._unit.path.parent / self._place.session).glob("*.json")):
            said = _RECORDS.read(raw := content(path), parsed(raw)).fields
            if str(began) <= str(said.get("startTime")) <= ended:
                first = next(_messages_in(said.get("messages")), {})
                found[path.stem] = _text(first.get("content"))
        given = call.get("args")
        asked = given.values() if isinstance(given, dict) else ()
        meant = [name for name, prompt in found.items() if len(found) == 1 or prompt in asked]
        return meant[0] if len(meant) == 1 else None

    def _sent(self, call: _GeminiMessage, agent: str) -> None:
        place = self._into.place(agent, "", session=self._place.session, agent=agent)
        about = {"toolUseId": call.get("id"), "description": call.get("description")}
        self._into.note_agent(place, {**about, "agentType": _agent_type(call)})

    def _calls(self) -> None:
        """Every message with counts is a model call, also one that was dropped."""
        voice = self._voice()
        for message in _every_message(self._records):
            tokens = message.get("tokens")
            if message.get("type") != "gemini" or not isinstance(tokens, dict):
                continue
            key = made.key_of("gemini", message["id"])
            if key in self._known:
                continue
            self._known.add(key)
            voice.at = message.get("timestamp") or voice.at
            whole, cached, output, thought, tool = (whole_number(tokens.get(name)) for name in _COUNTS)
            counts = {
                "input": max(whole - cached, 0) + tool,
                "cache_read": cached,
                "output": output + thought,
            }
            model = message.get("model")
            self._found.append(
                made.usage(
                    voice,
                    key,
                    model if isinstance(model, str) else None,
                    counts,
                    output_tokens_details={"thinking_tokens": thought},
                )
            )


def _record_kind(record: _GeminiMessage) -> str | None:
    """What a record is; None where it is of no known kind."""
    for name in ("$rewindTo", "$set"):
        if name in record:
            return name
    if isinstance(record.get("id"), str) and record.get("type") in _SPOKEN:
        return str(record["type"])
    return "session" if "sessionId" in record else None


def _set_of(record: _GeminiMessage) -> _GeminiMessage:
    given = record.get("$set")
    return given if isinstance(given, dict) else {}


def _merged(known: dict[str, _GeminiMessage], message: _GeminiMessage) -> _GeminiMessage:
    """A message with what an earlier line of the same id and type said besides."""
    name = message["id"]
    before = known.get(name)
    is_same = before is not None and before.get("type") == message.get("type")
    known[name] = {**before, **message} if is_same and before is not None else message
    return known[name]


def _messages_in(listed: object) -> Iterator[_GeminiMessage]:
    return (one for one in _dicts(listed) if isinstance(one.get("id"), str))


def _every_message(records: Iterable[_GeminiMessage]) -> Iterator[_GeminiMessage]:
    for record in records:
        if isinstance(record.get("id"), str):
            yield record
        for holder in (record, _set_of(record)):
            yield from _messages_in(holder.get("messages"))


def _calls_of(message: _GeminiMessage) -> list[_GeminiMessage]:
    return list(_dicts(message.get("toolCalls")))


def _agent_type(call: _GeminiMessage) -> str | None:
    """What kind of sub-agent a call sent: since 0.39 its input says so, before each kind was a tool of its own."""
    given, tool = call.get("args"), call.get("name")
    named = given.get("agent_name") if isinstance(given, dict) else None
    kind = named if tool == _SENDS_AGENT else tool
    return kind if isinstance(kind, str) and kind else None


def _edits_of(call: _GeminiMessage) -> list[LineFields]:
    """What a call changed: as the client shows it, or as it was asked for (0.24 shows nothing)."""
    given = call.get("args")
    if call.get("status") != "success" or not isinstance(given, dict):
        return []
    path, found = given.get("file_path"), edits.shown(call.get("resultDisplay"))
    if found or call.get("name") not in ("replace", "write_file"):
        return found
    if call["name"] == "write_file":
        return edits.written(path, given.get("content"), created="created" in str(call.get("result")))
    return edits.replaced(
        path, [(given.get("old_string"), given.get("new_string"), given.get("allow_multiple"))]
    )


def _is_spoken(message: _GeminiMessage) -> bool:
    """Whether a message is more than the context that every session begins with."""
    return not (message.get("type") == "user" and _text(message.get("content")).lstrip().startswith(_CONTEXT))


def _text(told: object) -> str:
    return "\n".join(str(part["text"]) for part in parts.parts_of(told) if isinstance(part.get("text"), str))


def _dicts(listed: object) -> Iterator[_GeminiMessage]:
    return (one for one in listed if isinstance(one, dict)) if isinstance(listed, list) else iter(())
