"""What the dialects have in common: blocks of messages, the changes that edit calls made, todo lists, and messages for a model.

Gemini CLI and Qwen Code store content in the parts of Google's API. Changes of files are told in the fields of Claude Code's own
results (``model/files/reports.py``): whole texts, replacements, unified diffs, and the patches of ``apply_patch``, which Codex and
OpenCode share. Todo lists are what planning tools were last called with, as the lists of a Claude home.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from recollect.agents.lines import LineFields, encode
from recollect.agents.loose import Shape
from recollect.model.lines.blocks import Block, ThinkingBlock, ToolResultBlock, ToolUseBlock
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.store.session_files import SUBAGENTS, TODO_MARK
from recollect.system.paths import AGENTS

Part = dict[str, Any]

_PART: Shape = {
    "text": str,
    "thought": bool,
    "functionCall": {"id": str, "name": str, "args": {}},
    "functionResponse": {"id": str, "name": str, "response": ({}, str)},
    "inlineData": {"mimeType": str, "data": str},
}
PARTS: Shape = ([(_PART, str)], str, _PART)


def parts_of(content: object) -> Iterator[Part]:
    """Text, one part or a list of them."""
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            yield {"text": part}
        elif isinstance(part, dict):
            yield part


def blocks(content: object) -> list[LineFields]:
    """What was said, thought and called; results are left to ``results``."""
    result: list[LineFields] = []
    for part in parts_of(content):
        call, image = part.get("functionCall"), part.get("inlineData")
        text = part.get("text")
        if isinstance(call, dict):
            result.append(tool_use(call.get("id"), call.get("name"), call.get("args")))
        elif isinstance(image, dict):
            source = {"type": "base64", "media_type": image.get("mimeType"), "data": image.get("data")}
            result.append({"type": "image", "source": source})
        elif isinstance(text, str) and text:
            thought = part.get("thought") is True
            result.append(thinking(text) if thought else {"type": "text", "text": text})
        elif "functionResponse" not in part and not isinstance(text, str):
            result.append({"type": "text", "text": encode(part).decode()})
    return result


def results(content: object) -> list[LineFields]:
    """What tools returned."""
    result: list[LineFields] = []
    for part in parts_of(content):
        answer = part.get("functionResponse")
        if isinstance(answer, dict):
            result.append(tool_result(answer))
    return result


def tool_use(call: object, name: object, given: object) -> LineFields:
    """A call."""
    return {
        "type": "tool_use",
        "id": str(call or ""),
        "name": str(name or "?"),
        "input": given if isinstance(given, dict) else {},
    }


def tool_result(answer: Part) -> LineFields:
    """The result of a call, as text where it is text."""
    said = answer.get("response")
    text = said.get("output", said.get("error")) if isinstance(said, dict) else said
    block: LineFields = {
        "type": "tool_result",
        "tool_use_id": str(answer.get("id") or ""),
        "content": text if isinstance(text, str) else encode(said).decode(),
    }
    return {**block, "is_error": True} if isinstance(said, dict) and "error" in said else block


def thinking(text: str) -> LineFields:
    """A thought; without a signature the API never takes it back."""
    return {"type": "thinking", "thinking": text, "signature": ""}


CHANGED = "changedFiles"
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PATCH = re.compile(r"\*\*\* Begin Patch\n(.*?)(?:\n\*\*\* End Patch|\Z)", re.DOTALL)
_FILE = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): (.+)")


def written(
    path: object, content: object, *, original: object = None, created: bool = False, diff: object = None
) -> list[LineFields]:
    """A file that has this content now; nothing where a path or a content is missing."""
    if not isinstance(path, str) or not path or not isinstance(content, str):
        return []
    result: LineFields = {"filePath": path, "content": content, "type": "create" if created else "update"}
    if isinstance(original, str) and not created:
        result["originalFile"] = original
    return [result | _patch(diff)]


def replaced(
    path: object, edits: Iterable[tuple[object, object, object]], *, diff: object = None
) -> list[LineFields]:
    """A file in which texts were replaced: old, new, and whether everywhere."""
    steps = [
        {"old_string": old, "new_string": new, "replace_all": everywhere is True}
        for old, new, everywhere in edits
        if isinstance(old, str) and isinstance(new, str)
    ]
    if not isinstance(path, str) or not path or not steps:
        return []
    return [{"filePath": path, "edits": steps} | _patch(diff)]


def shown(display: object) -> list[LineFields]:
    """What Gemini CLI and Qwen Code show of a change: both contents, and how they differ."""
    said = display if isinstance(display, dict) else {}
    before, after = said.get("originalContent"), said.get("newContent")
    created = said.get("isNewFile") is True or (
        before == "" and str(said.get("fileDiff")).count("\n@@ -0,0 ") > 0
    )
    return written(said.get("filePath"), after, original=before, created=created, diff=said.get("fileDiff"))


def in_patch(text: str, directory: str = "") -> list[LineFields]:
    """The files of an ``apply_patch`` text. Its pieces have no line numbers: each is a replacement."""
    result: list[LineFields] = []
    for patch in _PATCH.finditer(text):
        for verb, path, body in _sections(patch[1]):
            where = f"{directory.rstrip('/')}/{path}" if directory and not path.startswith("/") else path
            if verb == "Add File":
                lines = [line[1:] for line in body if line.startswith("+")]
                result += written(where, "".join(f"{line}\n" for line in lines), created=True)
            elif verb == "Delete File":
                result.append({"filePath": where, "type": "delete"})
            else:
                result += replaced(where, _pieces(body))
    return result


def with_changes(line: LineFields, changed: list[LineFields]) -> LineFields:
    """A result with what it changed. The id of the line does not depend on it."""
    return line | {"toolUseResult": {CHANGED: changed}} if changed else line


def _sections(text: str) -> Iterator[tuple[str, str, list[str]]]:
    verb, path, body = "", "", list[str]()
    for line in text.split("\n"):
        matched = _FILE.fullmatch(line.rstrip())
        if matched is None:
            body.append(line)
            continue
        if verb and not (matched[1] == "Move to" and verb == "Update File"):
            yield verb, path, body
        if matched[1] == "Move to":
            yield "Delete File", path, []
        verb, path, body = ("Update File" if matched[1] == "Move to" else matched[1]), matched[2], []
    if verb:
        yield verb, path, body


def _pieces(body: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Each piece as the text it expects and the text it leaves."""
    piece: list[str] = []
    for line in (*body, "@@"):
        if not line.startswith("@@"):
            piece.append(line)
            continue
        old = [one[1:] for one in piece if one[:1] in (" ", "-")]
        new = [one[1:] for one in piece if one[:1] in (" ", "+")]
        if old != new:
            yield "\n".join(old), "\n".join(new), False
        piece = []


def _patch(diff: object) -> LineFields:
    """The pieces of a unified diff."""
    hunks: list[LineFields] = []
    for line in diff.split("\n") if isinstance(diff, str) else ():
        matched = _HUNK.match(line)
        if matched is not None:
            names = ("oldStart", "oldLines", "newStart", "newLines")
            hunks.append(
                {name: int(n or 1) for name, n in zip(names, matched.groups(), strict=True)} | {"lines": []}
            )
        elif hunks and line[:1] in ("+", "-", " ", "\\"):
            hunks[-1]["lines"].append(line)
    return {"structuredPatch": hunks} if hunks else {}


_TEXTS = ("content", "step", "description", "title")


def listed(line: LineFields) -> list[LineFields]:
    """The list that a line sets; none where it sets none."""
    if line.get("type") != "assistant":
        return []
    result: list[LineFields] = []
    for block in line["message"]["content"]:
        given = block.get("input")
        name = str(block.get("name")).lower() if block.get("type") == "tool_use" else None
        for tool, key in (agent.plan for agent in AGENTS.values()):
            if tool == name and isinstance(given, dict):
                result = list(_items(given.get(key))) or result
    return result


def file_name(log: Path) -> str:
    """The file of a log's list, below the directory of all of them."""
    if log.parent.name != SUBAGENTS:
        return f"{log.stem}{TODO_MARK}{log.stem}.json"
    return f"{log.parent.parent.name}{TODO_MARK}{log.stem.removeprefix('agent-')}.json"


def _items(given: object) -> Iterator[LineFields]:
    for item in given if isinstance(given, list) else ():
        text = (
            next((item[name] for name in _TEXTS if item.get(name)), None) if isinstance(item, dict) else None
        )
        if not isinstance(text, str):
            continue
        status = item.get("status")
        result: LineFields = {"content": text, "status": status if isinstance(status, str) else "pending"}
        yield result | {name: item[name] for name in ("id", "priority") if isinstance(item.get(name), str)}


Item = dict[str, Any]
Sources = dict[str, list[bytes]]


class MirroredThread(Struct, frozen=True):
    """A session as its mirror has it. ``base_of`` gives the sources of the log that holds another one, by its name."""

    id: str
    entries: Callable[[], list[Entry]]
    sources: Callable[[], Sources]
    base_of: Callable[[str], Sources]


def as_messages(
    entries: Iterable[Entry],
    *,
    thinking: bool = False,
    interrupted: str | None = None,
    summary_of: str | None = None,
) -> list[Item]:
    """The conversation as messages with blocks. How a service's protocol groups them is not said here.

    ``thinking`` is sent back or not; ``interrupted`` is the result that the client invents for a call without one;
    ``summary_of`` is the question in whose answer the client puts the summary of a compaction.
    """
    spoken = [entry for entry in entries if _is_sent(entry)]
    done = {
        block.tool_use_id
        for entry in spoken
        for block in _blocks(entry)
        if isinstance(block, ToolResultBlock)
    }
    result: list[Item] = []
    for entry in spoken:
        is_answer = isinstance(entry.body, Assistant)
        blocks = [block for block in _blocks(entry) if thinking or not isinstance(block, ThinkingBlock)]
        if isinstance(entry.body, User) and entry.body.is_compact_summary and summary_of is not None:
            result.append({"role": "user", "content": [{"type": "text", "text": summary_of}]})
            is_answer = True
        if blocks:
            role = "assistant" if is_answer else "user"
            result.append({"role": role, "content": [_plain(block) for block in blocks]})
        lost = [one.id for one in blocks if isinstance(one, ToolUseBlock) and one.id not in done]
        if lost and interrupted is not None:
            results = [{"type": "tool_result", "tool_use_id": one, "content": interrupted} for one in lost]
            result.append({"role": "user", "content": results})
    return result


def _is_sent(entry: Entry) -> bool:
    body = entry.body
    return isinstance(body, Assistant) or (isinstance(body, User) and not body.is_visible_in_transcript_only)


def _blocks(entry: Entry) -> list[Block]:
    body = entry.body
    return body.message.blocks if isinstance(body, User | Assistant) else []


def _plain(block: Block) -> Item:
    fields: Item = msgspec.json.decode(msgspec.json.encode(block))
    return {name: value for name, value in fields.items() if value is not None}
