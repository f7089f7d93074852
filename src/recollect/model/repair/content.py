"""Blocks that the API refuses whenever the session is resumed: bad ids, empty text, unsigned thinking, images.

One line at a time, and only its refused blocks. Where nothing is left of an answer's line it stays as a line
without blocks, which every client sends as nothing; so nothing that follows it has to be linked to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recollect.model.checks.api_400 import ID_FIELDS, block_refusals, is_blank
from recollect.model.checks.images import refusal
from recollect.model.conversation.client_words import NO_CONTENT
from recollect.model.entry import Assistant, User
from recollect.model.json.text import Json, content_of
from recollect.model.made_ids import derived_id
from recollect.model.repair.draft import RepairDraft, with_content

_WHY = {
    "call-renamed": "its call has an id that the API refuses",
    "result-renamed": "follows its call, which has a new id",
    "empty-text": "the API refuses empty text",
    "image-replaced": "an image that the API refuses; replaced by a note",
    "misplaced-block": "only the other side may send such a block",
    "thinking-removed": "thinking that the API refuses",
}
_RENAMED = {"tool_use": "call-renamed", "tool_result": "result-renamed"}


def mend_content(draft: RepairDraft, number: int) -> bool:
    """Replace or remove the refused blocks of one line; True if there were any."""
    entry = draft.entry(number)
    if entry is None or not isinstance(entry.body, User | Assistant):
        return False
    role = "user" if isinstance(entry.body, User) else "assistant"
    content = content_of(entry.fields())
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list):
        return False
    done: dict[str, None] = {}
    left = [part for block in blocks for part in _mended(role, block, done)]
    if role == "user" and is_blank(role, [part for part in left if isinstance(part, dict)]):
        done.setdefault("empty-text")
        left = [{"type": "text", "text": NO_CONTENT}]
    for index, code in enumerate(done):
        if index == 0:
            draft.change(number, with_content(entry, left), code, _WHY[code])
        else:
            draft.act(code, number, _WHY[code], entry.uuid)
    return bool(done)


def _mended(role: str, block: Any, done: dict[str, None]) -> Iterator[Any]:
    codes = {one.code for one in block_refusals(role, block)} if isinstance(block, dict) else set()
    if not codes:
        yield block
    elif "api-misplaced-block" in codes:
        done.setdefault("misplaced-block")
    elif "api-empty-text" in codes:
        done.setdefault("empty-text")
    elif block["type"] == "image":
        yield _noted(block, done)
    elif block["type"] in _RENAMED:
        yield _with_sound_parts(block, codes, done)
    else:
        done.setdefault("thinking-removed")


def _with_sound_parts(block: Json, codes: set[str], done: dict[str, None]) -> Json:
    """A call or a result with an id that the API takes, and without images that it refuses."""
    mended, field = dict(block), ID_FIELDS[block["type"]]
    if "api-bad-call-id" in codes:
        done.setdefault(_RENAMED[block["type"]])
        # The same new id for the call and for its result.
        mended[field] = derived_id("toolu_", str(block.get(field)))
    if isinstance(block.get("content"), list):
        mended["content"] = [_noted(part, done) for part in block["content"]]
    return mended


def _noted(part: Any, done: dict[str, None]) -> Any:
    is_image = isinstance(part, dict) and part.get("type") == "image"
    reason = refusal(part) if is_image else None
    if reason is None:
        return part
    done.setdefault("image-replaced")
    return {"type": "text", "text": f"[Image removed: {reason}]"}
