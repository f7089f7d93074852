"""Content in the parts of Google's API, as Gemini CLI and Qwen Code store it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recollect.storage.foreign.lines import LineFields, encode
from recollect.storage.foreign.loose import Shape

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
    found: list[LineFields] = []
    for part in parts_of(content):
        call, image = part.get("functionCall"), part.get("inlineData")
        text = part.get("text")
        if isinstance(call, dict):
            found.append(tool_use(call.get("id"), call.get("name"), call.get("args")))
        elif isinstance(image, dict):
            source = {"type": "base64", "media_type": image.get("mimeType"), "data": image.get("data")}
            found.append({"type": "image", "source": source})
        elif isinstance(text, str) and text:
            thought = part.get("thought") is True
            found.append(thinking(text) if thought else {"type": "text", "text": text})
        elif "functionResponse" not in part and not isinstance(text, str):
            found.append({"type": "text", "text": encode(part).decode()})
    return found


def are_known(content: object) -> bool:
    """Whether every part is of a known kind; of others all is shown."""
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, dict) or "functionResponse" in part or isinstance(part.get("text"), str):
            continue
        if not isinstance(part.get("functionCall"), dict) and not isinstance(part.get("inlineData"), dict):
            return False
    return True


def results(content: object) -> list[LineFields]:
    """What tools returned."""
    found: list[LineFields] = []
    for part in parts_of(content):
        answer = part.get("functionResponse")
        if isinstance(answer, dict):
            found.append(tool_result(answer))
    return found


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
