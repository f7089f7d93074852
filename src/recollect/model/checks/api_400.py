"""What would be sent on resume, checked against the rules whose violation the API answers with a permanent
400.

The list comes from ``model/conversation/api.py``, after everything that client 2.1.325 repairs by itself. A
violation found here recurs at every prompt until the log is repaired. Each finding quotes the API's message,
so that a user who has seen that message can search for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct

from recollect.model.checks import RuleViolation, images
from recollect.model.entry import Entry

Json = dict[str, Any]
_NOT_OF_USERS = frozenset(["thinking", "redacted_thinking", "tool_use"])
_NOT_OF_MODELS = frozenset(["tool_result", "image"])
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_SHOWS_ITS_THINKING = re.compile(r"claude-(?:3-|(?:sonnet|haiku)-4|opus-4(?:-[0156])?(?:-\d{8})?$)")


# Further violations in one conversation are counted, not located.
_MOST_PLACES = 500


class _ApiRefusal(Struct, frozen=True):
    code: str
    message: str
    block: Json | None = None
    call: str | None = None


def api_faults(messages: Sequence[Json], entries: Sequence[Entry], model: str) -> Iterator[RuleViolation]:
    """Every rule that the messages break, placed at the entry that breaks it."""
    places = _BlockSources(entries)
    for refused in _refusals(messages, model):
        entry = places.of(refused)
        offset, uuid = (entry.offset, entry.uuid) if entry is not None else (None, None)
        what = f"the API answers 400: {refused.message}"
        yield RuleViolation(refused.code, what, offset, uuid, subject=refused.call or "")


def _refusals(messages: Sequence[Json], model: str) -> Iterator[_ApiRefusal]:
    conversation = [one for one in messages if one["role"] != "system"]
    called: set[Any] = set()
    for number, one in enumerate(conversation):
        blocks = _blocks(one)
        if all(map(is_empty_text, blocks)) and (one["role"] == "user" or not blocks):
            text = f"messages.{number}: user messages must have non-empty content"
            yield _ApiRefusal("api-empty-content", text, blocks[0] if blocks else None)
        before = _ids(conversation[number - 1], "tool_use", "id") if number else []
        following = conversation[number + 1] if number + 1 < len(conversation) else None
        yield from _pairing(one, number, before, following, called)
        for index, block in enumerate(blocks):
            if misplaced(one["role"], block):
                kind, who = block.get("type"), one["role"]
                text = (
                    f"messages.{number}.content.{index}: `{kind}` blocks are not allowed in `{who}` messages"
                )
                yield _ApiRefusal("api-misplaced-block", text, block)
                continue
            # Empty text of the user is left out by the client where it has something else to send (measured).
            if one["role"] != "user" or block.get("type") != "text":
                yield from _of_block(block, f"messages.{number}.content.{index}", model)


def is_call_id(name: object) -> bool:
    return isinstance(name, str) and _CALL_ID.match(name) is not None


def misplaced(role: object, block: Json) -> bool:
    """Whether a block is of a kind that only the other role may send."""
    return block.get("type") in (_NOT_OF_USERS if role == "user" else _NOT_OF_MODELS)


def is_empty_text(block: Json) -> bool:
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def shows_its_thinking(model: str) -> bool:
    """Whether a model returns its thinking as text. For such a model, missing text means it was removed."""
    return _SHOWS_ITS_THINKING.match(model) is not None


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _ids(message: Json, kind: str, name: str) -> list[Any]:
    return [block.get(name) for block in _blocks(message) if block.get("type") == kind]


def _pairing(
    one: Json, number: int, before: list[Any], following: Json | None, called: set[Any]
) -> Iterator[_ApiRefusal]:
    # If no user turn follows, the client inserts one with a result that says "missing" (measured).
    is_closed = following is None or following["role"] != "user"
    answers = [] if following is None else _ids(following, "tool_result", "tool_use_id")
    for name in _ids(one, "tool_use", "id"):
        if name in called:
            yield _ApiRefusal("api-repeated-call", "messages: `tool_use` ids must be unique", call=str(name))
        called.add(name)
        if name not in answers and not is_closed:
            text = f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            yield _ApiRefusal("api-unpaired-call", text + str(name)[:60], call=str(name))
        if not is_call_id(name):
            text = f"messages.{number}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            yield _ApiRefusal("api-bad-call-id", text, call=str(name))
    results = _ids(one, "tool_result", "tool_use_id")
    for position, name in enumerate(results):
        if name not in before or name in results[:position]:
            text = (
                f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {str(name)[:60]}"
            )
            yield _ApiRefusal("api-unpaired-result", text, call=str(name))


def _of_block(block: Json, place: str, model: str) -> Iterator[_ApiRefusal]:
    kind = block.get("type")
    if is_empty_text(block):
        yield _ApiRefusal("api-empty-text", f"{place}: text content blocks must be non-empty", block)
    elif kind == "thinking" and not block.get("signature"):
        yield _ApiRefusal("api-unsigned-thinking", f"{place}.thinking.signature: Field required", block)
    elif kind == "thinking" and not block.get("thinking") and shows_its_thinking(model):
        text = f"{place}.thinking: each thinking block must contain thinking"
        yield _ApiRefusal("api-emptied-thinking", text, block)
    elif kind == "redacted_thinking" and not block.get("data"):
        yield _ApiRefusal("api-emptied-thinking", f"{place}.redacted_thinking.data: Field required", block)
    elif kind == "image":
        yield from _of_image(block, place)
    elif kind == "tool_result" and isinstance(block.get("content"), list):
        for index, part in enumerate(block["content"]):
            if isinstance(part, dict):
                yield from _of_block(part, f"{place}.tool_result.content.{index}", model)


def _of_image(block: Json, place: str) -> Iterator[_ApiRefusal]:
    reason = images.refusal(block)
    if reason is None:
        return
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(data, str) or not data.strip():
        text = f"{place}.image.source.base64: image cannot be empty"
        yield _ApiRefusal("api-empty-image", text, block)
    elif len(data) > images.MOST_BYTES:
        sizes = f"{len(data)} bytes > {images.MOST_BYTES} bytes"
        text = f"{place}.image.source.base64: image exceeds 5 MB maximum: {sizes}"
        yield _ApiRefusal("api-oversize-image", text, block)
    else:
        text = f"{place}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
        yield _ApiRefusal("api-oversize-image", f"{text} ({reason})", block)


class _BlockSources:
    """Maps a block of the list to the entry it came from; the client merges several entries into one message.

    Refusals come in conversation order, so each search starts where the last one ended.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._next = 0
        self._lookups = 0

    def of(self, refused: _ApiRefusal) -> Entry | None:
        """The entry that holds the block or the id. Equal blocks are assigned to successive entries."""
        self._lookups += 1
        if self._lookups > _MOST_PLACES:
            return None
        total = len(self._entries)
        for number in chain(range(self._next, total), range(self._next)):
            entry = self._entries[number]
            if refused.block is not None and _holds(entry, refused.block):
                self._next = number + 1
                return entry
            if refused.block is None and refused.call is not None and refused.call.encode() in entry.raw:
                return entry
        return None


def _holds(entry: Entry, block: Json) -> bool:
    kind = block.get("type")
    if kind != "text" and str(kind).encode() not in entry.raw:
        return False
    message = entry.fields().get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return kind == "text" and content == block.get("text")
    return isinstance(content, list) and any(_is_or_holds(one, block) for one in content)


def _is_or_holds(one: object, block: Json) -> bool:
    if one == block:
        return True
    inner = one.get("content") if isinstance(one, dict) else None
    return isinstance(inner, list) and block in inner
