"""The blocks of a message as they stand in the log: undecoded, byte for byte, with every field nobody knows.

A line that is odd (no text encoding, content of another shape) has none to be had so; then its blocks are what the
codec could make of them.
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
    """What the message of a line holds; None where it cannot be taken as it stands."""
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
    """What the codec made of a line's blocks."""
    return list(entry.message.blocks) if entry.message is not None else []


def as_json(block: Block) -> Raw | Block:
    """A block ready to be encoded: of a type nobody knows, the bytes it came in."""
    return Raw(block.json) if isinstance(block, UnknownBlock) else block


def text_block(text: str) -> dict[str, str]:
    """The block that content without blocks stands for."""
    return {"type": "text", "text": text}
