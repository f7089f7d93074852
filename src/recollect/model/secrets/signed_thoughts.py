"""Make changed thinking blocks safe to send again.

A thinking block has a signature over its text; with other text the API refuses the whole conversation
permanently. So a block with a redacted secret becomes plain text, and the session can be resumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Raw

from recollect.model.json.text import without_lone_surrogates

_FIELD = re.compile(r"message\.content\[([0-9]{1,6})\]\.thinking")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def with_plain_thoughts(line: bytes, changed: Iterable[str]) -> bytes:
    """A line whose ``changed`` fields are named by path; everything else stays, byte for byte."""
    numbers = {int(match[1]) for field in changed if (match := _FIELD.fullmatch(field))}
    if not numbers:
        return line
    # The parser refuses half a surrogate pair; the replacement has the same length, so offsets stay valid.
    readable = without_lone_surrogates(line)
    try:
        fields = msgspec.json.decode(readable, type=dict[str, Raw])
        message = msgspec.json.decode(fields["message"], type=dict[str, Raw])
        blocks = msgspec.json.decode(message["content"], type=list[Raw])
        signed = [bytes(blocks[number]) for number in sorted(numbers, reverse=True) if number < len(blocks)]
        for block in signed:
            # Signatures are unique, so the bytes of a signed block occur once in a line.
            start = readable.index(block)
            end = start + len(block)
            line = line[:start] + _plain(line[start:end], block) + line[end:]
    except (*_NOT_JSON, KeyError):
        return line
    return line


def _plain(written: bytes, block: bytes) -> bytes:
    """A thinking block as plain text; ``written`` has its original bytes, ``block`` those the parser accepts."""
    parts = msgspec.json.decode(block, type=dict[str, Raw])
    if bytes(parts.get("signature", b'""')) == b'""' or "thinking" not in parts:
        return written
    thought = bytes(parts["thinking"])
    start = block.index(thought)
    return b'{"type":"text","text":' + written[start : start + len(thought)] + b"}"
