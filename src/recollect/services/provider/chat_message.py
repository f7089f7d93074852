"""A message in the terms of agent frameworks, and the draft a log stores for it.

``ChatMessage`` is the same type for writing and reading. A role without a line type, or content that no
client would load, is refused with ``UsageError`` before anything is written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET, Struct

from recollect.errors import UsageError
from recollect.model import draft
from recollect.model.blocks import (
    BashExecutionResultBlock,
    Block,
    CodeExecutionResultBlock,
    McpToolResultBlock,
    McpToolUseBlock,
    ServerToolUseBlock,
    TextBlock,
    TextEditorResultBlock,
    ToolResultBlock,
    ToolUseBlock,
    WebFetchResultBlock,
    WebSearchResultBlock,
    decode_block,
)
from recollect.model.brief_repr import brief_repr
from recollect.model.cost.usage import Usage
from recollect.model.json.strict import json_of
from recollect.storage.store import PlacedDraft

UNKNOWN_MODEL = "unknown"
"""Stored for an answer without a model; its tokens are counted and reported as unpriced."""

CALLS = (ToolUseBlock, ServerToolUseBlock, McpToolUseBlock)
RESULTS = (
    ToolResultBlock,
    WebSearchResultBlock,
    WebFetchResultBlock,
    CodeExecutionResultBlock,
    BashExecutionResultBlock,
    TextEditorResultBlock,
    McpToolResultBlock,
)


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message, to be logged or as it was read.

    ``role`` is user, assistant or system. ``content`` is text, or blocks: ours, or mappings in Messages API
    form; a message read back has text where it is a single text. Only these two are required for logging.
    ``uuid`` makes a repeat harmless, ``parent_uuid`` starts a branch there, ``at`` is its time (default:
    now), the rest describes an answer.
    """

    role: str
    content: str | Sequence[Block | Mapping[str, Any]]
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    at: dt.datetime | None = None
    model: str | None = None
    usage: Usage | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    is_meta: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The content as blocks of ours."""
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return tuple(_block(part) for part in self.content)

    @property
    def text(self) -> str:
        """Its text, one block per paragraph."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    __repr__ = brief_repr


def placed_draft(message: ChatMessage) -> PlacedDraft:
    """The draft for a log: the message, its parent and its time."""
    parent = UNSET if message.parent_uuid is None else message.parent_uuid
    return PlacedDraft(draft=_draft_of(message), parent=parent, at=utc(message.at))


def _draft_of(message: ChatMessage) -> draft.Draft:
    content = message.content if isinstance(message.content, str) else message.blocks
    match message.role:
        case "assistant":
            return draft.assistant(
                content,
                model=message.model or UNKNOWN_MODEL,
                usage=message.usage,
                message_id=message.message_id,
                request_id=message.request_id,
                stop_reason=UNSET if message.stop_reason is None else message.stop_reason,
            )
        case "user":
            return draft.user(content, is_meta=message.is_meta)
        case "system":
            return draft.system(message.text)
    raise UsageError(f"role {message.role!r} is not supported", hint="use user, assistant or system")


def _block(part: Block | Mapping[str, Any]) -> Block:
    return decode_block(json_of("content", dict(part))) if isinstance(part, Mapping) else part


def utc(moment: dt.datetime | None) -> dt.datetime | None:
    """A time without a zone counts as UTC."""
    return moment.replace(tzinfo=dt.UTC) if moment is not None and moment.tzinfo is None else moment
