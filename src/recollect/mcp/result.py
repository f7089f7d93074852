"""The result of a call: the server's blocks as plain data, bounded, with invisible characters escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.mcp.limits import McpLimits
from recollect.mcp.plain import plain

_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]*+")


@dataclass(frozen=True, slots=True)
class CallResult:
    """``content`` has the shape of Messages API blocks where possible: text, image, else as received."""

    name: str
    content: tuple[dict[str, object], ...]
    is_error: bool
    structured: object = None
    text: str = field(default="")
    """All text blocks, joined by newlines."""


def call_result(
    name: str, blocks: Sequence[dict[str, object]], structured: object, is_error: bool, limits: McpLimits
) -> CallResult:
    """A server's answer, bounded: all texts together have at most ``limits.result_chars`` characters."""
    left = limits.result_chars
    content: list[dict[str, object]] = []
    texts: list[str] = []
    for block in blocks:
        text = block.get("text")
        is_text = block.get("type") == "text" and isinstance(text, str)
        bounded = _bounded({**block, "text": ""} if is_text else block, limits.result_chars)
        if is_text and isinstance(text, str):
            shown = plain(text, left)
            bounded["text"] = shown
            texts.append(shown)
            left = max(left - len(text), 0)
        content.append(bounded)
    return CallResult(
        name, tuple(content), is_error, _plain_value(structured, limits.result_chars), "\n".join(texts)
    )


def _bounded(block: dict[str, object], most: int) -> dict[str, object]:
    # Cutting base64 would break the image, and its message was bounded as a whole.
    return {
        key: value if key in ("data", "blob") and _is_base64(value) else _plain_value(value, most)
        for key, value in block.items()
    }


def _plain_value(value: object, most: int) -> object:
    """Escape all texts inside. Depth was bounded when the message was read."""
    if isinstance(value, str):
        return plain(value, most)
    if isinstance(value, dict):
        return {plain(str(key), 200): _plain_value(one, most) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(one, most) for one in value]
    return value


def _is_base64(value: object) -> bool:
    return isinstance(value, str) and _BASE64.fullmatch(value) is not None
