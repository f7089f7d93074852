"""The blocks of a message as they are in the log: undecoded, byte for byte, with all unknown fields.

This is not possible for an odd line (invalid text encoding, content of another shape); its blocks are then
what the codec could decode.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from recollect.model.blocks import Block, UnknownBlock
from recollect.model.conversation.conversation import Message
from recollect.model.entry import Assistant, Entry, User
from recollect.model.line_views.content import content_line
from recollect.model.line_views.view import REFUSED

_written = msgspec.json.Decoder(str | list[Raw])


def content_of(entry: Entry) -> str | list[Raw] | None:
    """The undecoded content of a line's message; None where it is not available."""
    try:
        entry.raw.decode()
        line = content_line.narrowly(entry.raw)
        return None if line is None or line.content is None else _written.decode(line.content)
    except REFUSED:
        return None


def is_said(spoken: Message) -> bool:
    """Whether all its lines hold messages, and not notes of the client."""
    return all(isinstance(entry.body, User | Assistant) for entry in spoken.entries)


def made_of(entry: Entry) -> list[Block]:
    """The line's blocks as decoded by the codec."""
    return list(entry.message.blocks) if entry.message is not None else []


def as_json(block: Block) -> Raw | Block:
    """A block ready for encoding; for an unknown type, its original bytes."""
    return Raw(block.json) if isinstance(block, UnknownBlock) else block


def text_block(text: str) -> dict[str, str]:
    """The block that plain text content is equivalent to."""
    return {"type": "text", "text": text}
