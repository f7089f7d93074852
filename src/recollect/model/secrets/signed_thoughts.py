"""Thoughts that were changed, made fit to be sent again.

A model's thought goes back to it with a signature over its words; with other words the API refuses the
whole conversation, for ever. So a thought that had a secret in it becomes plain text: it says the same
without the secret, and the session goes on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Raw

from recollect.model.json_text import without_lone_surrogates

_FIELD = re.compile(r"message\.content\[([0-9]{1,6})\]\.thinking")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def with_plain_thoughts(line: bytes, changed: Iterable[str]) -> bytes:
    """A line whose ``changed`` fields are named by path; all else stays as it is, byte for byte."""
    numbers = {int(match[1]) for field in changed if (match := _FIELD.fullmatch(field))}
    if not numbers:
        return line
    # Half a surrogate pair is nothing a parser takes; without it the line is as long, and everything where it was.
    readable = without_lone_surrogates(line)
    try:
        fields = msgspec.json.decode(readable, type=dict[str, Raw])
        message = msgspec.json.decode(fields["message"], type=dict[str, Raw])
        blocks = msgspec.json.decode(message["content"], type=list[Raw])
        signed = [bytes(blocks[number]) for number in sorted(numbers, reverse=True) if number < len(blocks)]
        for block in signed:
            # A signature is never the same twice, so the bytes of a signed thought stand in a line once.
            start = readable.index(block)
            end = start + len(block)
            line = line[:start] + _plain(line[start:end], block) + line[end:]
    except (*_NOT_JSON, KeyError):
        return line
    return line


def _plain(written: bytes, block: bytes) -> bytes:
    """A thought as plain text, of its bytes as written; ``block`` has the same ones as a parser takes them."""
    parts = msgspec.json.decode(block, type=dict[str, Raw])
    if bytes(parts.get("signature", b'""')) == b'""' or "thinking" not in parts:
        return written
    thought = bytes(parts["thinking"])
    start = block.index(thought)
    return b'{"type":"text","text":' + written[start : start + len(thought)] + b"}"
