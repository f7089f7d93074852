"""Blocks come out of a line as they went in; where they cannot, what the codec made of them."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw, structs

from recollect.model.conversation.conversation import as_json, content_of, made_of, text_block
from recollect.model.lines.blocks import TextBlock, UnknownBlock
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry


def _entry(content: Any) -> Entry:
    line = {"type": "user", "uuid": "u", "parentUuid": None, "message": {"role": "user", "content": content}}
    found = decode(Line(json.dumps(line).encode(), 0))
    assert isinstance(found, Entry)
    return found


def test_blocks_keep_their_bytes() -> None:
    """Spaces, order and a field nobody knows."""
    raw = b'{"type":"user","uuid":"u","message":{"role":"user","content":[{ "text":"a", "type":"text", "new": 1 }]}}'
    entry = decode(Line(raw, 0))
    assert isinstance(entry, Entry)
    content = content_of(entry)
    assert isinstance(content, list)
    assert [b'{ "text":"a", "type":"text", "new": 1 }'] == [bytes(block) for block in content]


def test_plain_content_is_its_text() -> None:
    """And stands for one text block."""
    assert content_of(_entry("hello")) == "hello"
    assert text_block("hello") == {"type": "text", "text": "hello"}


def test_content_of_another_shape_is_none() -> None:
    """A number where blocks should be."""
    raw = b'{"type":"user","uuid":"u","message":{"role":"user","content":7}}'
    assert content_of(structs.replace(_entry("x"), raw=raw)) is None


def test_what_the_codec_made_of_a_line() -> None:
    """Known blocks as such, unknown ones as the bytes they came in."""
    known, unknown = made_of(_entry([{"type": "text", "text": "a"}, {"type": "hologram", "depth": 3}]))
    assert isinstance(known, TextBlock)
    assert as_json(known) is known
    assert isinstance(unknown, UnknownBlock)
    shown = as_json(unknown)
    assert isinstance(shown, Raw)
    assert json.loads(bytes(shown)) == {"type": "hologram", "depth": 3}
