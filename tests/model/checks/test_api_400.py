"""`model.checks.api_400`: what the API refuses, in its own words."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from recollect.model import codec
from recollect.model.checks.api_400 import api_faults
from recollect.model.damage import Line
from recollect.model.entry import Entry
from tests.talk import assistant, call, encoded, result, user

Json = dict[str, Any]


def asked(content: Any) -> Json:
    return {"role": "user", "content": content}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def image(data: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def png(width: int, height: int) -> str:
    head = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(30)
    return base64.b64encode(head).decode()


def faults(*messages: Json) -> list[tuple[str, str]]:
    """Code and the words of the API, for each fault."""
    found = api_faults(list(messages), [])
    return [(one.code, one.what.removeprefix("the API answers 400: ")) for one in found]


SOUND = [
    asked("Q"),
    said({"type": "thinking", "thinking": "hm", "signature": "s"}, text("A"), call("t1"), call("t2")),
    asked([result("t1", ""), result("t2", [text("R"), image(png(8000, 8000))]), text("more")]),
    said(text("end")),
]


def test_a_sound_list_has_no_faults() -> None:
    """Signed thinking, paired calls, an empty result and an image of exactly 8000 pixels are fine."""
    assert [] == faults(*SOUND)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [asked("Q"), said(call("a b")), asked([result("toolu_1")])],
            (
                "api-bad-call-id",
                "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
            ),
        ),
        (
            [asked("Q"), said(text(" "), text("A"))],
            ("api-empty-text", "messages.1.content.0: text content blocks must be non-empty"),
        ),
        ([asked("")], ("api-empty-content", "messages.0: user messages must have non-empty content")),
        (
            [asked("Q"), said({"type": "thinking", "thinking": "hm"}, text("A"))],
            ("api-unsigned-thinking", "messages.1.content.0.thinking.signature: Field required"),
        ),
        (
            [asked("Q"), said({"type": "thinking", "signature": "s"}, text("A"))],
            ("api-emptied-thinking", "messages.1.content.0.thinking.thinking: Field required"),
        ),
        (
            [asked("Q"), said({"type": "redacted_thinking", "data": ""}, text("A"))],
            ("api-emptied-thinking", "messages.1.content.0.redacted_thinking.data: Field required"),
        ),
        (
            [asked([call("t1"), text("Q")])],
            (
                "api-misplaced-block",
                "messages.0.content.0: `tool_use` blocks are not allowed in `user` messages",
            ),
        ),
        (
            [asked([image(""), text("Q")])],
            ("api-empty-image", "messages.0.content.0.image.source.base64: image cannot be empty"),
        ),
        (
            [asked([image("iVBORw0KGgo[REDACTED]AAA"), text("Q")])],
            (
                "api-damaged-image",
                "messages.0.content.0.image.source.base64.data: invalid base64 data",
            ),
        ),
        (
            [asked([image("A" * 5_242_884), text("Q")])],
            (
                "api-oversize-image",
                "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 5242884 bytes > 5242880 bytes",
            ),
        ),
    ],
)
def test_what_the_api_refuses(messages: list[Json], expected: tuple[str, str]) -> None:
    """The code, and the message that people have seen."""
    assert [expected] == faults(*messages)


def test_an_image_that_is_too_wide() -> None:
    """By the size its header tells."""
    ((code, words),) = faults(asked([image(png(8001, 1)), text("Q")]))

    assert ("api-oversize-image", True) == (code, "8000 pixels" in words)


def test_what_stands_inside_a_result_is_refused_as_well() -> None:
    """An image without data that a tool gave back."""
    found = faults(asked("Q"), said(call("t1")), asked([result("t1", [image("")])]))

    assert [
        (
            "api-empty-image",
            "messages.2.content.0.tool_result.content.0.image.source.base64: image cannot be empty",
        )
    ] == found


def test_empty_thinking_with_a_signature_is_sound() -> None:
    """The API returns it where the display of thinking is omitted, whatever the model."""
    thought = {"type": "thinking", "thinking": "", "signature": "s"}

    assert [] == faults(asked("Q"), said(thought, text("A")))


def test_empty_text_inside_a_result_is_sound() -> None:
    """Tools without output give it, and the API takes it."""
    assert [] == faults(asked("Q"), said(call("t1")), asked([result("t1", [text("")])]))


def test_the_id_of_a_result_is_named_like_that_of_its_call() -> None:
    """Both lines have to change, so both are named."""
    found = faults(asked("Q"), said(call("a b")), asked([result("a b")]))

    assert ["api-bad-call-id", "api-bad-call-id"] == [code for code, _ in found]


def test_empty_text_beside_other_text_of_the_user_is_left_out_by_the_client() -> None:
    """It is not sent, so it is no fault."""
    assert [] == faults(asked([text(""), text("Q")]))


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
