"""What a client of another agent sends to its model when it resumes a session, before the new prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.blocks import Block, ThinkingBlock, ToolResultBlock, ToolUseBlock
from recollect.model.entry import Assistant, Entry, User

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
    found: list[Item] = []
    for entry in spoken:
        is_answer = isinstance(entry.body, Assistant)
        blocks = [block for block in _blocks(entry) if thinking or not isinstance(block, ThinkingBlock)]
        if isinstance(entry.body, User) and entry.body.is_compact_summary and summary_of is not None:
            found.append({"role": "user", "content": [{"type": "text", "text": summary_of}]})
            is_answer = True
        if blocks:
            role = "assistant" if is_answer else "user"
            found.append({"role": role, "content": [_plain(block) for block in blocks]})
        lost = [one.id for one in blocks if isinstance(one, ToolUseBlock) and one.id not in done]
        if lost and interrupted is not None:
            results = [{"type": "tool_result", "tool_use_id": one, "content": interrupted} for one in lost]
            found.append({"role": "user", "content": results})
    return found


def _is_sent(entry: Entry) -> bool:
    body = entry.body
    return isinstance(body, Assistant) or (isinstance(body, User) and not body.is_visible_in_transcript_only)


def _blocks(entry: Entry) -> list[Block]:
    body = entry.body
    return body.message.blocks if isinstance(body, User | Assistant) else []


def _plain(block: Block) -> Item:
    fields: Item = msgspec.json.decode(msgspec.json.encode(block))
    return {name: value for name, value in fields.items() if value is not None}
