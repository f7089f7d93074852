"""Cline, Roo Code and Kilo Code: a directory for each task, whose documents are rewritten at every change.

What a person saw (``ui_messages.json``) has prompts, answers, times and tokens; what the model sees (``api_conversation_history.json``)
has calls (of old versions in the text) and results. Each request that ended is an answer of the model: this puts them together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Growth, Unit, content, stamped
from recollect.agents.lines import LineFields
from recollect.agents.loose import COUNT, NUMBER, Fields, Shape, fitted, known_types, parsed
from recollect.agents.mirror import AgentMirror
from recollect.agents.records import Begun, DocumentDialect, Talk, millis, unknown
from recollect.system.peek import ReadProblems

_SEEN, _SENT, _ABOUT = "ui_messages.json", "api_conversation_history.json", "task_metadata.json"
_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "thinking", "id", "name", "tool_use_id"), str),
    "input": {},
    "content": (str, [{}]),
    "is_error": bool,
}
_MESSAGE: dict[str, Shape] = {"role": str, "content": (str, [_BLOCK])}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("cwd", "model", "type", "say", "ask", "text"), str),
    **dict.fromkeys(("number", "ts"), NUMBER),
    "answer": _MESSAGE,
    "results": [_MESSAGE],
    "contextCondense": {"summary": str},
}
_USED: dict[str, Shape] = dict.fromkeys(("tokensIn", "tokensOut", "cacheWrites", "cacheReads"), COUNT)
_MODELS: dict[str, Shape] = {"model_usage": [{"ts": NUMBER, "model_id": str}]}
_CWD = re.compile(r"# Current (?:Working|Workspace) Directory \((.+?)\)")
_NOTES = ("error", "api_req_failed", "diff_error", "followup", "mistake_limit_reached")
_TOOL = re.compile(r"<([a-z]+(?:_[a-z]+)+)>(.*?)</\1>", re.DOTALL)
_GIVEN = re.compile(r"<(\w+)>\n?(.*?)\n?</\1>", re.DOTALL)
_STEP = re.compile(
    r"(?s)[<-]{5,9} SEARCH[^\n]*\n(?::start_line:[^\n]*\n)?(?:-+\n)?(.*?)\n?={5,9}\n(.*?)\n?[>+]{5,9} REPLACE"
)


def begin(unit: Unit, first: Fields) -> Begun:
    return Begun(session=unit.path.parent.name, cwd=first.get("cwd") or "", key=unit.path.parent.name)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a message means that a person saw, or an answer with what its calls returned."""
    voice, text = state.voice, record.get("text") or ""
    voice.at = millis(record.get("ts")) or voice.at
    if "results" in record:
        return _turn(record, state)
    kind = record.get("say") or record.get("ask")
    if kind in ("task", "user_feedback") or (kind == "text" and voice.leaf is None):
        return [entry.user(voice, text)]
    if text and record.get("type") == "say" and kind in ("text", "completion_result", "reasoning"):
        block = blocks.thinking(text) if kind == "reasoning" else {"type": "text", "text": text}
        return [entry.assistant(voice, state.memory.get("model"), block)]
    if kind == "api_req_started":
        return _used(record, text, state)
    if kind == "condense_context":
        return entry.compaction(voice, (record.get("contextCondense") or {}).get("summary") or text)
    if kind in _NOTES:
        return [entry.note(voice, str(kind), text, "error" if kind != "followup" else "info")]
    return [] if not text or kind in known_types("cline")["silent"] else unknown(f"{kind}", state)


def _used(record: Fields, text: str, state: Talk) -> list[LineFields]:
    """What a request used; one that was cut says nothing."""
    state.memory["model"] = record.get("model") or state.memory.get("model")
    said, _ = fitted(parsed(text.encode()), _USED)
    if "tokensIn" not in said:
        return []
    given, output, written, read = (said.get(name) or 0 for name in _USED)
    given -= read + written if said.get("apiProtocol") == "openai" else 0
    counts = {"input": max(given, 0), "output": output, "cache_read": read, "cache_write": written}
    key = entry.key_of(state.agent, state.voice.session, record.get("ts"))
    return [entry.usage(state.voice, key, state.memory["model"], counts)]


def _turn(record: Fields, state: Talk) -> list[LineFields]:
    """The calls of an answer, and their results. In text, there is one call."""
    voice, answer = state.voice, _blocks(record.get("answer"))
    calls = [block for block in answer if block.get("type") == "tool_use"]
    said = [block for message in record.get("results") or () for block in _blocks(message)]
    results = [block for block in said if block.get("type") == "tool_result"]
    named = None if calls else _TOOL.search(_texts(answer))
    if named is not None:
        call = f"call-{record.get('number')}"
        calls = [{"id": call, "name": named[1], "input": dict(_GIVEN.findall(named[2]))}]
        results = [{"tool_use_id": call, "content": _texts(said)}] if said else []
    if not calls:
        return []
    uses = [blocks.tool_use(call.get("id"), call.get("name"), call.get("input")) for call in calls]
    told = entry.assistant(voice, record.get("model"), *uses)
    return [told, *(_result(block, uses, voice) for block in results)]


def _result(block: Fields, uses: list[LineFields], voice: entry.Voice) -> LineFields:
    said, failed = block.get("content") or "", block.get("is_error") is True
    text = said if isinstance(said, str) else _texts(said)
    call = block.get("tool_use_id") or ""
    line = entry.result(voice, call, text, is_error=failed)
    use = next((one for one in uses if one["id"] == call), None)
    return line if failed or use is None else blocks.with_changes(line, _changed(use, voice.cwd))


def _changed(use: LineFields, cwd: str) -> list[LineFields]:
    """What an edit was called with; its path is below the directory."""
    name, given = use["name"], use["input"]
    path = str(Path(cwd) / str(given["path"])) if given.get("path") else ""
    if name == "write_to_file":
        return blocks.written(path, given.get("content"))
    steps = _STEP.findall(str(given.get("diff"))) if name in ("replace_in_file", "apply_diff") else ()
    return blocks.replaced(path, [(old, new, False) for old, new in steps])


def _blocks(message: Fields | None) -> list[dict[str, Any]]:
    said = (message or {}).get("content") or []
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _texts(content: list[dict[str, Any]]) -> str:
    """What was said, without what the client adds to each prompt."""
    texts = (str(block.get("text") or "") for block in content)
    return "\n".join(text for text in texts if text and not text.startswith("<environment_details>"))


class TaskDialect(DocumentDialect):
    """The documents of a task, as one."""

    def units(self, home: Path, problems: ReadProblems | None = None) -> list[Unit]:
        result = []
        for path in sorted(home.glob(f"tasks/*/{_SEEN}")):
            beside = (stamped(home, str(path.with_name(name))) for name in (_SEEN, _SENT, _ABOUT))
            files = [unit for unit in beside if unit is not None]
            if files:
                result.append(files[0]._replace(stamp=tuple(part for unit in files for part in unit.stamp)))
        return result

    def mirror(self, unit: Unit, state: Talk, into: AgentMirror) -> None:
        state.growth = Growth()  # another of its documents may have changed
        super().mirror(unit, state, into)

    def _parts(self, unit: Unit, document: object) -> list[Fields]:
        if not isinstance(document, list):
            return []
        sent = _beside(unit, _SENT)
        sent = sent.get("messages") if isinstance(sent, dict) else sent  # of newer versions of Roo
        spoken = [one for one in sent if isinstance(one, dict)] if isinstance(sent, list) else []
        models = fitted(_beside(unit, _ABOUT), _MODELS).fields.get("model_usage") or []
        # A message that is written again has the time of the one that it replaces.
        seen = list({str(one.get("ts")): one for one in document if isinstance(one, dict)}.values())
        return list(_merged(seen, _turns(spoken), models))


def _beside(unit: Unit, name: str) -> Any:
    path = unit.path.with_name(name)
    return parsed(content(path)) if path.exists() else None


def _turns(spoken: list[Fields]) -> list[Fields]:
    """Each answer of the model with the messages that follow it; first those before all, which name the directory."""
    before = _blocks(fitted(spoken[0], _MESSAGE).fields) if spoken else []
    found = _CWD.search("\n".join(str(block.get("text")) for block in before))
    result: list[Fields] = [{"results": [], "cwd": found[1] if found else ""}]
    for message in spoken:
        if message.get("role") == "assistant":
            result.append({"answer": message, "results": [], "number": len(result)})
        else:
            result[-1]["results"].append(message)
    return result


def _merged(seen: list[Fields], turns: list[Fields], models: list[Fields]) -> Iterator[Fields]:
    """Calls stand before the next request: what was said in a request was said before they were made."""
    first, *left = turns
    yield first
    is_open, model = False, None
    for message in seen:
        if message.get("say") in ("api_req_started", "user_feedback") and is_open and left:
            yield left.pop(0) | {"model": model}
            is_open = False
        at = message.get("ts")
        chosen = [one.get("model_id") for one in models if isinstance(at, int) and one.get("ts", 0) <= at]
        model = chosen[-1] if chosen else model
        if message.get("say") == "api_req_started":
            is_open = '"tokensOut"' in str(message.get("text"))
        yield message | {"model": model}
    for turn in left:
        yield turn | {"model": model}


DIALECT = TaskDialect((), _RECORD, begin, lines, lambda document: [])
