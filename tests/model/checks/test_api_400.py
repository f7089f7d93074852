"""`model.checks.api_400`: what the API refuses, in its own words."""

from __future__ import annotations

import base64
import struct
from typing import Any

from recollect.model.checks.api_400 import api_faults
from recollect.model.lines import codec
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry
from tests.talk import assistant, call, encoded, result, user

Json = dict[str, Any]


def asked(content: Any) -> Json:
    return {"role": "user", "content": content}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def image(data: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    return base64.b64encode(head).decode()


def faults(*messages: Json) -> list[tuple[str, str]]:
    """Code and the words of the API, for each fault."""
    found = api_faults(list(messages), [])
    return [(one.code, one.what.removeprefix("the API answers 400: ")) for one in found]


def test_what_stands_inside_a_result_is_refused_as_well() -> None:
    """An image without data that a tool gave back."""
    found = faults(asked("Q"), said(call("t1")), asked([result("t1", [image("")])]))

    assert [
        (
            "api-empty-image",
            "messages.2.content.0.tool_result.content.0.image.source.base64: image cannot be empty",
        )
    ] == found


def test_the_fault_is_placed_at_the_entry_that_holds_the_block() -> None:
    """Two equal blocks in two entries give two places."""
    bad = {"type": "thinking", "thinking": "hm"}
    lines = [
        user("u1", None, 0, "Q"),
        assistant("a1", "u1", 1, [bad]),
        user("u2", "a1", 2, "Q"),
        assistant("a2", "u2", 3, [bad]),
    ]
    entries: list[Entry] = []
    offset = 0
    for line in encoded(lines).splitlines():
        entry = codec.decode(Line(line, offset))
        assert isinstance(entry, Entry)
        entries.append(entry)
        offset += len(line) + 1
    found = api_faults([asked("Q"), said(bad), asked("Q"), said(bad)], entries)

    assert [(entries[1].offset, "a1"), (entries[3].offset, "a2")] == [(one.offset, one.uuid) for one in found]


def test_an_id_that_is_no_text_is_refused() -> None:
    """A number is no id, whatever its digits."""
    assert ["api-bad-call-id"] * 3 == [
        faults(said({**call("t1"), "id": name}))[0][0] for name in (5, None, "a b")
    ]
