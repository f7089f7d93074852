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

import re
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from recollect.model.checks import RuleViolation, images
from recollect.model.entry import Assistant, Entry, User
from recollect.model.json.text import Json, content_of

_NOT_OF_USERS = frozenset(["thinking", "redacted_thinking", "tool_use"])
_NOT_OF_MODELS = frozenset(["image"])
ID_FIELDS = {"tool_use": "id", "tool_result": "tool_use_id"}
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")


class BlockRefusal(Struct, frozen=True):
    """A block that the API refuses. ``message`` is what the API says after the place of the block.

    ``key`` is the same for the block in a line and in the list, where the client has merged texts.
    """

    code: str
    message: str
    key: str = ""


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


def is_misplaced(role: str, block: Json) -> bool:
    """Whether a block is of a kind that only the other role may send."""
    return block.get("type") in (_NOT_OF_USERS if role == "user" else _NOT_OF_MODELS)


def is_call_id(name: object) -> bool:
    return isinstance(name, str) and _CALL_ID.match(name) is not None


def block_refusals(role: str, block: Json) -> Iterator[BlockRefusal]:
    """Why the API refuses a block of a message."""
    kind = str(block.get("type"))
    if is_misplaced(role, block):
        text = f": `{kind}` blocks are not allowed in `{role}` messages"
        yield BlockRefusal("api-misplaced-block", text, kind)
        return
    # Blank text of the user is left out by the client where it has something else to send (measured).
    if role != "user" and is_empty_text(block):
        yield BlockRefusal("api-empty-text", ": text content blocks must be non-empty")
    field = ID_FIELDS.get(kind)
    if field is not None and not is_call_id(block.get(field)):
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
    reason = images.refusal(block)
    if reason is None:
        return
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(data, str) or not data.strip():
        yield BlockRefusal("api-empty-image", ".image.source.base64: image cannot be empty")
    elif len(data) > images.MOST_BYTES:
        sizes = f"{len(data)} bytes > {images.MOST_BYTES} bytes"
        text = f".image.source.base64: image exceeds 5 MB maximum: {sizes}"
        yield BlockRefusal("api-oversize-image", text, str(len(data)))
    elif not images.is_base64(data):
        text = ".image.source.base64.data: invalid base64 data"
        yield BlockRefusal("api-damaged-image", text, str(len(data)))
    else:
        size = "At least one of the image dimensions exceed max allowed size: 8000 pixels"
        text = f".image.source.base64.data: {size} ({reason})"
        yield BlockRefusal("api-oversize-image", text, str(len(data)))


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
