"""What would be sent on resume, checked against the rules whose violation the API answers with a permanent
400.

The list comes from ``model/conversation/api.py``, after everything that client 2.1.325 repairs by itself: it
pairs every call with one result and uses every id once, so those rules cannot be violated. A violation found
here recurs at every prompt until the log is repaired. Each finding quotes the API's message, so that a user
who has seen that message can search for it.

Sound, and never reported: empty thinking with a signature, which the API returns where the display of
thinking is omitted, and empty text inside a tool result.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.checks.rules import RuleViolation
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.json_text import Json, content_of

_NOT_OF_USERS = frozenset(["thinking", "redacted_thinking", "tool_use"])
_NOT_OF_MODELS = frozenset(["image"])
ID_FIELDS = {"tool_use": "id", "tool_result": "tool_use_id"}
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")


class BlockRefusal(Struct, frozen=True):
    """A block that the API refuses. ``message`` is what the API says after the place of the block, ``reason`` our words for it.

    ``key`` is the same for the block in a line and in the list, where the client has merged texts.
    """

    code: str
    message: str
    key: str = ""
    reason: str = ""


def api_faults(messages: Sequence[Json], entries: Sequence[Entry]) -> Iterator[RuleViolation]:
    """Every rule that the messages break, placed at the entry that breaks it."""
    refused = list(_refusals(messages))
    places = _places(entries) if refused else {}
    for role, place, refusal in refused:
        waiting = places.get((role, refusal.code, refusal.key))
        entry = waiting.popleft() if waiting else None
        offset, uuid = (entry.offset, entry.uuid) if entry is not None else (None, None)
        what = f"the API answers 400: {place}{refusal.message}"
        yield RuleViolation(refusal.code, what, offset, uuid, subject=refusal.key)


def _refusals(messages: Sequence[Json]) -> Iterator[tuple[str, str, BlockRefusal]]:
    for number, one in enumerate(one for one in messages if one["role"] != "system"):
        role, blocks = one["role"], _blocks(one["content"])
        if is_blank(role, blocks):
            yield role, f"messages.{number}", _EMPTY_CONTENT
        for index, block in enumerate(blocks):
            for refusal in block_refusals(role, block):
                yield role, f"messages.{number}.content.{index}", refusal


_EMPTY_CONTENT = BlockRefusal("api-empty-content", ": user messages must have non-empty content")


def is_blank(role: str, blocks: Sequence[Json]) -> bool:
    """Whether nothing is said: an answer without blocks, or a message of the user with only blank text."""
    return all(map(is_empty_text, blocks)) and (role == "user" or not blocks)


def is_empty_text(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def block_refusals(role: str, block: Json) -> Iterator[BlockRefusal]:
    """Why the API refuses a block of a message."""
    kind = str(block.get("type"))
    if block.get("type") in (
        _NOT_OF_USERS if role == "user" else _NOT_OF_MODELS
    ):  # only the other role may send it
        text = f": `{kind}` blocks are not allowed in `{role}` messages"
        yield BlockRefusal("api-misplaced-block", text, kind)
        return
    # Blank text of the user is left out by the client where it has something else to send (measured).
    if role != "user" and is_empty_text(block):
        yield BlockRefusal("api-empty-text", ": text content blocks must be non-empty")
    field = ID_FIELDS.get(kind)
    name = block.get(field or "")
    if field is not None and not (isinstance(name, str) and _CALL_ID.match(name)):
        text = f".{kind}.{field}: String should match pattern '^[a-zA-Z0-9_-]+$'"
        yield BlockRefusal("api-bad-call-id", text, str(block.get(field)))
    if kind in ("thinking", "redacted_thinking"):
        yield from _of_thinking(kind, block)
    elif kind == "image":
        yield from _of_image(block)
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        for index, part in enumerate(block["content"]):
            if isinstance(part, dict) and part.get("type") == "image":
                for refusal in _of_image(part):
                    text = f".tool_result.content.{index}{refusal.message}"
                    yield BlockRefusal(refusal.code, text, refusal.key)


def _of_thinking(kind: str, block: Json) -> Iterator[BlockRefusal]:
    if kind == "redacted_thinking":
        if not block.get("data"):
            yield BlockRefusal("api-emptied-thinking", ".redacted_thinking.data: Field required")
    elif not block.get("signature"):
        text = ".thinking.signature: Field required"
        yield BlockRefusal("api-unsigned-thinking", text, str(block.get("thinking")))
    elif not isinstance(block.get("thinking"), str):
        yield BlockRefusal("api-emptied-thinking", ".thinking.thinking: Field required")


def _of_image(block: Json) -> Iterator[BlockRefusal]:
    fault = image_fault(block)
    if fault is not None:
        yield BlockRefusal(fault.code, f".image.source.base64{fault.message}", fault.key)


def _blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _places(entries: Sequence[Entry]) -> dict[tuple[str, str, str], deque[Entry]]:
    """The entries that hold refused blocks, in order; the client merges several entries into one message."""
    places: dict[tuple[str, str, str], deque[Entry]] = {}
    for entry in entries:
        if not isinstance(entry.body, User | Assistant):
            continue
        role = "user" if isinstance(entry.body, User) else "assistant"
        blocks = _blocks(content_of(entry.fields()))
        if role == "assistant" and all(map(is_empty_text, blocks)):
            continue  # the client leaves it out
        found = [refusal for block in blocks for refusal in block_refusals(role, block)]
        for refusal in [*found, *([_EMPTY_CONTENT] if is_blank(role, blocks) else [])]:
            places.setdefault((role, refusal.code, refusal.key), deque()).append(entry)
    return places


# The API measures the encoded text.
MOST_BYTES = 5 * 1024 * 1024
MOST_PIXELS = 8000
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SPACE = b" \t\r\n"
_HEADER = 256 * 1024  # characters of base64; in a JPEG the size may come after an embedded thumbnail


def image_fault(block: dict[str, Any]) -> BlockRefusal | None:
    """None where the API would not refuse an image, or where it fetches the image itself."""
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") != "base64":
        return None
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(data, str) or not data.strip():
        reason = "the image is empty" if isinstance(source, dict) else "the image has no source"
        return BlockRefusal("api-empty-image", ": image cannot be empty", reason=reason)
    key = str(len(data))
    if len(data) > MOST_BYTES:
        reason = f"the image has {len(data)} bytes, the API takes {MOST_BYTES}"
        message = f": image exceeds 5 MB maximum: {len(data)} bytes > {MOST_BYTES} bytes"
        return BlockRefusal("api-oversize-image", message, key, reason)
    if not is_base64(data):
        reason = "the data of the image is not base64"
        return BlockRefusal("api-damaged-image", ".data: invalid base64 data", key, reason)
    width, height = pixels(data)
    if max(width, height) > MOST_PIXELS:
        reason = f"the image has {width} x {height} pixels, the API takes {MOST_PIXELS}"
        most = "At least one of the image dimensions exceed max allowed size: 8000 pixels"
        return BlockRefusal("api-oversize-image", f".data: {most} ({reason})", key, reason)
    return None


def is_base64(data: str) -> bool:
    """Whether data decodes: nothing but its letters, at most two ``=`` at the end, and a length that can be.

    White space and missing padding are taken: many decoders do.
    """
    text = data.encode("ascii", "replace").translate(None, _SPACE)
    padding = text.translate(None, _LETTERS)
    return padding in (b"", b"=", b"==") and text.endswith(padding) and (len(text) - len(padding)) % 4 != 1


def pixels(data: str) -> tuple[int, int]:
    """Width and height from the header of a PNG, GIF, JPEG or WebP; zero where they cannot be read."""
    try:
        head = base64.b64decode(data[:_HEADER][: len(data[:_HEADER]) // 4 * 4])
    except (binascii.Error, ValueError):
        return 0, 0
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")):
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _jpeg(head)
    return _webp(head) if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else (0, 0)


def _jpeg(head: bytes) -> tuple[int, int]:
    position = 2
    while position + 9 < len(head) and head[position] == 0xFF:
        marker, length = head[position + 1], int.from_bytes(head[position + 2 : position + 4])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[position + 7 : position + 9]), int.from_bytes(
                head[position + 5 : position + 7]
            )
        position += 2 + max(length, 2)
    return 0, 0


def _webp(head: bytes) -> tuple[int, int]:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return 0, 0


# Shorter lines are not changed.
LONG_LINE = 2_048
_LONG_TEXT = 1_024
_REFUSED = (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError)


def shortened(line: bytes) -> bytes:
    """The line with only the beginnings of its texts.

    A short line, or one that is not JSON, is returned unchanged.
    """
    if len(line) <= LONG_LINE:
        return line
    try:
        return msgspec.json.encode(_short(msgspec.json.decode(line)))
    except _REFUSED:
        return line


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return _beginning(value)
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        is_whole = value.get("type") == "image" and image_fault(value) is not None
        return value if is_whole else {name: _short(one) for name, one in value.items()}
    return value


def _beginning(text: str) -> str:
    # Leading white space alone would turn the text into an empty one.
    return text if len(text) <= _LONG_TEXT else text.lstrip()[:_LONG_TEXT] or text[:1]
