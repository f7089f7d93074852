"""What the index keeps of a line: every text once and under its kind, usage as the client meant it.

Expected values come from docs/design/format.md, the other dialects and the lines themselves; real transcripts
are walked by a naive reader of JSON that knows no kinds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.cost.line_usage import AGENT_PROGRESS, MAIN, counts_are_uncertain
from recollect.model.lines.blocks import Tokens
from recollect.model.views.facts import (
    TEXT_KINDS,
    WITHOUT_TEXT,
    LineFacts,
    facts_of,
    milliseconds,
)

Fields = dict[str, Any]
SONNET = "claude-sonnet-4-5-20250929"
USAGE = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7}


def facts(line: Fields | bytes) -> LineFacts:
    found = facts_of(line if isinstance(line, bytes) else json.dumps(line).encode())
    assert found is not None
    return found


def texts(line: Fields | bytes) -> dict[str, str]:
    """The texts of a line by kind, without those that are empty."""
    found = facts(line).texts or ()
    return {kind: text for kind, text in zip(TEXT_KINDS, found, strict=False) if text is not None}


def said(*blocks: Any, role: str = "user") -> Fields:
    return {"type": role, "uuid": "u", "message": {"role": role, "content": list(blocks)}}


def answer(**message: Any) -> Fields:
    whole = {"id": "m", "role": "assistant", "model": SONNET, "content": [], "usage": USAGE, **message}
    return {"type": "assistant", "uuid": "u", "requestId": "r", "message": whole}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "text", "text": "hello"}, {"prose": "hello"}),
        ({"type": "text", "text": ""}, {}),
        (
            {"type": "text", "text": "so", "citations": [{"type": "char_location", "cited_text": "because"}]},
            {"prose": "so", "other": "because"},
        ),
        ({"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}, {"thinking": "hm"}),
        ({"type": "redacted_thinking", "data": "c2VjcmV0"}, {}),
        (
            {
                "type": "tool_use",
                "id": "t",
                "name": "Bash",
                "input": {"command": "ls", "more": [{"deep": "down"}]},
            },
            {"tool_input": "Bash\nls\ndown"},
        ),
        (
            {
                "type": "tool_use",
                "id": "t",
                "name": "Sign",
                "input": {"type": "pdf", "id": "7", "signature": "Ada"},
            },
            {"tool_input": "Sign\npdf\n7\nAda"},
        ),
        ({"type": "tool_use", "id": "t", "name": "Now", "input": {}}, {"tool_input": "Now"}),
        (
            {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {"query": "q"}},
            {"tool_input": "web_search\nq"},
        ),
        ({"type": "tool_result", "tool_use_id": "t", "content": "out"}, {"tool_result": "out"}),
        ({"type": "tool_result", "tool_use_id": "t"}, {}),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "a"}, PICTURE, {"type": "text", "text": "b"}],
            },
            {"tool_result": "a\nb"},
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "tool_reference", "tool_name": "WebSearch"}],
            },
            {"tool_result": "WebSearch"},
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "resource", "resource": {"uri": "x://y", "text": "z"}}],
            },
            {"tool_result": "x://y\nz"},
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "t",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "News",
                        "url": "https://n",
                        "encrypted_content": "eHk=",
                    }
                ],
            },
            {"tool_result": "News\nhttps://n"},
        ),
        (PICTURE, {}),
        ({"type": "image", "source": {"type": "url", "url": "https://p.png"}}, {"other": "https://p.png"}),
        ({"type": "image", "source": "odd"}, {"other": "odd"}),
        (
            {
                "type": "document",
                "title": "Plan",
                "source": {"type": "text", "media_type": "text/plain", "data": "steps"},
            },
            {"other": "Plan\nsteps"},
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
            {},
        ),
        ({"type": "of the future", "says": {"more": ["than", "one"]}, "id": "9"}, {"other": "than\none"}),
        ({"says": "no type"}, {"other": "no type"}),
        ("a bare text", {"prose": "a bare text"}),
        (7, {}),
        (None, {}),
    ],
)
def test_a_block_gives_its_texts_under_their_kind(block: Any, expected: dict[str, str]) -> None:
    """Alone on its line, as clients write it, and beside another block."""
    beside = dict(expected, prose="\n".join(filter(None, [expected.get("prose"), "and"])))

    assert (expected, beside) == (texts(said(block)), texts(said(block, {"type": "text", "text": "and"})))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "user", "message": {"content": "typed"}}, {"prose": "typed"}),
        ({"type": "user", "message": {"content": ""}}, {}),
        ({"type": "user", "message": {"content": {"odd": "shape"}}}, {"other": "shape"}),
        ({"type": "system", "subtype": "informational", "content": "note"}, {"other": "note"}),
        (
            {"type": "system", "content": [{"type": "text", "text": "in blocks"}]},
            {"other": "text\nin blocks"},
        ),
        ({"type": "system", "message": {"content": "as a message"}}, {"other": "as a message"}),
        ({"type": "attachment", "attachment": {"type": "file", "content": "body"}}, {"other": "file\nbody"}),
        ({"type": "attachment"}, {}),
        ({"type": "custom-title", "customTitle": "My title"}, {"title": "My title"}),
        ({"type": "custom-title", "customTitle": ""}, {}),
        ({"type": "ai-title", "aiTitle": "Its title"}, {"title": "Its title"}),
        ({"type": "summary", "summary": "Old title", "leafUuid": "x"}, {"title": "Old title"}),
        ({"type": "tag", "tag": "urgent"}, {"title": "urgent"}),
        (
            {"type": "pr-link", "prUrl": "https://g/1", "prRepository": "o/r", "prNumber": 1},
            {"other": "o/r https://g/1"},
        ),
        ({"type": "of the future", "uuid": "u", "says": ["this", {"and": "that"}]}, {"other": "this\nthat"}),
        ({"says": "without a type"}, {"other": "without a type"}),
    ],
)
def test_a_line_gives_its_texts_under_their_kind(line: Fields, expected: dict[str, str]) -> None:
    """Prompts, notes, attachments, titles, tags, and what nobody knew when this was written."""
    assert expected == texts(line)


@pytest.mark.parametrize("kind", sorted(WITHOUT_TEXT))
def test_what_repeats_other_lines_has_no_text_of_its_own(kind: str) -> None:
    """News of agents, sent requests, snapshots and switches would make a second hit of every word."""
    line = {
        "type": kind,
        "uuid": "u",
        "content": "word",
        "lastPrompt": "word",
        "snapshot": {},
        "data": {"text": "word"},
    }

    assert {} == texts(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "user", "content": "typed", "timestamp": "2026-01-01T00:00:00Z"}, {"prose": "typed"}),
        (
            {"type": "assistant", "content": [{"type": "text", "text": "said"}], "model": SONNET},
            {"prose": "said"},
        ),
        ({"type": "tool_call", "tool": "Bash", "arguments": {"command": "ls"}}, {"tool_input": "Bash\nls"}),
        ({"type": "tool_result", "tool": "Bash", "result": "out"}, {"tool_result": "out"}),
        ({"type": "tool_result", "tool": "Bash", "error": "broke"}, {"tool_result": "broke"}),
        (
            {"type": "tool_result", "tool": "Bash", "result": {"k": ["x"]}, "error": "broke"},
            {"tool_result": "x\nbroke"},
        ),
        (
            {
                "type": "tool_use",
                "session_id": "s",
                "tool_use_id": "t",
                "name": "Bash",
                "input": {"command": "ls"},
            },
            {"tool_input": "Bash\nls"},
        ),
        (
            {"type": "tool_result", "session_id": "s", "tool_use_id": "t", "content": "out"},
            {"tool_result": "out"},
        ),
        (
            {
                "type": "tool_result",
                "session_id": "s",
                "tool_use_id": "t",
                "content": "broke",
                "is_error": True,
            },
            {"tool_result": "broke"},
        ),
        (
            {"type": "user", "session_id": "s", "message": {"role": "user", "content": "typed"}},
            {"prose": "typed"},
        ),
        ({"type": "system", "session_id": "s", "content": "note"}, {"other": "note"}),
    ],
)
def test_other_dialects_give_the_same_kinds(line: Fields, expected: dict[str, str]) -> None:
    """Flat lines and events are found like the client's own; a failure's words once."""
    assert expected == texts(line)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"type":"user","message":{"content":"half \\ud800 pair"}}', {"prose": "half � pair"}),
        (b'{"type":"user","message":{"content":"bad \xff byte"}}', {"prose": "bad � byte"}),
        (b'\xef\xbb\xbf{"type":"user","message":{"content":"with a mark"}}', {"prose": "with a mark"}),
        (b'{"type":"user","message":{"content":"crlf"}}\r', {"prose": "crlf"}),
        (b'{"type":"user","isMeta":"yes","message":{"content":"odd field"}}', {"prose": "odd field"}),
        (b'{"type":"user","message":{"content":"NUL \\u0000 inside"}}', {"prose": "NUL \0 inside"}),
    ],
)
def test_a_line_that_is_odd_is_read_as_far_as_it_can_be(data: bytes, expected: dict[str, str]) -> None:
    """As the client shows such lines: what cannot be a character is replaced, the rest is kept."""
    assert expected == texts(data)


@pytest.mark.parametrize(
    "data", [b"", b"  \t", b"not json", b"[1]", b'{"type":"user"', b"\0\0", b'x{"a":1}{"b":2}', b"null"]
)
def test_what_is_no_entry_has_no_facts(data: bytes) -> None:
    """Blank lines and damage."""
    assert facts_of(data) is None


@pytest.mark.parametrize("depth", [60, 400, 900, 990, 5_000, 100_000])
def test_nesting_of_any_depth_is_survived(depth: int) -> None:
    """Whoever nests brackets costs us at most that line."""
    nested = (
        b'{"type":"assistant","message":{"content":[{"type":"tool_use","name":"T","input":'
        + b"[" * depth
        + b'"w"'
        + b"]" * depth
        + b"}]}}"
    )

    found = facts_of(nested)

    assert depth > 60 or (found is not None and found.texts is not None and found.texts[2] == "T\nw")


KEYS = st.sampled_from(
    [
        "type",
        "message",
        "content",
        "usage",
        "id",
        "text",
        "input",
        "name",
        "model",
        "timestamp",
        "uuid",
        "data",
        "source",
    ]
) | st.sampled_from(
    ["input_tokens", "output_tokens", "costUSD", "durationMs", "modelUsage", "totalCostUSD", "attachment"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(
            [
                "user",
                "assistant",
                "system",
                "progress",
                "cost-state",
                "text",
                "tool_use",
                "tool_result",
                "image",
            ]
        ),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=15,
)


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_no_object_is_refused(line: Fields) -> None:
    """Whatever its fields hold, an object is a line; nothing raises."""
    assert facts_of(json.dumps(line).encode()) is not None


class TestLinks:
    def test_a_line_says_where_it_belongs(self) -> None:
        """Id, parent, time, session, agent, directory, branch, version, and whether it is aside, meta, a copy."""
        line = {
            "type": "user",
            "uuid": "u",
            "parentUuid": "p",
            "timestamp": "2026-01-01T00:00:01.500Z",
            "sessionId": "s",
            "agentId": "a",
            "isSidechain": True,
            "isMeta": True,
            "forkedFrom": {"sessionId": "o", "messageUuid": "u"},
            "cwd": "/srv",
            "gitBranch": "main",
            "version": "2.1.325",
            "message": {"content": "x"},
        }
        found = facts(line)

        assert (
            "user",
            "u",
            "p",
            1_767_225_601_500,
            "s",
            "a",
            True,
            True,
            True,
            "/srv",
            "main",
            "2.1.325",
        ) == (
            found.type,
            found.uuid,
            found.parent,
            found.at,
            found.session,
            found.agent,
            found.is_sidechain,
            found.is_forked,
            found.is_meta,
            found.cwd,
            found.branch,
            found.version,
        )

    @pytest.mark.parametrize("odd", [{"isMeta": 3}, {}])
    def test_forked_from_nothing_is_not_forked(self, odd: Fields) -> None:
        """null is no origin, for the narrow reader and for the one that takes odd lines."""
        line = {"type": "user", "uuid": "u", "forkedFrom": None, "message": {"content": "x"}, **odd}

        assert not facts(line).is_forked

    def test_a_link_is_told_from_metadata(self) -> None:
        """With or without an id; of what we do not know only what has one."""
        links: list[Fields] = [
            {"type": "user", "message": {"content": "x"}},
            {"type": "progress"},
            {"type": "zork", "uuid": "u"},
        ]
        others: list[Fields] = [
            {"type": "custom-title", "customTitle": "x"},
            {"type": "mode"},
            {"type": "zork"},
        ]

        assert [True] * 3 == [facts(line).is_link for line in links]
        assert [False] * 3 == [facts(line).is_link for line in others]


class TestUsage:
    def test_an_answer_says_what_it_used(self) -> None:
        """Counts, ids, model, tool, and what an old client thought it cost, digit for digit."""
        line = answer(stop_reason="end_turn", content=[{"type": "tool_use", "name": "Bash", "input": {}}])
        line |= {"costUSD": 0.1, "durationMs": 1500}
        said = facts(line).response

        assert said is not None
        assert (
            Tokens(input=3, output=5, cache_read=7),
            MAIN,
            "m",
            "r",
            SONNET,
            True,
            "Bash",
            "0.1",
            1500,
        ) == (
            said.usage.tokens(),
            said.speaker,
            said.message_id,
            said.request_id,
            said.model,
            said.has_stop,
            said.tool,
            said.recorded,
            said.duration_ms,
        )

    def test_news_of_an_agent_speak_as_such(self) -> None:
        """A parent's copy of its agent's answer (2.1.30) counts only where nothing better is left."""
        line = {"type": "progress", "uuid": "u", "data": {"type": "agent_progress", "message": answer()}}
        said = facts(line).response

        assert said is not None
        assert (AGENT_PROGRESS, "m", "r", 5) == (
            said.speaker,
            said.message_id,
            said.request_id,
            said.usage.output_tokens,
        )

    @pytest.mark.parametrize(
        "line",
        [
            {"type": "user", "message": {"content": "x", "usage": USAGE}},
            answer(usage=None),
            answer(model="<synthetic>"),
            {"type": "progress", "data": {"type": "hook_progress", "usage": USAGE}},
            {"type": "progress", "data": {"message": answer(model="<synthetic>")}},
        ],
    )
    def test_what_was_not_billed_is_not_counted(self, line: Fields) -> None:
        """Prompts, answers without counts, and what the client says in the model's place."""
        assert facts(line).response is None

    def test_the_flat_dialect_speaks_too(self) -> None:
        """Its counts stand under other names, and it has no ids."""
        line = {"type": "assistant", "content": "x", "model": SONNET}
        counts = {"input_tokens": 1, "output_tokens": 2, "cache_creation_tokens": 3, "cache_read_tokens": 4}
        said = facts({**line, "usage": counts}).response

        assert said is not None
        assert (Tokens(input=1, output=2, cache_write_5m=3, cache_read=4), None, "") == (
            said.usage.tokens(),
            said.message_id,
            said.request_id,
        )

    @pytest.mark.parametrize("count", [-1, 1 << 40, 1 << 63, 10**30])
    @pytest.mark.parametrize("odd", [{}, {"isMeta": 3}])
    def test_a_count_no_response_can_have_is_none(self, count: int, odd: Fields) -> None:
        """It must not win over a true copy, nor burst the sums; the other counts stay."""
        usage = {
            "input_tokens": 3,
            "output_tokens": count,
            "cache_creation": {"ephemeral_5m_input_tokens": count, "ephemeral_1h_input_tokens": 2},
            "server_tool_use": {"web_search_requests": count},
        }
        said = facts({**answer(usage=usage), **odd}).response

        assert said is not None
        assert Tokens(input=3, cache_write_1h=2) == said.usage.tokens()

    @pytest.mark.parametrize(
        "cost", [b"-1", b"1001", b"1e400", b"1e999999999", b'"1"', b"null", b"true", b"[]"]
    )
    def test_an_amount_no_response_can_cost_is_none(self, cost: bytes) -> None:
        """Nor is anything that is no number."""
        line = json.dumps(answer()).encode()[:-1] + b',"costUSD":' + cost + b"}"
        said = facts(line).response

        assert said is not None
        assert said.recorded is None

    def test_the_client_s_own_total_is_kept_as_written(self) -> None:
        """By model and in all, the digits untouched; what is no amount is left out."""
        data = (
            b'{"type":"cost-state","totalCostUSD":0.30000000000000004,"modelUsage":'
            b'{"a":{"costUSD":1e-7},"b":{"costUSD":-3},"c":{"costUSD":"2"},"d":{}}}'
        )
        recorded = facts(data).recorded

        assert recorded is not None
        assert ("0.30000000000000004", {"a": ("1e-7", Tokens())}) == (recorded.total, recorded.by_model)

    def test_the_client_s_own_total_says_tokens_and_when_the_session_began(self) -> None:
        """Cache writes that are not said to live an hour live five minutes; a count no session can have is none."""
        data = (
            b'{"type":"cost-state","startTime":1794854730539,"modelUsage":{"a":{"inputTokens":22,"outputTokens":14,'
            b'"cacheReadInputTokens":4000,"cacheCreationInputTokens":600,"cacheCreationEphemeral1hInputTokens":400,'
            b'"webSearchRequests":2,"costUSD":0.5},"b":{"inputTokens":-1,"costUSD":1}}}'
        )
        recorded = facts(data).recorded

        assert recorded is not None
        assert recorded.started == 1_794_854_730_539
        assert recorded.by_model == {"a": ("0.5", Tokens(22, 14, 200, 400, 4000, 2)), "b": ("1", Tokens())}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("2026-01-01T00:00:00.123Z", 1_767_225_600_123),
        ("2025-12-31T23:59:59.999999Z", 1_767_225_599_999),
        ("2026-01-01T02:00:00+02:00", 1_767_225_600_000),
        ("2026-01-01T00:00:00", 1_767_225_600_000),
        ("1969-12-31T23:59:59.000Z", -1_000),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
        ("yesterday", None),
        ("2026-13-01T00:00:00Z", None),
        ("", None),
        (None, None),
    ],
)
def test_a_time_is_milliseconds_since_1970(text: str | None, expected: int | None) -> None:
    """In UTC; without a zone it counts as UTC; what is no time is none."""
    assert expected == milliseconds(text)


@pytest.mark.parametrize(
    ("version", "has_stop", "expected"),
    [
        ("2.1.30", False, True),
        ("2.1.30", True, False),
        ("2.1.325", False, True),
        ("3.0.0", False, True),
        ("2.0.76", False, False),
        ("1.0.128", False, False),
        ("0.2.9", False, False),
        (None, False, False),
        ("", False, False),
        ("2", False, False),
        ("two.one", False, False),
    ],
)
def test_counts_without_a_stop_reason_are_uncertain_from_2_1_on(
    version: str | None, has_stop: bool, expected: bool
) -> None:
    """2.1.30 stores the counts of the stream's start, and only those; older clients store final ones."""
    assert expected == counts_are_uncertain(version, has_stop)


# --- real transcripts -------------------------------------------------------------------------

_LABELS = {"type", "id", "tool_use_id", "media_type", "signature", "encrypted_content", "encrypted_index"}
_LINKS = {
    "uuid",
    "parentUuid",
    "timestamp",
    "sessionId",
    "version",
    "userType",
    "cwd",
    "gitBranch",
    "leafUuid",
}


def strings(value: Any, ignored: set[str]) -> Iterator[str]:
    """Every text of a JSON value, wherever it stands."""
    if isinstance(value, str):
        yield from [value] if value else []
    elif isinstance(value, list):
        for item in value:
            yield from strings(item, ignored)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in ignored and not (key == "data" and value.get("type") == "base64"):
                yield from strings(item, ignored)


def content_strings(content: Any) -> list[str]:
    if not isinstance(content, list):
        return list(strings(content, set()))
    found: list[str] = []
    for block in content:
        if isinstance(block, dict) and "input" in block:
            found += [block["name"], *strings(block["input"], set())]
        elif not isinstance(block, dict) or block.get("type") != "redacted_thinking":
            found += strings(block, _LABELS)
    return found


def expected_strings(line: Fields) -> list[str] | None:
    """What a line says, told without knowing its kinds; None for kinds that only repeat."""
    kind, message = line.get("type"), line.get("message")
    if kind in WITHOUT_TEXT:
        return None
    if kind in ("user", "assistant", "system") and isinstance(message, dict):
        return content_strings(message.get("content"))
    if kind == "system":
        return list(strings(line.get("content"), set()))
    if kind == "attachment":
        return list(strings(line["attachment"], set()))
    if kind == "summary":
        return [line["summary"]]
    return [
        text for key, item in line.items() if key not in {"type", *_LINKS} for text in strings(item, set())
    ]


def real_lines(transcripts: Path) -> Iterator[tuple[Path, bytes, Fields]]:
    for place in ("samples", "corpus"):
        for log in sorted(transcripts.joinpath(place).rglob("*.jsonl")):
            for data in log.read_bytes().split(b"\n"):
                try:
                    line = json.loads(data)
                except ValueError:
                    continue
                if isinstance(line, dict):
                    yield log, data, line


def test_no_text_of_a_real_transcript_is_lost_and_none_is_there_twice(log_homes: Path) -> None:
    """Every string is in some column, and the columns hold no character more than the strings do."""
    lost, surplus, lines = [], [], 0
    for log, data, line in real_lines(log_homes):
        wanted = expected_strings(line)
        if wanted is None:
            continue
        lines += 1
        columns = [text for text in (facts(data).texts or ()) if text is not None]
        whole = "\n".join(columns)
        lost += [(log.name, text[:80]) for text in wanted if text not in whole]
        if len(whole) > len("\n".join(wanted)) and line.get("type") != "pr-link":
            surplus.append((log.name, line.get("type"), whole[:80]))

    assert ([], [], True) == (lost, surplus, lines > 1_000)
