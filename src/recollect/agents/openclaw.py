"""OpenClaw (Clawdbot, Moltbot before): Pi's records in a directory for each of its agents.

A session that was put away by a deletion or a reset stays under another name, and is the same file here. What its gateway sent
to a channel by itself is an answer without a model call. A sub-agent is a session of its own: nothing that stays names its parent.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from recollect.agents import lines as entry
from recollect.agents import pi
from recollect.agents.growth import Unit, content, files_below, holds_none
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, Fields, Shape
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, LineDialect, Talk
from recollect.model.lines.json_text import loose_value
from recollect.system.peek import ReadProblems

_PLACE = "agents/*/sessions"
_TALK = re.compile(r"([^.]+\.jsonl)(?:\.(?:deleted|reset)\..+)?")
_RECORD: dict[str, Shape] = {**pi.RECORD, "customType": str, "data": ANY}
# What the gateway puts before a message: notes of the system, who wrote it, where and when.
_ENVELOPE = re.compile(
    r"(?:System: \[.*?\n\n|[A-Z][\w ]+ \(untrusted metadata\):\s*```json\n.*?\n```\s*"
    r"|\[[^\]\n]{0,200}?\d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]{0,200}\] ?|\[cron:[^\]\n]*\] ?)+",
    re.DOTALL,
)
_GATEWAY, _FAILED = "openclaw", "openclaw:prompt-error"


def begin(unit: Unit, first: Fields) -> Begun:
    """A file is named after its session; of a topic in a channel, with the topic's number."""
    return Begun(session=unit.path.name.partition(".")[0], cwd=first.get("cwd") or "", key=unit.source)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a record means, where it is not as in Pi."""
    message: dict[str, Any] = record.get("message") or {}
    if message.get("provider") == _GATEWAY:
        return _sent(record, message, state)
    if (message.get("provenance") or {}).get("kind") == "inter_session":
        return pi.lines(record | {"message": message | {"role": "custom"}}, state)
    if message.get("role") == "user":
        return _prompt(record, message, state)
    said = record.get("data")
    if record.get("customType") == _FAILED and isinstance(said, dict):
        pi.lines(record, state)
        uuids: dict[object, str | None] = state.memory.setdefault("uuids", {})
        state.voice.leaf = uuids.get(record.get("id"), state.voice.leaf)
        why = str(said.get("error") or "the model did not answer")
        failed = entry.note(state.voice, "error", why, "error")
        uuids[record.get("id")] = state.voice.leaf
        return [failed]
    return pi.lines(record, state)


def _prompt(record: Fields, message: dict[str, Any], state: Talk) -> list[LineFields]:
    """What was typed, behind a note with what the gateway put before it."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    text = blocks[0].get("text") or "" if blocks else ""
    envelope = _ENVELOPE.match(text)
    typed = text[envelope.end() :] if envelope else text
    if envelope is None or not typed.strip():
        return pi.lines(record, state)
    note = pi.lines(record | {"message": message | {"role": "custom", "content": envelope[0]}}, state)
    rest = [blocks[0] | {"text": typed}, *blocks[1:]]
    return [*note, *pi.lines(_after(record) | {"message": message | {"content": rest}}, state)]


def _after(record: Fields) -> Fields:
    """A record that follows what was last said."""
    return {name: value for name, value in record.items() if name != "parentId"}


def _sent(record: Fields, message: dict[str, Any], state: Talk) -> list[LineFields]:
    """It stands beside what was said meanwhile, in the order of time: what follows that follows it."""
    before = state.voice.leaf
    made = pi.lines(_after(record) | {"message": message | {"model": None}}, state)
    uuids: dict[str, str | None] = state.memory["uuids"]
    uuids |= {name: state.voice.leaf for name, uuid in uuids.items() if uuid == before}
    return made


class _OpenClaw(LineDialect):
    """Files that keep their session when they are put away, and names in a list beside them."""

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        """The sessions, by name. Checkpoints repeat them."""
        result: dict[str, Unit] = {}
        for unit in files_below(home, _PLACE, ("",), problems):
            matched = _TALK.fullmatch(unit.path.name)
            if matched is None:
                continue
            name = f"{unit.source.rpartition('/')[0]}/{matched[1]}"
            name = unit.source if name in result else name
            holds = unit.holds if matched[1] == unit.path.name else holds_none
            result[name] = unit._replace(key=name, source=name, holds=holds)
        return list(result.values())

    def finish(self, home: Path, into: AgentMirror) -> None:
        """Names that users gave."""
        for path in sorted(home.glob(f"{_PLACE}/sessions.json")):
            said = loose_value(content(path))
            for row in said.values() if isinstance(said, dict) else ():
                name, title = (
                    (row.get("sessionId"), row.get("label")) if isinstance(row, dict) else (None, None)
                )
                if isinstance(name, str) and isinstance(title, str) and title:
                    into.title(name, title, entry.titled(name, title))


DIALECT = _OpenClaw((), _RECORD, begin, lines)
