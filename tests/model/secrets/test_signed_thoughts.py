"""Thoughts that were changed go on as text."""

from __future__ import annotations

import json

import pytest

from recollect.model.secrets.redaction import with_plain_thoughts

THOUGHT = {"type": "thinking", "thinking": "so [redacted:jwt:1a2b3c4d] it is", "signature": "c2ln"}
SAID = {"type": "text", "text": "Hello"}


def line_of(*blocks: object) -> bytes:
    return json.dumps(
        {"uuid": "u", "message": {"role": "assistant", "content": list(blocks)}, "x": [1, 2.50]}
    ).encode()


def test_a_changed_thought_becomes_text() -> None:
    """The words stay, the signature goes; every other byte is as it was."""
    line = line_of(SAID, THOUGHT)
    plain = with_plain_thoughts(line, ["message.content[1].thinking", "uuid"])

    assert {"type": "text", "text": THOUGHT["thinking"]} == json.loads(plain)["message"]["content"][1]
    start = line.index(b'{"type": "thinking"')
    assert (line[:start], line[-20:]) == (plain[:start], plain[-20:])


@pytest.mark.parametrize(
    "fields", [[], ["message.content[0].text"], ["toolUseResult.thinking"], ["message.content[9].thinking"]]
)
def test_other_changes_leave_thoughts_alone(fields: list[str]) -> None:
    """A thought that was not changed keeps its signature."""
    assert line_of(THOUGHT) == with_plain_thoughts(line_of(THOUGHT), fields)


@pytest.mark.parametrize("thought", [{**THOUGHT, "signature": ""}, {"type": "thinking", "thinking": "x"}])
def test_without_a_signature_there_is_nothing_to_break(thought: dict[str, str]) -> None:
    """It stays a thought."""
    assert line_of(thought) == with_plain_thoughts(line_of(thought), ["message.content[0].thinking"])


@pytest.mark.parametrize("line", [b"", b"{torn", b'{"message":3}', b'{"message":{"content":"text"}}', b"[]"])
def test_odd_lines_stay_as_they_are(line: bytes) -> None:
    """Nothing is raised for what others wrote."""
    assert line == with_plain_thoughts(line, ["message.content[0].thinking"])


def test_half_a_surrogate_pair_keeps_no_signature_alive() -> None:
    """In the changed thoughts or beside them; what was written stays as it was written."""
    half, other = {**THOUGHT, "thinking": "so \ud83d it is"}, {**THOUGHT, "signature": "b3RoZXI="}
    line = line_of({"type": "text", "text": "\udc00 Hello"}, half, other)
    plain = with_plain_thoughts(line, ["message.content[1].thinking", "message.content[2].thinking"])

    said = [{"type": "text", "text": text} for text in ("\udc00 Hello", half["thinking"], other["thinking"])]
    assert said == json.loads(plain)["message"]["content"]
