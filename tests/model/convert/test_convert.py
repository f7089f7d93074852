"""A conversation survives the change of dialect, and whatever does not is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.convert import Conversion, Loss, LossCode, claude_to_flat, to_claude
from recollect.model.convert.turns import LossCollector, Response, TurnCall, TurnPrompt, turns_of
from recollect.model.lines.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Damage, Line
from recollect.model.lines.entry import Assistant, Entry, User
from recollect.model.lines.ids import derived_uuid, is_uuid

SESSION = "11111111-2222-4333-8444-555555555555"
COUNTS = {"input_tokens": 100, "output_tokens": 20, "cache_creation_tokens": 8, "cache_read_tokens": 4}


def read(lines: Sequence[bytes | dict[str, Any]]) -> list[Entry | Damage]:
    """Lines as a reader would give them: decoded, each with its place."""
    items, offset = [], 0
    for line in lines:
        data = line if isinstance(line, bytes) else json.dumps(line).encode()
        item = decode(Line(data, offset))
        offset += len(data) + 1
        if item is not None:
            items.append(item)
    return items


def into_claude(*lines: bytes | dict[str, Any]) -> Conversion:
    return to_claude(read(lines), session_id=SESSION, cwd="/srv/app")


def fields(conversion: Conversion) -> list[dict[str, Any]]:
    return [json.loads(line) for line in conversion.lines]


def shape(conversion: Conversion) -> list[str]:
    """One word a line: who, and what it holds."""
    words = []
    for line in fields(conversion):
        content = line["message"]["content"] if "message" in line else line["type"]
        block = {"type": "text", "text": content} if isinstance(content, str) else content[0]
        name = block.get("text") or block.get("name") or block.get("content") or block["type"]
        words.append(f"{line['type']} {block['type']} {name}")
    return words


def codes(conversion: Conversion) -> dict[str, int]:
    totals: dict[str, int] = {}
    for loss in conversion.losses:
        totals[loss.code.value] = totals.get(loss.code.value, 0) + loss.count
    return totals


def at(second: float) -> str:
    return f"2026-01-01T00:00:{second:06.3f}Z"


def asked(text: str, second: float, **more: Any) -> dict[str, Any]:
    return {"type": "user", "content": text, "timestamp": at(second), **more}


def answered(text: str, second: float, **more: Any) -> dict[str, Any]:
    base = {"type": "assistant", "content": text, "timestamp": at(second), "usage": COUNTS, "model": "m-1"}
    return {**base, **more}


def called(tool: str, second: float, **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "arguments": {"n": second}, "timestamp": at(second), **more}


def gave(tool: str, result: Any, second: float, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool": tool, "result": result, "timestamp": at(second), **more}


class TestFlatToClaude:
    """Order is all the flat dialect has; a chain is made of it."""

    def test_a_call_belongs_to_the_answer_it_follows(self) -> None:
        """Text and call are two lines of one response: same ids, same counts, counted once."""
        lines = fields(
            into_claude(
                asked("Q", 1),
                answered("Look", 2),
                called("Read", 3, toolCallId="c1"),
                gave("Read", "body", 4, toolCallId="c1"),
            )
        )

        text, call = lines[1], lines[2]
        same = ("id", "model", "usage", "stop_reason")
        assert [text["message"][name] for name in same] == [call["message"][name] for name in same]
        assert (text["requestId"], "tool_use") == (call["requestId"], call["message"]["stop_reason"])
        assert [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"n": 3}}] == call["message"][
            "content"
        ]
        assert [{"type": "tool_result", "tool_use_id": "c1", "content": "body"}] == lines[3]["message"][
            "content"
        ]

    def test_results_of_parallel_calls_follow_the_last_call(self) -> None:
        """A result between two calls that ran side by side moves behind them: every client loads that."""
        conversion = into_claude(
            asked("Q", 1),
            answered("Look", 2),
            called("A", 3, toolCallId="c1"),
            called("B", 4, toolCallId="c2"),
            gave("A", "ra", 5, toolCallId="c1"),
            called("C", 6, toolCallId="c3"),
            gave("B", "rb", 7, toolCallId="c2"),
            gave("C", "rc", 8, toolCallId="c3"),
        )

        assert [
            "user text Q",
            "assistant text Look",
            "assistant tool_use A",
            "assistant tool_use B",
            "assistant tool_use C",
            "user tool_result ra",
            "user tool_result rb",
            "user tool_result rc",
        ] == shape(conversion)
        assert 1 == len({line["message"]["id"] for line in fields(conversion)[1:5]})

    def test_calls_without_ids_are_paired_by_name_and_order(self) -> None:
        """Two calls of one tool get their results in order, another tool's result does not mix in."""
        conversion = into_claude(
            asked("Q", 1),
            called("Read", 2),
            called("Bash", 3),
            called("Read", 4),
            gave("Bash", "b", 5),
            gave("Read", "r1", 6),
            gave("Read", "r2", 7),
        )

        lines = fields(conversion)
        calls = {
            line["message"]["content"][0]["id"]: line["message"]["content"][0]["input"]["n"]
            for line in lines[1:4]
        }
        results = [line["message"]["content"][0] for line in lines[4:]]
        assert [(3, "b"), (2, "r1"), (4, "r2")] == [
            (calls[result["tool_use_id"]], result["content"]) for result in results
        ]
        assert 3 == codes(conversion)["call-ids-made"]

    def test_ids_used_twice_are_made_unique(self) -> None:
        """Clients drop the later of two pairs with one id, so the later one gets another."""
        conversion = into_claude(
            asked("Q", 1),
            called("A", 2, toolCallId="call_1"),
            gave("A", "first", 3, toolCallId="call_1"),
            called("A", 4, toolCallId="call_1"),
            gave("A", "second", 5, toolCallId="call_1"),
        )

        blocks = [line["message"]["content"][0] for line in fields(conversion)[1:]]
        assert ("call_1", "call_1") == (blocks[0]["id"], blocks[1]["tool_use_id"])
        assert blocks[2]["id"] == blocks[3]["tool_use_id"] != "call_1"
        assert "second" == blocks[3]["content"]

    def test_a_result_that_came_late_moves_up_to_its_call(self) -> None:
        """The API wants results right after their calls, also where the user spoke in between."""
        conversion = into_claude(
            asked("Q", 1),
            called("A", 2, toolCallId="c"),
            asked("still there?", 3),
            gave("A", "r", 4, toolCallId="c"),
        )

        assert [
            "user text Q",
            "assistant tool_use A",
            "user tool_result r",
            "user text still there?",
        ] == shape(conversion)
        assert {"order": 1, "time-moved": 1} == {
            code: count for code, count in codes(conversion).items() if code in ("order", "time-moved")
        }

    def test_a_result_without_a_call_is_left_out_and_named(self) -> None:
        """The API takes no result that answers nothing; the loss points at its byte."""
        lines = [asked("Q", 1), gave("A", "r", 2, toolCallId="nobody")]
        conversion = into_claude(*lines)

        assert ["user text Q"] == shape(conversion)
        where = len(json.dumps(lines[0])) + 1
        assert Loss(LossCode.ORPHAN_RESULT, "result that answers no call", where) in conversion.losses

    @pytest.mark.parametrize(
        ("line", "content", "failed"),
        [
            (gave("A", "text", 3), "text", None),
            (gave("A", None, 3), "", None),
            (gave("A", {"rows": [1, 2]}, 3), '{"rows": [1, 2]}', None),
            (gave("A", ["a.txt"], 3), '["a.txt"]', None),
            (gave("A", [{"type": "text", "text": "t"}], 3), [{"type": "text", "text": "t"}], None),
            ({"type": "tool_result", "tool": "A", "error": "gone", "timestamp": at(3)}, "gone", True),
            ({"type": "tool_result", "tool": "A", "error": "", "timestamp": at(3)}, "(no content)", True),
            ({"type": "tool_result", "tool": "A", "timestamp": at(3)}, "", None),
        ],
    )
    def test_any_result_becomes_what_the_api_takes(
        self, line: dict[str, Any], content: object, failed: bool | None
    ) -> None:
        """Text and blocks stay, other JSON becomes text, an error is marked and never empty."""
        block = fields(into_claude(asked("Q", 1), called("A", 2), line))[2]["message"]["content"][0]

        assert (content, failed) == (block["content"], block.get("is_error"))

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            (gave("A", "r", 3, duration_ms=543), "duration"),
            (gave("A", "r", 3, error="boom"), "result-shape"),
            (gave("A", {"a": 1}, 3), "result-shape"),
            (asked("Q", 3, metadata={"source": "api"}), "context"),
            ({"type": "user", "content": [{"type": "thinking", "thinking": "?"}]}, "unwritable"),
        ],
    )
    def test_what_cannot_be_carried_is_named(self, line: dict[str, Any], code: str) -> None:
        """Each thing a session has no place for has a code of its own."""
        assert 1 == codes(into_claude(asked("Q", 1), called("A", 2), line))[code]

    def test_a_line_that_cannot_be_written_costs_only_itself(self) -> None:
        """The chain goes on from the last line that was written."""
        odd = {"type": "user", "content": [{"type": "thinking", "thinking": "?"}], "timestamp": at(2)}
        first, second = fields(into_claude(asked("1", 1), odd, asked("2", 3)))

        assert first["uuid"] == second["parentUuid"]

    def test_arguments_that_are_no_object_are_put_into_one(self) -> None:
        """The API takes only objects as input."""
        conversion = into_claude(asked("Q", 1), called("A", 2, arguments=["x"]))

        assert {"arguments": ["x"]} == fields(conversion)[1]["message"]["content"][0]["input"]
        assert 1 == codes(conversion)["call-shape"]

    def test_times_rise_by_a_millisecond_where_the_source_does_not(self) -> None:
        """Equal and earlier times move behind the line before; missing ones are made."""
        conversion = into_claude(
            asked("1", 5), answered("2", 5), asked("3", 4), {"type": "user", "content": "4"}, asked("5", 6)
        )

        assert [at(5), at(5.001), at(5.002), at(5.003), at(6)] == [
            line["timestamp"] for line in fields(conversion)
        ]
        assert (2, 1) == (codes(conversion)["time-moved"], codes(conversion)["time-made"])

    def test_an_answer_without_words_keeps_its_counts(self) -> None:
        """The response was paid for; it says "(no content)", as the client would."""
        conversion = into_claude(asked("Q", 1), answered("", 2))

        assert "assistant text (no content)" == shape(conversion)[1]
        assert 100 == fields(conversion)[1]["message"]["usage"]["input_tokens"]

    def test_damage_is_a_loss_and_its_readable_rest_is_used(self) -> None:
        """A broken line costs itself; of one with a broken byte the rest is carried."""
        conversion = into_claude(
            asked("Q", 1),
            b'{"type":"user","content',
            b'{"type":"user","content":"caf\xe9","timestamp":"2026-01-01T00:00:03Z"}',
        )

        assert ["user text Q", "user text caf\ufffd"] == shape(conversion)
        assert {"damaged line (invalid-json)", "damaged line (invalid-utf8)"} == {
            loss.what for loss in conversion.losses if loss.code is LossCode.DAMAGE
        }

    def test_titles_and_tags_move_to_the_new_session(self) -> None:
        """What a user typed about a session is carried, under the new session's id."""
        conversion = into_claude(
            asked("Q", 1),
            {"type": "custom-title", "customTitle": "T", "sessionId": "old"},
            {"tag": "x", "type": "tag"},
        )

        assert [
            {"type": "custom-title", "customTitle": "T", "sessionId": SESSION},
            {"type": "tag", "tag": "x", "sessionId": SESSION},
        ] == fields(conversion)[1:]
        assert conversion.lines[2].startswith(b'{"type":"tag"')

    def test_no_two_lines_share_an_id(self) -> None:
        """Lines made of one entry get ids of their own, and a made id never takes one the log brings along."""
        brought = derived_uuid(SESSION, 0)
        two = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        lines = fields(into_claude(asked("1", 1), {**asked("", 2, uuid=brought), "content": two}))

        ids = [line["uuid"] for line in lines]
        assert (3, brought) == (len(set(ids)), ids[1])

    def test_blocks_of_our_own_flat_logs_get_a_line_each(self) -> None:
        """Client 2.0.76 writes the rest of a session twice when it meets a line with two blocks."""
        source = {"type": "base64", "media_type": "image/png", "data": "eA=="}
        content = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
        conversion = into_claude({"type": "user", "content": content, "timestamp": at(1)})

        assert [[content[0]], [content[1]]] == [line["message"]["content"] for line in fields(conversion)]


class TestEventsToClaude:
    """Events have ids; calls and results are events of their own."""

    def test_a_talk_with_a_call(self) -> None:
        """Prompt, call and result come out in one chain; the call's response has no counts."""
        common = {"session_id": "s"}
        conversion = into_claude(
            {"type": "user", "message": {"role": "user", "content": "List"}, "timestamp": at(1), **common},
            {
                "type": "tool_use",
                "tool_use_id": "toolu_1",
                "name": "ls",
                "input": {},
                "timestamp": at(2),
                **common,
            },
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a", "timestamp": at(3), **common},
            {"type": "system", "content": "bye", "timestamp": at(4), **common},
        )

        assert ["user text List", "assistant tool_use ls", "user tool_result a"] == shape(conversion)
        assert ("<synthetic>", 1, 1) == (
            fields(conversion)[1]["message"]["model"],
            codes(conversion)["usage-unknown"],
            codes(conversion)["system"],
        )

    def test_a_call_told_twice_is_one_call(self) -> None:
        """A block in the answer and an event about it are the same call."""
        block = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
        conversion = into_claude(
            {
                "type": "assistant",
                "message": {"role": "assistant", "id": "msg_1", "model": "m", "content": [block]},
                "session_id": "s",
                "timestamp": at(1),
            },
            {"type": "tool_use", "tool_use_id": "toolu_1", "name": "ls", "input": {}, "timestamp": at(2)},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a", "timestamp": at(3)},
        )

        assert ["assistant tool_use ls", "user tool_result a"] == shape(conversion)
        assert 1 == codes(conversion)["duplicate"]

    def test_a_failed_event_keeps_its_blocks(self) -> None:
        """An error in blocks stays blocks and is marked."""
        blocks = [{"type": "text", "text": "no"}]
        conversion = into_claude(
            {"type": "tool_use", "tool_use_id": "t", "name": "ls", "input": {}, "timestamp": at(1)},
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": blocks,
                "is_error": True,
                "timestamp": at(2),
            },
        )

        block = fields(conversion)[1]["message"]["content"][0]
        assert (blocks, True) == (block["content"], block["is_error"])


def link(
    kind: str, uuid: str, parent: str | None, second: float, content: Any, **more: Any
) -> dict[str, Any]:
    """A line of the claude dialect."""
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": more.pop("id", f"msg_{uuid}"),
            "model": "m-1",
            "usage": more.pop("usage", None) or {},
        }
    return {
        "parentUuid": parent,
        "type": kind,
        "message": message,
        "uuid": uuid,
        "timestamp": at(second),
        "sessionId": SESSION,
        **more,
    }


def words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call_block(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def result_block(call_id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


X = [words("x")]


class TestClaudeToFlat:
    """Lines of one response come together; what has no place is named."""

    def test_one_response_on_many_lines_is_counted_once(self) -> None:
        """The best copy of the counts stands on the first line; the sum over all lines is right."""
        early = {"input_tokens": 9, "output_tokens": 1}
        final = {"input_tokens": 9, "output_tokens": 50, "cache_read_input_tokens": 3}
        conversion = claude_to_flat(
            read(
                [
                    link("user", "1", None, 1, "Q"),
                    link("assistant", "2", "1", 2, [words("A")], id="msg_r", usage=early),
                    link("assistant", "3", "2", 3, [call_block("T", "c1")], id="msg_r", usage=final),
                    link("assistant", "4", "3", 4, [words("B")], id="msg_r", usage=final),
                    link("user", "5", "4", 5, [result_block("c1", "r")]),
                ]
            )
        )

        lines = fields(conversion)
        assert ["user", "assistant", "tool_call", "assistant", "tool_result"] == [
            line["type"] for line in lines
        ]
        assert [("A", 9, 50, 3), ("B", 0, 0, 0)] == [
            (
                line["content"],
                *(line["usage"][n] for n in ("input_tokens", "output_tokens", "cache_read_tokens")),
            )
            for line in lines
            if line["type"] == "assistant"
        ]
        assert ("T", "c1", "r") == (lines[4]["tool"], lines[4]["toolCallId"], lines[4]["result"])

    def test_fanned_out_results_follow_their_calls(self) -> None:
        """Results that stand between the call lines (2.1.30 and later) come after the last call."""
        conversion = claude_to_flat(
            read(
                [
                    link("user", "1", None, 1, "Q"),
                    link("assistant", "2", "1", 2, [call_block("A", "c1")], id="msg_r"),
                    link("user", "3", "2", 3, [result_block("c1", "ra")]),
                    link("assistant", "4", "2", 4, [call_block("B", "c2")], id="msg_r"),
                    link("user", "5", "4", 5, [result_block("c2", "rb")]),
                ]
            )
        )

        assert ["Q", "", "A", "B", "ra", "rb"] == [
            line.get("content", line.get("result", line.get("tool"))) for line in fields(conversion)
        ]
        assert "branches" not in codes(conversion)

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            (link("assistant", "2", "1", 2, [{"type": "thinking", "thinking": "hm"}]), "thinking"),
            (link("assistant", "2", "1", 2, [{"type": "redacted_thinking", "data": "x"}]), "thinking"),
            (link("user", "2", "1", 2, [{"type": "image", "source": {}}]), "image"),
            (link("user", "2", "1", 2, [{"type": "document", "source": {}}]), "document"),
            (
                link("assistant", "2", "1", 2, [{"type": "server_tool_use", "id": "s", "name": "web"}]),
                "server-tool",
            ),
            (link("assistant", "2", "1", 2, [{"type": "brand-new"}]), "unknown-block"),
            (link("user", "2", "1", 2, "x", isSidechain=True), "sidechain"),
            (link("user", "2", "1", 2, "x", isMeta=True), "flags"),
            (link("user", "2", "1", 2, "x", isCompactSummary=True), "flags"),
            (link("assistant", "2", "1", 2, X, isApiErrorMessage=True), "flags"),
            (link("assistant", "2", "1", 2, X), "response-ids"),
            ({"type": "assistant", "uuid": "2", "message": {"content": X}}, "usage-unknown"),
            (link("assistant", "2", "1", 2, X, costUSD=0.5), "recorded-cost"),
            (link("user", "2", "1", 2, "x"), "parents"),
            (link("user", "2", "1", 2, "x", cwd="/x"), "context"),
            (link("user", "2", "1", 2, [result_block("c", "r")], toolUseResult={"a": 1}), "tool-use-result"),
            (
                link("assistant", "2", "1", 2, X, usage={"cache_creation": {"ephemeral_1h_input_tokens": 5}}),
                "cache-lifetime",
            ),
            (
                link("assistant", "2", "1", 2, X, usage={"server_tool_use": {"web_search_requests": 1}}),
                "usage-detail",
            ),
            (link("assistant", "2", "1", 2, X, usage={"speed": "fast"}), "usage-detail"),
            ({"type": "system", "subtype": "compact_boundary", "uuid": "2", "timestamp": at(2)}, "system"),
            ({"type": "attachment", "attachment": {}, "uuid": "2"}, "attachment"),
            ({"type": "progress", "uuid": "2"}, "progress"),
            ({"type": "mode", "mode": "normal"}, "metadata"),
            ({"type": "never-seen", "uuid": "2"}, "unknown-entry"),
            ({"type": "user", "uuid": "2", "message": 7}, "unknown-entry"),
            (b"{broken", "damage"),
        ],
    )
    def test_what_has_no_place_is_named(self, line: dict[str, Any] | bytes, code: str) -> None:
        """Each thing the flat dialect cannot say has a code of its own."""
        conversion = claude_to_flat(read([link("user", "1", None, 1, "Q"), line]))

        assert 1 == codes(conversion)[code]

    def test_of_two_copies_the_last_counts_at_the_place_of_the_first(self) -> None:
        """Forks and replays repeat ids; clients take the last copy."""
        conversion = claude_to_flat(
            read(
                [
                    link("user", "1", None, 1, "old"),
                    link("assistant", "2", "1", 2, [words("A")]),
                    link("user", "1", None, 1, "new"),
                ]
            )
        )

        assert ["new", "A"] == [line["content"] for line in fields(conversion)]
        assert 1 == codes(conversion)["duplicate"]

    def test_a_sub_agents_own_log_is_a_conversation(self) -> None:
        """Where all lines are a sub-agent's, they are the talk; only the mark is lost."""
        lines = [
            link("user", "1", None, 1, "Task", isSidechain=True, agentId="a1"),
            link("assistant", "2", "1", 2, [words("Done")], isSidechain=True, agentId="a1"),
        ]
        conversion = claude_to_flat(read(lines))

        assert ["Task", "Done"] == [line["content"] for line in fields(conversion)]
        assert 2 == codes(conversion)["sidechain"]


def said(items: Sequence[Entry | Damage]) -> list[Any]:
    """Roles, texts, calls, results, models and counts of a conversation, and nothing else."""
    story: list[Any] = []
    for turn in turns_of(items, LossCollector()):
        if isinstance(turn, TurnPrompt):
            story += [
                ("user", block.text) for block in turn.blocks if isinstance(block, TextBlock) and block.text
            ]
        elif isinstance(turn, Response):
            usage = turn.best.usage if turn.best else None
            counts = [getattr(usage, name, None) or 0 for name in FOUR_COUNTS]
            parts = [_part(what) for _, what in turn.parts if isinstance(what, TextBlock | TurnCall)]
            results = [(r.block.tool_use_id, r.block.text(), bool(r.block.is_error)) for r in turn.results]
            story.append(("assistant", turn.model, counts, [part for part in parts if part], results))
    return story


FOUR_COUNTS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _part(what: TextBlock | TurnCall) -> Any:
    if isinstance(what, TextBlock):
        return what.text
    return (what.block.id, what.block.name, json.loads(bytes(what.block.input)))


def there_and_back(items: Sequence[Entry | Damage]) -> list[Entry | Damage]:
    flat = claude_to_flat(items).lines
    return read(to_claude(read(flat), session_id=SESSION, cwd="/x").lines)


def test_the_round_trip_keeps_what_was_said_in_real_transcripts(log_homes: Path) -> None:
    """Texts, roles, calls, results, models and the four counts of every sample come back unchanged."""
    files = sorted(log_homes.glob("samples/**/*.jsonl"))
    changed = []
    for path in files:
        items = read(path.read_bytes().split(b"\n"))
        if said(items) != said(there_and_back(items)):
            changed.append(path.name)

    assert len(files) > 20
    assert [] == changed


def test_the_round_trip_makes_a_chain_that_every_client_walks(log_homes: Path) -> None:
    """Each line's parent is the line before it, times only rise, ids are unique, one block a line."""
    wrong = []
    for path in sorted(log_homes.glob("samples/**/*.jsonl")):
        before, earlier, ids = None, "", set()
        for item in there_and_back(read(path.read_bytes().split(b"\n"))):
            if not isinstance(item, Entry) or not isinstance(item.body, User | Assistant):
                continue
            time = item.body.timestamp or ""
            fine = item.parent_uuid == before and time > earlier and len(item.body.message.blocks) == 1
            if not fine or not is_uuid(item.uuid or "") or item.uuid in ids:
                wrong.append(path.name)
            before, earlier = item.uuid, time
            ids.add(item.uuid)

    assert [] == wrong


TEXT = st.text(min_size=1, max_size=8)
BLOCK = st.builds(words, TEXT) | st.builds(
    call_block, st.sampled_from(["A", "B"]), st.sampled_from(["c1", "c2", "c3"])
)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Claude lines as some writer might leave them: any blocks, any order of results, shared ids."""
    lines: list[dict[str, Any]] = []
    for n in range(draw(st.integers(0, 8))):
        uuid, parent = str(n), str(n - 1) if n else None
        if draw(st.booleans()):
            results = st.builds(result_block, st.sampled_from(["c1", "c2", "c3"]), st.text(max_size=5))
            content: Any = draw(TEXT | st.lists(results, min_size=1, max_size=2))
            lines.append(link("user", uuid, parent, n, content))
        else:
            blocks = draw(st.lists(BLOCK, min_size=1, max_size=3))
            message_id = draw(st.sampled_from(["msg_1", "msg_2", f"msg_{n}x"]))
            usage = {"input_tokens": draw(st.integers(1, 9)), "output_tokens": n}
            lines.append(link("assistant", uuid, parent, n, blocks, id=message_id, usage=usage))
    return lines


@given(conversations())
def test_no_call_is_written_twice_and_no_result_without_its_call(lines: list[dict[str, Any]]) -> None:
    """Whatever the source, the session has unique call ids and every result follows its call."""
    calls, answered_calls = [], []
    for item in there_and_back(read(lines)):
        assert isinstance(item, Entry)
        for block in item.message.blocks if item.message else []:
            if isinstance(block, ToolUseBlock):
                calls.append(block.id)
            elif isinstance(block, ToolResultBlock):
                assert block.tool_use_id in calls
                answered_calls.append(block.tool_use_id)

    assert len(calls) == len(set(calls))
    assert len(answered_calls) == len(set(answered_calls))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = """
    content message timestamp usage model uuid parentUuid tool arguments result error toolCallId tool_use_id name
    input session_id sessionId metadata isSidechain customTitle tag
"""
TYPES = """
    user assistant tool_call tool_result tool_use system custom-title tag summary mode attachment never-seen
"""
FIELD, TYPE = st.sampled_from(FIELDS.split()), st.sampled_from(TYPES.split())


@given(
    st.lists(
        st.tuples(TYPE, st.dictionaries(FIELD, ANY_JSON, max_size=6)) | st.binary(max_size=20), max_size=6
    )
)
def test_no_log_makes_a_conversion_raise(lines: list[Any]) -> None:
    """Fields of any shape and bytes of any kind end as lines that can be read, or as losses."""
    items = read([line if isinstance(line, bytes) else {**line[1], "type": line[0]} for line in lines])

    for conversion in (claude_to_flat(items), to_claude(items, session_id=SESSION, cwd="/x")):
        assert len(conversion.lines) == len(
            [item for item in read(conversion.lines) if isinstance(item, Entry)]
        )
