"""What is drafted becomes lines that say it, in the shape clients load, or is refused."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from recollect.errors import UsageError
from recollect.model.lines import draft
from recollect.model.lines.blocks import (
    Block,
    CacheCreation,
    RedactedThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.draft import Stamp, claude_line, claude_lines, flat_lines
from recollect.model.lines.entry import Dialect, Entry, Kind
from recollect.model.lines.ids import derived_id, derived_uuid

UUID = "0b9f3c52-6f0e-4d0a-9f6e-0c8f6a1d2e3b"
PARENT = "5d1f8a44-2f7b-4c55-8d3a-8e2b9c7f6a10"
STAMP = Stamp(
    uuid=UUID,
    parent_uuid=PARENT,
    session_id="11111111-2222-4333-8444-555555555555",
    timestamp=dt.datetime(2026, 3, 4, 5, 6, 7, 89_999, tzinfo=dt.UTC),
    cwd="/srv/app",
    version="2.0.76",
    git_branch="main",
)
BEFORE_TYPE = (
    '{"parentUuid":"5d1f8a44-2f7b-4c55-8d3a-8e2b9c7f6a10","isSidechain":false,"userType":"external",'
    '"cwd":"/srv/app","sessionId":"11111111-2222-4333-8444-555555555555","version":"2.0.76",'
    '"gitBranch":"main",'
)
AFTER_MESSAGE = '"uuid":"0b9f3c52-6f0e-4d0a-9f6e-0c8f6a1d2e3b","timestamp":"2026-03-04T05:06:07.089Z"'


def line_of(what: draft.Draft, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(claude_line(what, with_changes(**changes)))
    return fields


def with_changes(**changes: Any) -> Stamp:
    fields = {name: getattr(STAMP, name) for name in STAMP.__struct_fields__}
    return Stamp(**(fields | changes))


def flat_of(what: draft.Draft) -> list[dict[str, Any]]:
    return [json.loads(line) for line in flat_lines(what, STAMP)]


class TestClaudeLines:
    """Section 9 of the format: what a writer must produce."""

    def test_a_prompt_has_every_field_in_the_clients_order(self) -> None:
        """The line is the one the format document spells out, compact and with its text unescaped."""
        line = claude_line(draft.user("Grüße 🙂"), STAMP).decode()

        assert (
            BEFORE_TYPE
            + '"type":"user","message":{"role":"user","content":"Grüße 🙂"},'
            + AFTER_MESSAGE
            + "}"
            == line
        )

    def test_an_answer_has_every_field_even_if_only_text_and_model_are_known(self) -> None:
        """Client 2.1.197 hangs without a model, crashes on plain text; counts and ids are never left out."""
        line = claude_line(draft.assistant("Hi", model="m-1"), STAMP).decode()

        tail = derived_id("", UUID)
        counts = (
            '{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}'
        )
        message = (
            f'"message":{{"id":"msg_{tail}","type":"message","role":"assistant","model":"m-1",'
            f'"content":[{{"type":"text","text":"Hi"}}],"stop_reason":"end_turn","stop_sequence":null,'
            f'"usage":{counts}}},"requestId":"req_{tail}",'
        )
        assert BEFORE_TYPE + '"type":"assistant",' + message + AFTER_MESSAGE + "}" == line

    def test_counts_that_are_known_are_written(self) -> None:
        """The four counts always stand there; of the others, those that have a value."""
        usage = Usage(
            input_tokens=3, cache_creation=CacheCreation(ephemeral_1h_input_tokens=4), service_tier="standard"
        )
        line = line_of(draft.assistant("Hi", model="m", usage=usage))

        expected = {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
            "cache_creation": {"ephemeral_1h_input_tokens": 4},
            "service_tier": "standard",
        }
        assert expected == line["message"]["usage"]

    @pytest.mark.parametrize(
        ("blocks", "reason"),
        [
            ([draft.text("x")], "end_turn"),
            ([draft.text("x"), draft.tool_use("toolu_1", "Bash", {})], "tool_use"),
        ],
    )
    def test_the_reason_to_stop_follows_from_the_content(self, blocks: list[Block], reason: str) -> None:
        """An answer that calls a tool stopped for it."""
        assert reason == line_of(draft.assistant(blocks, model="m"))["message"]["stop_reason"]

    def test_a_result_is_a_user_line(self) -> None:
        """A result names its call; the rich form for people stands beside the message."""
        line = line_of(draft.tool_result("toolu_1", "boom", True, "Error: boom"))

        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "boom", "is_error": True}
        assert ("user", [block]) == (line["type"], line["message"]["content"])
        assert "Error: boom" == line["toolUseResult"]

    def test_every_block_has_its_own_shape(self) -> None:
        """Blocks are written as the API defines them, without empty fields."""
        answer = line_of(
            draft.assistant(
                [
                    draft.thinking("hm", "c2ln"),
                    draft.thinking("unsigned"),
                    RedactedThinkingBlock("xx"),
                    draft.tool_use("toolu_1", "Bash", {"command": "ls"}),
                    UnknownBlock("new", b'{"type":"new","n":1}'),
                ],
                model="m",
            )
        )

        assert [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}},
            {"type": "new", "n": 1},
        ] == answer["message"]["content"]

    def test_an_image_is_base64(self) -> None:
        """A picture is given as bytes and written as base64 with its media type."""
        line = line_of(draft.user([draft.image(b"\x89PNG", "image/png")]))

        source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
        assert [{"type": "image", "source": source}] == line["message"]["content"]

    def test_handed_in_json_is_put_on_one_line(self) -> None:
        """A newline between the tokens of ready-made JSON would end the line, and with it the entry."""
        call = ToolUseBlock("toolu_1", "Bash", Raw(b'{\n  "command": "a\\nb"\n}'))
        line = claude_line(draft.assistant([call], model="m"), STAMP)

        assert b"\n" not in line
        assert {"command": "a\nb"} == json.loads(line)["message"]["content"][0]["input"]


class TestSystemNotes:
    """Section 3.4 of the format: links of the chain with a text of their own and no message."""

    def test_a_note_is_a_link_with_its_text_in_content(self) -> None:
        """Type, subtype, content, level and ``isMeta`` as the client has them, in the place the stamp names."""
        line = line_of(draft.system("Grüße 🙂"))

        assert {
            "parentUuid": PARENT,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/srv/app",
            "sessionId": "11111111-2222-4333-8444-555555555555",
            "version": "2.0.76",
            "gitBranch": "main",
            "type": "system",
            "subtype": "informational",
            "content": "Grüße 🙂",
            "isMeta": False,
            "level": "info",
            "uuid": UUID,
            "timestamp": "2026-03-04T05:06:07.089Z",
        } == line


class TestOneBlockALine:
    """Client 2.0.76 repeats the rest of a session when it meets a line with two blocks."""

    def test_each_block_gets_a_line_of_the_same_response(self) -> None:
        """Lines of one answer share its ids and counts and follow each other, a millisecond apart."""
        what = draft.assistant(
            [draft.text("a"), draft.text("b"), draft.text("c")], model="m", usage=Usage(1, 2)
        )
        first, second, third = (json.loads(line) for line in claude_lines(what, STAMP))

        assert [["a"], ["b"], ["c"]] == [
            [b["text"] for b in n["message"]["content"]] for n in (first, second, third)
        ]
        assert [PARENT, first["uuid"], second["uuid"]] == [n["parentUuid"] for n in (first, second, third)]
        assert 1 == len(
            {(n["message"]["id"], n["requestId"], str(n["message"]["usage"])) for n in (first, second, third)}
        )
        assert ["07.089Z", "07.090Z", "07.091Z"] == [n["timestamp"][-7:] for n in (first, second, third)]


class TestMetadata:
    """Lines about the session as a whole have no id and no parent."""

    def test_a_tag_starts_as_list_tools_look_for_it(self) -> None:
        """A tag is found only in lines that begin exactly with its type."""
        assert (
            b'{"type":"tag","tag":"urgent","sessionId":"11111111-2222-4333-8444-555555555555"}'
            == claude_line(draft.tag("urgent"), STAMP)
        )

    def test_a_pull_request_has_a_time(self) -> None:
        """The client writes a time on links to pull requests, so we do."""
        line = line_of(draft.metadata("pr-link", prNumber=12, prRepository="a/b"))

        assert (12, "2026-03-04T05:06:07.089Z") == (line["prNumber"], line["timestamp"])


class TestFlatLines:
    """Seed 002: four types, calls and results on lines of their own."""

    def test_a_prompt_is_one_line(self) -> None:
        """A prompt carries its text, time, session, id and the version of the format."""
        assert [
            {
                "type": "user",
                "content": "Hello",
                "timestamp": "2026-03-04T05:06:07.089Z",
                "metadata": {"sessionId": "11111111-2222-4333-8444-555555555555"},
                "uuid": UUID,
                "formatVersion": 1,
            }
        ] == flat_of(draft.user("Hello"))

    def test_an_answer_with_calls_is_several_lines(self) -> None:
        """Text first with the counts, then each call; ids are all different."""
        calls = [draft.tool_use("c1", "Read", {"p": 1}), draft.tool_use("c2", "Bash", {})]
        said, first, second = flat_of(
            draft.assistant([draft.text("Look"), *calls], model="m", usage=Usage(1, 2, 3, 4))
        )

        counts = {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3, "cache_read_tokens": 4}
        assert ("Look", "m", "tool_use", counts) == (
            said["content"],
            said["model"],
            said["stopReason"],
            said["usage"],
        )
        assert [("Read", {"p": 1}, "c1"), ("Bash", {}, "c2")] == [
            (call["tool"], call["arguments"], call["toolCallId"]) for call in (first, second)
        ]
        assert [UUID, derived_uuid(UUID, 1), derived_uuid(UUID, 2)] == [
            n["uuid"] for n in (said, first, second)
        ]

    def test_a_result_names_its_tool(self) -> None:
        """``tool`` is written even when nobody knows it: it tells the dialect."""
        (named,) = flat_of(draft.tool_result("c1", "out", tool="Read"))
        (nameless,) = flat_of(draft.tool_result("c1", "out"))

        assert ("Read", "out", "c1") == (named["tool"], named["result"], named["toolCallId"])
        assert "" == nameless["tool"]

    def test_results_and_text_of_one_prompt_are_lines_in_order(self) -> None:
        """Results come first, as the API wants them."""
        what = draft.user([draft.text("and?"), ToolResultBlock("c1", Raw(b'"r"'))])

        assert ["tool_result", "user"] == [line["type"] for line in flat_of(what)]

    def test_every_line_is_read_back_as_flat(self) -> None:
        """What is written in this dialect is recognised as this dialect."""
        drafts = [
            draft.user("x"),
            draft.assistant([draft.tool_use("c", "T", {})], model="m"),
            draft.tool_result("c"),
        ]
        entries = [decode(Line(line)) for what in drafts for line in flat_lines(what, STAMP)]

        assert [Dialect.FLAT] * 3 == [entry.dialect for entry in entries if isinstance(entry, Entry)]


class TestRefused:
    """What no client, or no reader, could make sense of is never written."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda: draft.user(""),
            lambda: draft.user([]),
            lambda: draft.user([draft.text("")]),
            lambda: draft.assistant("", model="m"),
            lambda: draft.assistant([], model="m"),
            lambda: draft.assistant("x", model=""),
            lambda: draft.system(""),
            lambda: draft.system("x", level="loud"),
            lambda: draft.tool_result("", "x"),
            lambda: draft.tool_use("", "Bash", {}),
            lambda: draft.tool_use("toolu_1", "", {}),
            lambda: draft.tool_use("toolu_1", "Bash", {"n": float("nan")}),
            lambda: draft.tool_use("toolu_1", "Bash", {"n": [float("inf")]}),
            lambda: draft.tool_use("toolu_1", "Bash", {"n": object()}),
            lambda: draft.tool_use("toolu_1", "Bash", {"n": "\ud800"}),
            lambda: draft.tool_use("toolu_1", "Bash", {"n": 10**5000}),
            lambda: draft.tool_result("toolu_1", "\udfff"),
            lambda: draft.tool_result("toolu_1", "x", tool_use_result=float("nan")),
            lambda: draft.user([draft.tool_use("toolu_1", "Bash", {})]),
            lambda: draft.user([draft.thinking("x")]),
            lambda: draft.assistant([draft.image(b"", "image/png")], model="m"),
            lambda: draft.metadata(""),
            lambda: draft.metadata("user", message={}),
            lambda: draft.metadata("note", uuid="x"),
            lambda: draft.metadata("note", type="x"),
            lambda: draft.metadata("note", value=float("nan")),
        ],
    )
    def test_a_draft_without_sense(self, make: Any) -> None:
        """Empty content, nameless calls, numbers and text that are no JSON: refused when drafted."""
        with pytest.raises(UsageError):
            make()

    @pytest.mark.parametrize(
        ("what", "changes"),
        [
            (draft.user("half \ud83d of a smile"), {}),
            (draft.assistant([draft.text("\ud800")], model="m"), {}),
            (draft.assistant("x", model="\ud800"), {}),
            (draft.assistant("x", model="m", usage=Usage(10**5000)), {}),
            (draft.system("\ud800"), {}),
            (draft.system("x"), {"parent_uuid": UUID}),
            (draft.user("x"), {"uuid": "not-a-uuid"}),
            (draft.user("x"), {"uuid": UUID.upper()}),
            (draft.user("x"), {"parent_uuid": UUID}),
            (draft.user("x"), {"parent_uuid": ""}),
            (draft.metadata("custom-title", wrong="Shop"), {}),
            (draft.assistant([ToolUseBlock("t", "T", Raw(b"{not json"))], model="m"), {}),
            (draft.assistant([ToolUseBlock("t", "T", Raw(b"{not\njson"))], model="m"), {}),
            (draft.assistant([ToolUseBlock("t", "T", Raw(b"[" * 70 + b"]" * 70))], model="m"), {}),
        ],
    )
    def test_a_line_nobody_could_load(self, what: draft.Draft, changes: dict[str, Any]) -> None:
        """Half characters, odd ids, an entry that follows itself, JSON that is none: refused when written."""
        with pytest.raises(UsageError):
            claude_line(what, with_changes(**changes))


def test_made_ids_look_like_drawn_ones() -> None:
    """A made id is a version 4 UUID in lower case, the same for the same seed, another for another."""
    made = derived_uuid("s", 0)

    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made)
    assert [True, False, False] == [made == derived_uuid(*other) for other in [("s", 0), ("s", 1), ("t", 0)]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(words=st.text(min_size=1), arguments=st.dictionaries(st.text(), JSON, max_size=3))
def test_what_was_said_is_what_is_read(words: str, arguments: dict[str, object]) -> None:
    """Any text and any arguments come back from the line as they were, and the line has no newline."""
    call = draft.tool_use("toolu_1", "T", arguments)
    line = claude_line(draft.assistant([draft.text(words), call], model="m"), STAMP)

    entry = decode(Line(line))
    assert isinstance(entry, Entry)
    assert (Kind.ASSISTANT, False) == (entry.kind, b"\n" in line)
    text, tool = json.loads(line)["message"]["content"]
    assert (words, arguments) == (text["text"], tool["input"])


def test_mappings_are_blocks_and_anything_else_is_refused_by_its_place() -> None:
    """Content as the Messages API has it can be given as it is."""
    given = draft.assistant(
        [{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "B", "input": {}}], model="m"
    )

    assert ["TextBlock", "ToolUseBlock"] == [type(block).__name__ for block in given.content]
    for wrong in (["x"], None, 7):
        with pytest.raises(UsageError, match="user"):
            draft.user(wrong)  # type: ignore[arg-type]
