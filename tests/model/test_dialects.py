"""Each shape the three dialects are described with becomes the right kind, told from its line alone."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from recollect.model.lines.blocks import Usage
from recollect.model.lines.codec import decode, encode
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import (
    Assistant,
    Body,
    Dialect,
    Entry,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    User,
)
from recollect.model.views.facts import facts_of

B = TypeVar("B", bound=Body)


def entry_of(**fields: object) -> Entry:
    entry = decode(Line(json.dumps(fields).encode()))
    assert isinstance(entry, Entry)
    return entry


def body_of(kind: type[B], dialect: Dialect, **fields: object) -> B:
    entry = entry_of(**fields)
    assert (dialect, kind) == (entry.dialect, type(entry.body))
    assert isinstance(entry.body, kind)
    return entry.body


class TestFlat:
    """Seed 002: everything on the top level."""

    def test_a_prompt_may_say_where_it_comes_from(self) -> None:
        """``metadata`` holds the session and the program a prompt came from."""
        origin = {"source": "api", "sessionId": "2025-11-16"}
        body = body_of(User, Dialect.FLAT, type="user", content="x", metadata=origin)

        assert ("2025-11-16", "api") == (body.session_id, body.entrypoint)

    def test_an_answer_has_counts_under_other_names(self) -> None:
        """``cache_creation_tokens`` and ``cache_read_tokens`` are the API's ``..._input_tokens``."""
        counts = {"input_tokens": 7, "output_tokens": 5, "cache_creation_tokens": 3, "cache_read_tokens": 2}
        body = body_of(
            Assistant,
            Dialect.FLAT,
            type="assistant",
            content="You.",
            usage=counts,
            model="m-1",
            stopReason="end_turn",
        )

        message = body.message
        assert Usage(7, 5, 3, 2) == message.usage
        assert ("You.", "m-1", "end_turn") == (message.content, message.model, message.stop_reason)

    def test_a_call_stands_on_its_own_line(self) -> None:
        """``tool``, ``arguments`` and ``toolCallId`` make a call."""
        body = body_of(
            ToolCallBody,
            Dialect.FLAT,
            type="tool_call",
            tool="Read",
            arguments={"file_path": "/a"},
            toolCallId="call_7",
        )

        assert ("Read", "call_7", b'{"file_path": "/a"}') == (body.name, body.call_id, bytes(body.input))

    def test_a_call_without_a_name_is_not_one(self) -> None:
        """A line of a flat type in another shape is kept as unknown, never dropped."""
        body = body_of(UnknownBody, Dialect.CLAUDE, type="tool_call", arguments={})

        assert "tool_call" == body.type_name


class TestEvents:
    """Seed 003: one event a line, ``session_id`` with an underscore."""

    def test_a_call_is_an_event(self) -> None:
        """``tool_use`` events carry id, name and input on the top level."""
        body = body_of(
            ToolCallBody,
            Dialect.EVENTS,
            type="tool_use",
            tool_use_id="toolu_01",
            name="ls",
            input={"path": "src/"},
        )

        assert ("ls", "toolu_01", b'{"path": "src/"}') == (body.name, body.call_id, bytes(body.input))

    def test_a_failed_result_tells_its_error(self) -> None:
        """``is_error`` turns the content into the error."""
        body = body_of(
            ToolResultBody,
            Dialect.EVENTS,
            type="tool_result",
            tool_use_id="toolu_01",
            content="no",
            is_error=True,
        )

        assert "no" == body.error


class TestClaude:
    """Shapes that only other writers of the claude dialect use."""

    def test_a_foreign_session_id_beside_our_own_changes_nothing(self) -> None:
        """A line with both ``sessionId`` and ``session_id`` is the client's: it never leaves its own out."""
        entry = entry_of(
            type="user", message={"role": "user", "content": "x"}, sessionId="ours", session_id="theirs"
        )

        assert (Dialect.CLAUDE, "ours") == (entry.dialect, entry.session_id)

    def test_words_about_a_session_id_do_not_make_an_event(self) -> None:
        """The field name inside a text is no field."""
        message = {"role": "user", "content": 'what is "session_id"?'}
        entry = entry_of(type="user", message=message, sessionId="ours", uuid="u", parentUuid=None)

        assert Dialect.CLAUDE == entry.dialect


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"user","content":"x"}',
        b'{ "content" : "x" , "type":"tool_result", "tool":"", "odd": 1.50 }',
        b'{"type":"tool_use","tool_use_id":"t","name":"ls","input":{"a":1e3}}',
        b'{"type":"assistant","session_id":"s","message":{"content":"x"},"zz":null}',
    ],
)
def test_every_dialect_comes_out_as_it_went_in(line: bytes) -> None:
    """An unchanged line is written back byte for byte, whatever dialect it is in (P5)."""
    entry = decode(Line(line))

    assert isinstance(entry, Entry)
    assert line + b"\n" == encode(entry)


def test_a_model_beside_the_message_is_the_answers_model() -> None:
    """Seed 004 writes ``model`` on the line: it is read by the codec and priced by every view."""
    line = (
        b'{"type":"assistant","sessionId":"s","uuid":"u","parentUuid":"p","timestamp":"2026-01-01T00:00:00Z",'
        b'"message":{"role":"assistant","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":7}},'
        b'"requestId":"req_1","model":"claude-sonnet-4-5-20250929"}'
    )
    entry, facts = decode(Line(line)), facts_of(line)
    assert isinstance(entry, Entry)
    assert isinstance(entry.body, Assistant)
    assert facts is not None
    assert facts.response is not None
    models = {entry.body.message.model, facts.response.model}
    assert {"claude-sonnet-4-5-20250929"} == models
