"""Amp: a document for each thread, rewritten at every change.

Only prompts have times, and calls in the ledger; an answer has the time of its call. What other models did for a tool stands
nowhere, and of the calls in the ledger that are no answers (titles) there is no cache. Newer clients keep threads on their server.
"""

from __future__ import annotations

from typing import Any

from recollect.agents import blocks
from recollect.agents import lines as entry
from recollect.agents.growth import Unit
from recollect.agents.lines import LineFields
from recollect.agents.loose import ANY, COUNT, MOMENT, NUMBER, Fields, Shape
from recollect.agents.records import Begun, DocumentDialect, Talk, local_path, millis, unknown

_BLOCK: Shape = {
    **dict.fromkeys(("type", "text", "thinking", "id", "name", "toolUseID"), str),
    "input": {},
    "source": {},
    "run": {"status": str, "result": ANY, "error": ANY, "progress": ANY},
}
_COUNTS = {
    "input": "inputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
    "output": "outputTokens",
}
_RECORD: dict[str, Shape] = {
    **dict.fromkeys(("id", "title", "role", "model", "operationType"), str),
    **dict.fromkeys(("created", "messageId", "toMessageId"), NUMBER),
    "env": {"initial": {"trees": [{"uri": str}], "platform": {"clientVersion": str}}},
    "content": [_BLOCK],
    "meta": {"sentAt": NUMBER},
    "usage": {"model": str, "timestamp": MOMENT, **dict.fromkeys(_COUNTS.values(), COUNT)},
    "timestamp": MOMENT,
    "tokens": {"input": COUNT, "output": COUNT},
}
_FAILED = ("error", "cancelled", "rejected-by-user")


def records(document: object) -> list[object]:
    """What the thread is, its messages, and the calls that are no answers."""
    if not isinstance(document, dict):
        return []
    ledger = document.get("usageLedger")
    events = _several(ledger.get("events") if isinstance(ledger, dict) else ledger)
    called = [
        event for event in events if isinstance(event, dict) and event.get("operationType") == "inference"
    ]
    times = {str(event.get("toMessageId")): {"timestamp": event.get("timestamp")} for event in called}
    return [
        {name: document.get(name) for name in ("id", "title", "created", "env")},
        *(
            message | times.get(str(message.get("messageId")), {}) if isinstance(message, dict) else message
            for message in _several(document.get("messages"))
        ),
        *(event for event in events if event not in called),
    ]


def _several(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def begin(unit: Unit, first: Fields) -> Begun:
    """The thread, and the first of its directories."""
    trees = ((first.get("env") or {}).get("initial") or {}).get("trees") or [{}]
    cwd = local_path(trees[0].get("uri") or "")
    return Begun(session=first.get("id") or unit.path.stem, cwd=cwd, key=unit.path.stem)


def lines(record: Fields, state: Talk) -> list[LineFields]:
    """What a part of the document means."""
    voice, role = state.voice, record.get("role")
    sent = millis((record.get("meta") or {}).get("sentAt"))
    voice.at = sent or record.get("timestamp") or millis(record.get("created")) or voice.at
    if "env" in record:
        platform = ((record.get("env") or {}).get("initial") or {}).get("platform") or {}
        voice.version = platform.get("clientVersion")
        title = record.get("title")
        return [entry.titled(voice.session, title) | {entry.IS_MIRRORED: True}] if title else []
    if role == "assistant":
        return _answer(record, state)
    if role == "user":
        return _said(record, state)
    used = record.get("tokens")
    if used is None:
        return unknown(role or record.get("operationType"), state)
    key = entry.key_of("amp", voice.session, record.get("id"))
    return [
        entry.usage(
            voice, key, record.get("model"), {name: used.get(name) or 0 for name in ("input", "output")}
        )
    ]


def _answer(message: Fields, state: Talk) -> list[LineFields]:
    voice, used = state.voice, message.get("usage") or {}
    made: list[LineFields] = []
    for block in message.get("content") or ():
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            made.append({"type": "text", "text": block["text"]})
        elif kind == "thinking" and block.get("thinking"):
            made.append(blocks.thinking(block["thinking"]))
        elif kind == "tool_use":
            made.append(blocks.tool_use(block.get("id"), block.get("name"), block.get("input")))
            state.memory[block.get("id") or ""] = block.get("input")
    line = [entry.assistant(voice, used.get("model"), *made)] if made else []
    counts = {name: used.get(said) or 0 for name, said in _COUNTS.items()}
    if not any(counts.values()):
        return line
    voice.at = used.get("timestamp") or voice.at
    key = entry.key_of("amp", voice.session, message.get("messageId"), counts)
    return [*line, entry.usage(voice, key, used.get("model"), counts)]


def _said(message: Fields, state: Talk) -> list[LineFields]:
    """Results, and what was typed."""
    content: list[dict[str, Any]] = message.get("content") or []
    made = [_result(block, state) for block in content if block.get("type") == "tool_result"]
    typed = [
        {name: block[name] for name in ("type", "text", "source") if name in block}
        for block in content
        if block.get("type") == "image" or (block.get("type") == "text" and block.get("text"))
    ]
    return [*made, entry.user(state.voice, typed)] if typed else made


def _result(block: dict[str, Any], state: Talk) -> LineFields:
    call, run = block.get("toolUseID") or "", block.get("run") or {}
    failed = run.get("status") in _FAILED
    said = next((run[name] for name in ("result", "error", "progress") if run.get(name) is not None), "")
    text = said if isinstance(said, str) else entry.encode(said).decode()
    line = entry.result(state.voice, call, text, is_error=failed)
    given = state.memory.pop(call, None)
    if failed or run.get("status") != "done" or not isinstance(given, dict):
        return line
    diff = said.get("diff") if isinstance(said, dict) else None
    if "new_str" in given:
        step = (given.get("old_str"), given["new_str"], given.get("replace_all"))
        return blocks.with_changes(line, blocks.replaced(given.get("path"), [step], diff=diff))
    return blocks.with_changes(line, blocks.written(given.get("path"), given.get("content"), diff=diff))


DIALECT = DocumentDialect((("threads", ".json"),), _RECORD, begin, lines, records)
