"""Each shape the three dialects are described with becomes the right kind, told from its line alone."""

from __future__ import annotations

import json
from typing import TypeVar

import pytest

from recollect.model.blocks import TextBlock, ToolUseBlock
from recollect.model.codec import decode, encode
from recollect.model.cost.usage import Usage
from recollect.model.damage import Line
from recollect.model.entry import (
    Assistant,
    Body,
    Dialect,
    Entry,
    FileHistoryNote,
    Kind,
    RawMessage,
    Summary,
    System,
    ToolCallBody,
    ToolResultBody,
    UnknownBody,
    User,
)
from recollect.model.line_views.facts import facts_of
from recollect.model.line_views.usage import plain_answer

B = TypeVar("B", bound=Body)
EVENT = {"timestamp": "2025-12-01T08:00:00Z", "uuid": "e-1", "session_id": "s-1"}


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

    def test_a_prompt_is_text_with_a_time(self) -> None:
        """A flat prompt has its words in ``content`` beside ``type`` and ``timestamp``."""
        body = body_of(
            User, Dialect.FLAT, type="user", content="Who am I?", timestamp="2025-11-16T10:30:00.000Z"
        )

        assert (RawMessage("Who am I?", "user"), "2025-11-16T10:30:00.000Z") == (body.message, body.timestamp)

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

    def test_a_result_has_any_json(self) -> None:
        """``result`` is kept as it stands, whatever it is."""
        body = body_of(
            ToolResultBody, Dialect.FLAT, type="tool_result", tool="Read", result=[1, None], duration_ms=543
        )

        assert (b"[1, null]", 543, None) == (bytes(body.content or b""), body.duration_ms, body.call_id)

    def test_a_failure_has_an_error_instead(self) -> None:
        """``error`` is text; there is no result beside it."""
        body = body_of(
            ToolResultBody, Dialect.FLAT, type="tool_result", tool="Read", error="gone", toolCallId="call_7"
        )

        assert ("gone", "call_7", None) == (body.error, body.call_id, body.content or None)

    def test_a_call_without_a_name_is_not_one(self) -> None:
        """A line of a flat type in another shape is kept as unknown, never dropped."""
        body = body_of(UnknownBody, Dialect.CLAUDE, type="tool_call", arguments={})

        assert "tool_call" == body.type_name

    def test_content_may_be_blocks(self) -> None:
        """Our own flat logs keep a list of blocks where text is not all there is."""
        body = body_of(User, Dialect.FLAT, type="user", content=[{"type": "text", "text": "see"}])

        assert [TextBlock("see")] == body.message.blocks


class TestEvents:
    """Seed 003: one event a line, ``session_id`` with an underscore."""

    def test_a_prompt_has_a_message(self) -> None:
        """A user event carries an API message and its session under ``session_id``."""
        message = {"role": "user", "content": "List it"}
        body = body_of(User, Dialect.EVENTS, type="user", message=message, **EVENT)

        assert (RawMessage("List it", "user"), "s-1", "e-1") == (body.message, body.session_id, body.uuid)

    def test_an_answer_has_a_message(self) -> None:
        """An assistant event's blocks are read as everywhere else."""
        call = {"type": "tool_use", "id": "toolu_01", "name": "ls", "input": {}}
        message = {"role": "assistant", "model": "m", "content": [call]}
        body = body_of(Assistant, Dialect.EVENTS, type="assistant", message=message, **EVENT)

        blocks = [block for block in body.message.blocks if isinstance(block, ToolUseBlock)]
        assert [("toolu_01", "ls")] == [(block.id, block.name) for block in blocks]

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

    def test_a_result_is_an_event(self) -> None:
        """``tool_result`` events name their call by ``tool_use_id``; that alone tells the dialect."""
        body = body_of(
            ToolResultBody, Dialect.EVENTS, type="tool_result", tool_use_id="toolu_01", content="a\nb"
        )

        assert ("toolu_01", b'"a\\nb"', None) == (body.call_id, bytes(body.content or b""), body.error)

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

    def test_a_system_event_is_a_note(self) -> None:
        """A system event keeps its text."""
        body = body_of(System, Dialect.EVENTS, type="system", content="hello", **EVENT)

        assert ("hello", "s-1") == (body.text, body.session_id)


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

    def test_a_summary_may_hold_an_object(self) -> None:
        """A summary with a ``content`` object is a summary like the one-line kind."""
        content = {"summary": "They talked.", "messageCount": 10, "summarizedUntil": "u-9"}
        body = body_of(Summary, Dialect.CLAUDE, type="summary", sessionId="s", content=content)

        assert ("They talked.", 10, "u-9", "s") == (
            body.summary,
            body.message_count,
            body.leaf_uuid,
            body.session_id,
        )

    def test_a_plain_summary_is_a_title(self) -> None:
        """The client's own summary has text and the leaf it speaks of."""
        body = body_of(Summary, Dialect.CLAUDE, type="summary", summary="Fix it", leafUuid="u-1")

        assert ("Fix it", "u-1", None) == (body.summary, body.leaf_uuid, body.message_count)

    def test_file_history_names_a_file(self) -> None:
        """A ``file-history`` line tells which file was touched and how."""
        body = body_of(
            FileHistoryNote, Dialect.CLAUDE, type="file-history", path="/a/b", operation="edit", snippet="+1"
        )

        assert ("/a/b", "edit", "+1") == (body.path, body.operation, body.snippet)

    def test_a_system_entry_may_have_a_message(self) -> None:
        """The text of a system entry is found in ``message`` as well."""
        message = {"role": "system", "content": "Be brief"}
        body = body_of(System, Dialect.CLAUDE, type="system", sessionId="s", message=message)

        assert "Be brief" == body.text

    def test_cost_and_duration_on_an_answer(self) -> None:
        """``costUSD`` and ``durationMs`` of the first clients are read where they stand."""
        message = {"role": "assistant", "content": [{"type": "text", "text": "x"}]}
        body = body_of(
            Assistant, Dialect.CLAUDE, type="assistant", message=message, costUSD=0.25, durationMs=1200
        )

        assert (0.25, 1200) == (body.cost_usd, body.duration_ms)

    def test_a_model_on_the_top_level_does_no_harm(self) -> None:
        """Seed 004 puts ``model`` beside the message; the line is an answer all the same."""
        message = {"role": "assistant", "content": []}
        entry = entry_of(type="assistant", message=message, model="m", sessionId="s")

        assert (Kind.ASSISTANT, "m") == (entry.kind, entry.fields()["model"])


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
    answer = plain_answer(line, False)
    assert answer is not None

    models = {entry.body.message.model, facts.response.model, answer.model}
    assert {"claude-sonnet-4-5-20250929"} == models
