"""Gemini CLI 0.8 to 0.61: a session is a fold over its file, whose messages are replaced, checkpointed and rewound.

A ``.json`` file is one document, rewritten at every change; a ``.jsonl`` file grows. Either way the conversation is the
view after the last record. Before a record that drops messages, the view is written down, so that what it
drops stays as a branch. A checkpoint repeats messages without their calls and thoughts: what is known of
a message is kept.

Every message with token counts is one model call, whatever became of the message. Identity is the file; files of one
UUID are one session, because resuming starts a second file.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from recollect.agents import blocks as parts
from recollect.agents import lines as entry
from recollect.agents.blocks import Item, MirroredThread, as_messages
from recollect.agents.growth import (
    Unit,
    UnitState,
    content,
    files_below,
    holds_none,
    new_lines,
    whole_document,
)
from recollect.agents.lines import LineFields, Voice, ended, known_ids
from recollect.agents.loose import (
    ANY,
    COUNT,
    MOMENT,
    FittedRecord,
    Shape,
    fitted,
    parsed,
    translated,
    unexpected,
)
from recollect.agents.mirror import AgentMirror
from recollect.agents.mirror_files import Placed
from recollect.errors import StorageError
from recollect.model.lines.damage import UNREADABLE
from recollect.model.lines.ids import is_uuid
from recollect.model.lines.json_text import loose_value
from recollect.system.peek import ReadProblems

_HASH = re.compile(r"[0-9a-f]{64}\Z")
# In JSON: to the end of the string, or to the first escaped character.
_PATH = re.compile(rb'(?<![\w.~/])/[^"\\/\x00-\x1f][^"\\\x00-\x1f]{0,1000}')
_MOST_READ, _MOST_TRIED = 32 << 20, 200_000


def project_root(project: Path, home: Path, digest: object) -> str:
    """The directory of a project, "" where nothing tells it. ``digest`` is its checksum."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (project / ".project_root").read_text().strip().replace("\0", "")
    with contextlib.suppress(OSError):
        named = fitted(loose_value((home / "projects.json").read_bytes()), {"projects": {}}).fields
        for path, slug in (named.get("projects") or {}).items():
            if slug == project.name:
                return str(path)
    wanted = digest if isinstance(digest, str) and _HASH.match(digest) else project.name
    if not _HASH.match(wanted):
        return ""
    with contextlib.suppress(OSError):
        return _root_in_project(project / "chats", wanted, (project / "chats").stat().st_mtime_ns)
    return ""


@lru_cache(maxsize=256)
def _root_in_project(chats: Path, wanted: str, changed_at: int) -> str:
    """The directory with this checksum among all that a project's sessions name; asked for again when there is another session."""
    seen: set[bytes] = set()
    left = _MOST_READ
    for path in sorted(chats.glob("session-*.json*"), reverse=True):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        left -= len(data)
        for result in _PATH.finditer(data) if left >= 0 else ():
            for directory in _ancestors(result[0], seen):
                if sha256(directory).hexdigest() == wanted:
                    return directory.decode("utf-8", "replace")
            if len(seen) > _MOST_TRIED:
                return ""
    return ""


def _ancestors(path: bytes, seen: set[bytes]) -> Iterator[bytes]:
    """A path and those above it, each once; where words follow it, also without them."""
    while len(path) > 1 and path not in seen:
        seen.add(path)
        yield path
        ended = path.rstrip(b".,:;)]}'`> ")
        cut = ended if ended != path else path[: max(path.rfind(b"/"), path.rfind(b" "))]
        path = cut.rstrip(b"/") if cut.rfind(b"/") >= 0 else b""


State = UnitState
_GeminiMessage = dict[str, Any]

_CONTEXT = "<session_context>"
_STOPPED_BY = "general.sessionRetention.enabled: false in its settings.json stops it"
_SPILLED = "tool-outputs"
_SENDS_AGENT = "invoke_agent"
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


_SETTINGS: dict[str, Shape] = {"general": {"sessionRetention": {"enabled": bool}}}
_RECORD: dict[str, Shape] = {**_MESSAGE, **_SESSION, "$set": _SESSION, "$rewindTo": str}


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The session files of every project, oldest first, then those of sub-agents, then results that were too large."""
    chats = files_below(home, "tmp/*/chats", (".json", ".jsonl"), problems)
    spilled = files_below(home, f"tmp/*/{_SPILLED}", (".txt",), problems)
    return [
        *sorted(chats, key=lambda unit: (unit.path.parent.name != "chats", unit.path.name)),
        *(unit._replace(holds=holds_none) for unit in spilled),
    ]


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
    with contextlib.suppress(OSError):
        settings = fitted(loose_value((home / "settings.json").read_bytes()), _SETTINGS).fields
        retention: _GeminiMessage = (settings.get("general") or {}).get("sessionRetention") or {}
        return retention.get("enabled") is not False
    return True


def resume_warning(home: Path, source: str, version: str | None) -> str | None:
    """It resumes all that it lists; 0.61 then deletes it."""
    if not _deletes(home):
        return None
    return (
        "Gemini CLI 0.61 deletes a session that it resumed when it starts again; recollect's mirror keeps it"
        f" ({_STOPPED_BY})"
    )


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


def mirror(unit: Unit, state: State, into: AgentMirror) -> None:
    """Fold the file as it is now, and write down what is new."""
    if unit.path.parents[1].name == _SPILLED:
        _keep_result(unit, state, into)
        return
    is_document = unit.path.suffix == ".json"
    if is_document:
        new, before = whole_document(unit, state.growth), b""
    else:
        new, _, before = new_lines(unit, state.growth)
    if not new:
        return
    fits = [_fitted(raw) for raw in new]
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
        said = [_fitted(raw).fields for raw in (before + b"".join(new)).splitlines()]
    else:
        said = [_fitted(raw).fields for raw in before.splitlines()] + [one.fields for one in fits]
    _FoldedFile(unit, into, said).write(zip(new, fits, strict=True), state.growth.generation)


def _fitted(raw: bytes) -> FittedRecord:
    return fitted(parsed(raw), _RECORD)


def _keep_result(unit: Unit, state: State, into: AgentMirror) -> None:
    """A result that was too large for the record; the client deletes it with its session."""
    project = unit.path.parents[2]
    name = unit.path.parent.name.removeprefix("session-")
    for data in whole_document(unit, state.growth):
        place = into.place(name, project_root(project, into.home, None), project=project.name)
        into.keep_result(place, unit.path.name, data)
        if known_ids(into.lines(into.log(place))):  # what is left of a deleted session is none
            into.keep_beside(place, unit, data, state.growth.generation)


class _FoldedFile:
    """One session file as a whole."""

    def __init__(self, unit: Unit, into: AgentMirror, records: list[_GeminiMessage]) -> None:
        self._unit, self._into, self._records = unit, into, records
        meta: _GeminiMessage = {}
        for record in records:
            meta |= {key: value for key, value in {**record, **_set_of(record)}.items() if key != "messages"}
        self._meta = meta
        self._place = self._placed(meta)
        self._log = into.log(self._place)
        self._known = known_ids(into.lines(self._log))
        self._was_begun = False
        self._seed = self._place.agent or self._place.session
        self._found: list[LineFields] = []

    def _placed(self, meta: _GeminiMessage) -> Placed:
        path, into, cwd, project = self._unit.path, self._into, self._directory, self._project.name
        if path.parent.name != "chats":
            return into.place(path.stem, cwd, session=path.parent.name, agent=path.stem, project=project)
        name = meta.get("sessionId") or ""
        return into.place(name if is_uuid(name) else path.stem, cwd, project=project)

    def write(self, new: Iterable[tuple[bytes, FittedRecord]], generation: int) -> None:
        """New records, model calls, and the entries that the log lacks."""
        into, voice = self._into, self._voice()
        # Of a document that was rewritten, the log may have what it no longer says.
        self._was_begun = generation > 0 and self._unit.path.suffix == ".json" and bool(self._known)
        kept = []
        for raw, (said, odd) in new:
            kind = _record_kind(said)
            if kind:
                line = entry.record(voice, recordType=kind)
            else:
                line = entry.record(voice, "gemini:unknown" if said or odd else f"gemini{UNREADABLE}")
            kept += entry.with_original([line, *self._remarks(said, odd)], raw)
        into.append(self._log, kept, (self._unit.source, generation))
        self._fold()
        self._calls()
        into.append(self._log, self._found)
        title = self._meta.get("summary")
        if title is not None and self._place.agent is None:
            into.title(self._place.session, title, entry.titled(self._place.session, title))

    def _remarks(self, record: _GeminiMessage, odd: list[str]) -> Iterator[LineFields]:
        """What is not known of a record, told once."""
        calls = [call for one in _every_message([record]) for call in _calls_of(one)]
        if any(call.get("result") and not parts.results(call["result"]) for call in calls):
            odd.append("toolCalls[].result")
        for message in (*(record.get("messages") or ()), *(_set_of(record).get("messages") or ())):
            odd += [] if "id" in message else ["messages[].id (missing)"]
            odd += [] if message.get("type") in _SPOKEN else [f"messages[].type ({message.get('type')})"]
        if not odd:
            return
        line = unexpected("gemini", self._voice(), odd)
        if line["about"] not in self._known:
            self._known.add(line["about"])
            yield line

    @property
    def _project(self) -> Path:
        return self._into.home.joinpath(*PurePosixPath(self._unit.source).parts[:2])

    @cached_property
    def _directory(self) -> str:
        return project_root(self._project, self._into.home, self._meta.get("projectHash"))

    def _voice(self) -> Voice:
        return Voice(
            session=self._place.session,
            agent=self._place.agent,
            cwd=self._directory,
            at=self._meta.get("startTime") or entry.moment(self._unit.stamp[1] / 1e6),
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
            if target is not None:
                dropped_at.append(self._entries(view))
                names = list(view)
                # As in the client: an id that is not there drops everything.
                dropped = names[names.index(target) :] if target in view else names
                view = {name: one for name, one in view.items() if name not in dropped}
            elif record.get("id") is not None:
                view[record["id"]] = _merged(known, record)
            elif listed is not None:
                checkpoint = {one["id"]: _merged(known, one) for one in _messages_in(listed)}
                if not view.keys() <= checkpoint.keys():
                    dropped_at.append(self._entries(view))
                view = checkpoint
            else:
                view |= {one["id"]: _merged(known, one) for one in _messages_in(record.get("messages"))}
        voice = self._voice()
        is_begun = any(dropped_at) or self._was_begun
        voice.leaf = self._entries(view, is_begun=is_begun)
        self._found = ended(self._into.lines(self._log), self._found, voice, is_emptied=is_begun)

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
            entries = translated("gemini", voice, [], partial(self._said, message, voice, answered))
            for line in entries:
                name = line.get("uuid") or line["about"]
                if name not in self._known:
                    self._known.add(name)
                    self._found.append(line)
        return voice.leaf

    def _said(self, message: _GeminiMessage, voice: Voice, answered: set[object]) -> Iterator[LineFields]:
        kind, content = message.get("type"), message.get("content")
        if kind == "gemini":
            yield from self._answer(message, voice)
        elif kind in _NOTES:
            shown = _text(content) or "\n".join(str(block.get("text", "")) for block in parts.blocks(content))
            yield entry.note(voice, str(kind), shown, "error" if kind == "error" else "info")
        elif kind == "user":
            results = [one for one in parts.results(content) if one["tool_use_id"] not in answered]
            said = parts.blocks(content)
            if results:
                yield entry.user(voice, results)
            if said and _text(content).lstrip().startswith(_CONTEXT):
                yield entry.user(voice, said, isMeta=True)
            elif said:
                yield entry.user(voice, said[0]["text"] if len(said) == 1 and "text" in said[0] else said)

    def _answer(self, message: _GeminiMessage, voice: Voice) -> Iterator[LineFields]:
        thoughts = [
            parts.thinking("\n".join(filter(None, (one.get("subject"), one.get("description")))))
            for one in message.get("thoughts") or ()
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
            yield entry.assistant(voice, message.get("model"), *blocks)
        for call in calls:
            results = parts.results(call.get("result"))
            if results:
                ended = call.get("timestamp")
                if isinstance(ended, str) and MOMENT.match(ended):
                    voice.at = ended
                yield parts.with_changes(entry.user(voice, results), _edits_of(call))
            agent = call.get("agentId") or self._agent_of(call, message)
            if agent:
                place = self._into.place(agent, "", session=self._place.session, agent=agent)
                about = {"toolUseId": call.get("id"), "description": call.get("description")}
                self._into.note_agent(place, {**about, "agentType": _agent_type(call)})

    def _agent_of(self, call: _GeminiMessage, message: _GeminiMessage) -> str | None:
        """The sub-agent that a call of 0.37 or 0.38 sent, which does not name it: the one that began while it ran.

        Of several that did, the one whose first prompt is what the call was given.
        """
        shown, began, ended = call.get("resultDisplay"), message.get("timestamp"), call.get("timestamp")
        if not isinstance(shown, dict) or not shown.get("isSubagentProgress") or not isinstance(ended, str):
            return None
        result = {}
        for path in sorted((self._unit.path.parent / self._place.session).glob("*.json")):
            said = _fitted(content(path)).fields
            if str(began) <= str(said.get("startTime")) <= ended:
                first = next(_messages_in(said.get("messages")), {})
                result[path.stem] = _text(first.get("content"))
        asked = (call.get("args") or {}).values()
        meant = [name for name, prompt in result.items() if len(result) == 1 or prompt in asked]
        return meant[0] if len(meant) == 1 else None

    def _calls(self) -> None:
        """Every message with counts is a model call, also one that was dropped."""
        voice = self._voice()
        for message in _every_message(self._records):
            tokens = message.get("tokens")
            if message.get("type") != "gemini" or tokens is None:
                continue
            key = entry.key_of("gemini", message["id"])
            if key in self._known:
                continue
            self._known.add(key)
            voice.at = message.get("timestamp") or voice.at
            whole, cached, output, thought, tool = (tokens.get(name) or 0 for name in _COUNTS)
            counts = {
                "input": max(whole - cached, 0) + tool,
                "cache_read": cached,
                "output": output + thought,
            }
            about = {"output_tokens_details": {"thinking_tokens": thought}}
            self._found.append(entry.usage(voice, key, message.get("model"), counts, **about))


def _record_kind(record: _GeminiMessage) -> str | None:
    """What a record is; None where it is of no known kind."""
    for name in ("$rewindTo", "$set"):
        if name in record:
            return name
    if record.get("id") is not None and record.get("type") in _SPOKEN:
        return str(record["type"])
    return "session" if "sessionId" in record else None


def _set_of(record: _GeminiMessage) -> _GeminiMessage:
    return record.get("$set") or {}


def _merged(known: dict[str, _GeminiMessage], message: _GeminiMessage) -> _GeminiMessage:
    """A message with what an earlier line of the same id and type said besides."""
    name = message["id"]
    before = known.get(name)
    is_same = before is not None and before.get("type") == message.get("type")
    known[name] = {**before, **message} if is_same and before is not None else message
    return known[name]


def _messages_in(listed: list[_GeminiMessage] | None) -> Iterator[_GeminiMessage]:
    return (message for message in listed or () if message.get("id") is not None)


def _every_message(records: Iterable[_GeminiMessage]) -> Iterator[_GeminiMessage]:
    for record in records:
        yield from _messages_in([record])
        for holder in (record, _set_of(record)):
            yield from _messages_in(holder.get("messages"))


def _calls_of(message: _GeminiMessage) -> list[_GeminiMessage]:
    return message.get("toolCalls") or []


def _agent_type(call: _GeminiMessage) -> str | None:
    """What kind of sub-agent a call sent: since 0.39 its input says so, before each kind was a tool of its own."""
    tool = call.get("name")
    kind = (call.get("args") or {}).get("agent_name") if tool == _SENDS_AGENT else tool
    return kind if isinstance(kind, str) and kind else None


def _edits_of(call: _GeminiMessage) -> list[LineFields]:
    """What a call changed: as the client shows it, or as it was asked for (0.24 shows nothing)."""
    given: _GeminiMessage = call.get("args") or {}
    if call.get("status") != "success":
        return []
    path, result = given.get("file_path"), parts.shown(call.get("resultDisplay"))
    if result or call.get("name") not in ("replace", "write_file"):
        return result
    if call["name"] == "write_file":
        return parts.written(path, given.get("content"), created="created" in str(call.get("result")))
    steps = [(given.get("old_string"), given.get("new_string"), given.get("allow_multiple"))]
    return parts.replaced(path, steps)


def _is_spoken(message: _GeminiMessage) -> bool:
    """Whether a message is more than the context that every session begins with."""
    return not (message.get("type") == "user" and _text(message.get("content")).lstrip().startswith(_CONTEXT))


def _text(content: object) -> str:
    return "\n".join(
        str(part["text"]) for part in parts.parts_of(content) if isinstance(part.get("text"), str)
    )
